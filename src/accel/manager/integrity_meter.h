// IntegrityMeter: the share of failed integrity checks among the latest ones.
//
// Plain data, no clock. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tenon {

class IntegrityMeter {
 public:
  // `failures` of `checks` failed. REQUIRES: 0 <= failures <= checks.
  void Observe(int64_t checks, int64_t failures);
  void Reset();

  int64_t checks() const { return checks_; }
  int64_t failures() const { return failures_; }
  uint64_t total_checks() const { return total_checks_; }
  uint64_t total_failures() const { return total_failures_; }

  // More than `limit` of the checks failed. With fewer than kMinChecks of them the share is taken
  // of kMinChecks, so that a single failure is never too much at the usual limit of 0.5%.
  bool Exceeds(double limit) const;
  double FailureShare() const;

  static constexpr int64_t kMinChecks = 200;
  static constexpr int64_t kMaxChecks = 2000;

 private:
  struct Batch {
    int64_t checks = 0;
    int64_t failures = 0;
  };
  std::deque<Batch> batches_;
  int64_t checks_ = 0;
  int64_t failures_ = 0;
  uint64_t total_checks_ = 0;
  uint64_t total_failures_ = 0;
};

}  // namespace tenon
