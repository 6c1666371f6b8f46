// Words of the Graph text that printer and parser share. docs/graph-text.md shows the form.
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
