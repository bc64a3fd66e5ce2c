// TokenTrie: the bytes of a vocabulary's tokens as a tree, in the order in which a walk visits it.
//
// Apart from the tree of all tokens it knows those that are nothing but plain characters of a JSON
// string ("safe"): inside a string nearly all are, and all that matters of them is their number of
// characters. So there a walk takes the tree of the others only, which is far smaller (the idea of
// llguidance's slices). Tokens without bytes, control tokens above all, are in no tree.
//
// Owns its tables. Threading: const after Create; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// One bit for each token: it may be next.
using TokenMask = std::vector<uint64_t>;

inline void AllowToken(std::span<uint64_t> mask, int32_t token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}
inline bool IsAllowed(std::span<const uint64_t> mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1) != 0;
}

class TokenTrie {
 public:
  struct Node {
    uint32_t end = 0;          // index after the last node below this one
    uint32_t first_token = 0;  // into tokens(), up to the next node's
    uint16_t depth = 0;        // bytes before this one
    uint8_t byte = 0;
  };
  struct Tree {
    std::vector<Node> nodes;      // and one at the end that holds the last first_token
    std::vector<int32_t> tokens;  // of node i: [nodes[i].first_token, nodes[i + 1].first_token)
  };

  // `bytes` of each id below vocab_size. `stop_ids` end an answer.
  TokenTrie(int32_t vocab_size, const std::function<std::string(int32_t)>& bytes,
            std::span<const int32_t> stop_ids);

  int32_t vocab_size() const { return vocab_size_; }
  size_t mask_words() const { return (static_cast<size_t>(vocab_size_) + 63) / 64; }
  const Tree& all() const { return all_; }
  const Tree& unsafe() const { return unsafe_; }
  // Safe tokens of at most `characters` characters. REQUIRES: 0 <= characters <= kSafeCharacters.
  const TokenMask& Safe(int64_t characters) const { return safe_[static_cast<size_t>(characters)]; }
  // Longer ones count as not safe.
  static constexpr int64_t kSafeCharacters = 32;

  std::string_view Bytes(int32_t token) const;
  size_t longest() const { return longest_; }  // bytes of the longest token
  std::span<const int32_t> stop_ids() const { return stop_ids_; }

 private:
  int32_t vocab_size_;
  std::string text_;             // all tokens' bytes, one after the other
  std::vector<size_t> offsets_;  // [vocab + 1] into text_
  size_t longest_ = 0;
  Tree all_;
  Tree unsafe_;
  std::vector<TokenMask> safe_;  // [characters]
  std::vector<int32_t> stop_ids_;
};

// Bytes that stand for themselves in a JSON string, one or several to a character.
bool IsSafeByte(uint8_t byte);

}  // namespace tenon
