// One execution of one graph (the program's, or a subgraph's): values of its Values and of the symbols seen so far.
#pragma once
#include <unordered_map>

#include "interp/conj_mirrors.h"
#include "interp/interp.h"

namespace kiln {

// splitmix64: nearby seeds give unrelated streams.
uint64_t mix_seed(uint64_t seed, uint64_t position);

class GraphRun {
 public:
  // Subgraphs run on a copy of the caller's symbols: what they bind (sizes found while running) stays theirs.
  GraphRun(const Program& program, const InterpretOptions& options, uint64_t seed, SymbolValues symbols)
      : program_(program), options_(options), seed_(seed), symbols_(std::move(symbols)) {}

  std::vector<Datum> run(const Graph& graph, const std::vector<Datum>& inputs);

 private:
  Datum evaluate_argument(const Argument& arg);
  Datum evaluate_expr(const Expr& expr);
  void run_node(const Node& node, uint64_t position);
  std::vector<Datum> run_record(const Node& node, uint64_t position);
  void lay_out(const Node& node, std::vector<Datum>& results) const;
  std::vector<Datum> run_custom(const Node& node);
  void keep_conjugates(const Node& node, const std::vector<Datum>& results);
  void set_value(const Value& value, Datum datum);
  void bind(const Expr& expr, int64_t actual);

  // control_flow.cpp
  std::vector<Datum> run_control_flow(const Node& node);
  void separate(const Node& node, std::vector<Datum>& results);
  std::vector<Datum> run_subgraph(const Graph& graph, const std::vector<Datum>& inputs);
  std::vector<Datum> run_cond(const Node& node);
  std::vector<Datum> run_while(const Node& node);
  std::vector<Datum> run_map(const Node& node);
  std::vector<Datum> run_scan(const Node& node);
  std::vector<Datum> run_associative_scan(const Node& node);
  std::vector<Datum> empty_results(const Node& node, size_t first);
  const Graph& graph_argument(const Node& node, size_t index) const;
  std::vector<Datum> list_argument(const Node& node, size_t index);

  const Program& program_;
  const InterpretOptions& options_;
  uint64_t seed_;
  uint64_t subgraph_runs_ = 0;
  SymbolValues symbols_;
  std::unordered_map<const Value*, Datum> values_;
  ConjMirrors conjugates_;
};

}  // namespace kiln
