// The test that a package carries: the calls of a case directory as files in the package (docs/package-format.md), and
// what makes them where it was deployed.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "check/check_case_files.h"
#include "executable/package_executable.h"

namespace kiln {

// The files for PackageContents::test, from a case directory for this program: lists flat in the order of its inputs
// and outputs. Throws K0172 for what is no case, K0738 for one that is of another program.
std::map<std::string, std::string> bundle_files(const std::string& directory, const Program& program);

// The test back from a package. `file` gives the contents of one of its files, nothing where there is none. Throws
// K0739 where the package has no test, K0741 where what it has cannot be one.
using TestFile = std::function<std::optional<ByteSpan>(const std::string& name)>;
CaseFiles read_bundle(const std::string& label, const TestFile& file);
// The same from a package in a file.
CaseFiles read_package_bundle(const std::string& path);

struct SelfTest {
  int calls = 0;     // made and compared
  double worst = 0;  // largest error of a value, in units of its tolerance
};
// Throws K0742 where a result is not the expected one; what a call throws is named with the call.
SelfTest self_test(const CaseFiles& files, PackageExecutable& package, std::optional<double> rtol = {},
                   std::optional<double> atol = {});

}  // namespace kiln
