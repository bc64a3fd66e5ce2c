// Prompt lookup: what followed the last few tokens when they occurred before is guessed to follow
// again (Saxena, "Prompt lookup decoding", 2023; Yang et al., "Inference with reference", arXiv
// 2304.04487). Costs no model: good where answers repeat their prompt, as in summaries and code.
//
// No state. Threading: any.
#pragma once

#include <cstdint>
#include <span>

#include "accel/speculation/guess_source.h"

namespace tenon {

struct NgramOptions {
  int64_t longest = 4;   // tokens that are compared at most
  int64_t shortest = 2;  // a shorter repetition is no evidence
};

// The continuation of the latest earlier occurrence of the longest suffix of `tokens` with
// `shortest` to `longest` tokens; at most `most` tokens, empty when there is none. One pass over
// the tokens.
std::span<const int32_t> FindContinuation(std::span<const int32_t> tokens,
                                          const NgramOptions& options, int64_t most);

class NgramSource : public GuessSource {
 public:
  explicit NgramSource(const NgramOptions& options) : options_(options) {}
  Status Propose(std::span<const GuessRequest> requests) override;
  void Forget(SequenceKey) override {}
  void ForgetAll() override {}

 private:
  NgramOptions options_;
};

}  // namespace tenon
