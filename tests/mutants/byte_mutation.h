// Changes in plain bytes, and in the numbers of a pickle.
#pragma once
#include <string>

#include "../campaign/dice.h"

namespace kiln::mutants {

using campaign::Dice;

std::string mutate_bytes(std::string bytes, Dice& dice, std::string& what);
// A number of the pickle becomes another: sizes, strides, offsets, lengths of storages.
std::string mutate_pickle(std::string bytes, Dice& dice, std::string& what);

}  // namespace kiln::mutants
