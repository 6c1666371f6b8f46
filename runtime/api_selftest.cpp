// kiln.h: the test that a package carries. The runtime finds it; libkiln_tools.so, which reads files of tensors, makes
// its calls through this runtime's own functions.
#include "base/error.h"
#include "runtime/api_handles.h"
#include "runtime/package_files.h"

using namespace kiln;
using namespace kiln::runtime;

namespace {

struct TestFiles {
  const PackageFiles& files;
  std::string error, code;  // of an entry that is damaged: no exception may pass through the tools' C interface
};

const void* test_file(void* user, const char* name, size_t* size) {
  auto* test = static_cast<TestFiles*>(user);
  try {
    const auto bytes = test->files.entry(str("test/", name));
    if (!bytes) return nullptr;
    *size = bytes->size();
    return bytes->data();
  } catch (const Error& error) {
    test->error = error.message(), test->code = error.code();
    return nullptr;
  }
}

}  // namespace

extern "C" kiln_status kiln_self_test(kiln_model* model, kiln_self_test_summary* out) {
  KILN_NOT_NULL(model);
  if (out) {
    KILN_STRUCT(out);
  }
  return guarded([&] {
    static const kiln_runtime_calls calls = {kiln_last_error,      kiln_last_error_code, kiln_value_clear,
                                             kiln_input_count,     kiln_output_count,    kiln_input_spec,
                                             kiln_instance_create, kiln_instance_free,   kiln_run,
                                             kiln_constant_count,  kiln_constant_spec,   kiln_constant_read};
    const PackageFiles* files = model->model->files();
    if (!files || !files->entry("test/files.json"))
      fail_user("K0739", "the package carries no test: 'kiln compile --bundle' puts one into it");
    std::vector<std::string> looked;
    const kiln_tools_library* tools = Tools::find_library(looked);
    if (!tools)
      fail_user("K0743", str("the self-test needs libkiln_tools.so, which was not found (looked for ",
                             join(looked, ", "), "); `kiln check` has it inside"));
    TestFiles test{*files, "", ""};
    kiln_self_test_summary summary{};
    summary.struct_size = sizeof summary;
    const bool passed = tools->self_test(model, &calls, test_file, &test, files->label().c_str(), &summary) != 0;
    if (!test.code.empty()) throw Error(ErrorKind::user, test.code, test.error);
    if (!passed) throw Error(ErrorKind::user, tools->error_code(), tools->error());
    if (out) give(summary, out);
  });
}
