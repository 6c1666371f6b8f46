// Changes in a JSON text: a number, a word, an element of a list, a member of an object becomes another.
#pragma once
#include <string>

#include "../campaign/dice.h"

namespace kiln::mutants {

using campaign::Dice;

// One change; `what` says which. What stands under different keys (sizes, strides, dtype, …) is chosen equally often,
// however often the key comes.
std::string mutate_json(const std::string& text, Dice& dice, std::string& what);
// A number for a place where another one stood: near it, of its neighbours' kind, or at an end of what can be said.
std::string other_number(const std::string& number, Dice& dice);

}  // namespace kiln::mutants
