#include "mutant.h"

#include "archive.h"
#include "base/text.h"
#include "byte_mutation.h"
#include "json_mutation.h"

namespace kiln::mutants {
namespace {

bool is_json(const Entry& entry) { return ends_with(entry.name, ".json"); }

// An entry that is an archive itself (what torch.save wrote): a part of it changes, its checksums are made again.
void mutate_saved(Entry& entry, Dice& dice, std::string& what) {
  Archive inner = Archive::read(entry.bytes, entry.name);
  Entry* pickle = inner.find("data.pkl");
  if (pickle != nullptr && dice.chance(0.8)) {
    pickle->bytes = mutate_pickle(pickle->bytes, dice, what);
  } else {
    Entry& part = inner.entries[dice.below(inner.entries.size())];
    what += str(part.name, ": ");
    part.bytes = mutate_bytes(part.bytes, dice, what);
  }
  entry.bytes = inner.written();
}

void mutate_entry(Entry& entry, Dice& dice, std::string& what) {
  what += str(entry.name, ": ");
  if (is_json(entry) && dice.chance(0.9)) {
    entry.bytes = mutate_json(entry.bytes, dice, what);
    if (dice.chance(0.15)) entry.bytes = mutate_json(entry.bytes, dice, what);
  } else if (ends_with(entry.name, ".pt") && starts_with(entry.bytes, "PK") && dice.chance(0.9)) {
    mutate_saved(entry, dice, what);
  } else {
    entry.bytes = mutate_bytes(entry.bytes, dice, what);
  }
}

// Entries that go, are called otherwise, or have another's contents.
std::string mutate_directory(Archive archive, Dice& dice, std::string& what) {
  Entry& entry = archive.entries[dice.below(archive.entries.size())];
  const Entry& other = archive.entries[dice.below(archive.entries.size())];
  switch (dice.below(3)) {
    case 0:
      what += str("without ", entry.name, "; ");
      archive.entries.erase(archive.entries.begin() + (&entry - archive.entries.data()));
      break;
    case 1:
      what += str(entry.name, " has another name; ");
      entry.name += "x";
      break;
    default:
      what += str(entry.name, " with the contents of ", other.name, "; ");
      entry.bytes = std::string(other.bytes);
  }
  return archive.written();
}

// A deflated entry that says of itself what is not so, or grows out of proportion.
std::string mutate_packing(const Archive& archive, Dice& dice, std::string& what) {
  const size_t at = dice.below(archive.entries.size());
  const std::string& bytes = archive.entries[at].bytes;
  const std::string bomb(size_t{8} << 20, '\0');
  static const std::vector<uint64_t> sizes = {0, 1, 1000, 1u << 20, 8u << 20, 0x7fffffff, 0xfffffffe};
  const size_t kind = dice.below(4);
  const uint64_t size = kind == 0 ? bytes.size() : kind == 1 ? bomb.size() : dice.pick(sizes);
  what += str(archive.entries[at].name, " deflated, ", kind == 1 || kind == 2 ? "zeros" : "its own contents",
              ", said to be ", size, " bytes; ");
  return with_deflated(archive, at, {size, kind == 1 || kind == 2 ? bomb : bytes});
}

Entry* pick(const std::vector<Entry*>& entries, Dice& dice) {
  return entries.empty() ? nullptr : entries[dice.below(entries.size())];
}

}  // namespace

Mutant model_mutant(const Base& base, uint64_t seed) {
  Dice dice(seed);
  Mutant out;
  if (dice.chance(0.1)) {
    out.bytes = mutate_bytes(base.bytes, dice, out.what);
    return out;
  }
  Archive archive = Archive::read(base.bytes, base.name);
  const double where = dice.unit();
  if (where < 0.03) {
    out.bytes = mutate_directory(std::move(archive), dice, out.what);
    return out;
  }
  if (where < 0.06) {
    out.bytes = mutate_packing(archive, dice, out.what);
    return out;
  }
  Entry* entry = nullptr;
  if (where < 0.16) entry = archive.find("_weights_config.json");
  if (where >= 0.16 && where < 0.22) entry = archive.find("_constants_config.json");
  if (where >= 0.22 && where < 0.32) entry = pick(archive.all("sample_inputs/"), dice);
  if (where >= 0.32 && where < 0.35) entry = pick(archive.all("data/weights/"), dice);
  if (entry == nullptr || entry->bytes.size() < 40) entry = pick(archive.all("models/"), dice);
  mutate_entry(*entry, dice, out.what);
  out.bytes = archive.written();
  return out;
}

Mutant package_mutant(const Base& base, uint64_t seed) {
  Dice dice(seed);
  Mutant out;
  if (dice.chance(0.5)) {
    out.bytes = mutate_bytes(base.bytes, dice, out.what);
    return out;
  }
  // Plan, manifest and debug section with right checksums; the code is another one's then.
  Archive archive = Archive::read(base.bytes, base.name);
  std::vector<Entry*> parts;
  for (Entry& entry : archive.entries)
    if (entry.bytes.substr(0, 4) !=
        "\x7f"
        "ELF")
      parts.push_back(&entry);
  if (Entry* plan = archive.find("/plan"); plan != nullptr && dice.chance(0.5)) {
    out.what += str(plan->name, ": ");
    plan->bytes = mutate_bytes(plan->bytes, dice, out.what);
  } else {
    mutate_entry(*pick(parts, dice), dice, out.what);
  }
  out.run = false;
  out.bytes = archive.written();
  return out;
}

}  // namespace kiln::mutants
