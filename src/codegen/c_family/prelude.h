// The prelude of generated CPU kernels: types, memory access, casts, scalar operators and math, as self-contained C++
// text (no #include, no libm, no libc beyond memcpy) that g++ 12 and clang++ 14 compile in a few milliseconds. Only the
// pieces that a kernel uses are emitted.
//
// The same text serves scalar and vector kernels. A kernel has one lane count L (1, 4, 8 or 16); with L == 1 the
// vector names below are plain scalars. In a vector kernel every operator also has a scalar overload (f32, i64, bool
// …).
//
// Scalars    f32 f64 i8 u8 i16 u16 i32 u32 i64 u64; in memory also f16, bf16, f8e4m3fn and the other f8
//            formats, bool8 (a byte)
// Vectors    vf32 vf64 vi8 … vu64 of L lanes, vmask (bool per lane). Values of f16, bf16, f8 are held as vf32.
//            Operators + - * / (floats) & | ^ ~ and unary - work on vectors; a scalar must be splat first.
//            vmask has & | ^ ! and ==, !=. It is an own type: no number converts to it by accident.
// Lanes      k_splat_<t>(s), k_splat_bool(s), k_iota_i32(), k_iota_i64() (0, 1, …), k_lane(v, i),
//            k_first(n): lanes below n, k_first_true(m): number of the first lane that is set (L: none)
// Memory     <d> is a storage type: f32 … u64, f16, bf16, f8…, bool. p is `const <d>*` (bool: `const bool8*`), n is an
// int,
//            stride and index count elements. Lanes that are off are not accessed and give 0.
//            k_load_<d>(p)  k_load_<d>_n(p, n)  k_load_<d>_s(p, stride)  k_load_<d>_sn(p, stride, n)
//            k_load_<d>_m(p, mask)  k_load_<d>_sm(p, stride, mask)  k_gather_<d>(p, vi64)  k_gather_<d>_m(p, vi64,
//            mask) k_store_<d>…(p, value, …) likewise, k_scatter_<d>(p, vi64, value[, mask]); narrow floats round to
//            even. k_get_<d>(p), k_set_<d>(p, s): one element, scalar. k_atomic_add_<d>(p, s): f32 f64 i32 i64 f16
//            bf16.
// Operators  k_<name> for every row of loops/scalar_ops.h but add, sub, mul, neg and the bit operators, which have both
//            the C operator and k_<name>. Integer division is k_div (never traps: x / 0 gives 0; the kernel raises
//            before). k_fma rounds once everywhere (slow before x86-64-v3); k_madd is x * y + z as the target does it
//            best.
// Random     k_random_<d>(seed, counter), counter i64 or vi64: the numbers of loops/random.h
// Casts      k_cast_<d>(x) from any type; those to narrow floats round and stay vf32. k_bitcast_<t>(x): same width.
//            k_bits_<d>(x), k_from_bits_<d>(bits): the bits of a narrow float, as vu16 or vu8.
// Reductions k_hsum k_hprod k_hmin k_hmax (NaN wins) over lanes, k_hany k_hall of a vmask. Tree order: lane i with lane
//            i + L/2, then halves again.
// Errors     kiln_kernel_context and kiln_error_slot as in include/kiln/kernel_abi.h; k_raise(context, site, index,
// value)
//            sets the slot unless it is set, and gives 1 for the kernel to return.
//
// The text needs prelude_flags(): without -fwrapv integer overflow would be undefined, for one.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "types/dtype.h"

namespace kiln::codegen {

enum class CpuLevel : uint8_t {
  generic,
  x86_64_v2,
  x86_64_v3,
  x86_64_v4,
  x86_64_v4_vnni,
  x86_64_v4_bf16,
  x86_64_v4_amx
};

struct PreludeRequest {
  int lanes = 1;
  CpuLevel level = CpuLevel::generic;
  // Width of a vmask's lanes, 32 or 64. 64 saves conversions in kernels that compute in f64 and i64 only.
  int mask_bits = 32;
  std::set<std::string> names;  // what the kernel uses: "k_exp", "vf32", "k_load_bf16_n", …
  std::set<DType> types;        // types for which overloaded names (k_exp, k_select) are wanted; bool is always there
  // The text may be compiled for a GPU: where it is (__CUDACC_RTC__), narrow floats are converted by its instructions.
  bool for_gpu = false;
};

// The names and types that a kernel's body mentions: fills `names` and `types`.
void collect_prelude_names(std::string_view body, PreludeRequest& request);

// Throws a bug for a name beginning with k_ that the prelude does not have.
std::string prelude(const PreludeRequest& request);

// Every public function name, for tests and tools. Without the memory functions (see above for their scheme).
std::vector<std::string> prelude_function_names();

// The flags that give the text its meaning: language, target, arithmetic; not the output kind (-shared, -o).
std::vector<std::string> prelude_flags(CpuLevel level, int lanes);

}  // namespace kiln::codegen
