// StopMatcher: finds stop strings in a stream of text, wherever the pieces are cut.
//
// The text ends before the stop string that is complete first; of several that end at the same
// byte, before the longest, and of equal ones the first in the list counts. A piece that could be
// the beginning of a stop is held back until it is decided, so no byte of a found stop ever comes
// out, and the pieces together are the whole text up to the stop. Bytes are compared, so text that
// is valid UTF-8 stays so at every cut.
//
// An automaton over all stops at once (Aho, Corasick, "Efficient string matching", CACM 1975): the
// work is linear in the text, whatever the stops are. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

class StopMatcher {
 public:
  struct Output {
    std::string text;            // certain to stand before any stop
    std::optional<size_t> stop;  // index of the stop that was found
  };

  // Fails with kInvalidArgument, naming the entry, for an empty stop, and when there are more than
  // kMaxStops or kMaxStopBytes in all.
  static Result<StopMatcher> Create(const std::vector<std::string>& stops);

  // Takes the next piece. Once a stop was found, every call reports it again with no text.
  Output Push(std::string_view piece);

  // The end of the stream: what is held back, as no stop can follow any more. Ready for a new one.
  std::string Flush();

  static constexpr size_t kMaxStops = 1024;
  static constexpr size_t kMaxStopBytes = 64 * 1024;  // about 2 MiB of automaton

 private:
  static constexpr int32_t kNone = -1;

  // A prefix of some stop. Children are a linked list: most nodes have one.
  struct Node {
    char byte = 0;
    int32_t depth = 0;  // length of the prefix
    int32_t first_child = kNone;
    int32_t next_sibling = kNone;
    int32_t fallback = 0;   // the longest proper suffix that is a prefix too
    int32_t stop = kNone;   // the longest stop that ends here
    int32_t stop_size = 0;  // its bytes
  };

  StopMatcher() = default;

  void Insert(std::string_view stop, int32_t index);
  void LinkFallbacks();
  void LinkChild(int32_t child, int32_t parent);
  int32_t Child(int32_t node, char byte) const;
  int32_t Next(int32_t node, char byte) const;
  Output Found(std::string_view piece, size_t end, const Node& node);

  std::vector<Node> nodes_ = {Node{}};  // [0] is the empty prefix
  int32_t state_ = 0;                   // the longest suffix of the text that begins a stop
  std::string held_;                    // that suffix
  std::optional<size_t> found_;
};

}  // namespace tenon
