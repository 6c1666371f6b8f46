#include "debug/instrumented_kernel.h"

#include <dlfcn.h>

#include <bit>
#include <cstring>

#include "base/file.h"
#include "debug/bisect_checks.h"
#include "debug/step_copy.h"
#include "debug/tensor_difference.h"
#include "driver/executable_dlpack.h"
#include "kiln/kernel_abi.h"
#include "loops/kernel_code.h"
#include "toolchain/compiler.h"

namespace kiln {
namespace {

constexpr int64_t most_bytes = int64_t{1} << 31;

// The kernel alone in a program, with its stores.
class Instrumented {
 public:
  explicit Instrumented(const InstrumentedRequest& request) {
    program.symbols = request.program.symbols, program.sites = request.program.sites;
    program.buffers = request.program.buffers;
    loops::Kernel kernel = request.kernel.clone();
    types_ = &kernel.value_types;
    std::vector<const loops::Loop*> around;
    add_stores(kernel.body, around);
    types_ = nullptr;
    program.block.push_back(loops::Item{std::move(kernel)});
  }
  const loops::Kernel& kernel() const { return std::get<loops::Kernel>(program.block[0].what); }

  loops::LoopProgram program;
  std::vector<std::pair<loops::ValueId, loops::BufferId>> stored;  // in the order of the program

 private:
  void add_stores(loops::Body& body, std::vector<const loops::Loop*>& around) {
    loops::Body out;
    for (loops::Stmt& stmt : body) {
      const bool loop = stmt.kind == loops::StmtKind::loop;
      if (loop && stmt.loop->role == loops::AxisRole::parallel) {
        around.push_back(stmt.loop.get());
        add_stores(stmt.loop->body, around);
        around.pop_back();
      }
      // Inside reductions nothing is stored: their results are looked at.
      const bool told = loop || stmt.kind == loops::StmtKind::op || stmt.kind == loops::StmtKind::load;
      std::vector<loops::ValueId> results = told ? stmt.results : std::vector<loops::ValueId>();
      out.push_back(std::move(stmt));
      if (results.size() == 1) out.push_back(store(results[0], around));
    }
    body = std::move(out);
  }

  loops::Stmt store(loops::ValueId value, const std::vector<const loops::Loop*>& around) {
    loops::Buffer buffer;
    buffer.name = str("stored_", value);
    buffer.dtype = (*types_)[static_cast<size_t>(value)];
    loops::Stmt stmt;
    stmt.kind = loops::StmtKind::store;
    stmt.args = {value}, stmt.dtype = buffer.dtype;
    Expr stride = Expr(1);
    for (size_t i = around.size(); i-- > 0;) {
      buffer.sizes.insert(buffer.sizes.begin(), around[i]->extent);
      buffer.strides.insert(buffer.strides.begin(), stride);
      stmt.index.insert(stmt.index.begin(), Expr::symbol(around[i]->var));
      stride = stride * around[i]->extent;
    }
    stmt.buffer = program.add_buffer(buffer);
    stored.push_back({value, stmt.buffer});
    return stmt;
  }
  const std::vector<DType>* types_ = nullptr;
};

// The arguments of the step and the stores' buffers, with memory of their own.
class Memory {
 public:
  Memory(const InstrumentedRequest& request, const Instrumented& code, const SymbolValues& symbols) {
    int64_t bytes = 0;
    for (size_t i = 0; i < request.step.arg_count; ++i) {
      const DLTensor& like = request.step.args[i].tensor;
      Tensor made = poisoned_tensor(dtype_from_dlpack(like.dtype), sizes_of(like), strides_of(like), 0xff);
      const auto found = request.inputs.find(request.step.args[i].name);
      if (found != request.inputs.end()) copy_into(found->second, made);
      tensors_[request.step.args[i].name] = made;
    }
    for (const auto& [value, id] : code.stored) {
      const loops::Buffer& buffer = code.program.buffers[static_cast<size_t>(id)];
      std::vector<int64_t> sizes, strides;
      for (const Expr& e : buffer.sizes) sizes.push_back(evaluate(e, symbols));
      for (const Expr& e : buffer.strides) strides.push_back(evaluate(e, symbols));
      bytes += storage_bytes_needed(buffer.dtype, sizes, strides, 0);
      if (bytes > most_bytes)
        fail_user("K0543", str("the values inside ", request.kernel.name, " need more than 2 GiB to be stored"));
      tensors_[buffer.name] = poisoned_tensor(buffer.dtype, sizes, strides, 0xff);
    }
  }
  Tensor& of(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      fail_user("K0335", str("the loops of the debug section use the buffer ", name, ", which its step does not have"));
    return found->second;
  }
  std::map<std::string, Tensor>& all() { return tensors_; }

 private:
  std::map<std::string, Tensor> tensors_;
};

class SharedObject {
 public:
  explicit SharedObject(const std::string& bytes) {
    const std::string path = join_path(folder_.path(), "instrumented.so");
    write_file_atomic(path, bytes);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) fail_user("K0544", str("the instrumented kernel cannot be loaded: ", dlerror()));
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  ~SharedObject() { dlclose(handle_); }
  kiln_kernel function(const std::string& name) const {
    void* found = dlsym(handle_, name.c_str());
    if (!found) fail_user("K0544", str("the instrumented kernel does not export ", name));
    return reinterpret_cast<kiln_kernel>(found);
  }

 private:
  TemporaryDirectory folder_;
  void* handle_ = nullptr;
};

void run_code(const InstrumentedRequest& request, const Instrumented& code, const SymbolValues& symbols,
              Memory& memory) {
  codegen::GeneratedCode generated = codegen::generate_cpu(code.program, request.target);
  if (request.source)
    for (std::string& unit : generated.sources) request.source(unit);
  BuildRequest build;
  build.functions = generated.symbols;
  build.sources = generated.sources, build.flags = generated.flags;
  const KernelCache cache(KernelCache::default_directory());
  const SharedObject object(build_shared_object(find_compiler(request.compiler), build, cache).shared_object);
  const codegen::PrintedKernel& printed = generated.steps.at(&code.kernel()).kernel;
  std::vector<void*> buffers;
  for (loops::BufferId id : printed.buffers)
    buffers.push_back(memory.of(code.program.buffers[static_cast<size_t>(id)].name).data());
  std::vector<int64_t> ints;
  for (const Expr& e : printed.ints)
    ints.push_back(e.is_float() ? std::bit_cast<int64_t>(evaluate_float(e, symbols)) : evaluate(e, symbols));
  kiln_error_slot error{};
  kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0, nullptr, 0, &error, request.step.seed};
  object.function(generated.symbols.at(0))(&context, buffers.data(), ints.data(), 0, evaluate(printed.items, symbols));
}

void run_loops(const InstrumentedRequest& request, const Instrumented& code, const SymbolValues& symbols,
               Memory& memory) {
  const loops::KernelCode compact(code.kernel(), code.program);
  std::vector<loops::BufferView> views;
  for (loops::BufferId id : compact.buffers) {
    Tensor& tensor = memory.of(code.program.buffers[static_cast<size_t>(id)].name);
    views.push_back({tensor.data(), tensor.sizes.data(), tensor.strides.data()});
  }
  loops::run_kernel(compact, views, symbols, request.step.seed);
}

}  // namespace

InstrumentedResult run_instrumented(const InstrumentedRequest& request) {
  const SymbolValues symbols = symbols_of(request.step);
  const Instrumented code(request);
  Memory got(request, code, symbols), expected(request, code, symbols);
  run_code(request, code, symbols, got);
  run_loops(request, code, symbols, expected);
  InstrumentedResult result;
  for (const auto& [value, id] : code.stored) {
    result.order.push_back(value);
    if (result.first != loops::no_value) continue;
    const std::string& name = code.program.buffers[static_cast<size_t>(id)].name;
    const auto difference = find_difference(got.of(name), expected.of(name), {}, {});
    if (difference) result.first = value, result.text = difference->text();
  }
  result.outputs = std::move(got.all());
  return result;
}

}  // namespace kiln
