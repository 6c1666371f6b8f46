// Defects of more than thirty kinds put into packages on purpose: bisect names the kernel, or buffer and class of
// fault, of every one, and the operator where it lies in one; a checked run finds every access outside of a buffer.
#include "debug/seeded_defects.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/file.h"
#include "debug/bisect.h"
#include "driver/compile.h"
#include "driver/executable_package.h"

namespace kiln::seeded {

using loops::LoopProgram;
using loops::ScalarOp;

namespace {

Defect with_value(Defect d, const char* value) {
  d.value = value;
  return d;
}
Defect out_of_bounds(Defect d) {
  d.out_of_bounds = true, d.fault = FaultClass::out_of_bounds;
  return d;
}
Defect of_class(Defect d, FaultClass fault) {
  d.fault = fault;
  return d;
}
Defect naming(Defect d, const char* buffer) {
  d.buffer = buffer;
  return d;
}

// Another operator in its place.
std::function<std::string(LoopProgram&)> replaced(ScalarOp from, ScalarOp to, int which = 0) {
  return [=](LoopProgram& p) {
    Surgery s(p, nth(an_op(from), which));
    s.stmt->op = to;
    return s.kernel();
  };
}
// One iteration less, of the loop that the statement stands in or is.
std::function<std::string(LoopProgram&)> shortened(
    std::function<std::function<bool(const loops::Stmt&)>(LoopProgram&)> find, int by = 1) {
  return [=](LoopProgram& p) {
    Surgery s(p, find(p));
    loops::Loop& loop = s.stmt->loop ? *s.stmt->loop : *s.loop_around().loop;
    loop.extent = loop.extent - by;
    return s.kernel();
  };
}

}  // namespace

std::vector<Defect> kernel_defects() {
  std::vector<Defect> d;
  d.push_back(with_value(in_loops("wrong constant", mlp, {"aten.mul.Tensor"},
                                  [](LoopProgram& p) {
                                    Surgery s(p, a_constant(1.5));
                                    s.stmt->constant = Scalar(1.25);
                                    return s.kernel();
                                  }),
                         "scaled"));
  d.push_back(in_loops("swapped operands", mlp, {"aten.sub.Tensor"}, [](LoopProgram& p) {
    Surgery s(p, an_op(ScalarOp::sub));
    std::swap(s.stmt->args[0], s.stmt->args[1]);
    return s.kernel();
  }));
  d.push_back(in_loops("lost epilogue of a template", mlp, {"aten.tanh.default"}, [](LoopProgram& p) {
    const loops::ValueId before = Surgery(p, an_op(ScalarOp::tanh)).stmt->args[0];
    Surgery s(p, a_store(p, "tanh"));
    s.stmt->args[0] = before;
    return s.kernel();
  }));
  d.push_back(with_value(in_loops("lost bias", mlp, {"aten.linear.default"},
                                  [](LoopProgram& p) {
                                    Surgery s(p, an_op(ScalarOp::add));
                                    s.stmt->op = ScalarOp::sub;
                                    return s.kernel();
                                  }),
                         "up"));
  d.push_back(with_value(in_loops("wrong row in a template's product", mlp, {"aten.linear.default"},
                                  [](LoopProgram& p) {
                                    Surgery s(p, a_load(p, "scaled"));
                                    s.stmt->index[0] = mod(s.stmt->index[0] + 1, 5);
                                    return s.kernel();
                                  }),
                         "down"));
  d.push_back(in_loops("precision lost in the middle (f16)", mlp, {"aten.sigmoid.default", "aten.mul.Tensor"},
                       [](LoopProgram& p) {
                         Surgery s(p, an_op(ScalarOp::sigmoid));
                         const std::string kernel = s.kernel();
                         s.insert_cast(s.insert_cast(s.stmt->results[0], DType::f16), DType::f32);
                         return kernel;
                       }));
  d.push_back(in_loops("wrong operator (exp2 for exp)", transformer, {"aten.exp.default"},
                       replaced(ScalarOp::exp, ScalarOp::exp2)));
  d.push_back(in_loops("dropped term of a reduction", transformer, {"aten.sum.dim_IntList"},
                       shortened([](LoopProgram& p) { return a_load(p, "exp"); })));
  d.push_back(in_loops("loop one short", transformer, {"aten.div.Tensor"},
                       shortened([](LoopProgram& p) { return a_store(p, "div"); })));
  d.push_back(in_loops("wrong index", transformer, {"aten.bmm.default", "aten.transpose.int"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "k"));
    s.stmt->index[1] = mod(s.stmt->index[1] + 1, 7);
    return s.kernel();
  }));
  d.push_back(with_value(in_loops("broadcast along the wrong axis", transformer, {"aten.mul.Tensor"},
                                  [](LoopProgram& p) {
                                    Surgery s(p, a_load(p, "g"));
                                    s.stmt->index[0] = Surgery(p, a_store(p, "add_1")).stmt->index[1];
                                    return s.kernel();
                                  }),
                         "mul_1"));
  d.push_back(of_class(in_loops("uninitialised read", transformer, {"aten.sum.dim_IntList"},
                                [](LoopProgram& p) {
                                  Surgery load(p, a_load(p, "exp"));
                                  const loops::Stmt* sum = &load.loop_around();
                                  Surgery s(p, [&](const loops::Stmt& stmt) { return &stmt == sum; });
                                  s.move_up(2);  // behind the loop that stores scores and the maximum
                                  return s.kernel();
                                }),
                       FaultClass::uninitialised));
  d.push_back(out_of_bounds(in_loops("off-by-one bound of the padding", convnet, {"aten.convolution.default"},
                                     replaced(ScalarOp::lt, ScalarOp::le))));
  d.push_back(out_of_bounds(in_loops("missing mask", convnet, {"aten.convolution.default"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "x"));
    s.stmt->mask = loops::no_value;
    return s.kernel();
  })));
  d.push_back(out_of_bounds(in_loops("loop one too long", convnet, {"aten.max_pool2d.default"},
                                     shortened([](LoopProgram& p) { return a_store(p, "pool"); }, -1))));
  d.push_back(in_loops("wrong stride of a window", convnet, {"aten.max_pool2d.default", "aten.relu.default"},
                       [](LoopProgram& p) {
                         Surgery s(p, a_load(p, "convolution"));
                         std::swap(s.stmt->index[2], s.stmt->index[3]);
                         return s.kernel();
                       }));
  d.push_back(in_loops("lost activation", convnet, {"aten.relu.default"}, [](LoopProgram& p) {
    Surgery s(p, an_op(ScalarOp::max));
    s.stmt->args[1] = s.stmt->args[0];
    return s.kernel();
  }));
  d.push_back(in_loops("view with its dimensions swapped", convnet, {"aten.linear.default", "aten.view.default"},
                       [](LoopProgram& p) {
                         Surgery s(p, a_load(p, "pool"));
                         std::swap(s.stmt->index[2], s.stmt->index[3]);
                         return s.kernel();
                       }));
  d.push_back(in_loops("wrong reduction (min for max)", dynamic, {"aten.amax.default"}, [](LoopProgram& p) {
    Surgery s(p, a_reduction(loops::ReduceOp::max));
    s.stmt->loop->reduce = loops::ReduceOp::min;
    return s.kernel();
  }));
  d.push_back(in_loops("scan one short", dynamic, {"aten.cumsum.default"},
                       shortened([](LoopProgram& p) { return a_load(p, "columns"); })));
  d.push_back(in_loops("f32 sum where f64 is asked", narrow, {"aten.sum.dim_IntList"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "d"));
    loops::Stmt& loop = s.loop_around();
    const loops::ValueId sum = loop.results[0];
    const std::string kernel = s.kernel();
    loop.loop->reduce_dtype = DType::f32;
    s.set_type(sum, DType::f32);
    s.insert_cast(s.stmt->results[0], DType::f32);
    s.insert_cast(sum, DType::f64);
    return kernel;
  }));
  d.push_back(in_loops("bytes taken as signed", narrow, {"aten.to.dtype"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "q"));
    const std::string kernel = s.kernel();
    s.insert_cast(s.stmt->results[0], DType::i8);
    return kernel;
  }));
  d.push_back(
      in_loops("wrong comparison (> for >=)", narrow, {"aten.ge.Scalar"}, replaced(ScalarOp::ge, ScalarOp::gt)));
  d.push_back(in_loops("wrong divisor of a mean", narrow, {"aten.mean.dim"}, [](LoopProgram& p) {
    Surgery s(p, [](const loops::Stmt& stmt) { return stmt.kind == loops::StmtKind::index_value; });
    s.stmt->expr = s.stmt->expr - 150;
    return s.kernel();
  }));
  d.push_back(in_loops("wrong offset of an update in place", cache, {"aten.slice_scatter.default"}, [](LoopProgram& p) {
    Surgery s(p, a_store(p, "keys"));
    s.stmt->index[0] = s.stmt->index[0] - 1;
    return s.kernel();
  }));
  d.push_back(in_loops("update in place done twice", cache, {"aten.add.Tensor"}, [](LoopProgram& p) {
    Surgery s(p, a_store(p, "counts"));
    const std::string kernel = s.kernel();
    s.repeat_body();
    return kernel;
  }));
  d.push_back(in_loops("wrong constant in a loop's body", control, {"aten.mul.Tensor"}, [](LoopProgram& p) {
    Surgery s(p, a_constant(0.5));
    s.stmt->constant = Scalar(0.25);
    return s.kernel();
  }));
  d.push_back(
      in_loops("condition of a loop with <= for <", control, {"aten.lt.Tensor"}, replaced(ScalarOp::lt, ScalarOp::le)));
  d.push_back(
      in_loops("wrong operator in a branch", control, {"aten.sin.default", "aten.cos.default"}, [](LoopProgram& p) {
        std::string kernel = replaced(ScalarOp::sin, ScalarOp::tan)(p);
        return kernel;
      }));
  d.push_back(naming(of_class(in_loops("fault of packing a weight", mlp, {},
                                       [](LoopProgram& p) {
                                         Surgery s(p, a_load(p, "w1"));
                                         s.stmt->index[1] = mod(s.stmt->index[1] + 1, 2);
                                         return std::string();
                                       }),
                              FaultClass::stale_constant),
                     "w1_packed"));
  return d;
}

std::vector<Defect> code_defects() {
  std::vector<Defect> d;
  d.push_back(in_code("code: wrong function", mlp, {"aten.tanh.default"}, "sub_tanh",
                      [](std::string& unit) { edit(unit, "= k_tanh\\((v[0-9]+)\\);", "= k_add(k_tanh($1), $1);"); }));
  d.push_back(in_code(
      "code: wrong start of a reduction", dynamic, {"aten.sum.dim_IntList"}, "sub_mul_sum_log1p",
      [](std::string& unit) { edit(unit, "_lanes = k_splat_f32\\(0x0p\\+0f\\);", "_lanes = k_splat_f32(0.25f);"); }));
  d.push_back(in_code("code: product of the wrong rows", mlp, {"aten.linear.default"}, "linear_sigmoid",
                      [](std::string& unit) { edit(unit, "k_madd\\(a_1, b_0,", "k_madd(a_0, b_0,"); }));
  d.push_back(in_code("code: last vector one short", narrow, {}, "to_mean_var", [](std::string& unit) {
    edit(unit, "const int left = \\(int\\)\\((e_i[0-9]+ - i[0-9]+)\\);", "const int left = (int)($1) - 1;");
  }));
  d.push_back(in_code("code: product instead of a difference in a reduction", transformer, {"aten.exp.default"},
                      "bmm_mul_amax",
                      [](std::string& unit) { edit(unit, "= k_exp\\((v[0-9]+)\\);", "= k_mul($1, $1);"); }));
  d.push_back(naming(of_class(in_code("code: write to an input that must stay", cache, {}, "slice_scatter",
                                      [](std::string& unit) {
                                        edit(unit, "k_store_f32_n\\(b1 \\+ [^;]*, (v[0-9]+), left\\);",
                                             "$& k_store_f32_n((f32*)buffers[0], $1, left);");
                                      }),
                              FaultClass::input_written),
                     "row"));
  return d;
}

std::vector<Defect> plan_defects() {
  std::vector<Defect> d;
  d.push_back(in_plan("overlapping lifetimes", transformer, FaultClass::overlap, "q",
                      [](format::Plan& plan) { buffer_named(plan, "k").same_memory_as = number_of(plan, "q"); }));
  d.push_back(in_plan("missing dependency (steps swapped)", transformer, FaultClass::missing_dependency, "div",
                      [](format::Plan& plan) { std::swap(plan.steps[3], plan.steps[4]); }));
  d.push_back(in_plan("buffer too small in the plan", transformer, FaultClass::layout, "q",
                      [](format::Plan& plan) { buffer_named(plan, "q").sizes[1] = buffer_named(plan, "q").sizes[0]; }));
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
  return d;
}

namespace {

struct Outcome {
  BisectResult found;
  std::string kernel;   // that was changed
  std::string checked;  // what the checked run said
  std::string problem;
};

Outcome try_defect(const Defect& defect) {
  Outcome out;
  TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "model.kiln.pt2");
  try {
    const Program program = program_of(defect.model);
    const std::vector<Datum> inputs = inputs_of(program);
    CompileOptions options;
    options.extra_flags = {"-O0"};  // the compiler's time is most of this test's
    out.kernel = defect.kernel;
    if (defect.loops) options.inject.loops = [&](LoopProgram& p) { out.kernel = defect.loops(p); };
    options.inject.plan = defect.plan, options.inject.source = defect.source;
    options.inject.constants = defect.constants;
    compile(program, path, options);
    BisectOptions bisect_options;
    bisect_options.rebuilt_source = defect.source;
    out.found = bisect(path, inputs, bisect_options);
    if (!defect.out_of_bounds) return out;
    PackageOptions checked;
    checked.settings = {"check_bounds=1"}, checked.ignore_environment = true;
    try {
      PackageExecutable(path, checked).call(inputs);
    } catch (const Error& error) {
      out.checked = error.what();
    }
  } catch (const Error& error) {
    out.problem = error.what();
  }
  return out;
}

// The kernel, or buffer and class.
bool right_place(const Defect& defect, const Outcome& out) {
  const bool right = out.found.fault == defect.fault;
  if (*defect.buffer) return right && out.found.buffer == defect.buffer;
  return right && out.found.step.find(out.kernel) != std::string::npos;
}

bool right_operator(const Defect& defect, const Outcome& out) {
  return std::count(defect.ops.begin(), defect.ops.end(), out.found.op) > 0 &&
         (!*defect.value || out.found.value == defect.value);
}

TEST(SeededDefects, AreFound) {
  std::vector<Defect> defects = kernel_defects();
  for (auto more : {code_defects, plan_defects})
    for (Defect& defect : more()) defects.push_back(std::move(defect));
  std::vector<Outcome> outcomes(defects.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < defects.size(); i = next++) outcomes[i] = try_defect(defects[i]);
  };
  std::thread other(work);
  work();
  other.join();
  int placed = 0, with_operator = 0, named = 0;
  std::string table =
      "| defect | model | class | kernel or buffer | operator (by) |\n| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < defects.size(); ++i) {
    const Defect& defect = defects[i];
    const Outcome& out = outcomes[i];
    const bool place = right_place(defect, out), op = right_operator(defect, out);
    placed += place, with_operator += !defect.ops.empty(), named += !defect.ops.empty() && op;
    EXPECT_TRUE(place) << defect.name << " in " << out.kernel << ": " << out.problem << out.found.text;
    if (!defect.ops.empty() && !op) printf("operator of %s not found: %s\n", defect.name, out.found.text.c_str());
    if (defect.out_of_bounds) {
      EXPECT_NE(out.checked.find("K0330"), std::string::npos) << defect.name << ": " << out.checked;
      EXPECT_NE(out.checked.find(out.kernel), std::string::npos) << defect.name << ": " << out.checked;
    }
    table += str("| ", defect.name, " | ", defect.model.name, " | ", fault_class_name(out.found.fault), " | ",
                 *defect.buffer ? out.found.buffer : out.found.step, " | ",
                 defect.ops.empty() ? "–"
                                    : str(out.found.op, out.found.method.empty() ? "" : " (", out.found.method,
                                          out.found.method.empty() ? "" : ")"),
                 place && (defect.ops.empty() || op) ? "" : " **wrong**", " |\n");
  }
  printf("%s%d of %zu placed, %d of %d operators named\n", table.c_str(), placed, defects.size(), named, with_operator);
  EXPECT_GE(defects.size(), 30u);
  EXPECT_GE(with_operator, 30);
  EXPECT_GE(named * 30, with_operator * 27);
}

TEST(SeededDefects, ModelsWithoutOneAreClean) {
  TemporaryDirectory folder;
  for (const Model& model : all_models) {
    const Program program = program_of(model);
    const std::string path = join_path(folder.path(), str(model.name, ".kiln.pt2"));
    CompileOptions options;
    options.extra_flags = {"-O0"};
    compile(program, path, options);
    const BisectResult result = bisect(path, inputs_of(program), {});
    EXPECT_EQ(result.fault, FaultClass::none) << model.name << ": " << result.text;
    EXPECT_GE(result.against_graph + 1, result.steps) << model.name << ": " << result.text;
  }
}

}  // namespace
}  // namespace kiln::seeded
