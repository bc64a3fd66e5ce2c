// DraftLevel: how cheap a draft of the same model may be.
//
// Level 0 reads both halves of the hierarchical KV cache, level 1 the upper one alone. Where nearly
// every guess is accepted, a cheaper draft is affordable; where too many are refused, a better one
// is worth its bytes. A level is judged by its own guesses only, kWindow of them, so that it can't
// flap from one round to the next. Threading: values.
#pragma once

#include <cstdint>

namespace tenon {

struct DraftLevelOptions {
  double max_acceptance_rate = 0.95;  // above: one level cheaper
  double min_acceptance_rate = 0.75;  // below: one level better
  int levels = 2;
};

class DraftLevel {
 public:
  // Starts with the cheapest.
  explicit DraftLevel(const DraftLevelOptions& options)
      : options_(options), level_(options.levels - 1) {}

  // REQUIRES: 0 <= accepted <= proposed.
  void Observe(int64_t proposed, int64_t accepted);
  int level() const { return level_; }

  static constexpr int64_t kWindow = 200;

 private:
  DraftLevelOptions options_;
  int level_;
  int64_t proposed_ = 0;  // on this level
  int64_t accepted_ = 0;
};

}  // namespace tenon
