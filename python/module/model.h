// A loaded package as a Python object: calls, constants, profiles.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "exchange.h"
#include "kiln/kiln.h"
#include "tree.h"

namespace kiln::python {

class Model {
 public:
  Model(const std::string& path, const std::vector<std::string>& settings, int device_index,
        const std::vector<std::string>& custom_op_libraries);
  Model(const Model&) = delete;
  ~Model();

  // How the program takes its arguments and gives its results; `names` are those of the positional arguments,
  // `constants` a dict from the position of a flat input to the value that it always has.
  void set_structure(PyObject* in_tree, PyObject* out_tree, PyObject* names, PyObject* constants);
  Object call(PyObject* args, PyObject* kwargs);
  // A sequence of flat inputs; gives the list of flat outputs. `seed`: of this call's random numbers; nullptr: the
  // next.
  Object run_flat(PyObject* inputs, const uint64_t* seed);
  std::vector<Object> leaves_of(PyObject* args, PyObject* kwargs) const;  // flat inputs of a call

  bool idle() const { return running_ == 0; }  // no call is running
  bool errors_later = false;                   // on a GPU: a call does not wait for what its kernels may raise
  kiln_model* model() const { return model_; }
  kiln_instance* instance() const { return instance_; }

 private:
  friend class BoundCall;
  struct Input {
    std::string name;
    int32_t kind;
    bool mutated;
  };
  void bind_arguments(PyObject* args, PyObject* kwargs, std::vector<Object>& leaves) const;
  bool fill_constants(const Tree& tree, size_t first, std::vector<Object>& leaves) const;
  // Whether input `i` is a number, None or text, and is given as one.
  bool take_number(PyObject* object, size_t i, kiln_value& out) const;
  Object structured(std::vector<Object>& results) const;
  // Runs on flat inputs; the outputs as Python objects.
  std::vector<Object> run(PyObject* const* inputs, size_t count, const uint64_t* seed = nullptr);
  kiln_status run_unlocked(const kiln_value* inputs, size_t count, kiln_value* outputs, void* stream, bool wait,
                           const uint64_t* seed = nullptr);
  void wait_until(bool (Model::*ready)() const) const;
  bool nobody_runs() const { return running_ == 0 && !watched_; }
  bool nobody_watches() const { return !watched_; }

  kiln_model* model_ = nullptr;
  kiln_instance* instance_ = nullptr;
  std::vector<Input> inputs_;
  size_t output_count_ = 0;
  int gpu_ = -1;  // that it runs on; -1: the CPU
  Tree args_, kwargs_, out_;
  bool structured_ = false;
  size_t plain_args_ = SIZE_MAX;  // the arguments are this many tensors or numbers, no structures, no keywords
  std::vector<Object> argument_names_;
  Object constants_;
  // Both change only while Python's lock is held. A run that torch's profiler watches is alone: hooks may not change
  // while the instance runs.
  int running_ = 0;
  bool watched_ = false;
};

void bind_model(nanobind::module_& module);

}  // namespace kiln::python
