#include "codegen/c_family/dialect.h"

#include <cctype>

#include "base/error.h"

namespace kiln::codegen {
using namespace loops;

const char* storage_suffix(DType dtype) { return dtype_name(dtype); }
const char* storage_type(DType dtype) { return dtype == DType::boolean ? "bool8" : dtype_name(dtype); }
const char* c_type(DType dtype) { return is_float(dtype) ? dtype_name(compute_dtype(dtype)) : dtype_name(dtype); }

// ---- All of the family
// -------------------------------------------------------------------------------------------------

std::string Dialect::op(ScalarOp op, DType, const std::vector<std::string>& operands) const {
  const std::string name = spelling(scalar_op_info(op));
  if (std::isalpha(static_cast<unsigned char>(name[0]))) return str(name, "(", join(operands, ", "), ")");
  return operands.size() == 1 ? str(name, operands[0]) : str("(", join(operands, str(" ", name, " ")), ")");
}

std::string Dialect::cast(DType to, const std::string& value) const {
  return str(spelling(scalar_op_info(ScalarOp::cast)), "_", storage_suffix(to), "(", value, ")");
}

// Narrow floats are held as f32: their bits are made and taken apart by functions of their own.
std::string Dialect::bitcast(DType from, DType to, const std::string& value) const {
  std::string text = value;
  if (compute_dtype(from) != from) text = str("k_bits_", storage_suffix(from), "(", text, ")");
  if (compute_dtype(to) != to) return str("k_from_bits_", storage_suffix(to), "(", text, ")");
  return str(spelling(scalar_op_info(ScalarOp::bitcast)), "_", c_type(to), "(", text, ")");
}

std::string Dialect::fused(const std::string& a, const std::string& b, const std::string& c) const {
  return str("k_madd(", a, ", ", b, ", ", c, ")");
}

std::string Dialect::get(DType dtype, const std::string& pointer) const {
  return str("k_get_", storage_suffix(dtype), "(", pointer, ")");
}
std::string Dialect::set(DType dtype, const std::string& pointer, const std::string& value) const {
  return str("k_set_", storage_suffix(dtype), "(", pointer, ", ", value, ");");
}
std::string Dialect::atomic_add(DType dtype, const std::string& pointer, const std::string& value) const {
  return str("k_atomic_add_", storage_suffix(dtype), "(", pointer, ", ", value, ");");
}
std::string Dialect::random(DType dtype, const std::string& counter) const {
  return str("k_random_", storage_suffix(dtype), "(", seed(), ", (i64)", counter, ")");
}

std::string Dialect::wide(const std::vector<std::string>&) const { fail_bug("wide words in a language of vectors"); }
std::string Dialect::wide_type(DType, int) const { fail_bug("wide words in a language of vectors"); }
std::string Dialect::wide_load(int, const std::string&, const std::string&, bool) const {
  fail_bug("wide words in a language of vectors");
}
std::string Dialect::wide_store(const std::string&, const std::string&, const std::string&) const {
  fail_bug("wide words in a language of vectors");
}
void Dialect::print_tile(KernelPrinter&) const { fail_bug("a tile of registers in a language that has none"); }
void Dialect::print_block_tile(KernelPrinter&) const { fail_bug("a tile of a GPU's block in another language"); }
std::string Dialect::thread() const { fail_bug("lanes of threads in a language of vectors"); }
std::string Dialect::threads() const { fail_bug("lanes of threads in a language of vectors"); }
std::string Dialect::over_threads(ReduceOp, const std::string&) const {
  fail_bug("lanes of threads in a language of vectors");
}
std::string Dialect::over_threads(ReduceOp op, const std::vector<std::string>& accumulators) const {
  KILN_CHECK(accumulators.size() == 1, "a reduction to several values is not shared out over threads");
  return str(accumulators[0], " = ", over_threads(op, accumulators[0]), ";");
}

// ---- C++ with vectors
// --------------------------------------------------------------------------------------------------

std::string SimdDialect::head() const {
  return "extern \"C\" __attribute__((visibility(\"default\"))) int $NAME(const kiln_kernel_context* ctx, void* const* "
         "buffers, const i64* ints, i64 item_begin, i64 item_end) {\n";
}

// Buffers of one kernel never overlap unless they are the same pointer for the same elements, so no restrict is claimed
// for written ones.
std::string SimdDialect::buffer(DType dtype, bool constant, size_t number) const {
  const std::string type = str(constant ? "const " : "", storage_type(dtype));
  return str("  ", type, "* const b", number, " = (", type, "*)buffers[", number, "];\n");
}
std::string SimdDialect::integer(size_t number) const {
  return str("  const i64 n", number, " = ints[", number, "];\n");
}
std::string SimdDialect::scratch(DType dtype, size_t number, const std::string& offset) const {
  const char* type = storage_type(dtype);
  return str("  ", type, "* const scratch", number, " = (", type, "*)((char*)ctx->scratch + ", offset, ");\n");
}
std::string SimdDialect::raise(int site, const std::string& told) const {
  return str("return k_raise(ctx, ", site, ", ", told, ");");
}

std::string SimdDialect::type(DType dtype) { return dtype == DType::boolean ? "vmask" : str("v", c_type(dtype)); }
std::string SimdDialect::splat(DType dtype, const std::string& value) {
  return str("k_splat_", c_type(dtype), "(", value, ")");
}
std::string SimdDialect::iota(const std::string& first) { return str("(k_splat_i64(", first, ") + k_iota_i64())"); }
std::string SimdDialect::first(const std::string& count) { return str("k_first(", count, ")"); }
std::string SimdDialect::select(const std::string& mask, const std::string& yes, const std::string& no) {
  return str("k_select(", mask, ", ", yes, ", ", no, ")");
}

namespace {
// "_sm": strided and masked; the arguments behind those that every form has.
std::string form(const SimdDialect::Lanes& lanes) {
  const std::string letters = str(lanes.stride.empty() ? "" : "s", !lanes.mask.empty()    ? "m"
                                                                   : !lanes.count.empty() ? "n"
                                                                                          : "");
  return letters.empty() ? "" : "_" + letters;
}
std::string more(const SimdDialect::Lanes& lanes) {
  const std::string& which = lanes.mask.empty() ? lanes.count : lanes.mask;
  return str(lanes.stride.empty() ? "" : ", ", lanes.stride, which.empty() ? "" : ", ", which);
}
}  // namespace

std::string SimdDialect::load(DType dtype, const std::string& pointer, const Lanes& lanes) {
  return str("k_load_", storage_suffix(dtype), form(lanes), "(", pointer, more(lanes), ")");
}
std::string SimdDialect::store(DType dtype, const std::string& pointer, const std::string& value, const Lanes& lanes) {
  return str("k_store_", storage_suffix(dtype), form(lanes), "(", pointer, ", ", value, more(lanes), ");");
}
std::string SimdDialect::gather(DType dtype, const std::string& base, const std::string& index,
                                const std::string& mask) {
  if (mask.empty()) return str("k_gather_", storage_suffix(dtype), "(", base, ", ", index, ")");
  return str("k_gather_", storage_suffix(dtype), "_m(", base, ", ", index, ", ", mask, ")");
}
std::string SimdDialect::scatter(DType dtype, const std::string& base, const std::string& index,
                                 const std::string& value, const std::string& mask) {
  return str("k_scatter_", storage_suffix(dtype), "(", base, ", ", index, ", ", value, mask.empty() ? "" : ", ", mask,
             ");");
}

std::string SimdDialect::across(ReduceOp op, const std::string& value) {
  const char* name = op == ReduceOp::sum    ? "k_hsum"
                     : op == ReduceOp::prod ? "k_hprod"
                     : op == ReduceOp::max  ? "k_hmax"
                     : op == ReduceOp::min  ? "k_hmin"
                     : op == ReduceOp::any  ? "k_hany"
                                            : "k_hall";
  return str(name, "(", value, ")");
}

}  // namespace kiln::codegen
