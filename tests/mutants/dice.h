// The dice of the random programs: numbers that do not depend on the standard library.
#pragma once
#include "../random_programs/dice.h"

namespace kiln::mutants {
using random_programs::Dice;
}
