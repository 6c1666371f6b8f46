// For tests: Loops written by hand as a package that the runtime loads, with the debug section that checked runs need,
// and the same program run by the loop interpreter.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "codegen/backend.h"
#include "executable/package_executable.h"
#include "loops/interpreter.h"
#include "package/plan_builder.h"
#include "package/writer.h"
#include "schedule/schedule.h"
#include "toolchain/compiler.h"

namespace kiln {

// Values that differ from element to element and from seed to seed, exact in every dtype.
inline Tensor filled(DType dtype, std::vector<int64_t> sizes, int seed) {
  Tensor tensor = Tensor::empty(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int64_t v = (i * 7919 + seed * 104729) % 211 - 105;
    tensor.set_item(i, is_float(dtype) ? Scalar(static_cast<double>(v) / 64.0) : Scalar(v));
  }
  return tensor;
}

class LoopsPackage {
 public:
  // `edit`: the generated sources, before they are compiled.
  explicit LoopsPackage(const std::string& text, std::map<std::string, Tensor> constants = {},
                        const std::function<void(std::string&)>& edit = {})
      : program_(loops::parse_loops(text)), constants_(std::move(constants)) {
    loops::verify(program_);
    const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
    code_ = codegen::cpu_backend().generate(program_, target);
    for (std::string& source : code_.sources)
      if (edit) edit(source);
    PackageContents::Variant variant;
    variant.target = target.name;
    variant.code =
        build_shared_object(find_compiler(), {code_.sources, code_.flags, code_.symbols, {}, {}}, KernelCache(""))
            .shared_object;
    BuiltPlan built = build_plan(program_, code_);
    variant.plan = plan_ = std::move(built.plan);
    variant.origins = std::move(built.origins);
    variant.debug["loops.txt"] = loops::print(program_);
    PackageContents contents;
    for (size_t i = 0; i < code_.sources.size(); ++i)
      contents.debug[str("output_code_", target.name, "_", i, ".cpp")] = code_.sources[i];
    contents.debug[str("output_code_", target.name, ".flags")] =
        str("lanes ", target.lanes, "\n", join(code_.flags, "\n"), "\n");
    contents.variants.push_back(std::move(variant));
    contents.constants = constants_;
    path_ = join_path(folder_.path(), "loops.kiln.pt2");
    write_package(path_, std::move(contents));
  }

  const format::Plan& plan() const { return plan_; }
  const std::string& source() const { return code_.sources.at(0); }
  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_.path(); }

  std::vector<Datum> interpreted(const std::vector<Datum>& inputs) const {
    return loops::LoopInterpreter(program_, constants_, {}).run(inputs).outputs;
  }
  std::vector<Datum> run(const std::vector<Datum>& inputs, std::vector<std::string> settings = {}) const {
    PackageOptions options;
    options.settings = std::move(settings);
    options.ignore_environment = true;
    return PackageExecutable(path_, options).call(inputs).outputs;
  }
  // The message of the error; "": there was none.
  std::string refused(const std::vector<Datum>& inputs, std::vector<std::string> settings = {}) const {
    try {
      run(inputs, std::move(settings));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  loops::LoopProgram program_;
  std::map<std::string, Tensor> constants_;
  codegen::GeneratedCode code_;
  format::Plan plan_;
  TemporaryDirectory folder_{"kiln-loops-package"};
  std::string path_;
};

// NaN is near to NaN only.
inline void expect_near(const std::vector<Datum>& have, const std::vector<Datum>& want, double tolerance) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t o = 0; o < want.size(); ++o) {
    ASSERT_EQ(have[o].tensor().sizes, want[o].tensor().sizes);
    for (int64_t i = 0; i < want[o].tensor().numel(); ++i) {
      const double x = have[o].tensor().item(i).as_double(), y = want[o].tensor().item(i).as_double();
      if (std::isnan(x) && std::isnan(y)) continue;
      ASSERT_NEAR(x, y, tolerance) << "output " << o << ", element " << i;
    }
  }
}

// One thread, two and seven come to the same, and so does, within `checked`, a run in which every access is checked to
// be inside of its buffer: what is wanted, within the tolerance.
inline void expect_runs(const LoopsPackage& package, const std::vector<Datum>& inputs, const std::vector<Datum>& want,
                        double tolerance, double checked = 0) {
  const std::vector<Datum> one = package.run(inputs, {"cpp.threads=1"});
  expect_near(one, want, tolerance);
  for (const char* threads : {"cpp.threads=2", "cpp.threads=7"}) {
    SCOPED_TRACE(threads);
    expect_near(package.run(inputs, {threads}), one, 0);
  }
  SCOPED_TRACE("check_bounds");
  expect_near(package.run(inputs, {"check_bounds=1"}), one, checked);
}

// A program with one product in tiles, scheduled for a target: its text, which reads back as itself.
inline std::string scheduled_tiles(loops::LoopProgram program, const codegen::Target& target) {
  loops::Log log;
  loops::find_contractions(program, log);
  loops::use_templates(program, target, log);
  loops::bind_axes(program, target, log);
  loops::widen_sums(program, log);
  loops::order_sums(program, log);
  loops::count_items(program, log);
  loops::verify(program);
  const std::string made = loops::print(program);
  EXPECT_EQ(loops::print(loops::parse_loops(made)), made);
  return made;
}

// What a program is made into once its contractions are known, up to the names of its kernels.
inline void schedule_axes(loops::LoopProgram& program, const codegen::Target& target, loops::Log& log) {
  loops::use_templates(program, target, log);
  loops::collapse_loops(program, target, log);
  loops::bind_axes(program, target, log);
  loops::widen_sums(program, log);
  loops::order_sums(program, log);
  loops::count_items(program, log);
  loops::chain_kernels(program, target, log);
  loops::name_kernels(program, log);
  loops::verify(program);
}

}  // namespace kiln
