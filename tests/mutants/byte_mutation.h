// Changes in plain bytes, and in the numbers of a pickle.
#pragma once
#include <string>

#include "dice.h"

namespace kiln::mutants {

std::string mutate_bytes(std::string bytes, Dice& dice, std::string& what);
// A number of the pickle becomes another: sizes, strides, offsets, lengths of storages.
std::string mutate_pickle(std::string bytes, Dice& dice, std::string& what);

}  // namespace kiln::mutants
