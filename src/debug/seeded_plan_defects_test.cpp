// Defects of the generated code, the plan and the weights: the loops are right.
#include "debug/seeded_defects.h"

namespace kiln::seeded {

std::vector<Defect> code_defects() {
  std::vector<Defect> d;
  d.push_back(in_code("code: wrong function", mlp, {"aten.tanh.default"}, "sub_tanh",
                      [](std::string& unit) { edit(unit, "= k_tanh\\((v[0-9]+)\\);", "= k_add(k_tanh($1), $1);"); }));
  d.push_back(
      in_code("code: wrong start of a reduction", dynamic, {"aten.sum.dim_IntList"}, "sub_mul_sum_log1p",
              [](std::string& unit) { edit(unit, "_lanes = k_splat_f64\\(0\\);", "_lanes = k_splat_f64(0.25);"); }));
  d.push_back(in_code("code: product of the wrong rows", mlp, {"aten.linear.default"}, "linear_sigmoid",
                      [](std::string& unit) { edit(unit, "k_madd\\(a_1, b_0,", "k_madd(a_0, b_0,"); }));
  d.push_back(in_code("code: last vector one short", narrow, {}, "to_mean_var", [](std::string& unit) {
    edit(unit, "const int left = \\(int\\)\\((e_i[0-9]+ - i[0-9]+)\\);", "const int left = (int)($1) - 1;");
  }));
  d.push_back(in_code("code: product instead of a difference in a reduction", transformer, {"aten.exp.default"},
                      "bmm_mul_amax",
                      [](std::string& unit) { edit(unit, "= k_exp\\((v[0-9]+)\\);", "= k_mul($1, $1);"); }));
  d.push_back(in_code("code: product instead of an exponential in attention", attention, {"aten.exp.default"},
                      "bmm_mul_amax",
                      [](std::string& unit) { edit(unit, "= k_exp_or_zero\\((v[0-9]+)\\);", "= k_mul($1, $1);"); }));
  d.push_back(naming(of_class(in_code("code: write to an input that must stay", cache, {}, "slice_scatter",
                                      [](std::string& unit) {
                                        edit(unit, "k_store_f32(_n)?\\(b1 \\+ [^;]*, (v[0-9]+)(, left)?\\);",
                                             "$& k_store_f32$1((f32*)buffers[0], $2$3);");
                                      }),
                              FaultClass::input_written),
                     "row"));
  return d;
}

std::vector<Defect> plan_defects() {
  std::vector<Defect> d;
  d.push_back(in_plan("overlapping lifetimes", rnn, FaultClass::overlap, "h1",
                      [](format::Plan& plan) { buffer_named(plan, "i1").same_memory_as = number_of(plan, "h1"); }));
  d.push_back(in_plan("missing dependency (steps swapped)", transformer, FaultClass::missing_dependency, "div",
                      [](format::Plan& plan) {
                        const int32_t written = number_of(plan, "div");
                        auto writes = [&](const format::Step& step) {
                          return std::any_of(step.args.begin(), step.args.end(), [&](const format::KernelArg& arg) {
                            return kiln::writes(arg.access) && arg.buffer == written;
                          });
                        };
                        const auto at = std::find_if(plan.steps.begin(), plan.steps.end(), writes);
                        std::iter_swap(at, at + 1);
                      }));
  d.push_back(in_plan(
      "buffer too small in the plan", transformer, FaultClass::layout, "q_joined",
      [](format::Plan& plan) { buffer_named(plan, "q_joined").sizes[1] = buffer_named(plan, "q_joined").sizes[0]; }));
  d.push_back(in_plan("wrong symbol given to a kernel", dynamic, FaultClass::layout, "", [](format::Plan& plan) {
    for (format::Step& step : plan.steps)
      if (step.name.find("sub_mul_sum") != std::string::npos)
        for (int32_t& value : step.ints)
          if (value == expr_named(plan, "s1")) value = expr_named(plan, "s0");
  }));
  d.push_back(in_plan("wrong stride in the plan", dynamic, FaultClass::layout, "diff",
                      [](format::Plan& plan) { buffer_named(plan, "diff").strides[0] = expr_named(plan, "s0"); }));
  d.push_back(in_plan("wrong branch", control, FaultClass::control_flow, "positive", [](format::Plan& plan) {
    auto& blocks = step_of_kind(plan, format::StepKind::cond).blocks;
    std::swap(blocks[0], blocks[1]);
  }));
  d.push_back(in_plan("loop on the wrong predicate", control, FaultClass::control_flow, "less", [](format::Plan& plan) {
    step_of_kind(plan, format::StepKind::while_loop).args[0].buffer = number_of(plan, "positive");
  }));
  d.push_back(in_plan("step run twice", cache, FaultClass::control_flow, "counts", [](format::Plan& plan) {
    plan.steps.push_back(plan.steps.back());
    ++plan.steps.back().number;
  }));
  d.push_back(in_plan("step left out", cache, FaultClass::control_flow, "counts",
                      [](format::Plan& plan) { plan.steps.pop_back(); }));
  d.push_back(in_constants("stale weight", mlp, "w2", [](std::map<std::string, Tensor>& constants) {
    constants.at("down.weight") = values(DType::f32, {19, 37}, 77);
  }));
  d.push_back(
      in_constants("weight at the wrong offset", transformer, "g", [](std::map<std::string, Tensor>& constants) {
        Tensor moved = constants.at("norm.weight").clone();
        for (int64_t i = 0; i < 16; ++i) moved.set_item(i, constants.at("norm.weight").item((i + 1) % 16));
        constants.at("norm.weight") = moved;
      }));
  d.push_back(in_plan("outputs swapped", dynamic, FaultClass::layout, "log", [](format::Plan& plan) {
    std::swap(plan.outputs[0].buffer, plan.outputs[1].buffer);
    std::swap(buffer_named(plan, "log").position, buffer_named(plan, "cumsum").position);
  }));
  return d;
}

}  // namespace kiln::seeded
