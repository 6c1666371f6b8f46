// Lanes whose elements are far apart, where several statements take neighbours of each (the elements of a line that is
// transformed as a whole, lines in lanes; the results of a stage of it): as many vectors as there are lanes are loaded
// or stored along memory and turned in registers. Two neighbours of every lane, one after the other (the parts of
// complex numbers), are interleaved.
#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {
using namespace loops;

void KernelPrinter::find_turned(const Body& body) {
  turned_.clear();
  turned_groups_.clear();
  if (!lanes_ || !dialect_.has_vectors() || lane_count_ < 4) return;
  struct Access {
    const Stmt* stmt;
    Expr where;
    int64_t from_first;
  };
  // By kind and buffer, and by what their addresses have in common.
  struct Family {
    Expr first;
    int64_t apart;
    std::vector<Access> accesses;
  };
  std::map<std::pair<StmtKind, BufferId>, std::vector<Family>> families;
  const auto close = [&](StmtKind kind, BufferId buffer) {
    const auto found = families.find({kind, buffer});
    if (found == families.end()) return;
    for (Family& family : found->second) {
      std::vector<Access>& list = family.accesses;
      std::stable_sort(list.begin(), list.end(),
                       [](const Access& a, const Access& b) { return a.from_first < b.from_first; });
      const bool pairs = std::abs(family.apart) == 2;
      if (pairs && kind == StmtKind::load) continue;  // every second element: a shuffle of two vectors
      const auto most = pairs ? size_t{2} : static_cast<size_t>(lane_count_);
      for (size_t begin = 0; begin < list.size();) {
        size_t end = begin + 1;  // of a run of neighbours
        while (end < list.size() && list[end].from_first == list[end - 1].from_first + 1) ++end;
        const auto count = static_cast<int64_t>(end - begin);
        const bool fits = pairs ? count % 2 == 0 : count >= 3 && count <= std::abs(family.apart);
        for (size_t i = begin; fits && i < end; ++i) {
          if ((i - begin) % most == 0) {
            turned_groups_.emplace_back();
            turned_groups_.back().apart = family.apart;
          }
          Turned& group = turned_groups_.back();
          turned_[list[i].stmt] = {turned_groups_.size() - 1, group.members.size()};
          group.members.push_back(list[i].stmt);
          if (!group.last || list[i].stmt > group.last) group.last = list[i].stmt;
        }
        begin = end;
      }
    }
    families.erase(found);
  };
  for (const Stmt& stmt : body) {
    if (stmt.loop || stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if) {
      turned_.clear();
      turned_groups_.clear();
      return;
    }
    if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) continue;
    const Buffer& buffer = program_.buffers[static_cast<size_t>(stmt.buffer)];
    // What is written between two loads, or read between two stores, keeps them apart.
    close(stmt.kind == StmtKind::store ? StmtKind::load : StmtKind::store, stmt.buffer);
    if ((buffer.dtype != DType::f32 && buffer.dtype != DType::f64) || stmt.mode != StoreMode::plain ||
        stmt.mask != no_value)
      continue;
    const Expr where = address(stmt);
    const auto affine = lane_affine(where);
    if (!affine || !affine->coefficient.is_constant()) continue;
    const int64_t apart = affine->coefficient.value();
    if (std::abs(apart) < 2) continue;
    std::vector<Family>& known = families[{stmt.kind, stmt.buffer}];
    bool placed = false;
    for (Family& family : known) {
      const Expr difference = simplify(where - family.first, env_);
      if (family.apart != apart || !difference.is_constant()) continue;
      family.accesses.push_back({&stmt, where, difference.value()});
      placed = true;
      break;
    }
    if (!placed) known.push_back({where, apart, {{&stmt, where, 0}}});
  }
  while (!families.empty()) close(families.begin()->first.first, families.begin()->first.second);
}

bool KernelPrinter::print_turned(const Stmt& stmt) {
  if (!turned_.contains(&stmt)) return false;
  if (stmt.kind == StmtKind::load)
    print_turned_load(stmt);
  else
    print_turned_store(stmt);
  return true;
}

// The first one loads the block.
void KernelPrinter::print_turned_load(const Stmt& stmt) {
  const auto [at, place] = turned_.at(&stmt);
  Turned& group = turned_groups_[at];
  const DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  if (group.name.empty()) {
    group.name = str("turned", turned_count_++);
    const std::string all = lanes_->left.empty() ? str(lane_count_) : lanes_->left;
    line(str(vector_type(dtype), " ", group.name, "[", lane_count_, "]", lanes_->left.empty() ? ";" : " = {};"));
    const std::string p =
        str(buffer_name(stmt.buffer, Access::read), " + ", expr(address(*group.members[0])), " + t * ", group.apart);
    const auto count = static_cast<int64_t>(group.members.size());
    line(str("for (i64 t = 0; t < ", all, "; ++t) ", group.name,
             "[t] = ", SimdDialect::load(dtype, p, {"", count == lane_count_ ? "" : str(count), ""}), ";"));
    line(str("k_transpose_", c_type(dtype), "(", group.name, ");"));
  }
  define(stmt.results[0], str(group.name, "[", place, "]"), true);
}

// The last one stores the block.
void KernelPrinter::print_turned_store(const Stmt& stmt) {
  const auto [at, place] = turned_.at(&stmt);
  Turned& group = turned_groups_[at];
  const DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  const std::string buffer = buffer_name(stmt.buffer, Access::write);
  const std::string all = lanes_->left.empty() ? str(lane_count_) : lanes_->left;
  if (std::abs(group.apart) == 2) {
    if (&stmt != group.last) return;
    line(str(group.apart > 0 ? "k_interleave_" : "k_interleave_back_", c_type(dtype), "(", buffer, " + ",
             expr(address(*group.members[0])), ", ", vector(group.members[0]->args[0]), ", ",
             vector(group.members[1]->args[0]), ", ", all, ");"));
    return;
  }
  if (group.name.empty()) {
    group.name = str("turned", turned_count_++);
    line(str(vector_type(dtype), " ", group.name, "[", lane_count_, "];"));
    for (size_t i = group.members.size(); i < static_cast<size_t>(lane_count_); ++i)
      line(str(group.name, "[", i, "] = k_splat_", c_type(dtype), "(0);"));
  }
  line(str(group.name, "[", place, "] = ", vector(stmt.args[0]), ";"));
  if (&stmt != group.last) return;
  const auto count = static_cast<int64_t>(group.members.size());
  line(str("k_transpose_", c_type(dtype), "(", group.name, ");"));
  const std::string p = str(buffer, " + ", expr(address(*group.members[0])), " + t * ", group.apart);
  line(str("for (i64 t = 0; t < ", all, "; ++t) ",
           SimdDialect::store(dtype, p, str(group.name, "[t]"), {"", count == lane_count_ ? "" : str(count), ""})));
}

}  // namespace kiln::codegen
