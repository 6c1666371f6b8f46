#include "loop_passes/inject_fault.h"

#include <algorithm>
#include <limits>

#include "loops/statements.h"
#include "loops/walk.h"

namespace kiln::loops {
namespace {

struct KindName {
  FaultKind kind;
  const char* name;
};
constexpr KindName kind_names[] = {
    {FaultKind::internal_error, "internal_error"},
    {FaultKind::compile_error, "compile_error"},
    {FaultKind::runtime_error, "runtime_error"},
    {FaultKind::accuracy, "accuracy"},
    {FaultKind::nan, "nan"},
    {FaultKind::crash, "crash"},
    {FaultKind::hang, "hang"},
};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  fail_user("K0142", str("'", text, "' is no fault to inject: ", why,
                         " (KIND:OPERATOR[+OPERATOR][:above=N|dynamic|subgraph|sometimes|node=NAME], KIND is one of ",
                         join_map(kind_names, ", ", [](const KindName& row) { return std::string(row.name); }), ")"));
}

void parse_condition(std::string_view text, std::string_view condition, FaultInjection& fault) {
  if (condition == "dynamic") {
    fault.condition = FaultCondition::dynamic;
  } else if (condition == "subgraph") {
    fault.condition = FaultCondition::subgraph;
  } else if (condition == "sometimes" && (fault.kind == FaultKind::crash || fault.kind == FaultKind::hang)) {
    fault.condition = FaultCondition::sometimes;
  } else if (starts_with(condition, "above=") && condition.size() > 6 && condition.size() < 24 &&
             condition.find_first_not_of("0123456789", 6) == std::string_view::npos) {
    fault.condition = FaultCondition::above;
    fault.above = std::stoll(std::string(condition.substr(6)));
  } else if (starts_with(condition, "node=") && condition.size() > 5) {
    fault.condition = FaultCondition::node;
    fault.node = std::string(condition.substr(5));
  } else {
    refuse(text, str("there is no condition '", condition, "'"));
  }
}

// A constant and an operation on it, in front of the statement that uses the result.
class BodyEdit {
 public:
  BodyEdit(LoopProgram& program, Kernel& kernel, const FaultInjection& fault)
      : program_(program), kernel_(kernel), fault_(fault) {}

  bool edit(Body& body) {
    bool changed = false;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].loop) {
        changed |= edit(body[i].loop->body);
        changed |= edit(body[i].loop->after);
      }
      if (body[i].kind != StmtKind::store) continue;
      Body added = fault_.kind == FaultKind::runtime_error ? raise() : spoil(body[i]);
      changed |= !added.empty();
      const size_t count = added.size();
      body.insert(body.begin() + static_cast<ptrdiff_t>(i), std::make_move_iterator(added.begin()),
                  std::make_move_iterator(added.end()));
      i += count;
    }
    return changed;
  }

 private:
  Body raise() {
    Body out;
    const ValueId always = append(out, constant_stmt(kernel_, DType::boolean, Scalar(true)));
    if (site_ < 0) {
      Origin origin = kernel_.origins.empty() ? Origin{} : kernel_.origins.back();
      program_.sites.push_back({str("injected runtime error in ", join(fault_.ops, " and ")), std::move(origin)});
      site_ = static_cast<int>(program_.sites.size()) - 1;
    }
    append(out, raise_stmt(always, site_));
    return out;
  }

  Body spoil(Stmt& store) {
    const DType dtype = kernel_.value_types[static_cast<size_t>(store.args[0])];
    const bool nan = fault_.kind == FaultKind::nan;
    Body out;
    if (dtype == DType::boolean || is_complex(dtype) || (nan && is_integral(dtype))) return out;
    const Scalar term = nan                  ? Scalar(std::numeric_limits<double>::quiet_NaN())
                        : is_integral(dtype) ? Scalar(int64_t{1})
                                             : Scalar(1.0);
    const ValueId added = append(out, constant_stmt(kernel_, dtype, term));
    store.args[0] = append(out, op_stmt(kernel_, ScalarOp::add, dtype, {store.args[0], added}));
    return out;
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const FaultInjection& fault_;
  int site_ = -1;
};

// Every kernel of a block with whether it stands inside a cond or while.
void for_each_kernel(Block& block, bool nested, const std::function<void(Kernel&, bool)>& f) {
  for (Item& item : block) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) f(*kernel, nested);
    for_each_block(item, [&](Block& inner) { for_each_kernel(inner, true, f); });
  }
}

// Of what the kernel writes: the most elements (where all sizes are known), and whether a size is symbolic.
struct Written {
  int64_t elements = 0;
  bool symbolic = false;
};
Written written_by(const LoopProgram& program, const Kernel& kernel) {
  Written out;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::store) return;
    int64_t count = 1;
    for (const Expr& size : program.buffers[static_cast<size_t>(stmt.buffer)].sizes) {
      if (!size.is_constant()) out.symbolic = true;
      count *= size.is_constant() ? std::min<int64_t>(size.value(), 1 << 20) : 1;
      count = std::min<int64_t>(count, int64_t{1} << 40);
    }
    out.elements = std::max(out.elements, count);
  });
  return out;
}

bool is_printed(FaultKind kind) {
  return kind == FaultKind::compile_error || kind == FaultKind::crash || kind == FaultKind::hang;
}

}  // namespace

FaultInjection parse_fault(std::string_view text) {
  FaultInjection fault;
  const std::vector<std::string> parts = split(std::string(text), ':');
  if (parts.size() < 2 || parts.size() > 3) refuse(text, "it has not two or three parts");
  for (const KindName& row : kind_names)
    if (trim(parts[0]) == row.name) fault.kind = row.kind;
  if (fault.kind == FaultKind::none) refuse(text, str("there is no kind '", parts[0], "'"));
  for (const std::string& op : split(parts[1], '+')) fault.ops.emplace_back(trim(op));
  for (const std::string& op : fault.ops)
    if (op.empty()) refuse(text, "an operator's name is empty");
  if (parts.size() == 3) parse_condition(text, trim(parts[2]), fault);
  if (fault.fused() && fault.kind == FaultKind::internal_error) refuse(text, "internal_error is about one operator");
  return fault;
}

bool fault_hits(const FaultInjection& fault, const LoopProgram& program, const Kernel& kernel, bool nested) {
  if (fault.kind == FaultKind::none) return false;
  for (const std::string& op : fault.ops)
    if (std::find(kernel.op_names.begin(), kernel.op_names.end(), op) == kernel.op_names.end()) return false;
  switch (fault.condition) {
    case FaultCondition::always:
    case FaultCondition::sometimes:
      return true;
    case FaultCondition::above:
      return written_by(program, kernel).elements > fault.above;
    case FaultCondition::dynamic:
      return written_by(program, kernel).symbolic;
    case FaultCondition::subgraph:
      return nested;
    case FaultCondition::node:
      return std::any_of(kernel.origins.begin(), kernel.origins.end(),
                         [&](const Origin& origin) { return origin.node == fault.node; });
  }
  return false;
}

std::string fault_line(const FaultInjection& fault) {
  // A bit of the processor's clock: no two runs see the same.
  const std::string when = fault.condition == FaultCondition::sometimes ? "if (__builtin_ia32_rdtsc() >> 10 & 1) " : "";
  switch (fault.kind) {
    case FaultKind::compile_error:
      return "compile error!";
    case FaultKind::crash:
      return when + "*(volatile int*)0 = 0;";
    case FaultKind::hang:
      return when + "for (volatile int hang = 0;;) (void)hang;";
    default:
      return "";
  }
}

bool inject_fault(LoopProgram& program, const FaultInjection& fault, bool merged) {
  if (fault.kind == FaultKind::none || is_printed(fault.kind) || fault.fused() != merged) return false;
  bool changed = false;
  for_each_kernel(program.block, false, [&](Kernel& kernel, bool nested) {
    if (!fault_hits(fault, program, kernel, nested)) return;
    if (fault.kind == FaultKind::internal_error)
      fail_unsupported("K0340", str("injected internal error in ", fault.ops[0]), where_of(kernel.origins));
    changed |= BodyEdit(program, kernel, fault).edit(kernel.body);
  });
  return changed;
}

}  // namespace kiln::loops
