// Steps that call code which is not a generated kernel: library kernels and the user's custom operators.
#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "runtime/element.h"
#include "runtime/model.h"
#include "runtime/run.h"

namespace kiln::runtime {
namespace {

using format::ArgKind;
using format::CallArg;
using format::none;

class LibraryStep : public LibraryCall {
 public:
  LibraryStep(Run& run, const PreparedStep& step) : run_(run), step_(step) {}

  bool has(std::string_view name) const override {
    const CallArg* arg = find(name);
    return arg && arg->kind != ArgKind::none;
  }
  TensorView tensor(std::string_view name) const override {
    const CallArg* arg = find(name);
    if (!arg || arg->kind != ArgKind::buffer) fail(str("argument ", name, " is no tensor"));
    return view(arg->items[0]);
  }
  std::vector<TensorView> tensors(std::string_view name) const override {
    const CallArg* arg = find(name);
    if (!arg || arg->kind != ArgKind::buffers) fail(str("argument ", name, " is no list of tensors"));
    std::vector<TensorView> views;
    for (int32_t b : arg->items) views.push_back(b == none ? TensorView{} : view(b));
    return views;
  }
  int64_t integer(std::string_view name, int64_t otherwise) const override {
    const CallArg* arg = find(name);
    if (!arg || arg->kind == ArgKind::none) return otherwise;
    if (arg->kind == ArgKind::dtype) return arg->items[0];
    if (arg->kind == ArgKind::floating || arg->kind == ArgKind::boolean) return static_cast<int64_t>(arg->floating);
    if (arg->kind != ArgKind::expr) fail(str("argument ", name, " is no integer"));
    return run_.expr_value(arg->items[0], step_);
  }
  std::vector<int64_t> integers(std::string_view name) const override {
    const CallArg* arg = find(name);
    std::vector<int64_t> values;
    if (arg && arg->is_integers())
      for (int32_t e : arg->items) values.push_back(run_.expr_value(e, step_));
    return values;
  }
  double floating(std::string_view name, double otherwise) const override {
    const CallArg* arg = find(name);
    if (!arg || arg->kind == ArgKind::none) return otherwise;
    if (arg->kind == ArgKind::floating) return arg->floating;
    if (arg->kind == ArgKind::expr && run_.program().plan.exprs[static_cast<size_t>(arg->items[0])].is_float)
      return std::bit_cast<double>(run_.expr_value(arg->items[0], step_));
    return static_cast<double>(integer(name, 0));
  }
  size_t output_count() const override { return step_.step->outputs.size(); }
  TensorView output(size_t index) const override {
    if (index >= step_.step->outputs.size()) fail(str("there is no output ", index));
    const int32_t b = step_.step->outputs[index];
    if (run_.buffer_known(b)) run_.host_result(b, *step_.step);
    return view(b);
  }
  void define(size_t index, int64_t value) override {
    // A size that the plan knows already needs no symbol.
    if (index < step_.step->defines.size()) run_.define(step_.step->defines[index], value, step_);
  }
  void parallel(int64_t items, int64_t grain, const std::function<void(int64_t, int64_t)>& body) override {
    struct Work {
      const std::function<void(int64_t, int64_t)>& body;
      std::mutex mutex;
      std::exception_ptr problem;
    } work{body, {}, {}};
    auto task = [](void* context, int, int64_t begin, int64_t end) {
      auto* w = static_cast<Work*>(context);
      try {
        w->body(begin, end);
      } catch (...) {
        std::lock_guard lock(w->mutex);
        w->problem = std::current_exception();
      }
    };
    const Parallel& parallel = run_.model().parallel();
    parallel.run(items, grain, parallel.threads(), task, &work);
    if (work.problem) std::rethrow_exception(work.problem);
  }
  [[noreturn]] void fail(const std::string& message) const override { run_.fail_step("K0633", step_, message); }

 private:
  const CallArg* find(std::string_view name) const {
    for (const CallArg& arg : step_.step->call_args)
      if (arg.name == name) return &arg;
    return nullptr;
  }
  TensorView view(int32_t b) const {
    if (!run_.buffer_known(b)) fail(str("the sizes of buffer ", run_.program().buffer(b).name, " are not known"));
    return {run_.program().buffer(b).dtype, run_.layout().sizes(run_.program(), b),
            run_.layout().strides(run_.program(), b), static_cast<std::byte*>(run_.host_pointer(b))};
  }

  Run& run_;
  const PreparedStep& step_;
};

// One call of a custom operator. Nothing may throw through the user's C code: what goes wrong inside an accessor is
// kept and thrown when the operator has returned.
class CustomCall : public kiln_op_call {
 public:
  CustomCall(Run& run, const PreparedStep& step) : run_(run), step_(step), outputs_(step.step->outputs.size()) {
    functions = &table();
    // Views first: an output's sizes may move nothing of what the operator already holds.
    views_.resize(step.step->call_args.size());
    for (size_t a = 0; a < views_.size(); ++a) {
      const CallArg& arg = step.step->call_args[a];
      if (!arg.is_tensors()) continue;
      for (int32_t b : arg.items) {
        if (b != none && !run.buffer_known(b))
          run.fail_step("K0632", step, str("the sizes of argument ", arg.name, " are not known"));
        views_[a].push_back(b == none ? DLTensor{} : view(b));
      }
    }
  }

  void finish(int32_t rc) {
    if (!problem_.empty() || rc != 0)
      run_.fail_step(
          "K0632", step_,
          str("custom operator ", step_.custom->name, ": ", problem_.empty() ? str("it returned ", rc) : problem_));
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!outputs_[i].given)
        run_.fail_step("K0632", step_,
                       str("custom operator ", step_.custom->name, ": it did not produce its output ", i));
  }

 private:
  static CustomCall& self(const kiln_op_call* call) {
    return const_cast<CustomCall&>(static_cast<const CustomCall&>(*call));
  }
  // On the device that the operator runs on.
  DLTensor view(int32_t b) { return step_.step->device == DeviceType::cpu ? run_.host_view(b) : run_.view(b); }
  const CallArg* arg(int32_t index) {
    const auto& args = step_.step->call_args;
    if (index >= 0 && static_cast<size_t>(index) < args.size()) return &args[static_cast<size_t>(index)];
    note(str("there is no argument ", index));
    return nullptr;
  }
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  template <class F>
  auto guarded(F f) -> decltype(f()) {
    try {
      return f();
    } catch (const Error& error) {
      note(error.message());
    } catch (const std::exception& error) {
      note(error.what());
    }
    return decltype(f()){};
  }

  int64_t integer(int32_t index, int64_t element) {
    const CallArg* a = arg(index);
    if (!a) return 0;
    if (a->kind == ArgKind::dtype) return a->items[0];
    if (a->kind == ArgKind::floating || a->kind == ArgKind::boolean) return static_cast<int64_t>(a->floating);
    bool in_range = element >= 0 && static_cast<size_t>(element) < a->items.size();
    if (a->is_integers() && in_range) return run_.expr_value(a->items[static_cast<size_t>(element)], step_);
    return note(str("argument ", a->name, " has no integer ", element)), 0;
  }

  double floating(int32_t index) {
    const CallArg* a = arg(index);
    if (!a) return 0;
    if (a->kind == ArgKind::floating) return a->floating;
    int64_t bits = integer(index, 0);
    bool is_float = a->kind == ArgKind::expr && run_.program().plan.exprs[static_cast<size_t>(a->items[0])].is_float;
    return is_float ? std::bit_cast<double>(bits) : static_cast<double>(bits);
  }

  const DLTensor* tensor(int32_t index, int64_t element) {
    const CallArg* a = arg(index);
    if (!a || a->kind == ArgKind::none) return nullptr;
    auto& views = views_[static_cast<size_t>(index)];
    if (element < 0 || static_cast<size_t>(element) >= views.size())
      return note(str("argument ", a->name, " has no tensor ", element)), nullptr;
    return a->items[static_cast<size_t>(element)] == none ? nullptr : &views[static_cast<size_t>(element)];
  }

  DLTensor* output(int32_t index, int32_t rank, const int64_t* sizes) {
    if (index < 0 || static_cast<size_t>(index) >= outputs_.size())
      return note(str("there is no output ", index)), nullptr;
    Output& out = outputs_[static_cast<size_t>(index)];
    int32_t b = step_.step->outputs[static_cast<size_t>(index)];
    const format::Buffer& buffer = run_.program().buffer(b);
    if (rank != static_cast<int64_t>(buffer.sizes.size()))
      return note(str("output ", index, " has ", buffer.sizes.size(), " dimensions in the program, not ", rank)),
             nullptr;
    for (size_t d = 0; d < buffer.sizes.size(); ++d) define_from_size(buffer.sizes[d], sizes[d]);
    if (!run_.buffer_known(b))
      return note(str("the sizes of output ", index, " do not follow from what is known")), nullptr;
    Dims expected = run_.layout().sizes(run_.program(), b);
    for (size_t d = 0; d < expected.size(); ++d)
      if (expected[d] != sizes[d])
        return note(str("output ", index, ": dimension ", d, " is ", expected[d], " in the program, not ", sizes[d])),
               nullptr;
    out.given = true;
    if (step_.step->device == DeviceType::cpu) run_.host_result(b, *step_.step);
    out.tensor = view(b);
    return &out.tensor;
  }

  // An output's size that is a plain symbol which this step defines gives the symbol its value.
  void define_from_size(format::ExprIndex e, int64_t size) {
    const auto& code = run_.program().plan.exprs[static_cast<size_t>(e)].code;
    if (code.size() != 1 || code[0].code != format::ExprCode::symbol) return;
    auto slot = static_cast<int32_t>(code[0].operand);
    const auto& defines = step_.step->defines;
    if (std::find(defines.begin(), defines.end(), slot) == defines.end()) return;
    if (std::find(defined_.begin(), defined_.end(), slot) != defined_.end()) return;
    defined_.push_back(slot);
    run_.define(slot, size, step_);
  }

  static const kiln_op_functions& table();

  struct Output {
    DLTensor tensor{};
    bool given = false;
  };
  Run& run_;
  const PreparedStep& step_;
  std::vector<std::vector<DLTensor>> views_;
  std::vector<Output> outputs_;
  std::vector<int32_t> defined_;
  std::string problem_;
};

const kiln_op_functions& CustomCall::table() {
  static const kiln_op_functions functions = {
      sizeof(kiln_op_functions),
      KILN_CUSTOM_OP_CALL_VERSION,
      [](const kiln_op_call* c) { return static_cast<int32_t>(self(c).step_.step->call_args.size()); },
      [](const kiln_op_call* c, int32_t i) {
        return self(c).guarded([&] {
          const CallArg* a = self(c).arg(i);
          return a ? a->name.c_str() : "";
        });
      },
      [](const kiln_op_call* c, int32_t i) {
        return self(c).guarded([&] {
          const CallArg* a = self(c).arg(i);
          if (!a) return int32_t{KILN_ARG_NONE};
          return a->kind == ArgKind::dtype ? int32_t{KILN_ARG_INT} : static_cast<int32_t>(a->kind);
        });
      },
      [](const kiln_op_call* c, int32_t i) {
        return self(c).guarded([&] {
          const CallArg* a = self(c).arg(i);
          return !a || a->kind == ArgKind::none                             ? int64_t{0}
                 : a->kind == ArgKind::buffers || a->kind == ArgKind::exprs ? static_cast<int64_t>(a->items.size())
                                                                            : int64_t{1};
        });
      },
      [](const kiln_op_call* c, int32_t i, int64_t element) {
        return self(c).guarded([&] { return self(c).tensor(i, element); });
      },
      [](const kiln_op_call* c, int32_t i, int64_t element) {
        return self(c).guarded([&] { return self(c).integer(i, element); });
      },
      [](const kiln_op_call* c, int32_t i) { return self(c).guarded([&] { return self(c).floating(i); }); },
      [](const kiln_op_call* c, int32_t i) {
        return self(c).guarded([&] {
          const CallArg* a = self(c).arg(i);
          return a && a->kind == ArgKind::string ? a->string.c_str() : nullptr;
        });
      },
      [](const kiln_op_call* c) { return static_cast<int32_t>(self(c).outputs_.size()); },
      [](kiln_op_call* c, int32_t i, int32_t rank, const int64_t* sizes) {
        return self(c).guarded([&] { return self(c).output(i, rank, sizes); });
      },
      [](kiln_op_call* c, const char* message) { self(c).note(message ? message : "it failed"); },
  };
  return functions;
}

}  // namespace

void Run::library_step(const PreparedStep& prepared) {
  LibraryStep call(*this, prepared);
  if (prepared.library->sizes) prepared.library->sizes(call);
  prepared.library->run(call);
  keep_host_copies(*prepared.step);
}

void Run::custom_step(const PreparedStep& prepared) {
  CustomCall call(*this, prepared);
  int32_t rc = 0;
  try {
    rc = prepared.custom->run(&call);
  } catch (const std::exception& error) {
    fail_step("K0632", prepared, str("custom operator ", prepared.custom->name, " threw: ", error.what()));
  } catch (...) {
    fail_step("K0632", prepared, str("custom operator ", prepared.custom->name, " threw an exception"));
  }
  call.finish(rc);
  keep_host_copies(*prepared.step);
}

}  // namespace kiln::runtime
