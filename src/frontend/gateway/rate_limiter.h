// RateLimiter: token buckets, one pair (requests, tokens) for each client.
//
// Time is given by the caller. Threading: one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "frontend/gateway/gateway_config.h"

namespace tenon {

// Holds up to `capacity` units and gains `per_second`. It may go into debt: a request that costs
// more than the capacity is let through when the bucket is full, and paid for afterwards.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  TokenBucket(double capacity, double per_second, Clock::time_point now)
      : capacity_(capacity), per_second_(per_second), level_(capacity), updated_(now) {}

  void Refill(Clock::time_point now);
  // What must pass until `cost` can be taken; zero: now.
  std::chrono::duration<double> WaitFor(double cost) const;
  void Take(double cost) { level_ -= cost; }
  bool full() const { return level_ >= capacity_; }

 private:
  double capacity_;
  double per_second_;
  double level_;
  Clock::time_point updated_;
};

class RateLimiter {
 public:
  using Clock = TokenBucket::Clock;
  RateLimiter(RateLimit every, std::map<std::string, RateLimit> by_name);

  // Takes one request of `tokens` from the client's buckets. If there is too little, takes nothing
  // and returns the seconds (at least 1) after which to ask again.
  std::optional<int64_t> Admit(const std::string& client, double tokens, Clock::time_point now);

  // Every client begins anew, with full buckets.
  void ChangeLimits(RateLimit every, std::map<std::string, RateLimit> by_name);

  size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    std::optional<TokenBucket> requests;
    std::optional<TokenBucket> tokens;
  };
  Client MakeClient(const std::string& name, Clock::time_point now) const;
  void ForgetIdle(Clock::time_point now);

  RateLimit every_;
  std::map<std::string, RateLimit> by_name_;
  std::map<std::string, Client> clients_;
};

}  // namespace tenon
