#include "model/chat/dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "model/chat/operators.h"
#include "model/chat/runtime.h"

namespace tenon::chat {
namespace {

constexpr size_t kSmall = 8;  // entries a linear search beats the index on

uint64_t Mix(uint64_t x) {  // the finaliser of MurmurHash3
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// As the equal integer's, if there is one.
uint64_t HashOfFloat(double real) {
  constexpr double kIntegerLimit = 9.2e18;  // below 2^63
  if (std::fabs(real) < kIntegerLimit && std::trunc(real) == real)
    return Mix(static_cast<uint64_t>(static_cast<int64_t>(real)));
  return Mix(std::bit_cast<uint64_t>(real));
}

}  // namespace

uint64_t HashOfText(std::string_view text) {
  return Mix(std::hash<std::string_view>{}(text));
}

bool IsHashable(Runtime& rt, const Value& value) {
  const DepthGuard guard(rt);
  rt.budget().Step();
  if (value.Is(Kind::kTuple))
    return std::all_of(value.begin(), value.end(),
                       [&rt](const Value& item) { return IsHashable(rt, item); });
  return !value.Is(Kind::kList) && !value.Is(Kind::kDict) && !value.Is(Kind::kDictView);
}

uint64_t HashOf(Runtime& rt, const Value& value) {
  const DepthGuard guard(rt);
  rt.budget().Step();
  switch (value.kind) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      Fail(fmt::format("unhashable type: '{}'", TypeName(value)));
    case Kind::kString:
      rt.budget().Scan(value.string->bytes);
      return HashOfText(value.text());
    case Kind::kBool:
      return Mix(value.boolean ? 1 : 0);
    case Kind::kInt:
    case Kind::kUint:
      return Mix(value.unsigned_integer);
    case Kind::kFloat:
      return HashOfFloat(value.real);
    case Kind::kTuple: {
      uint64_t hash = value.sequence->size;
      for (const Value& item : value)
        hash = Mix(hash * 31 + HashOf(rt, item));
      return hash;
    }
    case Kind::kRange:
      return Mix(static_cast<uint64_t>(value.range->size));
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kMissing:
      return Mix(static_cast<uint64_t>(value.kind));
    default:
      return Mix(value.unsigned_integer);  // the address of the object
  }
}

template <class Matches>
const Value* Dict::FindHashed(Runtime& rt, uint64_t hash, const Matches& matches) const {
  if (index == nullptr) {
    for (size_t i = 0; i < size; ++i) {
      if (matches(entries[i].key))
        return &entries[i].value;
    }
    return nullptr;
  }
  for (size_t at = hash & (index_size - 1); index[at] != 0; at = (at + 1) & (index_size - 1)) {
    rt.budget().Step();  // keys chosen to collide cost what they cause
    if (matches(entries[index[at] - 1].key))
      return &entries[index[at] - 1].value;
  }
  return nullptr;
}

const Value* Dict::Find(Runtime& rt, const Value& key) const {
  return FindHashed(rt, HashOf(rt, key), [&](const Value& other) { return Equal(rt, other, key); });
}

const Value* Dict::Find(Runtime& rt, std::string_view key) const {
  return FindHashed(rt, HashOfText(key),
                    [key](const Value& other) { return IsString(other) && other.text() == key; });
}

void Dict::Set(Runtime& rt, const Value& key, const Value& value) {
  if (const Value* found = Find(rt, key)) {
    *const_cast<Value*>(found) = value;  // of this dict, which is not const here
    return;
  }
  if (size == capacity)
    Grow(rt);
  entries[size++] = {key, value};
  if (size > kSmall && index_size < size * 2)
    Rehash(rt, std::bit_ceil(size * 4));
  else if (index != nullptr)
    Place(rt, size - 1);
}

// The old entries stay in the arena: doubling bounds the waste to the final size.
void Dict::Grow(Runtime& rt) {
  const size_t new_capacity = std::max<size_t>(4, capacity * 2);
  auto* grown = rt.arena().NewArray<DictEntry>(new_capacity);
  std::copy(entries, entries + size, grown);
  entries = grown;
  capacity = new_capacity;
}

// The index is kept at most half full.
void Dict::Rehash(Runtime& rt, size_t new_size) {
  index = rt.arena().NewArray<uint32_t>(new_size);
  index_size = new_size;
  for (size_t i = 0; i < size; ++i)
    Place(rt, i);
}

void Dict::Place(Runtime& rt, size_t entry) {
  size_t at = HashOf(rt, entries[entry].key) & (index_size - 1);
  while (index[at] != 0)
    at = (at + 1) & (index_size - 1);
  index[at] = static_cast<uint32_t>(entry + 1);
}

}  // namespace tenon::chat
