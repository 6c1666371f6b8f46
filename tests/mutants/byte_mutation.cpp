#include "byte_mutation.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace kiln::mutants {
namespace {

void overwrite(std::string& bytes, size_t at, int64_t value, size_t count) {
  std::memcpy(bytes.data() + at, &value, std::min(count, bytes.size() - at));
}

}  // namespace

std::string mutate_bytes(std::string bytes, Dice& dice, std::string& what) {
  if (bytes.empty()) return std::string(1 + dice.below(40), 'x');
  static const std::vector<int64_t> numbers = {0, 1, -1, 0x7f, 0xff, 0x7fffffff, INT64_MIN, INT64_MAX, 0xffffffff};
  const size_t times = dice.chance(0.7) ? 1 : 1 + dice.below(6);
  for (size_t i = 0; i < times && !bytes.empty(); ++i) {
    const size_t at = dice.below(bytes.size());
    const size_t length = std::min<size_t>(bytes.size() - at, 1 + dice.below(dice.chance(0.1) ? 4000 : 16));
    switch (dice.below(8)) {
      case 0:
      case 1:
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.below(8)));
        what += str("bit of byte ", at, "; ");
        break;
      case 3:
        bytes[at] = static_cast<char>(dice.next());
        what += str("byte ", at, "; ");
        break;
      case 4: {
        static const std::vector<size_t> widths = {1, 2, 4, 8};
        overwrite(bytes, at, dice.pick(numbers), dice.pick(widths));
        what += str("number at ", at, "; ");
        break;
      }
      case 5:
        bytes.erase(at, length);
        what += str("without ", length, " bytes at ", at, "; ");
        break;
      case 6:
        bytes.insert(at, bytes.substr(at, length));
        what += str("twice ", length, " bytes at ", at, "; ");
        break;
      default:
        if (dice.chance(0.3)) {
          bytes.resize(at);
          what += str("cut at ", at, "; ");
        } else {
          const size_t from = dice.below(bytes.size() - length + 1);
          bytes.replace(at, length, bytes.substr(from, length));
          what += str(length, " bytes of ", from, " at ", at, "; ");
        }
    }
  }
  return bytes;
}

std::string mutate_pickle(std::string bytes, Dice& dice, std::string& what) {
  struct Number {
    size_t at, width;
  };
  // BININT1, BININT2, BININT: found by their opcodes, which may be other bytes too; then it is any mutation.
  std::vector<Number> found;
  for (size_t i = 0; i + 5 < bytes.size(); ++i) {
    if (bytes[i] == 'K') found.push_back({i + 1, 1});
    if (bytes[i] == 'M') found.push_back({i + 1, 2});
    if (bytes[i] == 'J') found.push_back({i + 1, 4});
  }
  if (found.empty() || dice.chance(0.3)) return mutate_bytes(std::move(bytes), dice, what);
  const Number number = dice.pick(found);
  static const std::vector<int64_t> values = {0, 1, 2, 3, 4, 5, 8, 255, 256, 65535, -1, INT32_MAX, INT32_MIN};
  const int64_t value = dice.pick(values);
  if (dice.chance(0.3)) {  // a wide one instead, which may be negative
    std::string wide = "J0000";
    overwrite(wide, 1, value, 4);
    bytes.replace(number.at - 1, number.width + 1, wide);
  } else {
    overwrite(bytes, number.at, value, number.width);
  }
  what += str("number at ", number.at, " of a pickle -> ", value, "; ");
  return bytes;
}

}  // namespace kiln::mutants
