// Defects of the loops: what a wrong pass would have done.
#include "debug/seeded_defects.h"

namespace kiln::seeded {

using loops::LoopProgram;
using loops::ScalarOp;

namespace {

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

std::vector<Defect> mlp_defects() {
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
  return d;
}

std::vector<Defect> transformer_defects() {
  std::vector<Defect> d;
  d.push_back(in_loops("wrong operator (exp2 for exp)", transformer, {"aten.exp.default"},
                       replaced(ScalarOp::exp, ScalarOp::exp2)));
  d.push_back(in_loops("dropped term of a reduction", transformer, {"aten.sum.dim_IntList"},
                       shortened([](LoopProgram& p) { return a_load(p, "exp"); })));
  d.push_back(in_loops("loop one short", transformer, {"aten.div.Tensor"},
                       shortened([](LoopProgram& p) { return a_store(p, "div"); })));
  d.push_back(in_loops("wrong index", transformer, {"aten.bmm.default", "aten.transpose.int"}, [](LoopProgram& p) {
    // Of the joined queries, keys and values: the keys, which are not the first columns.
    Surgery s(p, [of = a_load(p, "q_joined")](const loops::Stmt& stmt) {
      return of(stmt) && !stmt.index.back().is_symbol();
    });
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
  return d;
}

std::vector<Defect> attention_defects() {
  std::vector<Defect> d;
  d.push_back(in_loops("wrong operator (exp2 for exp)", attention, {"aten.exp.default"},
                       replaced(ScalarOp::exp_or_zero, ScalarOp::exp2)));
  d.push_back(in_loops("wrong index", attention, {"aten.bmm.default", "aten.transpose.int"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "y"));
    s.stmt->index[1] = mod(s.stmt->index[1] + 1, 13);
    return s.kernel();
  }));
  return d;
}

std::vector<Defect> convnet_defects() {
  std::vector<Defect> d;
  d.push_back(out_of_bounds(
      in_loops("off-by-one bound of the padding", convnet, {"aten.convolution.default"}, [](LoopProgram& p) {
        // Not the bound of a packed weight's columns: that is a matter of loading.
        std::set<const loops::Stmt*> running;
        loops::for_each_item(p.block, [&](const loops::Item& item) {
          if (const auto* kernel = std::get_if<loops::Kernel>(&item.what))
            loops::for_each_stmt(kernel->body, [&](const loops::Stmt& s) { running.insert(&s); });
        });
        Surgery s(p, [&](const loops::Stmt& stmt) { return running.count(&stmt) && an_op(ScalarOp::lt)(stmt); });
        s.stmt->op = ScalarOp::le;
        return s.kernel();
      })));
  d.push_back(out_of_bounds(in_loops("missing mask", convnet, {"aten.convolution.default"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "x"));
    s.stmt->mask = loops::no_value;
    s.leave_nothing_out();
    return s.kernel();
  })));
  d.push_back(out_of_bounds(in_loops("loop one too long", convnet, {"aten.linear.default", "aten.view.default"},
                                     shortened([](LoopProgram& p) { return a_load(p, "pool"); }, -1))));
  d.push_back(in_loops("wrong stride of a window", convnet, {"aten.max_pool2d.default"}, [](LoopProgram& p) {
    Surgery s(p, a_load(p, "relu"));
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
  return d;
}

std::vector<Defect> number_defects() {
  std::vector<Defect> d;
  d.push_back(in_loops("wrong reduction (min for max)", dynamic, {"aten.amax.default"}, [](LoopProgram& p) {
    Surgery s(p, a_reduction(loops::ReduceOp::max));
    s.stmt->loop->reduce = loops::ReduceOp::min;
    return s.kernel();
  }));
  d.push_back(in_loops("scan one short", dynamic, {"aten.cumsum.default"},
                       shortened([](LoopProgram& p) { return a_load(p, "columns"); })));
  // Loops or code: the loop interpreter's sums are exact, so that it may be the code alone that shows it.
  d.push_back(of_class(in_loops("f32 sum where f64 is asked", narrow, {"aten.sum.dim_IntList"},
                                [](LoopProgram& p) {
                                  Surgery s(p, a_load(p, "d"));
                                  loops::Stmt& loop = s.loop_around();
                                  const loops::ValueId sum = loop.results[0];
                                  const std::string kernel = s.kernel();
                                  loop.loop->reduce_dtype = DType::f32;
                                  s.set_type(sum, DType::f32);
                                  s.insert_cast(s.stmt->results[0], DType::f32);
                                  s.insert_cast(sum, DType::f64);
                                  return kernel;
                                }),
                       FaultClass::none));
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
  return d;
}

std::vector<Defect> state_defects() {
  std::vector<Defect> d;
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
  d.push_back(in_loops("wrong operator in a branch", control, {"aten.sin.default", "aten.cos.default"},
                       replaced(ScalarOp::sin, ScalarOp::tan)));
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

}  // namespace

std::vector<Defect> kernel_defects() {
  std::vector<Defect> all;
  for (auto some :
       {mlp_defects, transformer_defects, attention_defects, convnet_defects, number_defects, state_defects})
    for (Defect& defect : some()) all.push_back(std::move(defect));
  return all;
}

}  // namespace kiln::seeded
