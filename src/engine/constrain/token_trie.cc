#include "engine/constrain/token_trie.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tenon {
namespace {

// Length of the well-formed UTF-8 sequence at the beginning of `text`; 0 for anything else
// (Unicode, table 3-7).
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80)
    return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length)
    return 0;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high)
    return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF)
      return 0;
  }
  return length;
}

// Characters of a safe token; nothing for another one.
std::optional<int64_t> SafeCharacters(std::string_view text) {
  int64_t count = 0;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0 || !IsSafeByte(static_cast<uint8_t>(text.front())))
      return std::nullopt;
    text.remove_prefix(length);
    ++count;
  }
  return count;
}

// `sorted` by bytes, none empty.
TokenTrie::Tree BuildTree(const TokenTrie& trie, std::span<const int32_t> sorted) {
  TokenTrie::Tree tree;
  std::vector<size_t> path;  // nodes of the current token's bytes
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
  };
  for (const int32_t token : sorted) {
    const std::string_view bytes = trie.Bytes(token);
    const size_t shared = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first -
        bytes.begin());
    leave(shared);
    while (path.size() < bytes.size()) {
      path.push_back(tree.nodes.size());
      tree.nodes.push_back({0, static_cast<uint32_t>(tree.tokens.size()),
                            static_cast<uint16_t>(path.size() - 1),
                            static_cast<uint8_t>(bytes[path.size() - 1])});
    }
    tree.tokens.push_back(token);
    before = bytes;
  }
  leave(0);
  tree.nodes.push_back({0, static_cast<uint32_t>(tree.tokens.size()), 0, 0});
  return tree;
}

}  // namespace

bool IsSafeByte(uint8_t byte) {
  return byte >= 0x20 && byte != '"' && byte != '\\';
}

std::string_view TokenTrie::Bytes(int32_t token) const {
  const size_t first = offsets_[static_cast<size_t>(token)];
  return std::string_view(text_).substr(first, offsets_[static_cast<size_t>(token) + 1] - first);
}

TokenTrie::TokenTrie(int32_t vocab_size, const std::function<std::string(int32_t)>& bytes,
                     std::span<const int32_t> stop_ids)
    : vocab_size_(vocab_size), stop_ids_(stop_ids.begin(), stop_ids.end()) {
  // Depths are kept in 16 bits; a token of that length is no word.
  constexpr size_t kMaxBytes = 4096;
  offsets_.push_back(0);
  for (int32_t token = 0; token < vocab_size; ++token) {
    const std::string text = bytes(token);
    const bool stops = std::ranges::find(stop_ids_, token) != stop_ids_.end();
    if (text.size() <= kMaxBytes && !stops)
      text_ += text;
    offsets_.push_back(text_.size());
    longest_ = std::max(longest_, Bytes(token).size());
  }
  std::vector<int32_t> sorted(static_cast<size_t>(vocab_size));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::erase_if(sorted, [&](int32_t token) { return Bytes(token).empty(); });
  std::ranges::sort(sorted, {}, [&](int32_t token) { return Bytes(token); });
  all_ = BuildTree(*this, sorted);

  safe_.assign(static_cast<size_t>(kSafeCharacters) + 1, TokenMask(mask_words(), 0));
  std::erase_if(sorted, [&](int32_t token) {
    const auto characters = SafeCharacters(Bytes(token));
    if (!characters.has_value() || *characters > kSafeCharacters)
      return false;
    AllowToken(safe_[static_cast<size_t>(*characters)], token);
    return true;
  });
  unsafe_ = BuildTree(*this, sorted);
  for (size_t i = 1; i < safe_.size(); ++i) {
    for (size_t word = 0; word < mask_words(); ++word)
      safe_[i][word] |= safe_[i - 1][word];
  }
}

}  // namespace tenon
