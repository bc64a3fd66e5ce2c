// Speed of a loaded model: prefill, decode and batched decode, as rates over repeated runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accel/step_engine.h"
#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

struct BenchCase {
  enum class Test : uint8_t { kPrefill, kDecode, kBatch };
  Test test = Test::kPrefill;
  int64_t tokens = 512;  // prompt tokens, or generated tokens of each sequence
  int64_t sequences = 1;
  int64_t context = 0;  // tokens already in the cache when the clock starts
};
std::string_view BenchTestName(BenchCase::Test test);

struct BenchRate {
  BenchCase bench_case;
  double median = 0.0;  // tokens per second over all sequences
  double min = 0.0;
  double max = 0.0;
};

// KV tokens that a case needs, whole blocks for each sequence.
int64_t BenchContextTokens(const BenchCase& bench_case);

// Runs each case `repeats` times after one warm-up. With `steps`, decoding goes through that engine
// and its modules, greedily on from the made-up prompt; null: the model alone, on made-up tokens.
// REQUIRES: the model is loaded with the context
// that the largest case needs, and batch outputs for its sequences.
Result<std::vector<BenchRate>> RunBench(Model& model, const std::vector<BenchCase>& cases,
                                        int64_t repeats,
                                        const std::function<void(const BenchRate&)>& on_rate,
                                        StepEngine* steps = nullptr);

}  // namespace tenon
