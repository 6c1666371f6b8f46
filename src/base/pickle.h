// Python pickles, protocols 2 to 5, without Python: nothing in a pickle is ever executed.
//
// The reader builds a tree of plain values. A class or function is only a name (`global`), and calling one
// (REDUCE, NEWOBJ, BUILD) only a record of what the pickle asked for (`call`); the code that uses the tree has its own
// closed list of the names it understands.
//
// What is refused (K0130): truncated input, cycles, nesting deeper than 256, shared values whose expansion would be far
// larger than the file ("memo bombs"), opcodes outside the list. The tree is therefore safe to walk recursively.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kiln {

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    big_integer,
    real,
    string,
    bytes,
    tuple,
    list,
    dict,
    set,
    global,
    call,
    persistent_id,
  };
  Kind kind = Kind::none;
  int64_t integer = 0;  // boolean, integer
  double real = 0;
  // string, bytes: the contents; big_integer: decimal or 0x… digits; global: "module.name"
  std::string text;
  // tuple, list, set: the items; dict: key, value, key, value, …; persistent_id: the id alone; call: what was appended
  // to the result or set in it afterwards
  std::vector<const PickleValue*> items;
  const PickleValue* callable = nullptr;  // call
  const PickleValue* args = nullptr;      // call: a tuple
  const PickleValue* state = nullptr;     // call: what BUILD gave; nullptr: nothing

  bool is(Kind k) const { return kind == k; }
  bool is_call_of(std::string_view name) const { return kind == Kind::call && callable->text == name; }
  const PickleValue* find(std::string_view key) const;  // of a dict (or a called OrderedDict) with string keys
};
const char* pickle_kind_name(PickleValue::Kind kind);

// Owns all values of one pickle.
class PickleTree {
 public:
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

PickleTree parse_pickle(ByteSpan bytes, std::string_view label);

// Writes protocol 2, the one torch.save uses. Calls mirror the opcodes: operands first, then what joins them.
class PickleWriter {
 public:
  PickleWriter();
  void none() { op('N'); }
  void boolean(bool v) { op(v ? '\x88' : '\x89'); }
  void integer(int64_t v);
  void real(double v);
  void string(std::string_view v);
  void global(std::string_view module, std::string_view name);
  void mark() { op('('); }
  void tuple() { op('t'); }  // since the mark
  void empty_tuple() { op(')'); }
  void empty_list() { op(']'); }
  void appends() { op('e'); }  // since the mark, to the list below it
  void empty_dict() { op('}'); }
  void set_items() { op('u'); }  // since the mark
  void reduce() { op('R'); }     // callable, tuple
  void persistent_id() { op('Q'); }
  std::string finish();

 private:
  void op(char code) { out_ += code; }
  std::string out_;
};

}  // namespace kiln
