// The aliases of a graph while functionalize walks it (private to functionalize).
//
// A Base stands for one storage. Its version counts the writes so far. An Alias is a way to see a base: the base
// itself, or one result of a view node over another alias; `now` is the functional value that holds what the alias
// shows at `version`. An alias whose version is behind its base's is out of date and is made again, when it is read,
// by replaying its view on its parent.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace kiln {

struct Alias;

struct Base {
  int version = 0;
  // Its layout is the caller's business: the example's, with several elements in one place, says nothing of what
  // operators that copy or view by strides will do.
  bool layout_open = false;
  Alias* root = nullptr;
};

// One view node and the aliases that its results (or the elements of its list result) are.
struct View {
  const Node* node = nullptr;  // as it was in the graph; a replay copies it
  std::string viewed;          // name of the argument that is viewed
  std::vector<Alias*> results;
  bool certain = true;  // false: it may be a copy, depending on sizes left open
};

struct Alias {
  Base* base = nullptr;
  Alias* parent = nullptr;  // nullptr: the base itself
  View* view = nullptr;
  TensorType type;  // sizes, strides and offset in the base's storage
  Value* now = nullptr;
  int version = 0;
};

class AliasTable {
 public:
  Alias* find(const Value* value) const {
    auto found = aliases_.find(value);
    return found == aliases_.end() ? nullptr : found->second;
  }
  void set(const Value* value, Alias* alias) { aliases_[value] = alias; }
  Alias* add_base(Value* value) {
    bases_.push_back(std::make_unique<Base>());
    Alias* alias = add(value, bases_.back().get());
    bases_.back()->root = alias;
    return alias;
  }
  Alias* add_view(Value* value, Alias* parent, View* view) {
    Alias* alias = add(value, parent->base);
    alias->parent = parent;
    alias->view = view;
    alias->version = parent->base->version;
    view->results.push_back(alias);
    return alias;
  }
  View* new_view() {
    views_.push_back(std::make_unique<View>());
    return views_.back().get();
  }

 private:
  Alias* add(Value* value, Base* base) {
    all_.push_back(std::make_unique<Alias>());
    Alias* alias = all_.back().get();
    alias->base = base;
    alias->type = value->type;
    alias->now = value;
    aliases_[value] = alias;
    return alias;
  }
  std::unordered_map<const Value*, Alias*> aliases_;
  std::vector<std::unique_ptr<Base>> bases_;
  std::vector<std::unique_ptr<View>> views_;
  std::vector<std::unique_ptr<Alias>> all_;
};

}  // namespace kiln
