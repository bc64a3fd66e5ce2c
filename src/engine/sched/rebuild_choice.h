// PrefersRebuild: whether a sequence that gave its KV away gets it back from hidden states that
// were kept, or by computing its tokens again. Pure; no clock. Threading: values.
#pragma once

namespace tenon {

struct RebuildCosts {
  double compute_token_s = 0.0;  // of a token of prefill, as measured lately; 0: not measured
  double rebuild_token_s = 0.0;  // of a token rebuilt from states, the last time; 0: never was
  double share = 1.0;            // predicted until then: of a token's computation, 0 to 1
};

// The tokens are the same either way, so it is the cost of one that decides. Equal costs, and
// nothing known, are no reason to keep states.
inline bool PrefersRebuild(const RebuildCosts& costs) {
  const double rebuild =
      costs.rebuild_token_s > 0.0 ? costs.rebuild_token_s : costs.share * costs.compute_token_s;
  return rebuild < costs.compute_token_s;
}

}  // namespace tenon
