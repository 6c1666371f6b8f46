// Reading by index along one dimension: gather, index_select, embedding, take; and under a mask.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/index_parts.h"
#include "ops/layout.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using loops::KernelBuilder;

enum class Negative : uint8_t { wraps, raises };

void check_index_dtype(const OpCall& call, std::string_view arg) {
  DType dtype = call.tensor(arg)->type.dtype;
  if (dtype == DType::i64 || dtype == DType::i32) return;
  fail_user("K0203", str(call.schema().name, ": expected int32 or int64 for ", arg, ", not ", dtype_torch_name(dtype)),
            call.where());
}

// An index from data as a symbol for index expressions. Where eager refuses negative ones, so does this.
Expr loaded_index(LowerCall& call, KernelBuilder& k, const Value* index, const std::vector<Expr>& at,
                  const Expr& extent, int site, Negative negative) {
  ValueId position = k.as(DType::i64, k.load(call.buffer(index), at));
  if (negative == Negative::raises) k.raise_if(k.op(ScalarOp::lt, position, k.constant(DType::i64, Scalar(0))), site);
  return k.check_index(position, extent, site);
}

int64_t checked_position(const ReferenceCall& call, int64_t position, int64_t size, Negative negative) {
  if (position < (negative == Negative::wraps ? -size : 0) || position >= size) {
    fail_user("K0630",
              str("index ", position, " is out of bounds for dimension with size ", size, " in ", call.node().target),
              call.node().where());
  }
  return position < 0 ? position + size : position;
}

// Copies one element per position of the result: source_of(row-major position) is an offset in elements into self.
Tensor gathered(const Tensor& self, std::vector<int64_t> sizes,
                const std::function<int64_t(const std::vector<int64_t>&)>& source_of) {
  Tensor out = Tensor::empty(self.dtype, std::move(sizes));
  size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
  std::vector<int64_t> index(out.sizes.size(), 0);
  for (int64_t linear = 0, total = out.numel(); linear < total; ++linear) {
    std::memcpy(out.data() + static_cast<size_t>(linear) * bytes,
                self.data() + source_of(index) * static_cast<int64_t>(bytes), bytes);
    next_index(index, out.sizes);
  }
  return out;
}

int64_t linear_of(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes) {
  int64_t out = 0;
  for (size_t d = 0; d < sizes.size(); ++d) out = out * sizes[d] + index[d];
  return out;
}

size_t reference_dim(const ReferenceCall& call, const Tensor& self) {
  int64_t dim = call.integer("dim");
  return static_cast<size_t>(dim < 0 ? dim + std::max<int64_t>(self.rank(), 1) : dim);
}

// ---- gather ----

void add_gather(Registry& r) {
  OpRecord record;
  record.schema_text = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor";
  record.infer = [](InferCall& call) {
    const TensorType &self = call.tensor("self")->type, &index = call.tensor("index")->type;
    if (!is_zero_numel(index.sizes)) check_index_dtype(call, "index");
    if (!is_zero_numel(index.sizes) &&
        std::max<size_t>(self.sizes.size(), 1) != std::max<size_t>(index.sizes.size(), 1))
      fail_user("K0213", "Index tensor must have the same number of dimensions as input tensor", call.where());
    wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self")));
    call.results = {contiguous_type(self.dtype, index.sizes, self.device)};
  };
  record.lower = [](LowerCall& call) {
    const TensorType &self = call.tensor("self")->type, &index = call.tensor("index")->type;
    size_t dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
    if (is_zero_numel(index.sizes)) return;  // an index without elements may have any rank
    int site = call.site("index out of range in aten.gather");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(index.sizes, [&](const std::vector<Expr>& i) {
        Expr extent = self.sizes.empty() ? Expr(1) : self.sizes[dim];
        Expr position = loaded_index(call, k, call.tensor("index"), i, extent, site, Negative::raises);
        std::vector<Expr> from;
        if (!self.sizes.empty()) {
          from = i.empty() ? std::vector<Expr>{position} : i;
          from[dim] = position;
        }
        k.store(call.output(), i, k.load(call.input("self"), from));
      });
    });
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self"), index = call.tensor("index");
    size_t dim = reference_dim(call, self);
    std::vector<int64_t> positions = read_dense<int64_t>(index);
    Tensor out = gathered(self, index.sizes, [&](const std::vector<int64_t>& at) {
      int64_t size = self.sizes.empty() ? 1 : self.sizes[dim];
      int64_t position =
          checked_position(call, positions[static_cast<size_t>(linear_of(at, index.sizes))], size, Negative::raises);
      int64_t offset = 0;
      for (size_t d = 0; d < self.sizes.size(); ++d) offset += (d == dim ? position : at[d]) * self.strides[d];
      return offset;
    });
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4}), Scalar(1), spec({3, 2}, DType::i64, 0, 3)}},
                    {{spec({3, 4}), Scalar(0), spec({2, 4}, DType::i64, 0, 2)}},
                    {{spec({}), Scalar(0), spec({}, DType::i64, 0, 0)}},
                    {{spec({3, 4}, DType::bf16), Scalar(-1), spec({0, 2}, DType::i64)}},
                    {{spec({3, 4}), Scalar(1), spec({3}, DType::i64)}, true},
                    {{spec({3, 4}), Scalar(1), spec({3, 2})}, true},
                    {{spec({3, 4}), Scalar(1), spec({4, 2}, DType::i64, 0, 3)}, true}};
  add_needs(record, [](const OpCall& call, const NeedArgs& args) {
    std::vector<SizeNeed> needs;
    const Sizes self = args.sizes("self"), index = args.sizes("index");
    const int64_t dim = wrap_dim(call, call.constant_integer("dim"), static_cast<int64_t>(self.size()));
    for (size_t d = 0; d < self.size() && d < index.size() && !is_zero_numel(index); ++d)
      if (static_cast<int64_t>(d) != dim)
        needs.push_back(
            {self[d], index[d], str("gather(): Expected index to be no larger than self in dimension ", d)});
    return needs;
  });
  r.add(std::move(record));
}

// ---- index_select ----

void add_index_select(Registry& r) {
  OpRecord record;
  record.schema_text = "index_select(Tensor self, int dim, Tensor index) -> Tensor";
  record.infer = [](InferCall& call) {
    const TensorType &self = call.tensor("self")->type, &index = call.tensor("index")->type;
    check_index_dtype(call, "index");
    int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self")));
    if (index.sizes.size() > 1) fail_user("K0213", "index_select(): Index is supposed to be a vector", call.where());
    Sizes sizes = self.sizes;
    if (!sizes.empty()) sizes[static_cast<size_t>(dim)] = index.sizes.empty() ? Expr(1) : index.sizes[0];
    call.results = {contiguous_type(self.dtype, std::move(sizes), self.device)};
  };
  record.lower = [](LowerCall& call) {
    const TensorType& self = call.tensor("self")->type;
    const Value* index = call.tensor("index");
    size_t dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
    int site = call.site("index out of range in aten.index_select");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
        std::vector<Expr> at =
            index->type.sizes.empty() ? std::vector<Expr>{} : std::vector<Expr>{i.empty() ? Expr(0) : i[dim]};
        Expr extent = self.sizes.empty() ? Expr(1) : self.sizes[dim];
        Expr position = loaded_index(call, k, index, at, extent, site, Negative::raises);
        std::vector<Expr> from = i;
        if (!from.empty()) from[dim] = position;
        k.store(call.output(), i, k.load(call.input("self"), from));
      });
    });
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    size_t dim = reference_dim(call, self);
    std::vector<int64_t> positions = read_dense<int64_t>(call.tensor("index"));
    std::vector<int64_t> sizes = self.sizes;
    if (!sizes.empty()) sizes[dim] = static_cast<int64_t>(positions.size());
    for (int64_t& p : positions)
      p = checked_position(call, p, self.sizes.empty() ? 1 : self.sizes[dim], Negative::raises);
    Tensor out = gathered(self, sizes, [&](const std::vector<int64_t>& at) {
      int64_t offset = 0;
      for (size_t d = 0; d < at.size(); ++d)
        offset += (d == dim ? positions[static_cast<size_t>(at[d])] : at[d]) * self.strides[d];
      return offset;
    });
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4}), Scalar(1), spec({5}, DType::i64, 0, 3)}},
                    {{spec({3, 4}), Scalar(0), spec({}, DType::i32, 0, 2)}},
                    {{spec({3, 4}), Scalar(0), spec({0}, DType::i64)}},
                    {{spec({}), Scalar(0), spec({1}, DType::i64, 0, 0)}},
                    {{spec({3, 4}), Scalar(0), spec({2, 2}, DType::i64)}, true}};
  r.add(std::move(record));
}

// ---- embedding ----

void add_embedding(Registry& r) {
  OpRecord record;
  record.schema_text =
      "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
      "sparse=False) -> Tensor";
  record.infer = [](InferCall& call) {
    const TensorType &weight = call.tensor("weight")->type, &indices = call.tensor("indices")->type;
    check_index_dtype(call, "indices");
    if (weight.sizes.size() != 2) fail_user("K0213", "'weight' must be 2-D", call.where());
    Sizes sizes = indices.sizes;
    sizes.push_back(weight.sizes[1]);
    call.results = {contiguous_type(weight.dtype, std::move(sizes), weight.device)};
  };
  record.lower = [](LowerCall& call) {
    int site = call.site("index out of range in aten.embedding");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
        std::vector<Expr> at(i.begin(), i.end() - 1);
        Expr row = loaded_index(call, k, call.tensor("indices"), at, call.tensor("weight")->type.sizes[0], site,
                                Negative::raises);
        k.store(call.output(), i, k.load(call.input("weight"), {row, i.back()}));
      });
    });
  };
  record.reference = [](ReferenceCall& call) {
    Tensor weight = call.tensor("weight"), indices = call.tensor("indices");
    std::vector<int64_t> positions = read_dense<int64_t>(indices), sizes = indices.sizes;
    for (int64_t& p : positions) p = checked_position(call, p, weight.sizes[0], Negative::raises);
    sizes.push_back(weight.sizes[1]);
    Tensor out = gathered(weight, sizes, [&](const std::vector<int64_t>& at) {
      return positions[static_cast<size_t>(linear_of(at, indices.sizes))] * weight.strides[0] +
             at.back() * weight.strides[1];
    });
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({7, 4}), spec({2, 3}, DType::i64, 0, 6)}},
                    {{spec({7, 4}, DType::bf16), spec({}, DType::i32, 0, 6)}},
                    {{spec({7, 4}), spec({0}, DType::i64)}},
                    {{spec({7}), spec({2}, DType::i64)}, true}};
  r.add(std::move(record));
}

// ---- take: self seen as one row ----

void infer_take(InferCall& call) {
  const TensorType &self = call.tensor("self")->type, &index = call.tensor("index")->type;
  check_index_dtype(call, "index");
  call.results = {contiguous_type(self.dtype, index.sizes, self.device)};
}

void add_take(Registry& r) {
  OpRecord record;
  record.schema_text = "take(Tensor self, Tensor index) -> Tensor";
  record.infer = infer_take;
  record.lower = [](LowerCall& call) {
    const Sizes& sizes = call.tensor("self")->type.sizes;
    int site = call.site("index out of range in aten.take");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
        Expr position = loaded_index(call, k, call.tensor("index"), i, product(sizes), site, Negative::wraps);
        std::vector<Expr> from(sizes.size());
        Expr inner(1);
        for (size_t d = sizes.size(); d-- > 0;) {
          from[d] = is_one(inner) ? position : floordiv(position, inner);
          if (d > 0) from[d] = mod(from[d], sizes[d]);
          inner = inner * sizes[d];
        }
        k.store(call.output(), i, k.load(call.input("self"), from));
      });
    });
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self"), index = call.tensor("index");
    std::vector<int64_t> positions = read_dense<int64_t>(index);
    Tensor out = gathered(self, index.sizes, [&](const std::vector<int64_t>& at) {
      int64_t position = positions[static_cast<size_t>(linear_of(at, index.sizes))];
      return self.element_offset(checked_position(call, position, self.numel(), Negative::wraps));
    });
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4}), spec({2, 2}, DType::i64, -12, 11)}},
                    {{spec({5}), spec({}, DType::i64, 0, 4)}},
                    {{spec({5}), spec({2})}, true}};
  r.add(std::move(record));
}

// ---- masked_take: what the mask leaves out is neither read nor checked, and is 0 ----

void add_masked_take(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.facts = complex_by(ComplexRule::parts);
  record.schema_text = "masked_take(Tensor self, Tensor mask, Tensor index) -> Tensor";
  record.infer = infer_take;
  record.lower = [](LowerCall& call) {
    const Sizes& sizes = call.tensor("self")->type.sizes;
    int site = call.site("a masked index is out of range: there are fewer elements than the mask asks for");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
        ValueId taken = k.load(call.input("mask"), i);
        ValueId given = k.as(DType::i64, k.load(call.input("index"), i));
        Expr position = k.check_index(given, product(sizes), site, taken);
        std::vector<Expr> from(sizes.size());
        Expr rest = position;
        // The sizes may be 0 where nothing is taken.
        for (size_t d = sizes.size(); d-- > 0;) {
          Expr size = simplify(max_expr(sizes[d], Expr(1)), call.ranges());
          from[d] = d > 0 ? mod(rest, size) : rest;
          rest = floordiv(rest, size);
        }
        k.store(call.output(), i, k.load(call.input("self"), from, taken));
      });
    });
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self"), out = Tensor::empty(self.dtype, call.tensor("index").sizes);
    std::vector<int64_t> mask = read_dense<int64_t>(call.tensor("mask")),
                         positions = read_dense<int64_t>(call.tensor("index"));
    size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0) continue;
      int64_t at = self.element_offset(checked_position(call, positions[i], self.numel(), Negative::wraps));
      std::memcpy(out.data() + i * bytes, self.data() + at * static_cast<int64_t>(bytes), bytes);
    }
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4}), spec({2, 2}, DType::boolean), spec({2, 2}, DType::i64, -12, 11)}},
                    {{spec({5}), spec({}, DType::boolean), spec({}, DType::i64, 0, 4)}},
                    {{spec({5}), spec({2}, DType::boolean), spec({2})}, true}};
  r.add(std::move(record));
}

}  // namespace

void register_gathers(Registry& registry) {
  add_gather(registry);
  add_index_select(registry);
  add_embedding(registry);
  add_take(registry);
  add_masked_take(registry);
  registry.describe({"embedding", "gather", "index_select", "take"}, complex_by(ComplexRule::parts));
}

}  // namespace kiln
