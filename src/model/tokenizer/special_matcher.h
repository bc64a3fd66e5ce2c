// SpecialMatcher: finds the tokens that are matched in the raw text, before any splitting.
//
// A byte trie; of the tokens that start at the leftmost possible place, the longest wins. Owns its
// nodes. Threading: const after construction; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

class SpecialMatcher {
 public:
  struct Match {
    size_t begin = 0;
    size_t length = 0;  // 0: nothing found
    int32_t id = -1;
  };

  SpecialMatcher();

  // An empty text is ignored; of two equal texts the first stays.
  void Add(std::string_view text, int32_t id);

  // The leftmost-longest match at or after `from`.
  Match Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t id = -1;
    std::vector<std::pair<uint8_t, uint32_t>> children;  // byte, index of the node
  };

  const uint32_t* Child(const Node& node, uint8_t byte) const;
  Match LongestAt(std::string_view text, size_t begin) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};  // bytes that some token starts with
};

}  // namespace tenon
