// Loops as text; parse.cpp reads it back. docs/loops-text.md describes the form.
#include <map>

#include "loops/loops.h"
#include "loops/text_names.h"

namespace kiln::loops {
namespace {

using namespace text;

template <class Range, class F>
std::string list_text(const Range& range, F f) {
  return "[" + join_map(range, ", ", f) + "]";
}
std::string exprs_text(const std::vector<Expr>& exprs) {
  return list_text(exprs, [](const Expr& e) { return e.text(); });
}
std::string value_text(ValueId v) { return str("%", v); }
std::string values_text(const std::vector<ValueId>& values) { return join_map(values, ", ", value_text); }
std::string bound_text(int64_t v) { return v == INT64_MIN ? "-inf" : v == INT64_MAX ? "inf" : str(v); }

class Printer {
 public:
  explicit Printer(const LoopProgram& program, bool with_origins) : program_(program), with_origins_(with_origins) {}

  std::string whole() {
    line("loops ", name_text(program_.name));
    for (const auto& [key, info] : program_.symbols) symbol(info);
    for (const Guard& g : program_.guards) line("guard [", g.condition.text(), "] because ", quote(g.reason));
    for (const Buffer& b : program_.buffers) buffer(b);
    for (const auto& in : program_.inputs) line("input ", name_text(in.name), " = ", input_text(in));
    for (const auto& out : program_.outputs) line("output ", output_text(out));
    for (const Site& s : program_.sites) line("site ", quote(s.message), " origin ", origin_number(s.origin));
    section("init", program_.init);
    section("main", program_.block);
    for (size_t i = 0; i < origins_.size(); ++i) origin(i, origins_[i]);
    return std::move(out_);
  }

  std::string one_kernel(const Kernel& kernel) {
    item(kernel);
    return std::move(out_);
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    out_.append(static_cast<size_t>(indent_) * 2, ' ');
    out_ += str(parts...);
    out_ += '\n';
  }

  // ---- The head
  // ------------------------------------------------------------------------------------------------------
  void symbol(const SymbolInfo& info) {
    line("symbol ", name_text(info.name), " in [", bound_text(info.range.low), ", ", bound_text(info.range.high), "]",
         info.hint ? str(" hint ", *info.hint) : "", info.unbacked ? " unbacked" : "");
  }
  std::string buffer_name(BufferId b) const {
    bool known = b >= 0 && static_cast<size_t>(b) < program_.buffers.size();
    return known ? name_text(program_.buffers[static_cast<size_t>(b)].name) : "none";
  }
  void buffer(const Buffer& b) {
    std::string text = str("buffer ", name_text(b.name), " ", dtype_name(b.dtype), exprs_text(b.sizes), " strides ",
                           exprs_text(b.strides));
    if (!b.offset.is_constant(0)) text += str(" offset [", b.offset.text(), "]");
    text += str(" ", roles.name(b.role));
    if (b.position >= 0) text += str(" position ", b.position);
    if (!b.constant.empty()) text += str(" named ", quote(b.constant));
    if (b.mutated) text += " mutated";
    if (b.complex) text += " complex";
    line(text);
  }
  std::string input_text(const LoopProgram::Input& in) const {
    if (auto* b = std::get_if<BufferId>(&in.what)) return "buffer " + buffer_name(*b);
    if (auto* s = std::get_if<std::string>(&in.what)) return "symbol " + name_text(*s);
    return argument_text(std::get<Argument>(in.what));
  }
  std::string output_text(const LoopProgram::Output& out) const {
    if (auto* b = std::get_if<BufferId>(&out.what)) return "buffer " + buffer_name(*b);
    if (auto* e = std::get_if<Expr>(&out.what)) return str("value [", e->text(), "]");
    return argument_text(std::get<Argument>(out.what));
  }
  static std::string argument_text(const Argument& arg) {
    struct Text {
      std::string operator()(const Argument::None&) const { return "none"; }
      std::string operator()(Value*) const { fail_bug("a graph value has no text in Loops"); }
      std::string operator()(const Argument::List& list) const {
        return "list " + list_text(list, [](const Argument& a) { return argument_text(a); });
      }
      std::string operator()(const Scalar& s) const { return "scalar " + s.text(); }
      std::string operator()(const std::string& s) const { return "string " + quote(s); }
      std::string operator()(const Expr& e) const { return str("expr [", e.text(), "]"); }
      std::string operator()(DType d) const { return str("dtype ", dtype_name(d)); }
      std::string operator()(const Device& d) const { return str("device ", quote(device_text(d))); }
      std::string operator()(Layout) const { return "layout strided"; }
      std::string operator()(MemoryFormat m) const { return str("memory_format ", static_cast<int>(m)); }
      std::string operator()(const std::shared_ptr<Graph>&) const { fail_bug("a subgraph has no text in Loops"); }
    };
    return std::visit(Text{}, arg.value);
  }

  // ---- Origins: one table at the end, by number
  // ----------------------------------------------------------------------
  static std::string origin_key(const Origin& o) {
    std::string key = str(quote(o.node), quote(o.op), quote(o.module_path));
    for (const SourceLine& s : o.stack) key += str(quote(s.file), s.line, quote(s.function), quote(s.text));
    return key;
  }
  size_t origin_number(const Origin& o) {
    auto [found, fresh] = origin_numbers_.try_emplace(origin_key(o), origins_.size());
    if (fresh) origins_.push_back(o);
    return found->second;
  }
  std::string origins_text(const std::vector<Origin>& list) {
    if (list.empty() || !with_origins_) return "";
    return " from " + list_text(list, [&](const Origin& o) { return str(origin_number(o)); });
  }
  void origin(size_t number, const Origin& o) {
    std::string text =
        str("origin ", number, " node ", quote(o.node), " op ", quote(o.op), " module ", quote(o.module_path));
    for (const SourceLine& s : o.stack)
      text += str(" at ", quote(s.file), " ", s.line, " ", quote(s.function), " ", quote(s.text));
    line(text);
  }

  // ---- Blocks
  // --------------------------------------------------------------------------------------------------------
  void section(const char* name, const Block& b) {
    line(name, " {");
    block(b);
    line("}");
  }
  void block(const Block& b) {
    ++indent_;
    for (const Item& i : b) std::visit([&](const auto& what) { item(what); }, i.what);
    --indent_;
  }
  void item(const Kernel& k) {
    std::string text = "kernel " + name_text(k.name);
    if (!k.op_names.empty()) text += " ops " + list_text(k.op_names, [](const std::string& s) { return name_text(s); });
    line(text, origins_text(k.origins), " {");
    ++indent_;
    if (k.contraction) line(contraction_text(*k.contraction));
    if (k.schedule) line(schedule_text(*k.schedule));
    --indent_;
    body(k.body);
    // As origins: only a whole program has them.
    ++indent_;
    if (with_origins_)
      for (const NamedValue& n : k.named)
        line("name ", value_text(n.value), " = ", name_text(n.name), exprs_text(n.index),
             n.mask == no_value ? "" : " mask " + value_text(n.mask));
    --indent_;
    line("}");
  }
  static std::string names_text(const std::vector<std::string>& names) {
    return list_text(names, [](const std::string& s) { return name_text(s); });
  }
  static std::string contraction_text(const Contraction& c) {
    auto values = [](const std::vector<ValueId>& list) { return list_text(list, value_text); };
    return str("contraction batch ", names_text(c.batch), " rows ", names_text(c.rows), " columns ",
               names_text(c.columns), " sums ", names_text(c.sums), " left ", value_text(c.left), " of ",
               values(c.left_values), " right ", value_text(c.right), " of ", values(c.right_values), " shared ",
               values(c.shared_values));
  }
  std::string schedule_text(const Schedule& s) const {
    std::string text = str("schedule items [", s.items.text(), "] grain ", s.grain, " lanes ", s.lanes);
    if (s.turns) text += " turns";
    if (s.tile.rows > 0) text += str(" tile ", s.tile.rows, " rows ", s.tile.vectors, " vectors");
    if (s.tile.high > 1) text += str(" high ", s.tile.high);
    if (s.tile.together > 1) text += str(" together ", s.tile.together);
    if (s.tile.beside) text += " beside";
    if (s.tile.ahead > 0) text += str(" ahead ", s.tile.ahead);
    if (s.tile.pairs) text += " pairs";
    if (s.tile.quads) text += " quads";
    if (s.tile.matrix) text += " matrix";
    if (s.tile.rows_copy != no_buffer) text += " rows_in " + buffer_name(s.tile.rows_copy);
    if (s.tile.rows_wide != no_buffer) text += " widened_in " + buffer_name(s.tile.rows_wide);
    if (s.tile.interleaved) text += " interleaved";
    if (s.grid.threads > 0) text += str(" threads ", s.grid.threads, " team ", s.grid.team);
    if (s.grid.vector > 1) text += str(" vector ", s.grid.vector);
    if (s.grid.hold > 0) text += str(" hold ", s.grid.hold);
    if (s.grid.tile_rows > 0)
      text += str(" block ", s.grid.tile_rows, " rows ", s.grid.tile_columns, " columns ", s.grid.tile_terms,
                  " terms each ", s.grid.thread_rows, " by ", s.grid.thread_columns);
    if (s.grid.tensor_cores) text += " tensor_cores";
    if (s.grid.warpgroups) text += " warpgroups";
    if (s.grid.stages > 1) text += str(" stages ", s.grid.stages);
    if (s.grid.left_along_terms) text += " left_along_terms";
    if (s.grid.left_chunk > 1) text += str(" left_chunk ", s.grid.left_chunk);
    if (s.grid.right_along_terms) text += " right_along_terms";
    if (s.grid.right_chunk > 1) text += str(" right_chunk ", s.grid.right_chunk);
    if (s.grid.keys > 0) text += str(" keys ", s.grid.keys);
    if (s.grid.value_chunk > 1) text += str(" value_chunk ", s.grid.value_chunk);
    if (s.grid.keys > 0) text += str(" weight_parts ", s.grid.weight_parts);
    if (s.grid.causal) text += " causal";
    if (s.grid.parts > 1) text += str(" parts ", s.grid.parts);
    return text;
  }
  void item(const Call& c) {
    std::string text = str("call ", name_text(c.name), " = ", quote(c.target));
    if (c.custom) text += " custom";
    if (!c.library.empty()) text += " library " + quote(c.library);
    if (c.proves_sizes) text += " proves_sizes";
    line(text, origins_text(c.origins), " {");
    ++indent_;
    for (const Call::Arg& arg : c.args) line("arg ", name_text(arg.name), " = ", call_arg_text(arg));
    auto buffers = [&](const std::vector<BufferId>& ids) {
      return list_text(ids, [&](BufferId b) { return buffer_name(b); });
    };
    line("outputs ", buffers(c.outputs));
    if (!c.defines.empty()) line("defines ", list_text(c.defines, [](const std::string& s) { return name_text(s); }));
    if (!c.mutates.empty()) line("mutates ", buffers(c.mutates));
    --indent_;
    line("}");
  }
  std::string call_arg_text(const Call::Arg& arg) const {
    struct Text {
      const Printer& p;
      std::string operator()(std::monostate) const { return "none"; }
      std::string operator()(BufferId b) const { return "buffer " + p.buffer_name(b); }
      std::string operator()(const std::vector<BufferId>& ids) const {
        return "buffers " + list_text(ids, [&](BufferId b) { return p.buffer_name(b); });
      }
      std::string operator()(const Expr& e) const { return str("expr [", e.text(), "]"); }
      std::string operator()(const std::vector<Expr>& e) const { return "exprs " + exprs_text(e); }
      std::string operator()(const Scalar& s) const { return "scalar " + s.text(); }
      std::string operator()(const std::string& s) const { return "string " + quote(s); }
      std::string operator()(DType d) const { return str("dtype ", dtype_name(d)); }
    };
    return std::visit(Text{*this}, arg.value);
  }
  void item(const BindSymbol& b) {
    line("bind ", name_text(b.symbol), " = ", buffer_name(b.buffer), origins_text(b.origins));
  }
  void item(const AssertThat& a) {
    line("assert [", a.condition.text(), "] ", quote(a.message), origins_text(a.origins));
  }
  std::string predicate_text(const std::variant<BufferId, Expr>& p) const {
    if (auto* b = std::get_if<BufferId>(&p)) return "buffer " + buffer_name(*b);
    return str("expr [", std::get<Expr>(p).text(), "]");
  }
  void item(const Cond& c) {
    line("cond ", name_text(c.name), " on ", predicate_text(c.predicate), origins_text(c.origins), " {");
    if (c.then_block) block(*c.then_block);
    line("} else {");
    if (c.else_block) block(*c.else_block);
    line("}");
  }
  void item(const While& w) {
    line("while ", name_text(w.name), " counting ", name_text(w.iteration_symbol), origins_text(w.origins), " {");
    if (w.condition_block) block(*w.condition_block);
    line("} on ", predicate_text(w.predicate), " do {");
    if (w.body_block) block(*w.body_block);
    line("}");
  }

  // ---- Statements
  // ----------------------------------------------------------------------------------------------------
  void body(const Body& statements) {
    ++indent_;
    for (const Stmt& s : statements) statement(s);
    --indent_;
  }
  static std::string mask_text(const Stmt& s) { return s.mask == no_value ? "" : " mask " + value_text(s.mask); }
  void statement(const Stmt& s) {
    std::string head = s.results.empty() ? "" : values_text(s.results) + " = ";
    const char* type = dtype_name(s.dtype);
    switch (s.kind) {
      case StmtKind::op:
        return line(head, scalar_op_info(s.op).name, ".", type, " ", values_text(s.args));
      case StmtKind::constant:
        return line(head, "constant.", type, " ", s.constant.text());
      case StmtKind::index_value:
        return line(head, "index.", type, " [", s.expr.text(), "]");
      case StmtKind::random:
        return line(head, "random.", type, " [", s.expr.text(), "]");
      case StmtKind::load:
        return line(head, "load.", type, " ", buffer_name(s.buffer), exprs_text(s.index), mask_text(s));
      case StmtKind::store: {
        std::string mode = s.mode == StoreMode::plain ? "" : str(".", store_modes.name(s.mode));
        return line("store", mode, " ", buffer_name(s.buffer), exprs_text(s.index), " = ", values_text(s.args),
                    mask_text(s));
      }
      case StmtKind::check_index:
        return line(head, "check_index ", name_text(s.index_var), " = ", values_text(s.args), " in [", s.expr.text(),
                    "] site ", s.site, mask_text(s));
      case StmtKind::raise_if:
        return line("raise_if ", values_text(s.args), " site ", s.site, mask_text(s));
      case StmtKind::loop:
        return loop(head, *s.loop);
    }
  }
  static std::string directives_text(const AxisDirectives& d) {
    if (d == AxisDirectives{}) return "";
    std::string text = str(" @", bindings.name(d.binding));
    if (d.factor == 0 && d.tail == Tail::exact) return text;
    return str(text, "(", d.factor, ", ", tails.name(d.tail), ")");
  }
  static std::string order_text(const SumOrder& order) {
    std::string text = str(order.fused ? " fused" : "", order.pairs ? " pairs" : "");
    if (order.block > 0) text += str(" blocks(", order.block, ", ", dtype_name(order.meet), ")");
    if (order.chains > 1) text += str(" chains(", order.chains, ")");
    return text;
  }
  void loop(const std::string& head, const Loop& l) {
    std::string text = str(head, "for ", name_text(l.var), " in [", l.extent.text(), "] ", axis_roles.name(l.role));
    if (l.role != AxisRole::parallel) text += str(" ", reduce_info(l.reduce).name, ".", dtype_name(l.reduce_dtype));
    if (l.only != no_value) text += " only " + value_text(l.only);
    line(text, order_text(l.order), directives_text(l.directives), " {");
    body(l.body);
    if (l.role != AxisRole::parallel) {
      ++indent_;
      line("yield ", values_text(l.yields));
      --indent_;
    }
    if (l.role == AxisRole::scan) {
      line("} after ", values_text(l.running), " {");
      body(l.after);
    }
    line("}");
  }

  const LoopProgram& program_;
  bool with_origins_;
  std::string out_;
  int indent_ = 0;
  std::vector<Origin> origins_;
  std::map<std::string, size_t> origin_numbers_;
};

}  // namespace

std::string print(const LoopProgram& program) { return Printer(program, true).whole(); }
std::string print(const Kernel& kernel, const LoopProgram& program) {
  return Printer(program, false).one_kernel(kernel);
}

}  // namespace kiln::loops
