#include "custom/custom_operators.h"

#include <dlfcn.h>

#include <cstring>
#include <deque>

#include "base/file.h"
#include "custom/dlpack.h"
#include "kiln/custom_op.h"

namespace kiln {
namespace {

// "mylib::foo" -> "mylib.foo.default", "mylib::foo.out" -> "mylib.foo.out"
std::string target_of(const std::string& name) {
  const std::string dotted = replace_all(name, "::", ".");
  const size_t after_space = name.find("::");
  const bool overload = after_space != std::string::npos && name.find('.', after_space) != std::string::npos;
  return overload ? dotted : dotted + ".default";
}

// One argument in the form the C functions ask for.
struct CallArgument {
  std::string name;
  int32_t kind = KILN_ARG_NONE;
  std::vector<const DLTensor*> tensors;  // nullptr: None
  std::vector<int64_t> integers;
  double floating = 0;
  std::string text;
};

// The state of one call; the C interface sees its first member.
struct CallState : kiln_op_call {
  std::deque<CallArgument> args;
  std::deque<DLPackView> views;  // of arguments
  std::vector<const TensorType*> output_types;
  std::vector<std::unique_ptr<DLPackView>> outputs;
  std::string failure;

  static CallState& of(kiln_op_call* call) { return *static_cast<CallState*>(call); }
  static const CallState& of(const kiln_op_call* call) { return *static_cast<const CallState*>(call); }
  const CallArgument* arg(int32_t index) const {
    return index >= 0 && static_cast<size_t>(index) < args.size() ? &args[static_cast<size_t>(index)] : nullptr;
  }
};

template <class T>
T element(const std::vector<T>& items, int64_t index, T otherwise) {
  return index >= 0 && static_cast<size_t>(index) < items.size() ? items[static_cast<size_t>(index)] : otherwise;
}

// The declared strides where they are numbers and the sizes are as declared; otherwise row-major.
std::vector<int64_t> strides_for(const TensorType& type, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!type.sizes[dim].is_constant(sizes[dim]) || !type.strides[dim].is_constant()) return contiguous_strides(sizes);
    strides.push_back(type.strides[dim].value());
  }
  return strides;
}

DLTensor* make_output(kiln_op_call* call, int32_t output, int32_t rank, const int64_t* given_sizes) {
  CallState& state = CallState::of(call);
  if (output < 0 || static_cast<size_t>(output) >= state.outputs.size()) {
    state.failure = str("it asks for output ", output, " of ", state.outputs.size());
    return nullptr;
  }
  if (rank < 0 || (rank > 0 && !given_sizes)) {
    state.failure = str("it gives no sizes for output ", output);
    return nullptr;
  }
  const TensorType& type = *state.output_types[static_cast<size_t>(output)];
  const std::vector<int64_t> sizes(given_sizes, given_sizes + rank);
  bool fits = sizes.size() == type.sizes.size();
  for (size_t dim = 0; fits && dim < sizes.size(); ++dim)
    fits = sizes[dim] >= 0 && (!type.sizes[dim].is_constant() || type.sizes[dim].value() == sizes[dim]);
  if (!fits) {
    state.failure = str("output ", output, " has sizes [", join_map(sizes, ", ", [](int64_t n) { return str(n); }),
                        "], the program expects [", shape_text(type.sizes), "]");
    return nullptr;
  }
  auto& slot = state.outputs[static_cast<size_t>(output)];
  slot = std::make_unique<DLPackView>(Tensor::empty_strided(type.dtype, sizes, strides_for(type, sizes)));
  return slot->get();
}

constexpr kiln_op_functions functions = {
    sizeof(kiln_op_functions),
    KILN_CUSTOM_OP_CALL_VERSION,
    [](const kiln_op_call* call) { return static_cast<int32_t>(CallState::of(call).args.size()); },
    [](const kiln_op_call* call, int32_t arg) {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a ? a->name.c_str() : "";
    },
    [](const kiln_op_call* call, int32_t arg) {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a ? a->kind : int32_t{KILN_ARG_NONE};
    },
    [](const kiln_op_call* call, int32_t arg) {
      const CallArgument* a = CallState::of(call).arg(arg);
      if (a && a->kind == KILN_ARG_TENSORS) return static_cast<int64_t>(a->tensors.size());
      if (a && a->kind == KILN_ARG_INTS) return static_cast<int64_t>(a->integers.size());
      return int64_t{1};
    },
    [](const kiln_op_call* call, int32_t arg, int64_t index) {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a ? element<const DLTensor*>(a->tensors, index, nullptr) : nullptr;
    },
    [](const kiln_op_call* call, int32_t arg, int64_t index) {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a ? element<int64_t>(a->integers, index, 0) : 0;
    },
    [](const kiln_op_call* call, int32_t arg) {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a ? a->floating : 0.0;
    },
    [](const kiln_op_call* call, int32_t arg) -> const char* {
      const CallArgument* a = CallState::of(call).arg(arg);
      return a && a->kind == KILN_ARG_STRING ? a->text.c_str() : nullptr;
    },
    [](const kiln_op_call* call) { return static_cast<int32_t>(CallState::of(call).outputs.size()); },
    make_output,
    [](kiln_op_call* call, const char* message) { CallState::of(call).failure = message ? message : ""; },
};

const DLTensor* add_view(CallState& state, const Datum& datum) {
  if (!datum.is_tensor()) return nullptr;
  state.views.emplace_back(datum.tensor());
  return state.views.back().get();
}

void add_list(CallState& state, CallArgument& arg, const std::vector<Datum>& items) {
  const bool numbers =
      !items.empty() && std::all_of(items.begin(), items.end(), [](const Datum& d) { return d.is_scalar(); });
  arg.kind = numbers ? KILN_ARG_INTS : KILN_ARG_TENSORS;
  for (const Datum& item : items) {
    if (numbers)
      arg.integers.push_back(item.scalar().as_int());
    else
      arg.tensors.push_back(add_view(state, item));
  }
}

void add_argument(CallState& state, const std::string& name, const Datum& datum) {
  CallArgument& arg = state.args.emplace_back();
  arg.name = name;
  if (datum.is_tensor()) {
    arg.kind = KILN_ARG_TENSOR;
    arg.tensors.push_back(add_view(state, datum));
  } else if (datum.is_list()) {
    add_list(state, arg, datum.list());
  } else if (datum.is_scalar()) {
    const Scalar& number = datum.scalar();
    arg.kind = number.is_bool() ? KILN_ARG_BOOL : number.is_int() ? KILN_ARG_INT : KILN_ARG_FLOAT;
    arg.floating = number.as_double();
    if (!number.is_float()) arg.integers.push_back(number.as_int());
  } else if (!datum.is_none()) {
    arg.kind = KILN_ARG_STRING;
    arg.text = std::get<std::string>(datum.value);
  }
}

}  // namespace

namespace {

std::optional<Schema> declared_schema(const std::string& path, const kiln_custom_op& op) {
  if (!op.schema) return std::nullopt;
  const std::string name = op.name;
  const std::string space = name.substr(0, std::min(name.find("::"), name.size()));
  Schema schema;
  try {
    schema = parse_schema(op.schema, space);
  } catch (const Error& error) {
    fail_user("K0670", str(path, ": the schema of ", name, ": ", error.message()));
  }
  if (schema.name != target_of(name))
    fail_user("K0670", str(path, ": the schema of ", name, " is that of ", schema.name));
  return schema;
}

Tensor dense_copy(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.dtype, tensor.sizes);
  copy_into(tensor, copy);
  return copy;
}

void flatten_tensors(const Datum& datum, std::vector<Tensor>& out) {
  if (datum.is_tensor() && datum.tensor().defined()) out.push_back(datum.tensor());
  if (datum.is_list())
    for (const Datum& item : datum.list()) flatten_tensors(item, out);
}

// Notices writes that nobody declared: compiled code would keep them or lose them as memory happens to be shared.
class WriteGuard {
 public:
  WriteGuard(const CustomOperators::Args& args, const std::vector<std::string>& writes) {
    std::vector<Tensor> written;
    auto is_written = [&](const std::string& name) {
      return std::find(writes.begin(), writes.end(), name) != writes.end();
    };
    for (const auto& [name, datum] : args)
      if (is_written(name)) flatten_tensors(datum, written);
    for (const auto& [name, datum] : args) {
      if (is_written(name)) continue;
      std::vector<Tensor> tensors;
      flatten_tensors(datum, tensors);
      for (const Tensor& tensor : tensors) {
        const bool shared = std::any_of(written.begin(), written.end(), [&](const Tensor& other) {
          return other.storage->data == tensor.storage->data;
        });
        if (!shared) kept_.push_back({name, tensor, dense_copy(tensor)});
      }
    }
  }
  // The argument that is not as it was; empty: none.
  std::string changed() const {
    for (const Kept& kept : kept_) {
      const Tensor now = dense_copy(kept.tensor);
      const size_t bytes = static_cast<size_t>(now.numel()) * static_cast<size_t>(dtype_bytes(now.dtype));
      if (bytes > 0 && std::memcmp(now.storage->data, kept.before.storage->data, bytes) != 0) return kept.name;
    }
    return {};
  }

 private:
  struct Kept {
    std::string name;
    Tensor tensor, before;
  };
  std::vector<Kept> kept_;
};

}  // namespace

struct CustomOperators::Library {
  explicit Library(const std::string& path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle) {
      const std::string why = dlerror(), named = path + ": ";  // the loader names the file too
      fail_user("K0670", str(path, ": cannot be loaded as a library of custom operators: ",
                             starts_with(why, named) ? why.substr(named.size()) : why));
    }
    const auto get_table = reinterpret_cast<kiln_custom_ops_fn>(dlsym(handle, "kiln_custom_ops"));
    if (!get_table) fail_user("K0670", str(path, ": exports no function kiln_custom_ops (include/kiln/custom_op.h)"));
    table = get_table();
    if (!kiln_custom_op_table_known(table))
      fail_user("K0670", str(path, ": is built for version ", table ? table->abi_version : 0,
                             " of the custom operator interface; this Kiln has ", KILN_CUSTOM_OP_ABI_VERSION));
  }
  ~Library() {
    if (handle) dlclose(handle);
  }
  Library(const Library&) = delete;
  void* handle;
  const kiln_custom_op_table* table = nullptr;
};

CustomOperators::CustomOperators(const std::vector<std::string>& library_paths) {
  for (const std::string& path : library_paths) {
    if (is_stream(path))
      fail_user("K0670", str(path, ": cannot be loaded as a library of custom operators: not a regular file"));
    // dlopen searches for a name without a slash; a path on the command line is a path.
    libraries_.push_back(std::make_unique<Library>(path.find('/') == std::string::npos ? "./" + path : path));
    const kiln_custom_op_table& table = *libraries_.back()->table;
    for (uint32_t i = 0; i < table.count; ++i) {
      const kiln_custom_op op = kiln_custom_op_at(&table, i);
      if (!op.name || !op.run) fail_user("K0670", str(path, ": entry ", i, " of its table has no name or no function"));
      operators_[target_of(op.name)] = {op.run, declared_schema(path, op)};
    }
  }
}
CustomOperators::~CustomOperators() = default;

bool CustomOperators::has(const std::string& target) const { return operators_.count(target) > 0; }

std::vector<CustomOp> CustomOperators::declared() const {
  std::vector<CustomOp> out;
  for (const auto& [target, op] : operators_) out.push_back({target, op.schema});
  return out;
}

std::vector<Datum> CustomOperators::call(const std::string& target, const Args& args,
                                         const std::vector<CustomResult>& results,
                                         const std::vector<std::string>& writes) const {
  const auto found = operators_.find(target);
  if (found == operators_.end())
    fail_user("K0671", str(target, " is not an operator that Kiln has, nor one of the custom operator libraries given",
                           " (--custom-op-lib)"));
  CallState state;
  state.functions = &functions;
  for (const auto& [name, datum] : args) add_argument(state, name, datum);
  for (const CustomResult& result : results)
    for (const TensorType& item : result.items) state.output_types.push_back(&item);
  state.outputs.resize(state.output_types.size());
  const WriteGuard guard(args, writes);
  int32_t failed = 0;
  try {
    failed = found->second.run(&state);
  } catch (...) {
    fail_user("K0671", str("custom operator ", target, " threw an exception"));
  }
  if (failed != 0)
    fail_user("K0671", str("custom operator ", target, " failed",
                           state.failure.empty() ? " without saying why" : ": " + state.failure));
  if (const std::string argument = guard.changed(); !argument.empty())
    fail_user("K0671", str("custom operator ", target, " wrote to its argument ", argument,
                           ", which its schema must say (Tensor(a!) ", argument, ")"));
  std::vector<Datum> out;
  size_t next = 0;
  for (const CustomResult& result : results) {
    std::vector<Datum> items;
    for (size_t i = 0; i < result.items.size(); ++i, ++next) {
      if (!state.outputs[next]) fail_user("K0671", str("custom operator ", target, " did not make its output ", next));
      items.push_back(Datum{state.outputs[next]->tensor()});
    }
    out.push_back(result.list ? Datum{std::move(items)} : items.at(0));
  }
  return out;
}

}  // namespace kiln
