// Text tests of passes: a graph in, expected lines out (for the tests in this folder).
#pragma once
#include <gtest/gtest.h>

#include "graph_passes/pass.h"
#include "ops/op_record.h"

namespace kiln {

// The program whose header and graph body are given, operators resolved and verified.
inline Program program_of(const std::string& body, const std::string& header = "",
                          const std::map<std::string, Tensor>& constants = {},
                          const std::vector<std::string>& custom = {}) {
  Program program = parse_program("program \"test\"\n" + header + "graph main {\n" + body + "}\n", constants);
  for (const auto& [name, tensor] : constants) program.constants[name] = tensor;
  resolve_operators(program.graph, custom);
  verify(program);
  return program;
}

using GraphPass = bool (*)(Program&, PassContext&);
// The pass finds something to do, and leaves a program that is right; then `cleanup`, where there is one.
inline void expect_changes(GraphPass pass, Program& program, GraphPass cleanup = nullptr) {
  PassContext context;
  EXPECT_TRUE(pass(program, context));
  if (cleanup) cleanup(program, context);
  verify(program);
}

// The lines between "graph main {" and "}".
inline std::string body_of(const Program& program) {
  std::string text = print(program.graph);
  size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.rfind('}') - begin);
}

// The body with the signature's words.
inline std::string signed_body_of(const Program& program) {
  std::string text = print(program);
  size_t begin = text.find("graph main {\n") + 13;
  return text.substr(begin, text.find("\n}\n", begin) + 1 - begin);
}

}  // namespace kiln
