// Plans and origins to bytes and back. The layout is described in format.h and docs/package-format.md.
//
// The reader takes hostile bytes: every count and length is checked against what is left, nesting is limited, and a
// plan that it returns has passed `check_plan`, so the runtime may index with what it finds in it. It throws Error
// K0501 (damaged), K0502 (written by a newer major version), K0503 (inconsistent).
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "package/format.h"

namespace kiln::format {

std::string write_plan(const Plan& plan);
Plan read_plan(std::span<const std::byte> bytes);

std::string write_origins(const Origins& origins);
Origins read_origins(std::span<const std::byte> bytes);

// Every index in range, expressions with a balanced stack, numbers unique, aliases without cycles, outputs that share
// no memory with inputs. Throws K0503 saying what is wrong where.
void check_plan(const Plan& plan);

// The deepest stack an expression of a checked plan needs, and the deepest nesting of blocks.
inline constexpr int max_expr_depth = 256;
inline constexpr int max_block_depth = 64;

}  // namespace kiln::format
