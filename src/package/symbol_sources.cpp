#include "package/symbol_sources.h"

namespace kiln {
using namespace loops;
namespace {

void collect_used(const LoopProgram& program, std::set<std::string>& used) {
  for (const Buffer& buffer : program.buffers) {
    for (const Expr& e : buffer.sizes) collect_symbols(e, used);
    for (const Expr& e : buffer.strides) collect_symbols(e, used);
  }
  for (const Guard& guard : program.guards) collect_symbols(guard.condition, used);
  for (const LoopProgram::Input& input : program.inputs)
    if (auto* symbol = std::get_if<std::string>(&input.what)) used.insert(*symbol);
  for (const LoopProgram::Output& output : program.outputs)
    if (auto* expr = std::get_if<Expr>(&output.what)) collect_symbols(*expr, used);
  auto item = [&](const Item& what) {
    if (auto* kernel = std::get_if<Kernel>(&what.what))
      for_each_stmt(kernel->body, [&](const Stmt& stmt) {
        for (const Expr& e : stmt.index) collect_symbols(e, used);
        collect_symbols(stmt.expr, used);
        if (stmt.loop) collect_symbols(stmt.loop->extent, used);
      });
    if (auto* call = std::get_if<Call>(&what.what)) {
      for (const Call::Arg& arg : call->args) {
        if (auto* expr = std::get_if<Expr>(&arg.value)) collect_symbols(*expr, used);
        if (auto* list = std::get_if<std::vector<Expr>>(&arg.value))
          for (const Expr& e : *list) collect_symbols(e, used);
      }
      used.insert(call->defines.begin(), call->defines.end());
    }
    if (auto* bind = std::get_if<BindSymbol>(&what.what)) used.insert(bind->symbol);
    if (auto* assertion = std::get_if<AssertThat>(&what.what)) collect_symbols(assertion->condition, used);
    if (auto* cond = std::get_if<Cond>(&what.what))
      if (auto* expr = std::get_if<Expr>(&cond->predicate)) collect_symbols(*expr, used);
    if (auto* loop = std::get_if<While>(&what.what))
      if (auto* expr = std::get_if<Expr>(&loop->predicate)) collect_symbols(*expr, used);
  };
  for_each_item(program.init, item);
  for_each_item(program.block, item);
}

void collect_defined_by_steps(const LoopProgram& program, std::set<std::string>& defined,
                              std::set<std::string>& iterations) {
  for_each_item(program.block, [&](const Item& item) {
    if (auto* call = std::get_if<Call>(&item.what)) defined.insert(call->defines.begin(), call->defines.end());
    if (auto* bind = std::get_if<BindSymbol>(&item.what)) defined.insert(bind->symbol);
    if (auto* loop = std::get_if<While>(&item.what)) iterations.insert(loop->iteration_symbol);
  });
}

class Solver {
 public:
  explicit Solver(const LoopProgram& program) : program_(program) {
    std::set<std::string> used;
    collect_used(program, used);
    // Only the program's symbols and loop counters: variables of kernels have been collected along with them.
    collect_defined_by_steps(program, stepped_, iterations_);
    for (const std::string& name : used)
      if (program.symbols.count(name) || stepped_.count(name) || iterations_.count(name)) wanted_.insert(name);
  }

  std::vector<SymbolSourceInfo> run() {
    plain_sizes();
    given_numbers();
    while (affine_size()) {
    }
    for (const std::string& name : wanted_) {
      if (done_.count(name)) continue;
      if (iterations_.count(name))
        add({name, format::SymbolSource::iteration, format::none, format::none, {}, 1, 0});
      else if (stepped_.count(name))
        add({name, format::SymbolSource::step, format::none, format::none, range(name), 1, 0});
      else
        fail_unsupported("K0506",
                         str("the symbol ", name, " is used, but no input's size and no operator gives it a value"));
    }
    return std::move(out_);
  }

 private:
  Interval range(const std::string& name) const {
    auto found = program_.symbols.find(name);
    return found == program_.symbols.end() ? Interval{} : found->second.range;
  }
  void add(SymbolSourceInfo info) {
    done_.insert(info.name);
    out_.push_back(std::move(info));
  }

  template <class F>
  void for_each_size(F f) const {
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (auto* id = std::get_if<BufferId>(&program_.inputs[i].what)) {
        const std::vector<Expr>& sizes = program_.buffers[static_cast<size_t>(*id)].sizes;
        for (size_t d = 0; d < sizes.size(); ++d) f(static_cast<int32_t>(i), static_cast<int32_t>(d), sizes[d]);
      }
  }

  void plain_sizes() {
    for_each_size([&](int32_t input, int32_t dim, const Expr& size) {
      if (size.is_symbol() && wanted_.count(size.name()) && !done_.count(size.name()))
        add({size.name(), format::SymbolSource::input_size, input, dim, range(size.name()), 1, 0});
    });
  }

  void given_numbers() {
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (auto* symbol = std::get_if<std::string>(&program_.inputs[i].what))
        if (!done_.count(*symbol))
          add({*symbol, format::SymbolSource::input_value, static_cast<int32_t>(i), format::none, range(*symbol), 1,
               0});
  }

  // One symbol that a size determines once the others are known: 2*s0 + s1 + 1.
  bool affine_size() {
    bool found = false;
    for_each_size([&](int32_t input, int32_t dim, const Expr& size) {
      if (found) return;
      std::set<std::string> unknown, all;
      collect_symbols(size, all);
      for (const std::string& s : all)
        if (!done_.count(s)) unknown.insert(s);
      if (unknown.size() != 1) return;
      auto affine = affine_in(size, *unknown.begin());
      if (!affine || !affine->coefficient.is_constant() || affine->coefficient.is_constant(0)) return;
      add({*unknown.begin(), format::SymbolSource::input_size, input, dim, range(*unknown.begin()),
           affine->coefficient.value(), affine->rest});
      found = true;
    });
    return found;
  }

  const LoopProgram& program_;
  std::set<std::string> wanted_, stepped_, iterations_, done_;
  std::vector<SymbolSourceInfo> out_;
};

}  // namespace

std::vector<SymbolSourceInfo> symbol_sources(const LoopProgram& program) { return Solver(program).run(); }

}  // namespace kiln
