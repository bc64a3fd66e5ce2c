// FillStep: which tokens of which sequences the next step computes.
//
// There are no phases. A sequence has tokens that are computed and tokens that are not; a step has
// a budget. One pending token after the first answer is a decode, and decodes go first: they never
// wait behind a prefill. What is left goes to the others in their order, in chunks (Agrawal et al.,
// "Sarathi-Serve", OSDI 2024). Pure. Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

enum class LoadKind : uint8_t {
  kDecode,   // one pending token, whose logits are waited for
  kPrefill,  // pending tokens; logits for the last one
  kScore,    // pending tokens; an output row for each
  kWhole,    // pending tokens, all of them in one step; an output row for the last one
  kHeld,     // nothing in this step: another sequence is computing what it can reuse
};

struct SequenceLoad {
  LoadKind kind = LoadKind::kPrefill;
  int64_t pending = 1;  // tokens known and not computed, >= 1
};

struct StepLimits {
  int64_t tokens = 512;      // in the step
  int64_t output_rows = 32;  // in the step
  // Tokens other than decodes in a step that has decodes (step_time_model.h).
  int64_t prefill_beside_decodes = 512;
};

struct StepPlan {
  struct Entry {
    size_t sequence = 0;  // index into the loads
    int64_t tokens = 0;   // the next ones that are pending, >= 1
  };
  std::vector<Entry> entries;
  int64_t decodes = 0;
  int64_t tokens = 0;
};

// REQUIRES: limits of 1 or more.
StepPlan FillStep(std::span<const SequenceLoad> loads, const StepLimits& limits);

}  // namespace tenon
