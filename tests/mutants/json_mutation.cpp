#include "json_mutation.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace kiln::mutants {
namespace {

struct Token {
  size_t begin = 0, end = 0;
  char kind = 0;    // 0 number, " text, w word (true, false, null), { [ container, k key
  std::string key;  // the nearest key around it that is not the name of a kind (as_int, …)
  std::string text(const std::string& all) const { return all.substr(begin, end - begin); }
};

struct Element {
  size_t begin = 0, end = 0;  // of a list or an object, with its key
};

struct Container {
  std::string key;
  char open = '[';
  std::vector<Element> elements;
};

// Splits a JSON text that is known to be good.
class Scanner {
 public:
  explicit Scanner(const std::string& text) : text_(text) { value(""); }
  std::vector<Token> tokens;
  std::vector<Container> containers;

 private:
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n,:").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  size_t string_end() const {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text_.size());
  }
  void value(const std::string& key) {
    skip();
    if (at_ >= text_.size()) return;
    const char c = text_[at_];
    if (c == '{' || c == '[') return container(key, c);
    const size_t begin = at_;
    at_ = c == '"' ? string_end() : std::min(text_.find_first_of(",]} \n\t\r", at_), text_.size());
    const bool number = c == '-' || (c >= '0' && c <= '9');
    tokens.push_back({begin, at_, c == '"' ? '"' : number ? '0' : 'w', key});
  }
  void container(const std::string& key, char open) {
    const size_t mine = containers.size();
    containers.push_back({key, open, {}});
    ++at_;
    for (skip(); at_ < text_.size() && text_[at_] != ']' && text_[at_] != '}'; skip()) {
      const size_t begin = at_;
      std::string below = key;
      if (open == '{') {
        const size_t end = string_end();
        const std::string name = text_.substr(at_ + 1, end - at_ - 2);
        tokens.push_back({at_, end, 'k', key});
        at_ = end;
        if (!starts_with(name, "as_") && name != "value") below = name;
      }
      value(below);
      containers[mine].elements.push_back({begin, at_});
    }
    ++at_;
  }
  const std::string& text_;
  size_t at_ = 0;
};

// What changes nothing that is computed is chosen seldom.
bool of_little_interest(const std::string& key) {
  static const std::set<std::string> keys = {
      "stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn",      "from_node",
      "metadata",    "verifiers",       "torch_version",   "requires_grad", "is_hop_single_tensor_return"};
  return keys.contains(key);
}

template <class T>
const T* choose_by_key(const std::vector<T>& from, Dice& dice, const std::function<bool(const T&)>& fits) {
  std::map<std::string, std::vector<const T*>> groups;
  for (const T& one : from)
    if (fits(one) && (!of_little_interest(one.key) || dice.chance(0.05))) groups[one.key].push_back(&one);
  if (groups.empty()) return nullptr;
  auto group = groups.begin();
  std::advance(group, static_cast<std::ptrdiff_t>(dice.below(groups.size())));
  return dice.pick(group->second);
}

// A number inside a text ("Integer(2)", "s0 + 1", "L['x'].size()[0] <= 8") becomes another.
std::string other_digits(std::string text, Dice& dice) {
  std::vector<std::pair<size_t, size_t>> runs;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    runs.emplace_back(begin, i);
  }
  if (runs.empty()) return text;
  const auto [begin, end] = dice.pick(runs);
  return text.substr(0, begin) + other_number(text.substr(begin, end - begin), dice) + text.substr(end);
}

std::string other_text(const std::string& quoted, const std::vector<std::string>& same_key, Dice& dice) {
  std::string inner = quoted.substr(1, quoted.size() - 2);
  switch (dice.below(8)) {
    case 0:
      return "\"\"";
    case 1:
      if (!inner.empty() && inner.find('\\') == std::string::npos) inner.erase(dice.below(inner.size()), 1);
      return "\"" + inner + "\"";
    case 2:
      return "\"" + inner + static_cast<char>('a' + dice.below(26)) + "\"";
    case 3:
    case 4:
      return "\"" + other_digits(inner, dice) + "\"";
    default:
      return dice.pick(same_key);
  }
}

std::string other_value(const Token& token, const std::string& text, const std::vector<Token>& tokens, Dice& dice) {
  std::vector<std::string> same_key;
  for (const Token& other : tokens)
    if (other.key == token.key && other.kind == token.kind) same_key.push_back(other.text(text));
  if (dice.chance(0.04)) {
    static const std::vector<std::string> kinds = {"null", "true", "-1", "1.5", "\"x\"", "[]", "{}", "[[1]]"};
    return dice.pick(kinds);
  }
  const std::string old = token.text(text);
  if (token.kind == 'k' || token.kind == '"') return other_text(old, same_key, dice);
  if (token.kind == 'w') return old == "true" ? "false" : old == "false" ? "true" : dice.chance(0.5) ? "0" : "[]";
  return dice.chance(0.3) ? dice.pick(same_key) : other_number(old, dice);
}

std::string shorten(const std::string& text) { return text.size() <= 60 ? text : text.substr(0, 57) + "..."; }

std::string mutate_value(const std::string& text, const Scanner& parts, Dice& dice, std::string& what) {
  const bool keys = dice.chance(0.08);
  const Token* token =
      choose_by_key<Token>(parts.tokens, dice, [&](const Token& one) { return (one.kind == 'k') == keys; });
  if (token == nullptr) return text;
  const std::string old = token->text(text), made = other_value(*token, text, parts.tokens, dice);
  what += str(token->key, keys ? " (a key)" : "", ": ", shorten(old), " -> ", shorten(made), "; ");
  return text.substr(0, token->begin) + made + text.substr(token->end);
}

// An element goes, comes twice, changes places with another, or is another list's.
std::string mutate_structure(const std::string& text, const Scanner& parts, Dice& dice, std::string& what) {
  const Container* list =
      choose_by_key<Container>(parts.containers, dice, [](const Container& one) { return !one.elements.empty(); });
  if (list == nullptr) return text;
  const Element& a = dice.pick(list->elements);
  const Element& b = dice.pick(list->elements);
  const std::string first = text.substr(a.begin, a.end - a.begin);
  const size_t kind = list->open == '{' ? dice.below(2) * 2 : dice.below(4);  // two members of one name are no JSON
  if (kind == 0) {
    what += str(list->key, ": without ", shorten(first), "; ");
    const bool last = &a == &list->elements.back();
    size_t begin = a.begin, end = a.end;
    if (!last)
      end = text.find(',', end) + 1;
    else if (list->elements.size() > 1)
      begin = text.rfind(',', begin);
    return text.substr(0, begin) + text.substr(end);
  }
  if (kind == 1) {
    what += str(list->key, ": twice ", shorten(first), "; ");
    return text.substr(0, a.end) + ", " + first + text.substr(a.end);
  }
  if (kind == 2) {
    if (a.begin == b.begin) return mutate_value(text, parts, dice, what);
    const Element &left = a.begin < b.begin ? a : b, &right = a.begin < b.begin ? b : a;
    what += str(list->key, ": ", shorten(first), " and another change places; ");
    return text.substr(0, left.begin) + text.substr(right.begin, right.end - right.begin) +
           text.substr(left.end, right.begin - left.end) + text.substr(left.begin, left.end - left.begin) +
           text.substr(right.end);
  }
  const Container* other = choose_by_key<Container>(parts.containers, dice, [&](const Container& one) {
    return !one.elements.empty() && one.key == list->key && one.open == list->open;
  });
  if (other == nullptr) return text;
  const Element& from = dice.pick(other->elements);
  const std::string made = text.substr(from.begin, from.end - from.begin);
  what += str(list->key, ": ", shorten(first), " -> ", shorten(made), "; ");
  return text.substr(0, a.begin) + made + text.substr(a.end);
}

}  // namespace

std::string other_number(const std::string& number, Dice& dice) {
  static const std::vector<std::string> ends = {"0",
                                                "-1",
                                                "1",
                                                "2",
                                                "3",
                                                "-2",
                                                "7",
                                                "64",
                                                "1000",
                                                "-100000000",
                                                "100000000",
                                                "2147483647",
                                                "2147483648",
                                                "-2147483648",
                                                "4294967296",
                                                "4611686018427387904",
                                                "9223372036854775807",
                                                "-9223372036854775808",
                                                "9223372036854775808",
                                                "0.5",
                                                "1e308",
                                                "-0.0"};
  if (dice.chance(0.5) && number.size() < 18 && number.find_first_not_of("-0123456789") == std::string::npos) {
    const int64_t value = std::strtoll(number.c_str(), nullptr, 10);
    static const std::vector<int64_t> steps = {-1, 1, -2, 2};
    return std::to_string(dice.chance(0.25) ? value * 2 : value + dice.pick(steps));
  }
  return dice.pick(ends);
}

std::string mutate_json(const std::string& text, Dice& dice, std::string& what) {
  const Scanner parts(text);
  return dice.chance(0.2) ? mutate_structure(text, parts, dice, what) : mutate_value(text, parts, dice, what);
}

}  // namespace kiln::mutants
