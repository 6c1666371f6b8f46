#include "inspect/inspect.h"

#include <cstdio>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/text.h"
#include "command.h"
#include "compile/program_after.h"
#include "console.h"
#include "json_output.h"
#include "pt2/reader.h"
#include "pt2/writer.h"

namespace kiln::cli {
namespace {

int inspect(const ParsedOptions& options) {
  settings_of_reader(options, "inspect");
  const auto written = options.value("--write"), pass = options.value("--after");
  if (options.has("--json") && (written || pass))
    throw UsageError("--json is of what inspect shows, not of --write or --after");
  const JsonOutput json(options);
  Json root = json.document("inspect");
  root.set("file", options.positional[0]);
  const auto deliver = [&](const std::string& text, const Json& facts, size_t last_word) {
    const std::vector<std::string> lines = split(trim(text), '\n');
    if (!json.instead_of_text())
      fputs(is_quiet() ? (lines[last_word < lines.size() ? last_word : lines.size() - 1] + "\n").c_str() : text.c_str(),
            stdout);
    if (!json.wanted()) return;
    json.add(root, facts);
    json.write(root);
  };
  if (options.has("--verify")) {
    const Verified verified = verify_file(options.positional[0]);
    deliver(verified.text, verified.json, std::string::npos);
    return verified.sound ? 0 : 1;
  }
  if (!written && !pass) {
    deliver(inspect_file(options.positional[0]), json.wanted() ? inspect_file_json(options.positional[0]) : Json(), 0);
    return 0;
  }
  if (pass) check_pass_name(*pass);
  if (file_kind_of(options.positional[0]) == FileKind::kiln_package)
    fail_user("K0799", str(options.positional[0], " is a package of Kiln: ", pass ? "--after" : "--write",
                           " is of an exported program, the .pt2 that the package was made from; without the option "
                           "inspect shows the package"));
  Program program = read_pt2(options.positional[0]);
  if (pass) program = program_after(program, *pass);
  if (written) write_pt2(program, *written, program.sample_inputs, read_extra_files(options.positional[0]));
  fputs(written ? (*written + "\n").c_str() : print(program).c_str(), stdout);
  return 0;
}

}  // namespace

Command inspect_command() {
  CommandSpec spec;
  spec.name = "inspect";
  spec.positional = "FILE";
  spec.least = spec.most = 1;
  spec.summary = "shows what is in a model or a package";
  spec.details =
      "Of a model: inputs, outputs, symbols with ranges, guards with reasons, weights, graph. Of a package also the "
      "steps of "
      "a run with the operators and source lines that each kernel comes from.";
  spec.options = {JsonOutput::option(),
                  {"--write", "", "OUT.pt2", "reads the model, writes it again as a .pt2 and prints its path", false,
                   FileUse::written},
                  {"--after", "", "PASS", "the graph as it is after this pass over it (kiln passes lists them)"},
                  {"--verify", "", "",
                   "reads every byte of a model, a package or its .debug file against its checksums; exit code 1 when "
                   "an entry is damaged",
                   false}};
  spec.examples = {"kiln inspect model.pt2", "kiln inspect model.kiln.pt2", "kiln inspect model.pt2 --write copy.pt2",
                   "kiln inspect model.pt2 --after decompose", "kiln inspect model.kiln.pt2 --verify"};
  return {spec, inspect};
}

}  // namespace kiln::cli
