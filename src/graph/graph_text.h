// The Graph text, and the words of it that printer and parser share.
//
//   program "model"
//   symbol s0 [2, 1024] hint 10                      u0 [0, oo] unbacked: known only while running
//   guard {s0 <= 512} because "the reason"
//   constant "lin.weight": f32[16, 10] hash 0123456789abcdef
//   graph main {
//     input %w: f32[16, 10] = parameter "lin.weight"
//     input %x: f32[s0, 10] = user
//     %t: f32[10, 16] strides [1, 10] = aten.t.default(self=%w) @0  # model.py:7 in forward: x @ w.T
//     %n: int {s0*2} = _operator.mul(a=%m, b=2)
//     %v: f32[s0, 2], %i: i64[s0, 2] = aten.topk.default(self=%x, k=2) named topk
//     %l: list(%l_0: f32[s0, 8], %l_1: f32[s0, 8]) = aten.split.Tensor(self=%y, split_size=8, dim=1)
//     aten._assert_scalar.default(self=%p, assert_msg="…") named assert_1
//     %r: f32[2] = higher_order.cond(%p, graph true_0 {
//       input %a: f32[2]
//       output %a
//     }, graph false_0 { … }, [%x])
//     output %t = buffer_mutation "lin.weight"
//     output %v = user
//   }
//   line 0 "model.py":7 in "forward": "x @ w.T"
//   origin 0 node "t" op "aten.t.default" module "lin" stack 0
//
// Types leave out strides that are row-major, offset 0 and the CPU. A node is named after its first result unless it
// says `named`. @0 refers to the origins at the end; what follows # is for people. Expressions stand in braces, names
// that are not words in quotes. A symbolic number that no node defines is declared by `value %n: int {u0}`.
#pragma once
#include "graph/graph.h"

namespace kiln::graph_text {

struct InputWord {
  InputKind kind;
  const char* word;
};
inline constexpr InputWord input_words[] = {
    {InputKind::user, "user"},
    {InputKind::parameter, "parameter"},
    {InputKind::buffer, "buffer"},
    {InputKind::constant_tensor, "constant_tensor"},
    {InputKind::constant_value, "constant_value"},
    {InputKind::token, "token"},
    {InputKind::custom_object, "custom_object"},
};

struct OutputWord {
  OutputKind kind;
  const char* word;
};
inline constexpr OutputWord output_words[] = {
    {OutputKind::user, "user"},
    {OutputKind::buffer_mutation, "buffer_mutation"},
    {OutputKind::user_input_mutation, "user_input_mutation"},
    {OutputKind::loss, "loss"},
    {OutputKind::token, "token"},
};

inline bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
// A name that stands in the text as it is; others are quoted. Targets may have dots.
inline bool is_plain_name(std::string_view name, bool dots) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name)
    if (!is_word_char(c) && !(dots && c == '.')) return false;
  return true;
}

// Identifies a constant's values: FNV-1a over its dtype, sizes and bytes. Of a large one only blocks spread evenly over
// it are read, so that printing a program does not read gigabytes.
uint64_t constant_hash(const Tensor& tensor);

}  // namespace kiln::graph_text
