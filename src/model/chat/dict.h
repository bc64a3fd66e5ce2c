// Dict: an insertion-ordered hash table of Values in the arena, as Python's dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/chat/value.h"

namespace tenon::chat {

class Runtime;

struct DictEntry {
  Value key;
  Value value;
};

struct Dict {
  DictEntry* entries = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  uint32_t* index = nullptr;  // [index_size] entry number + 1, 0: free; none for a small dict
  size_t index_size = 0;      // a power of two

  // The value of the key, or null. Fails for a key that cannot be hashed.
  const Value* Find(Runtime& rt, const Value& key) const;
  const Value* Find(Runtime& rt, std::string_view key) const;
  // Adds the key or replaces its value; only while the dict is being built.
  void Set(Runtime& rt, const Value& key, const Value& value);

 private:
  template <class Matches>
  const Value* FindHashed(Runtime& rt, uint64_t hash, const Matches& matches) const;
  void Grow(Runtime& rt);
  void Rehash(Runtime& rt, size_t new_size);
  void Place(Runtime& rt, size_t entry);
};

struct NamespaceObject {
  Dict attributes = {};
  bool printing = false;  // a namespace inside itself prints as {...}
};

// Whether Python can hash the value: no list, dict or view, nor a tuple with one inside.
bool IsHashable(Runtime& rt, const Value& value);
// Equal values have equal hashes: 1, 1.0 and True too. Fails for what cannot be hashed.
uint64_t HashOf(Runtime& rt, const Value& value);
uint64_t HashOfText(std::string_view text);

}  // namespace tenon::chat
