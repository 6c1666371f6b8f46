#include "base/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/error.h"

namespace kiln {

using Kind = PickleValue::Kind;

const char* pickle_kind_name(Kind kind) {
  static constexpr const char* names[] = {"None",      "bool",           "int",  "int",  "float", "str",
                                          "bytes",     "tuple",          "list", "dict", "set",   "a class or function",
                                          "an object", "a persistent id"};
  return names[static_cast<size_t>(kind)];
}

const PickleValue* PickleValue::find(std::string_view key) const {
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->kind == Kind::string && items[i]->text == key) return items[i + 1];
  return nullptr;
}

class PickleReader {
 public:
  PickleReader(ByteSpan bytes, std::string_view label) : bytes_(as_text(bytes)), label_(label) {}

  PickleTree read() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("it ends with values left over");
    tree_.root_ = stack_.back();
    check_shape();
    return std::move(tree_);
  }

 private:
  static constexpr int deepest = 256;
  static constexpr size_t most_values = 16 << 20;  // about 2 GB; real files have thousands

  [[noreturn]] void fail(const std::string& what) const {
    fail_user("K0130", str(label_, " is not a pickle that Kiln reads: ", what, " (byte ", at_, ")"));
  }

  // ---- input
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("it is cut short");
    std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("it is cut short");
    std::string_view out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  // ---- stack
  PickleValue& push(Kind kind) {
    if (tree_.values_.size() >= most_values) fail(str("it has more than ", most_values, " values"));
    PickleValue& value = tree_.values_.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }
  void push_text(Kind kind, std::string_view text) { push(kind).text = text; }
  void push_integer(int64_t v) { push(Kind::integer).integer = v; }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* pop() {
    if (stack_.size() <= floor()) fail("its stack runs empty");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    if (stack_.size() <= floor()) fail("its stack runs empty");
    return *stack_.back();
  }
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) fail("a mark is missing");
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_items(Kind kind, std::vector<const PickleValue*> items) { push(kind).items = std::move(items); }
  void push_last(Kind kind, size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_items(kind, std::move(items));
  }

  // ---- opcodes
  bool step() {
    const char code = take(1)[0];
    if (code == '.') return false;
    if (!scalar(code) && !container(code) && !object(code) && !memo(code)) {
      const std::string hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(code);
      fail(str("opcode 0x", hex[byte >> 4], hex[byte & 15], " is not read"));
    }
    return true;
  }

  bool scalar(char code) {
    switch (code) {
      case '\x80': {
        const int protocol = number<uint8_t>();
        if (protocol > 5) fail(str("protocol ", protocol, " is not known"));
        return true;
      }
      case '\x95':
        number<uint64_t>();
        return true;  // frame: a hint for readers of streams
      case 'N':
        push(Kind::none);
        return true;
      case '\x88':
        push(Kind::boolean).integer = 1;
        return true;
      case '\x89':
        push(Kind::boolean);
        return true;
      case 'K':
        push_integer(number<uint8_t>());
        return true;
      case 'M':
        push_integer(number<uint16_t>());
        return true;
      case 'J':
        push_integer(number<int32_t>());
        return true;
      case '\x8a':
        push_long(number<uint8_t>());
        return true;
      case '\x8b':
        push_long(number<uint32_t>());
        return true;
      case 'G': {
        uint64_t bits = 0;
        for (char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
        push(Kind::real).real = std::bit_cast<double>(bits);
        return true;
      }
      case 'I':
        push_decimal(line());
        return true;
      case 'X':
        push_text(Kind::string, take(number<uint32_t>()));
        return true;
      case '\x8c':
        push_text(Kind::string, take(number<uint8_t>()));
        return true;
      case '\x8d':
        push_text(Kind::string, take(number<uint64_t>()));
        return true;
      case 'U':
        push_text(Kind::string, take(number<uint8_t>()));
        return true;
      case 'T':
        push_text(Kind::string, take(number<uint32_t>()));
        return true;
      case 'C':
        push_text(Kind::bytes, take(number<uint8_t>()));
        return true;
      case 'B':
        push_text(Kind::bytes, take(number<uint32_t>()));
        return true;
      case '\x8e':
      case '\x96':
        push_text(Kind::bytes, take(number<uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  void push_decimal(std::string_view word) {
    if (word == "00" || word == "01") {
      push(Kind::boolean).integer = word == "01";
      return;
    }
    int64_t value = 0;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec != std::errc() || result.ptr != word.data() + word.size()) fail("a number is damaged");
    push_integer(value);
  }

  // Two's complement, little-endian, as few bytes as it takes.
  void push_long(uint64_t count) {
    const std::string_view raw = take(count);
    if (count <= 8) {
      uint64_t bits = count != 0 && (raw.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
      for (size_t i = count; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(raw[i]);
      return push_integer(static_cast<int64_t>(bits));
    }
    if (count > 1024) fail("an integer of more than 1024 bytes");
    std::string hex;
    const bool negative = (raw.back() & 0x80) != 0;
    unsigned carry = 1;
    std::string magnitude(raw);
    if (negative) {
      for (char& c : magnitude) {
        const unsigned inverted = (static_cast<unsigned char>(c) ^ 0xffu) + carry;
        carry = inverted >> 8;
        c = static_cast<char>(inverted & 0xff);
      }
    }
    for (size_t i = magnitude.size(); i-- > 0;)
      for (int shift : {4, 0}) hex += "0123456789abcdef"[(static_cast<unsigned char>(magnitude[i]) >> shift) & 15];
    hex.erase(0, std::min(hex.find_first_not_of('0'), hex.size() - 1));
    push_text(Kind::big_integer, str(negative ? "-0x" : "0x", hex));
  }

  bool container(char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        drop();
        return true;
      case '1':
        pop_mark();
        return true;
      case '2':
        stack_.push_back(&top());
        return true;
      case ')':
        push(Kind::tuple);
        return true;
      case 't':
        push_items(Kind::tuple, pop_mark());
        return true;
      case '\x85':
        push_last(Kind::tuple, 1);
        return true;
      case '\x86':
        push_last(Kind::tuple, 2);
        return true;
      case '\x87':
        push_last(Kind::tuple, 3);
        return true;
      case ']':
        push(Kind::list);
        return true;
      case 'l':
        push_items(Kind::list, pop_mark());
        return true;
      case '}':
        push(Kind::dict);
        return true;
      case 'd': {
        push_items(Kind::dict, pop_mark());
        if (top().items.size() % 2 != 0) fail("a dict with a key without value");
        return true;
      }
      case '\x8f':
        push(Kind::set);
        return true;
      case '\x91':
        push_items(Kind::set, pop_mark());
        return true;
      case 'a':
        extend({pop()}, Kind::list);
        return true;
      case 'e':
        extend(pop_mark(), Kind::list);
        return true;
      case '\x90':
        extend(pop_mark(), Kind::set);
        return true;
      case 's': {
        const PickleValue* value = pop();
        extend({pop(), value}, Kind::dict);
        return true;
      }
      case 'u':
        extend(pop_mark(), Kind::dict);
        return true;
      default:
        return false;
    }
  }

  // POP also takes away a mark that lies on top.
  void drop() {
    if (!marks_.empty() && marks_.back() == stack_.size())
      marks_.pop_back();
    else
      pop();
  }

  void extend(const std::vector<const PickleValue*>& items, Kind wanted) {
    PickleValue& target = top();
    if (target.kind != wanted && target.kind != Kind::call)
      fail(str("items are added to ", pickle_kind_name(target.kind)));
    if (wanted == Kind::dict && items.size() % 2 != 0) fail("a dict with a key without value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  bool object(char code) {
    switch (code) {
      case 'c': {
        const std::string_view module = line(), name = line();
        push_text(Kind::global, str(module, ".", name));
        return true;
      }
      case '\x93': {
        const PickleValue *name = pop(), *module = pop();
        if (!name->is(Kind::string) || !module->is(Kind::string)) fail("a global whose name is no string");
        push_text(Kind::global, str(module->text, ".", name->text));
        return true;
      }
      case 'R':
      case '\x81': {
        const PickleValue *args = pop(), *callable = pop();
        call(callable, args);
        return true;
      }
      case '\x92': {
        const PickleValue *keywords = pop(), *args = pop(), *callable = pop();
        if (!keywords->is(Kind::dict) || !keywords->items.empty()) fail("a call with keyword arguments");
        call(callable, args);
        return true;
      }
      case 'b': {
        const PickleValue* state = pop();
        if (!top().is(Kind::call) || top().state != nullptr) fail("a state for what is no object");
        top().state = state;
        return true;
      }
      case 'Q': {
        const PickleValue* id = pop();
        push(Kind::persistent_id).items = {id};
        return true;
      }
      default:
        return false;
    }
  }

  void call(const PickleValue* callable, const PickleValue* args) {
    if (!callable->is(Kind::global)) fail("a call of what is no global name");
    if (!args->is(Kind::tuple)) fail("a call without a tuple of arguments");
    PickleValue& value = push(Kind::call);
    value.callable = callable;
    value.args = args;
  }

  bool memo(char code) {
    switch (code) {
      case 'q':
        memo_[number<uint8_t>()] = &top();
        return true;
      case 'r':
        memo_[number<uint32_t>()] = &top();
        return true;
      case '\x94':
        memo_[memo_.size()] = &top();
        return true;
      case 'h':
        recall(number<uint8_t>());
        return true;
      case 'j':
        recall(number<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(str("it recalls memo ", index, ", which it never stored"));
    stack_.push_back(found->second);
  }

  // ---- the finished tree
  // Values may be shared, so the tree is a graph: find cycles, the depth, and the size it has when walked as a tree.
  struct Shape {
    bool done = false;
    int depth = 0;
    uint64_t size = 0;
  };
  void check_shape() {
    std::unordered_map<const PickleValue*, Shape> shapes;
    const Shape shape = measure(tree_.root_, 0, shapes);
    const uint64_t largest = 100000 + 64 * static_cast<uint64_t>(bytes_.size());
    if (shape.size > largest) fail("its shared values expand to far more than the file holds");
  }

  Shape measure(const PickleValue* value, int level, std::unordered_map<const PickleValue*, Shape>& shapes) {
    if (level > deepest) fail(str("it is nested deeper than ", deepest, " levels"));
    const auto [found, fresh] = shapes.try_emplace(value);
    if (!fresh) {
      if (!found->second.done) fail("a value contains itself");
      if (level + found->second.depth > deepest) fail(str("it is nested deeper than ", deepest, " levels"));
      return found->second;
    }
    Shape shape{true, 1, 1};
    auto add = [&](const PickleValue* child) {
      if (child == nullptr) return;
      const Shape inner = measure(child, level + 1, shapes);
      shape.depth = std::max(shape.depth, inner.depth + 1);
      if (__builtin_add_overflow(shape.size, inner.size, &shape.size)) shape.size = uint64_t{1} << 62;
      shape.size = std::min(shape.size, uint64_t{1} << 62);
    };
    for (const PickleValue* item : value->items) add(item);
    add(value->callable), add(value->args), add(value->state);
    shapes[value] = shape;
    return shape;
  }

  std::string_view bytes_, label_;
  uint64_t at_ = 0;
  PickleTree tree_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleValue*> memo_;
};

PickleTree parse_pickle(ByteSpan bytes, std::string_view label) { return PickleReader(bytes, label).read(); }

}  // namespace kiln
