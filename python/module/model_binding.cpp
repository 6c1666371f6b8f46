// What Python sees of a loaded package.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bound_call.h"
#include "errors.h"
#include "interface_calls.h"
#include "model.h"
#include "tensor.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

template <typename Work>
auto guarded(Work&& work) {
  try {
    return work();
  } catch (const PythonError&) {
    nb::raise_python_error();
  }
}

PyObject* call_model(PyObject* self, PyObject* args, PyObject* kwargs) {
  try {
    return nb::inst_ptr<Model>(nb::handle(self))->call(args, kwargs).release();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* call_bound(PyObject* self, PyObject* args, PyObject* kwargs) {
  try {
    if (PyTuple_Size(args) > 0 || (kwargs && PyDict_Size(kwargs) > 0))
      raise(ErrorClass::input, "K0709", "a bound call takes no arguments: it has those that it was bound to");
    return nb::inst_ptr<BoundCall>(nb::handle(self))->call().release();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyType_Slot bound_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_bound)}, {0, nullptr}};
PyType_Slot model_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_model)}, {0, nullptr}};

const char* kind_name(int32_t kind) {
  constexpr const char* names[] = {"none", "tensor", "int", "float", "bool", "string"};
  return kind >= 0 && kind < 6 ? names[kind] : "unknown";
}

nb::dict spec_dict(const kiln_spec& spec) {
  nb::dict out;
  out["name"] = spec.name ? spec.name : "";
  out["kind"] = kind_name(spec.kind);
  if (spec.kind != KILN_TENSOR) return out;
  out["dtype"] = dtype_name(spec.dtype);
  nb::list sizes, strides;
  for (int32_t d = 0; d < spec.rank; ++d) {
    if (spec.sizes[d] >= 0)
      sizes.append(spec.sizes[d]);
    else
      sizes.append(spec.size_texts[d]);
    if (spec.strides[d] >= 0)
      strides.append(spec.strides[d]);
    else
      strides.append(nb::none());
  }
  out["shape"] = nb::tuple(sizes);
  out["strides"] = nb::tuple(strides);
  out["mutated"] = spec.mutated != 0;
  return out;
}

nb::list inputs_of(const Model& model) {
  nb::list out;
  for (size_t i = 0; i < kiln_input_count(model.model()); ++i) {
    auto spec = sized<kiln_spec>();
    guarded([&] { check(kiln_input_spec(model.model(), i, &spec)); });
    out.append(spec_dict(spec));
  }
  return out;
}

nb::list outputs_of(const Model& model) {
  nb::list out;
  for (size_t i = 0; i < kiln_output_count(model.model()); ++i) {
    auto spec = sized<kiln_spec>();
    guarded([&] { check(kiln_output_spec(model.model(), i, &spec)); });
    out.append(spec_dict(spec));
  }
  return out;
}

nb::list symbols_of(const Model& model) {
  nb::list out;
  for (size_t i = 0; i < kiln_symbol_count(model.model()); ++i) {
    auto symbol = sized<kiln_symbol>();
    guarded([&] { check(kiln_symbol_spec(model.model(), i, &symbol)); });
    nb::dict entry;
    entry["name"] = symbol.name;
    entry["low"] = symbol.low;
    entry["high"] = symbol.high;
    entry["from_data"] = symbol.from_data != 0;
    out.append(entry);
  }
  return out;
}

nb::list constants_of(const Model& model) {
  nb::list out;
  for (size_t i = 0; i < kiln_constant_count(model.model()); ++i) {
    auto constant = sized<kiln_constant>();
    guarded([&] { check(kiln_constant_spec(model.model(), i, &constant)); });
    nb::dict entry;
    entry["name"] = constant.name;
    entry["mutable"] = constant.mutable_buffer != 0;
    entry["dtype"] = dtype_name(constant.dtype);
    nb::list sizes;
    for (int32_t d = 0; d < constant.rank; ++d) sizes.append(constant.sizes[d]);
    entry["shape"] = nb::tuple(sizes);
    entry["same_as"] = constant.same_as ? nb::object(nb::str(constant.same_as)) : nb::object(nb::none());
    out.append(entry);
  }
  return out;
}

nb::dict metadata_of(const Model& model) {
  nb::dict out;
  for (size_t i = 0; i < kiln_metadata_count(model.model()); ++i) {
    const char* key = kiln_metadata_key(model.model(), i);
    out[key] = kiln_metadata(model.model(), key);
  }
  return out;
}

void update_constants(Model& model, nb::dict values, uint32_t flags) {
  guarded([&] {
    const size_t count = nb::len(values);
    std::vector<std::string> names;
    std::vector<const char*> name_pointers;
    std::vector<const DLTensor*> tensors;
    const auto borrowed = std::make_unique<BorrowedTensor[]>(count);
    size_t i = 0;
    for (auto [key, value] : values) {
      names.push_back(utf8(key.ptr()));
      // What needs a gradient may be given as a weight: only its values are taken.
      Object plain = Object::borrowed(value.ptr());
      if (const Object detach = find_attribute(value.ptr(), "detach"))
        plain = Object::checked(PyObject_CallObject(detach.get(), nullptr));
      if (!borrowed[i].borrow(plain.get(), false, names.back().c_str()))
        raise(ErrorClass::argument, "K0703", "the value of '" + names.back() + "' is no tensor");
      tensors.push_back(borrowed[i].tensor());
      ++i;
    }
    for (const std::string& name : names) name_pointers.push_back(name.c_str());
    kiln_status status;
    {
      const WithoutLock unlocked;
      status = kiln_constants_update(model.model(), name_pointers.data(), tensors.data(), count, flags);
    }
    check(status);
    // The instance's own copies of what runs write.
    for (size_t c = 0; (flags & KILN_UPDATE_INACTIVE) == 0 && c < kiln_constant_count(model.model()); ++c) {
      auto constant = sized<kiln_constant>();
      check(kiln_constant_spec(model.model(), c, &constant));
      for (size_t n = 0; constant.mutable_buffer && n < count; ++n)
        if (names[n] == constant.name) check(kiln_constant_write(model.instance(), constant.name, tensors[n]));
    }
  });
}

nb::object read_constant(Model& model, const std::string& name) {
  return guarded([&] {
    for (size_t i = 0; i < kiln_constant_count(model.model()); ++i) {
      auto constant = sized<kiln_constant>();
      check(kiln_constant_spec(model.model(), i, &constant));
      if (name != constant.name) continue;
      DLManagedTensorVersioned* owned = allocate(constant.dtype, constant.sizes, constant.rank);
      if (!owned) throw std::bad_alloc();
      Object tensor = wrap(owned);
      check(kiln_constant_read(model.instance(), name.c_str(), &owned->dl_tensor));
      return nb::steal(tensor.release());
    }
    raise(ErrorClass::argument, "K0705", "the model has no constant '" + name + "'");
  });
}

// What a profiled time of runs gave.
class Profile {
 public:
  explicit Profile(Model& model) {
    guarded([&] {
      kiln_profile* out = nullptr;
      kiln_status status;
      {
        const WithoutLock unlocked;  // the machine is measured, which takes half a second
        status = kiln_profile_stop(model.instance(), &out);
      }
      check(status);
      profile_.reset(out);
    });
  }
  nb::dict summary() const;
  nb::list kernels() const;
  void write_trace(const std::string& path) const {
    guarded([&] { check(kiln_profile_write_trace(profile_.get(), path.c_str())); });
  }

 private:
  std::unique_ptr<kiln_profile, void (*)(kiln_profile*)> profile_{nullptr, kiln_profile_free};
};

nb::dict Profile::summary() const {
  auto total = sized<kiln_profile_summary>();
  guarded([&] { check(kiln_profile_total(profile_.get(), &total)); });
  nb::dict out;
  out["runs"] = total.runs;
  out["kernel_seconds"] = total.kernel_seconds;
  out["overhead_seconds"] = total.overhead_seconds;
  out["machine_gflops"] = total.machine_gflops;
  out["machine_gbs"] = total.machine_gbs;
  out["clock"] = total.clock;
  return out;
}

nb::list Profile::kernels() const {
  nb::list out;
  for (size_t i = 0; i < kiln_profile_count(profile_.get()); ++i) {
    auto kernel = sized<kiln_kernel_profile>();
    guarded([&] { check(kiln_profile_kernel(profile_.get(), i, &kernel)); });
    nb::dict entry;
    entry["name"] = kernel.name;
    entry["kind"] = kernel.kind;
    entry["origin"] = kernel.origin;
    entry["calls"] = kernel.calls;
    entry["seconds"] = kernel.seconds;
    entry["least_seconds"] = kernel.least_seconds;
    entry["bytes"] = kernel.bytes;
    entry["flops"] = kernel.flops;
    out.append(entry);
  }
  return out;
}

nb::dict self_test_of(Model& self) {
  kiln_self_test_summary summary{};
  summary.struct_size = sizeof summary;
  guarded([&] {
    kiln_status status;
    {
      const WithoutLock unlocked;
      status = kiln_self_test(self.model(), &summary);
    }
    check(status);
  });
  nb::dict out;
  out["calls"] = summary.calls;
  out["worst"] = summary.worst;
  return out;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model", nb::type_slots(model_slots), nb::dynamic_attr(), nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Model* self, const std::string& path, const std::vector<std::string>& settings, int device_index,
             const std::vector<std::string>& libraries) {
            guarded([&] { new (self) Model(path, settings, device_index, libraries); });
          },
          nb::arg("path"), nb::arg("settings"), nb::arg("device_index"), nb::arg("custom_op_libraries"))
      .def("_set_structure",
           [](Model& self, nb::handle in, nb::handle out, nb::handle names, nb::handle constants) {
             guarded([&] { self.set_structure(in.ptr(), out.ptr(), names.ptr(), constants.ptr()); });
           })
      .def(
          "_run_flat",
          [](Model& self, nb::handle inputs, std::optional<uint64_t> seed) {
            return guarded([&] { return nb::steal(self.run_flat(inputs.ptr(), seed ? &*seed : nullptr).release()); });
          },
          nb::arg("inputs"), nb::arg("seed") = nb::none())
      .def(
          "_bind",
          [](nb::handle self, nb::tuple args, nb::dict kwargs) {
            return guarded(
                [&] { return new BoundCall(self.ptr(), *nb::inst_ptr<Model>(self), args.ptr(), kwargs.ptr()); });
          },
          nb::rv_policy::take_ownership)
      .def_prop_ro("_inputs", inputs_of)
      .def_prop_ro("_outputs", outputs_of)
      .def_prop_ro("_symbols", symbols_of)
      .def_prop_ro("_constants", constants_of)
      .def_prop_ro("_user_metadata", metadata_of)
      .def_prop_ro("build_id", [](const Model& self) { return kiln_model_build_id(self.model()); })
      .def_prop_ro("target", [](const Model& self) { return kiln_model_target(self.model()); })
      .def_prop_ro("threads", [](const Model& self) { return kiln_model_threads(self.model()); })
      .def_prop_ro("stateful", [](const Model& self) { return kiln_model_is_stateful(self.model()) != 0; })
      .def_prop_ro("_idle", &Model::idle)
      .def_rw(
          "errors_later", &Model::errors_later,
          "On a GPU: calls return before their results are there even if a kernel can raise (an index out of range); "
          "a later call raises the error then.")
      .def("_update_constants", update_constants)
      .def("_swap_constants", [](Model& self) { guarded([&] { check(kiln_constants_swap(self.model())); }); })
      .def("_read_constant", read_constant)
      .def(
          "set_seed", [](Model& self, uint64_t seed) { guarded([&] { check(kiln_set_seed(self.instance(), seed)); }); },
          nb::arg("seed"))
      .def(
          "set_threads",
          [](Model& self, int threads) { guarded([&] { check(kiln_set_threads(self.model(), threads)); }); },
          nb::arg("threads"))
      .def("_self_test", self_test_of)
      .def("_start_profile", [](Model& self) { guarded([&] { check(kiln_profile_start(self.instance())); }); })
      .def(
          "_stop_profile", [](Model& self) { return new Profile(self); }, nb::rv_policy::take_ownership);
  nb::class_<BoundCall>(module, "BoundCall", nb::type_slots(bound_slots));
  nb::class_<Profile>(module, "Profile")
      .def("summary", &Profile::summary)
      .def("kernels", &Profile::kernels)
      .def("write_trace", &Profile::write_trace);
}

}  // namespace kiln::python
