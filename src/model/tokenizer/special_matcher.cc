#include "model/tokenizer/special_matcher.h"

namespace tenon {

SpecialMatcher::SpecialMatcher() : nodes_(1) {}

const uint32_t* SpecialMatcher::Child(const Node& node, uint8_t byte) const {
  for (const auto& [label, index] : node.children) {
    if (label == byte)
      return &index;
  }
  return nullptr;
}

void SpecialMatcher::Add(std::string_view text, int32_t id) {
  if (text.empty())
    return;
  starts_[static_cast<uint8_t>(text.front())] = true;
  uint32_t node = 0;
  for (char letter : text) {
    const auto byte = static_cast<uint8_t>(letter);
    if (const uint32_t* child = Child(nodes_[node], byte)) {
      node = *child;
      continue;
    }
    const auto created = static_cast<uint32_t>(nodes_.size());
    nodes_[node].children.emplace_back(byte, created);
    nodes_.emplace_back();
    node = created;
  }
  if (nodes_[node].id < 0)
    nodes_[node].id = id;
}

SpecialMatcher::Match SpecialMatcher::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])])
      continue;
    if (Match match = LongestAt(text, begin); match.length > 0)
      return match;
  }
  return {text.size(), 0, -1};
}

SpecialMatcher::Match SpecialMatcher::LongestAt(std::string_view text, size_t begin) const {
  Match best{begin, 0, -1};
  uint32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const uint32_t* child = Child(nodes_[node], static_cast<uint8_t>(text[at]));
    if (child == nullptr)
      break;
    node = *child;
    if (nodes_[node].id >= 0)
      best = {begin, at + 1 - begin, nodes_[node].id};
  }
  return best;
}

}  // namespace tenon
