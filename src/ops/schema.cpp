// PyTorch's schema notation: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
#include <charconv>
#include <limits>

#include "ops/op_record.h"

namespace kiln {

int Schema::find(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}

bool Schema::mutates() const {
  for (const SchemaArg& arg : args)
    if (arg.writes) return true;
  return false;
}

bool Schema::is_view() const {
  for (const SchemaArg& result : returns)
    if (!result.alias.empty() && !result.writes) return true;
  return false;
}

namespace {

class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : text_(text) {}

  Schema read(std::string_view name_space) {
    Schema schema;
    schema.name = read_name(name_space);
    expect('(');
    read_args(schema);
    expect("->");
    read_returns(schema);
    skip_space();
    if (at_ != text_.size()) fail("nothing more");
    return schema;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    fail_user("K0204", str("bad operator schema: expected ", wanted, " at column ", at_ + 1, " of \"", text_, "\""));
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip_space();
    if (!starts_with(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }
  void expect(std::string_view token) {
    if (!take(token)) fail(quote(token));
  }
  void expect(char c) { expect(std::string_view(&c, 1)); }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string_view word() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin) fail("a word");
    return text_.substr(begin, at_ - begin);
  }

  std::string read_name(std::string_view name_space) {
    std::string base(word());
    std::string space(name_space);
    if (take("::")) {
      space = base;
      base = word();
    }
    // Python functions have no overloads: _operator.add, torch.sym_min, higher_order.cond.
    bool python = space == "_operator" || space == "torch" || space == "higher_order" || space == "math" ||
                  starts_with(space, "torch.");
    std::string overload = python ? "" : ".default";
    if (take('.')) overload = str(".", word());
    return str(space, ".", base, overload);
  }

  void read_args(Schema& schema) {
    bool keyword_only = false;
    if (take(')')) return;
    while (true) {
      if (take('*')) {
        keyword_only = true;
      } else {
        SchemaArg arg = read_type();
        arg.keyword_only = keyword_only;
        arg.name = word();
        if (schema.find(arg.name) >= 0) fail("a new argument name");
        if (take('=')) {
          arg.has_default = true;
          arg.default_value = read_default(arg);
        }
        schema.args.push_back(std::move(arg));
      }
      if (take(')')) return;
      expect(',');
    }
  }

  void read_returns(Schema& schema) {
    if (!take('(')) {
      schema.returns.push_back(read_type());
      return;
    }
    if (take(')')) return;
    while (true) {
      SchemaArg result = read_type();
      skip_space();
      if (at_ < text_.size() && is_word(text_[at_])) result.name = word();
      schema.returns.push_back(std::move(result));
      if (take(')')) return;
      expect(',');
    }
  }

  void read_alias(SchemaArg& arg) {
    if (!take('(')) return;
    skip_space();
    arg.alias = word();
    if (take('!')) arg.writes = true;
    while (take('|')) word();
    if (take("->")) {
      if (!take('*')) word();
    }
    expect(')');
  }

  SchemaArg read_type() {
    SchemaArg arg;
    std::string_view name = word();
    read_alias(arg);
    bool inner_optional = take('?');
    length_ = 0;
    bool list = false;
    if (take('[')) {
      list = true;
      if (!take(']')) {
        std::string_view digits = word();
        auto result = std::from_chars(digits.data(), digits.data() + digits.size(), length_);
        if (result.ec != std::errc() || length_ < 0 || length_ > 64) fail("a list length");
        expect(']');
      }
      read_alias(arg);
      arg.optional = take('?');
    } else {
      arg.optional = inner_optional;
    }
    arg.type = type_of(name, list, list && inner_optional);
    return arg;
  }

  SchemaType type_of(std::string_view name, bool list, bool optional_elements) {
    if (name == "Tensor") {
      if (!list) return SchemaType::tensor;
      return optional_elements ? SchemaType::optional_tensor_list : SchemaType::tensor_list;
    }
    if (name == "int" || name == "SymInt") return list ? SchemaType::integer_list : SchemaType::integer;
    if (name == "float" || name == "SymFloat") return list ? SchemaType::float_list : SchemaType::floating;
    if (name == "bool" || name == "SymBool") return list ? SchemaType::bool_list : SchemaType::boolean;
    if (name == "Scalar" || name == "number") return list ? SchemaType::scalar_list : SchemaType::scalar;
    if (list) fail("a type that can be in a list");
    if (name == "str") return SchemaType::string;
    if (name == "ScalarType") return SchemaType::dtype;
    if (name == "Device") return SchemaType::device;
    if (name == "Layout") return SchemaType::layout;
    if (name == "MemoryFormat") return SchemaType::memory_format;
    if (name == "Generator") return SchemaType::generator;
    fail(str("a type that Kiln knows, not ", name));
  }

  std::string_view literal() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    if (at_ == begin) fail("a default value");
    return text_.substr(begin, at_ - begin);
  }

  Argument read_default(const SchemaArg& arg) {
    int64_t length = length_;
    if (take('[')) {
      Argument::List list;
      if (take(']')) return Argument(std::move(list));
      do list.push_back(read_scalar(arg.type));
      while (take(','));
      expect(']');
      return Argument(std::move(list));
    }
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return read_string();
    Argument one = read_scalar(arg.type);
    bool is_list =
        arg.type == SchemaType::integer_list || arg.type == SchemaType::float_list || arg.type == SchemaType::bool_list;
    if (!is_list || one.is_none()) return one;
    // "int[2] stride=1" means [1, 1].
    return Argument(Argument::List(static_cast<size_t>(length > 0 ? length : 1), one));
  }

  Argument read_string() {
    char mark = text_[at_++];
    size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) fail("a closing quote");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return Argument(std::move(value));
  }

  Argument read_scalar(SchemaType type) {
    std::string_view text = literal();
    if (text == "None") return {};
    if (text == "True") return Argument(Scalar(true));
    if (text == "False") return Argument(Scalar(false));
    if (text == "Mean") return Argument(Scalar(int64_t{1}));  // at::Reduction
    if (text == "Sum") return Argument(Scalar(int64_t{2}));
    if (text == "contiguous_format") return Argument(MemoryFormat::contiguous);
    if (text == "preserve_format") return Argument(MemoryFormat::preserve);
    if (type == SchemaType::dtype) {
      if (text == "long") return Argument(DType::i64);
      if (auto dtype = dtype_from_name(text)) return Argument(*dtype);
      if (text == "float") return Argument(DType::f32);
      fail("a dtype");
    }
    bool real = type == SchemaType::floating || type == SchemaType::float_list;
    if (text == "inf") return Argument(Scalar(std::numeric_limits<double>::infinity()));
    if (text == "-inf") return Argument(Scalar(-std::numeric_limits<double>::infinity()));
    int64_t integer = 0;
    const char* end = text.data() + text.size();
    auto whole = std::from_chars(text.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) {
      return real ? Argument(Scalar(static_cast<double>(integer))) : Argument(Scalar(integer));
    }
    double value = 0;
    auto fraction = std::from_chars(text.data(), end, value);
    if (fraction.ec == std::errc() && fraction.ptr == end) return Argument(Scalar(value));
    fail("a number, None, True or False");
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t length_ = 0;  // of the list type read last
};

}  // namespace

Schema parse_schema(std::string_view text, std::string_view name_space) { return SchemaReader(text).read(name_space); }

}  // namespace kiln
