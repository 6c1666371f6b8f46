// Recurrent layers (lstm, gru, rnn), as decompositions. A few steps are unrolled; a long sequence, or one whose length
// is known only when the program runs, becomes a loop (scan) over one step.
#include <algorithm>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using Specs = std::vector<Sample::TensorSpec>;

enum class Cell : uint8_t { lstm, gru, tanh, relu };

struct Weights {
  Value *input, *hidden, *input_bias = nullptr, *hidden_bias = nullptr, *projection = nullptr;
};

struct State {
  Value *h, *c = nullptr;
};

// Weights of another size than the state's would give fewer gates, or gates of different widths.
std::vector<Value*> pieces(Build& b, Value* gates, int64_t count) {
  auto parts = b.all("chunk", {gates, Scalar(count), Scalar(-1)})[0]->items;
  const bool fits = parts.size() == static_cast<size_t>(count) &&
                    std::all_of(parts.begin(), parts.end(),
                                [&](Value* part) { return part->type.sizes.back() == parts[0]->type.sizes.back(); });
  if (!fits)
    refuse(b.call(), "K0232",
           str("the weights give ", gates->type.sizes.back().text(), " values per sample, which are not ", count,
               " gates"));
  return parts;
}

Value* product_with(Build& b, Value* x, Value* weight, Value* bias) {
  return b("linear", {x, weight, bias ? Argument(bias) : Argument()});
}

// `from_input` is the input's part of the gates: it does not depend on the state, so it is computed for all steps at
// once.
State cell_step(Build& b, Cell cell, Value* from_input, const State& state, const Weights& w) {
  Value* from_state = product_with(b, state.h, w.hidden, w.hidden_bias);
  if (cell == Cell::gru) {
    auto x = pieces(b, from_input, 3), h = pieces(b, from_state, 3);
    Value* reset = b("sigmoid", {b.add(x[0], h[0])});
    Value* update = b("sigmoid", {b.add(x[1], h[1])});
    Value* fresh = b("tanh", {b.add(x[2], b.mul(reset, h[2]))});
    return {b.add(b.mul(b.sub(state.h, fresh), update), fresh)};
  }
  Value* gates = b.add(from_input, from_state);
  if (cell == Cell::tanh) return {b("tanh", {gates})};
  if (cell == Cell::relu) return {b("relu", {gates})};
  auto g = pieces(b, gates, 4);  // input, forget, cell, output
  Value* c = b.add(b.mul(b("sigmoid", {g[1]}), state.c), b.mul(b("sigmoid", {g[0]}), b("tanh", {g[2]})));
  Value* h = b.mul(b("sigmoid", {g[3]}), b("tanh", {c}));
  return {w.projection ? product_with(b, h, w.projection, nullptr) : h, c};
}

// How the steps of a sequence are written. The reference always unrolls: there the length is known.
enum class Steps : uint8_t { unrolled, looped };
// Up to this many, the steps are worth seeing one by one: the first reads the given state, the last is the result.
constexpr int64_t longest_unrolled = 8;

Value* unroll_layer(Build& b, Cell cell, Value* from_input, State& state, const Weights& w, bool backwards) {
  int64_t length = from_input->type.sizes[0].value();
  std::vector<Value*> outputs(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    int64_t at = backwards ? length - 1 - i : i;
    state = cell_step(b, cell, b("select.int", {from_input, Scalar(0), Scalar(at)}), state, w);
    outputs[static_cast<size_t>(at)] = state.h;
  }
  return b("stack", {list_of(outputs), Scalar(0)});
}

Value* loop_layer(Build& b, Cell cell, Value* from_input, State& state, const Weights& w, bool backwards) {
  auto reversed = [&](Value* x) { return backwards ? b("flip", {x, b.ints({0})}) : x; };
  std::vector<Value*> carried = {state.h}, extra = {w.hidden};
  if (state.c) carried.push_back(state.c);
  for (Value* optional : {w.hidden_bias, w.projection})
    if (optional) extra.push_back(optional);
  auto results = b.call().scan(
      carried, {reversed(from_input)}, extra, [&](DecomposeCall& call, const std::vector<Value*>& inputs) {
        Build inner(call);
        auto next = inputs.begin();
        State now{*next++};
        if (state.c) now.c = *next++;
        Value* slice = *next++;
        Weights own{nullptr, *next++};
        if (w.hidden_bias) own.hidden_bias = *next++;
        if (w.projection) own.projection = *next++;
        State after = cell_step(inner, cell, slice, now, own);
        return now.c ? std::vector<Value*>{after.h, after.c, after.h} : std::vector<Value*>{after.h, after.h};
      });
  state.h = results[0];
  if (state.c) state.c = results[1];
  return reversed(results.back());
}

// One layer in one direction over [T, N, F].
Value* run_layer(Build& b, Steps steps, Cell cell, Value* sequence, State& state, const Weights& w, bool backwards) {
  const Expr& length = sequence->type.sizes[0];
  if (length.is_constant(0)) refuse(b.call(), "K0232", "expected sequence length to be larger than 0");
  Value* from_input = product_with(b, sequence, w.input, w.input_bias);
  bool unroll = length.is_constant() && (steps == Steps::unrolled || length.value() <= longest_unrolled);
  return (unroll ? unroll_layer : loop_layer)(b, cell, from_input, state, w, backwards);
}

struct Network {
  Cell cell;
  Value *h0, *c0 = nullptr;  // [layers * directions, N, H]
};

void build_network(Build& b, Steps steps, const Network& n) {
  DecomposeCall& call = b.call();
  auto params = call.tensors("params");
  bool biases = call.boolean("has_biases"), both = call.boolean("bidirectional"),
       batch_first = call.boolean("batch_first");
  auto dropout = call.scalar("dropout");
  const auto* rate = std::get_if<Scalar>(&dropout);
  if (call.boolean("train") && !(rate && rate->as_double() == 0))
    fail_unsupported("K0218", "dropout in training mode draws random numbers; export the program in eval mode",
                     call.where());
  int64_t layers = call.constant_integer("num_layers"), directions = both ? 2 : 1;
  size_t each = layers > 0 ? params.size() / static_cast<size_t>(layers * directions) : 0, plain = biases ? 4 : 2;
  if (each != plain && each != plain + 1)
    refuse(call, "K0232", "the number of parameters does not fit the number of layers");
  Value* sequence = call.tensor("input");
  bool batched = rank_of(sequence) == 3;
  if (!batched) refuse(call, "K0232", "expects an input with 3 dimensions");
  if (batch_first) sequence = b("transpose.int", {sequence, Scalar(0), Scalar(1)});
  std::vector<Value*> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Value*> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      int64_t number = layer * directions + direction;
      const auto* p = params.data() + static_cast<size_t>(number) * each;
      Weights w{p[0], p[1]};
      if (biases) {
        w.input_bias = p[2];
        w.hidden_bias = p[3];
      }
      if (each > plain) w.projection = p[each - 1];
      State state{b("select.int", {n.h0, Scalar(0), Scalar(number)})};
      if (n.c0) state.c = b("select.int", {n.c0, Scalar(0), Scalar(number)});
      outputs.push_back(run_layer(b, steps, n.cell, sequence, state, w, direction == 1));
      last_h.push_back(state.h);
      if (n.c0) last_c.push_back(state.c);
    }
    sequence = outputs.size() == 1 ? outputs[0] : b("cat", {list_of(outputs), Scalar(-1)});
  }
  call.result(0, batch_first ? b("transpose.int", {sequence, Scalar(0), Scalar(1)}) : sequence);
  call.result(1, b("stack", {list_of(last_h), Scalar(0)}));
  if (n.c0) call.result(2, b("stack", {list_of(last_c), Scalar(0)}));
}

const char* const network_tail =
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool "
    "batch_first) -> ";

void register_networks(Registry& r) {
  auto sample = [](int64_t gates, int64_t length, bool both, bool batch_first, bool lstm) {
    Specs params;
    for (int direction = 0; direction < (both ? 2 : 1); ++direction)
      for (const auto& sizes :
           std::vector<std::vector<int64_t>>{{gates * 3, 4}, {gates * 3, 3}, {gates * 3}, {gates * 3}})
        params.push_back(spec(sizes, DType::f32, -0.5, 0.5));
    Sample::TensorSpec state = spec({both ? 2 : 1, 2, 3});
    Sample out{{spec(batch_first ? std::vector<int64_t>{2, length, 4} : std::vector<int64_t>{length, 2, 4})}};
    if (lstm)
      out.args.emplace_back(Specs{state, state});
    else
      out.args.emplace_back(state);
    out.args.emplace_back(params);
    for (const Scalar& s : {Scalar(true), Scalar(1), Scalar(0.0), Scalar(false), Scalar(both), Scalar(batch_first)})
      out.args.emplace_back(s);
    return out;
  };
  auto add = [&](const std::string& schema, auto build, std::vector<Sample> samples) {
    auto written = [build](Steps steps) { return [build, steps](Build& b) { build(b, steps); }; };
    add_composite(r, {.schema = schema,
                      .build = written(Steps::looped),
                      .samples = std::move(samples),
                      .reference = reference_by(written(Steps::unrolled), schema)});
  };
  auto build_lstm = [](Build& b, Steps steps) {
    auto state = b.call().tensors("hx");
    if (state.size() != 2) refuse(b.call(), "K0232", "expects two hidden states");
    build_network(b, steps, {Cell::lstm, state[0], state[1]});
  };
  add(str("lstm.input(Tensor input, Tensor[] hx, ", network_tail, "(Tensor, Tensor, Tensor)"), build_lstm,
      {sample(4, 5, false, false, true), sample(4, 11, true, true, true)});
  for (auto [name, cell, gates] : std::vector<std::tuple<const char*, Cell, int64_t>>{
           {"gru", Cell::gru, 3}, {"rnn_tanh", Cell::tanh, 1}, {"rnn_relu", Cell::relu, 1}}) {
    auto build = [cell = cell](Build& b, Steps steps) { build_network(b, steps, {cell, b.call().tensor("hx")}); };
    add(str(name, ".input(Tensor input, Tensor hx, ", network_tail, "(Tensor, Tensor)"), build,
        {sample(gates, 5, false, false, false), sample(gates, 11, true, true, false)});
  }
}

void register_cells(Registry& r) {
  auto build = [](Build& b, Cell cell) {
    DecomposeCall& call = b.call();
    Weights w{call.tensor("w_ih"), call.tensor("w_hh"), call.tensor_or_null("b_ih"), call.tensor_or_null("b_hh")};
    State state;
    if (cell == Cell::lstm) {
      auto hx = call.tensors("hx");
      if (hx.size() != 2) refuse(call, "K0232", "expects two hidden states");
      state = {hx[0], hx[1]};
    } else {
      state = {call.tensor("hx")};
    }
    State next = cell_step(b, cell, product_with(b, call.tensor("input"), w.input, w.input_bias), state, w);
    call.result(0, next.h);
    if (cell == Cell::lstm) call.result(1, next.c);
  };
  std::string weights = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> ";
  Sample::TensorSpec x = spec({2, 4}), h = spec({2, 3});
  add_composite(r, {.schema = "lstm_cell(Tensor input, Tensor[] hx, " + weights + "(Tensor, Tensor)",
                    .build = [build](Build& b) { build(b, Cell::lstm); },
                    .samples = {{{x, Specs{h, h}, spec({12, 4}), spec({12, 3}), spec({12}), spec({12})}}}});
  add_composite(r, {.schema = "gru_cell(Tensor input, Tensor hx, " + weights + "Tensor",
                    .build = [build](Build& b) { build(b, Cell::gru); },
                    .samples = {{{x, h, spec({9, 4}), spec({9, 3}), spec({9}), spec({9})}},
                                {{x, h, spec({9, 4}), spec({9, 3})}}}});
  add_composite(r, {.schema = "rnn_tanh_cell(Tensor input, Tensor hx, " + weights + "Tensor",
                    .build = [build](Build& b) { build(b, Cell::tanh); },
                    .samples = {{{x, h, spec({3, 4}), spec({3, 3}), spec({3}), spec({3})}}}});
  add_composite(r, {.schema = "rnn_relu_cell(Tensor input, Tensor hx, " + weights + "Tensor",
                    .build = [build](Build& b) { build(b, Cell::relu); },
                    .samples = {{{x, h, spec({3, 4}), spec({3, 3})}}}});
}

}  // namespace

void register_recurrent(Registry& registry) {
  register_networks(registry);
  register_cells(registry);
  registry.describe({"lstm"}, autocast_to(AutocastRule::lower));
}

}  // namespace kiln
