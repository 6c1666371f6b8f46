#include "debug/exposed_kernel.h"

#include <dlfcn.h>

#include <bit>
#include <cstring>
#include <set>

#include "base/environment.h"
#include "base/file.h"
#include "compile/device_object.h"
#include "custom/dlpack.h"
#include "debug/bisect_checks.h"
#include "debug/gpu_kernel.h"
#include "debug/step_copy.h"
#include "kiln/kernel_abi.h"
#include "loop_passes/rewrite.h"
#include "loops/kernel_code.h"
#include "toolchain/compiler.h"
#include "toolchain/nvrtc.h"

namespace kiln {
namespace {

constexpr int64_t most_bytes = int64_t{1} << 30;  // what needs more stays unseen

// The kernel alone in a program, with its stores.
class ExposedKernel {
 public:
  ExposedKernel(const ExposeRequest& request, const SymbolValues& symbols, bool inside_reductions)
      : symbols_(symbols), inside_(inside_reductions), kernel_(request.kernel.clone()) {
    program.symbols = request.program.symbols, program.sites = request.program.sites;
    program.buffers = request.program.buffers;
    used_ = loops::variables_of(kernel_);
    find_wanted();
    std::vector<const loops::Loop*> around;
    add_stores(kernel_.body, around);
    kernel_.named.clear();
    program.block.push_back(loops::Item{std::move(kernel_)});
  }
  const loops::Kernel& kernel() const { return std::get<loops::Kernel>(program.block[0].what); }

  struct Store {
    loops::ValueId value;  // of the kernel as it was
    loops::BufferId buffer;
    std::vector<std::string> vars;
    std::vector<int64_t> sizes;
  };
  loops::LoopProgram program;
  std::vector<Store> stores;

 private:
  // Named values, and what their places depend on.
  void find_wanted() {
    std::set<std::string> variables;
    for (const loops::NamedValue& named : kernel_.named) {
      wanted_.insert({named.value, named.mask});
      for (const Expr& e : named.index) collect_symbols(e, variables);
    }
    loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& stmt) {
      if (stmt.kind == loops::StmtKind::check_index && variables.count(stmt.index_var)) wanted_.insert(stmt.results[0]);
    });
    wanted_.erase(loops::no_value);
  }

  bool wanted_inside(const loops::Body& body) const {
    bool found = false;
    loops::for_each_stmt(body, [&](const loops::Stmt& stmt) {
      for (loops::ValueId v : stmt.results) found |= wanted_.count(original(v)) > 0;
    });
    return found;
  }

  void add_stores(loops::Body& body, std::vector<const loops::Loop*>& around) {
    loops::Body out;
    for (loops::Stmt& stmt : body) {
      if (stmt.loop) add_stores_of(stmt, around, out);
      const std::vector<loops::ValueId> results = stmt.results;
      out.push_back(std::move(stmt));
      for (loops::ValueId v : results)
        if (wanted_.count(original(v))) store(v, around, out);
    }
    body = std::move(out);
  }

  // Of what a loop has inside. A scan may store where it stands; a reduction is only looked at in a copy before it.
  void add_stores_of(loops::Stmt& stmt, std::vector<const loops::Loop*>& around, loops::Body& before) {
    loops::Loop& loop = *stmt.loop;
    if (loop.role == loops::AxisRole::reduce) {
      const bool of_template =
          kernel_.schedule && kernel_.schedule->tile.rows > 0 && kernel_.contraction->sums.front() == loop.var;
      if (inside_ && !of_template && wanted_inside(loop.body)) before.push_back(parallel_copy(stmt, around));
      return;
    }
    around.push_back(&loop);
    add_stores(loop.body, around);
    loops::Body running;
    for (loops::ValueId v : loop.running)
      if (wanted_.count(original(v))) store(v, around, running);
    add_stores(loop.after, around);
    loop.after.insert(loop.after.begin(), std::make_move_iterator(running.begin()),
                      std::make_move_iterator(running.end()));
    around.pop_back();
  }

  loops::Stmt parallel_copy(const loops::Stmt& reduction, std::vector<const loops::Loop*>& around) {
    std::set<loops::ValueId> inside;
    loops::for_each_stmt(reduction.loop->body, [&](const loops::Stmt& stmt) {
      inside.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.loop) inside.insert(stmt.loop->running.begin(), stmt.loop->running.end());
    });
    inside.insert(reduction.results.begin(), reduction.results.end());
    loops::Copier copier(kernel_, kernel_, used_);
    for (size_t v = 0; v < kernel_.value_types.size(); ++v)
      if (const auto id = static_cast<loops::ValueId>(v); !inside.count(id)) copier.values[id] = id;
    loops::Body masks;  // stays empty: nothing is masked further
    loops::Stmt made = copier.copy(reduction, masks);
    used_ = copier.used();
    for (loops::ValueId v : inside)
      if (const auto copied = copier.values.find(v); copied != copier.values.end())
        originals_[copied->second] = original(v);
    for (const auto& [from, to] : copier.variables)
      if (to.is_symbol()) original_vars_[to.name()] = original_var(from);
    made.results.clear();
    made.loop->role = loops::AxisRole::parallel;
    made.loop->yields.clear();
    made.loop->only = loops::no_value;
    // A parallel loop that is unrolled would be the rows of a tile.
    if (made.loop->directives.binding == loops::Binding::unroll) made.loop->directives = loops::AxisDirectives();
    around.push_back(made.loop.get());
    add_stores(made.loop->body, around);
    around.pop_back();
    return made;
  }

  void store(loops::ValueId value, const std::vector<const loops::Loop*>& around, loops::Body& out) {
    Store made;
    made.value = original(value);
    loops::Buffer buffer;
    buffer.name = str("exposed_", value);
    buffer.dtype = kernel_.value_types[static_cast<size_t>(value)];
    std::vector<Expr> index;
    int64_t elements = 1;
    for (const loops::Loop* loop : around) {
      // The first of several parts is the longest.
      Substitution first;
      for (const loops::Loop* outer : around) first[outer->var] = 0;
      made.sizes.push_back(std::max<int64_t>(0, evaluate(substitute(loop->extent, first), symbols_)));
      made.vars.push_back(original_var(loop->var));
      index.push_back(Expr::symbol(loop->var));
      elements *= std::max<int64_t>(1, std::min<int64_t>(made.sizes.back(), most_bytes));
      if (elements > most_bytes) return;
    }
    bytes_ += elements * dtype_bytes(buffer.dtype);
    if (bytes_ > most_bytes) return;
    int64_t stride = 1;
    for (size_t i = made.sizes.size(); i-- > 0; stride *= std::max<int64_t>(1, made.sizes[i])) {
      buffer.sizes.insert(buffer.sizes.begin(), Expr(made.sizes[i]));
      buffer.strides.insert(buffer.strides.begin(), Expr(stride));
    }
    made.buffer = program.add_buffer(buffer);
    append(out, loops::store_stmt(buffer.dtype, made.buffer, std::move(index), value));
    stores.push_back(std::move(made));
  }

  loops::ValueId original(loops::ValueId v) const {
    const auto found = originals_.find(v);
    return found == originals_.end() ? v : found->second;
  }
  std::string original_var(const std::string& var) const {
    const auto found = original_vars_.find(var);
    return found == original_vars_.end() ? var : found->second;
  }

  const SymbolValues& symbols_;
  bool inside_;
  loops::Kernel kernel_;
  std::set<std::string> used_;
  std::set<loops::ValueId> wanted_;
  std::map<loops::ValueId, loops::ValueId> originals_;  // of values in copies
  std::map<std::string, std::string> original_vars_;
  int64_t bytes_ = 0;
};

// The arguments of the step and the stores' buffers, with memory of their own.
class Memory {
 public:
  Memory(const ExposeRequest& request, const ExposedKernel& code) {
    for (size_t i = 0; i < request.step.arg_count; ++i) {
      const DLTensor& like = request.step.args[i].tensor;
      Tensor made = poisoned_tensor(dtype_from_dlpack(like.dtype), sizes_of(like), strides_of(like), 0xff);
      const auto found = request.inputs.find(request.step.args[i].name);
      if (found != request.inputs.end()) copy_into(found->second, made);
      tensors_[request.step.args[i].name] = made;
    }
    for (const ExposedKernel::Store& store : code.stores) {
      const loops::Buffer& buffer = code.program.buffers[static_cast<size_t>(store.buffer)];
      tensors_[buffer.name] = Tensor::empty(buffer.dtype, store.sizes);
      Tensor& tensor = tensors_[buffer.name];
      if (tensor.storage->bytes > 0)
        std::memset(tensor.storage->data, 0xff, static_cast<size_t>(tensor.storage->bytes));
    }
  }
  Tensor& of(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      fail_user("K0335", str("the loops of the debug section use the buffer ", name, ", which its step does not have"));
    return found->second;
  }
  Exposed take(const ExposedKernel& code) {
    Exposed out;
    for (const ExposedKernel::Store& store : code.stores)
      out.values[store.value] = {store.vars, of(code.program.buffers[static_cast<size_t>(store.buffer)].name)};
    out.arguments = std::move(tensors_);
    return out;
  }

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

// The kernel as it was built for this request, ready to be run on arguments in the host's memory.
using BuiltKernel = std::function<void(Memory& memory)>;

BuiltKernel built_for_gpu(const ExposeRequest& request, const ExposedKernel& code, const SymbolValues& symbols,
                          const codegen::GeneratedCode& generated, const BuildRequest& build,
                          const std::vector<int64_t>& ints) {
  const KernelCache cache(KernelCache::default_directory());
  const CudaImages images = build_cuda_images(find_nvrtc(nvrtc_of_environment()), build, "", cache);
  const int gpu = request.step.arg_count > 0 ? request.step.args[0].tensor.device.device_id : 0;
  const auto kernel = std::make_shared<GpuKernel>(gpu, device_object(generated, images), generated.symbols.at(0));
  const codegen::StepCode& printed = generated.steps.at(&code.kernel());
  return [&request, &code, &symbols, &printed, ints, kernel](Memory& memory) {
    GpuKernel::Launch launch;
    for (loops::BufferId id : printed.buffers)
      launch.buffers.push_back(&memory.of(code.program.buffers[static_cast<size_t>(id)].name));
    launch.ints = ints, launch.seed = request.step.seed;
    launch.items = evaluate(code.kernel().schedule->items, symbols);
    launch.scratch = evaluate(printed.scratch_bytes, symbols);
    kernel->run(launch);
  };
}

BuiltKernel built_for_cpu(const ExposeRequest& request, const ExposedKernel& code, const SymbolValues& symbols,
                          const codegen::GeneratedCode& generated, const BuildRequest& build,
                          const std::vector<int64_t>& ints) {
  const KernelCache cache(KernelCache::default_directory());
  const auto object =
      std::make_shared<SharedObject>(build_shared_object(find_compiler(request.compiler), build, cache).shared_object);
  const codegen::StepCode& printed = generated.steps.at(&code.kernel());
  return [&request, &code, &symbols, &printed, ints, object, name = generated.symbols.at(0)](Memory& memory) {
    std::vector<void*> buffers;
    for (loops::BufferId id : printed.buffers)
      buffers.push_back(memory.of(code.program.buffers[static_cast<size_t>(id)].name).data());
    kiln_error_slot error{};
    const std::shared_ptr<Storage> scratch = Storage::allocate(evaluate(printed.scratch_bytes, symbols));
    kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0,      scratch->data, scratch->bytes, &error,
                                request.step.seed,       nullptr};
    object->function(name)(&context, buffers.data(), ints.data(), 0, evaluate(code.kernel().schedule->items, symbols));
  };
}

Exposed run_code(const ExposeRequest& request, const ExposedKernel& code, const SymbolValues& symbols) {
  const Compilation& compilation = request.package.compilation();
  codegen::GeneratedCode generated = compilation.generate(code.program, request.package.target());
  if (request.source) {
    generated.compiled.clear();  // made from the units as they were
    for (std::string& unit : generated.sources) request.source(unit);
  }
  const BuildRequest build = compilation.build_request(generated);
  const codegen::StepCode& printed = generated.steps.at(&code.kernel());
  std::vector<int64_t> ints;
  for (const Expr& e : printed.ints)
    ints.push_back(e.is_float() ? std::bit_cast<int64_t>(evaluate_float(e, symbols)) : evaluate(e, symbols));
  const auto make = request.package.plan().device == DeviceType::cpu ? built_for_cpu : built_for_gpu;
  const BuiltKernel kernel = make(request, code, symbols, generated, build, ints);
  Exposed out;
  for (int run = 0; run < request.runs; ++run) {
    Memory memory(request, code);
    kernel(memory);
    out = memory.take(code);
  }
  return out;
}

void run_loops(const ExposeRequest& request, const ExposedKernel& code, const SymbolValues& symbols, Memory& memory) {
  const loops::KernelCode compact(code.kernel(), code.program);
  std::vector<Tensor> seen;
  for (loops::BufferId id : compact.buffers)
    seen.push_back(loops::parts_seen(memory.of(code.program.buffers[static_cast<size_t>(id)].name)));
  std::vector<loops::BufferView> views;
  for (Tensor& tensor : seen) views.push_back({tensor.data(), tensor.sizes.data(), tensor.strides.data()});
  loops::run_kernel(compact, views, symbols, request.step.seed);
}

}  // namespace

Exposed expose_by_loops(const ExposeRequest& request) {
  const SymbolValues symbols = symbols_of(request.step);
  const ExposedKernel code(request, symbols, true);
  Memory memory(request, code);
  run_loops(request, code, symbols, memory);
  return memory.take(code);
}

Exposed expose_by_code(const ExposeRequest& request) {
  const SymbolValues symbols = symbols_of(request.step);
  try {
    return run_code(request, ExposedKernel(request, symbols, true), symbols);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bug) throw;
    // With copies of its reductions it is not what its template wants: then without them.
    return run_code(request, ExposedKernel(request, symbols, false), symbols);
  }
}

}  // namespace kiln
