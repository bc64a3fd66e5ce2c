#include "engine/sample/stop_matcher.h"

#include <fmt/format.h>

#include <utility>

namespace tenon {
namespace {

Status CheckStops(const std::vector<std::string>& stops) {
  if (stops.size() > StopMatcher::kMaxStops) {
    return InvalidArgument(fmt::format("found {} stop strings, expected at most {}", stops.size(),
                                       StopMatcher::kMaxStops),
                           "stop");
  }
  size_t bytes = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty())
      return InvalidArgument("found an empty string, expected text", fmt::format("stop[{}]", i));
    bytes += stops[i].size();
  }
  if (bytes > StopMatcher::kMaxStopBytes) {
    return InvalidArgument(fmt::format("found {} bytes of stop strings, expected at most {}", bytes,
                                       StopMatcher::kMaxStopBytes),
                           "stop");
  }
  return {};
}

}  // namespace

Result<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stops) {
  TENON_RETURN_IF_ERROR(CheckStops(stops));
  StopMatcher matcher;
  for (size_t i = 0; i < stops.size(); ++i)
    matcher.Insert(stops[i], static_cast<int32_t>(i));
  matcher.LinkFallbacks();
  return matcher;
}

void StopMatcher::Insert(std::string_view stop, int32_t index) {
  int32_t node = 0;
  for (const char byte : stop) {
    int32_t child = Child(node, byte);
    if (child == kNone) {
      child = static_cast<int32_t>(nodes_.size());
      Node fresh;
      fresh.byte = byte;
      fresh.depth = nodes_[static_cast<size_t>(node)].depth + 1;
      fresh.next_sibling = nodes_[static_cast<size_t>(node)].first_child;
      nodes_[static_cast<size_t>(node)].first_child = child;
      nodes_.push_back(fresh);
    }
    node = child;
  }
  Node& last = nodes_[static_cast<size_t>(node)];
  if (last.stop != kNone)
    return;
  last.stop = index;
  last.stop_size = last.depth;
}

int32_t StopMatcher::Child(int32_t node, char byte) const {
  int32_t child = nodes_[static_cast<size_t>(node)].first_child;
  while (child != kNone && nodes_[static_cast<size_t>(child)].byte != byte)
    child = nodes_[static_cast<size_t>(child)].next_sibling;
  return child;
}

int32_t StopMatcher::Next(int32_t node, char byte) const {
  while (true) {
    const int32_t child = Child(node, byte);
    if (child != kNone)
      return child;
    if (node == 0)
      return 0;
    node = nodes_[static_cast<size_t>(node)].fallback;
  }
}

// Breadth first: the fallback of a node is shorter, so it is complete before it is used.
void StopMatcher::LinkFallbacks() {
  std::vector<int32_t> queue = {0};
  queue.reserve(nodes_.size());
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t parent = queue[i];
    int32_t child = nodes_[static_cast<size_t>(parent)].first_child;
    while (child != kNone) {
      LinkChild(child, parent);
      queue.push_back(child);
      child = nodes_[static_cast<size_t>(child)].next_sibling;
    }
  }
}

void StopMatcher::LinkChild(int32_t child, int32_t parent) {
  Node& node = nodes_[static_cast<size_t>(child)];
  if (parent != 0)
    node.fallback = Next(nodes_[static_cast<size_t>(parent)].fallback, node.byte);
  if (node.stop != kNone)
    return;
  const Node& suffix = nodes_[static_cast<size_t>(node.fallback)];
  node.stop = suffix.stop;
  node.stop_size = suffix.stop_size;
}

StopMatcher::Output StopMatcher::Push(std::string_view piece) {
  if (found_)
    return {{}, found_};
  for (size_t i = 0; i < piece.size(); ++i) {
    state_ = Next(state_, piece[i]);
    const Node& node = nodes_[static_cast<size_t>(state_)];
    if (node.stop != kNone)
      return Found(piece, i + 1, node);
  }
  Output output;
  output.text = std::move(held_);
  output.text.append(piece);
  const auto held = static_cast<size_t>(nodes_[static_cast<size_t>(state_)].depth);
  held_ = output.text.substr(output.text.size() - held);
  output.text.resize(output.text.size() - held);
  return output;
}

StopMatcher::Output StopMatcher::Found(std::string_view piece, size_t end, const Node& node) {
  found_ = static_cast<size_t>(node.stop);
  Output output;
  output.stop = found_;
  output.text = std::exchange(held_, {});
  output.text.append(piece.substr(0, end));
  output.text.resize(output.text.size() - static_cast<size_t>(node.stop_size));
  return output;
}

std::string StopMatcher::Flush() {
  state_ = 0;
  found_.reset();
  return std::exchange(held_, {});
}

}  // namespace tenon
