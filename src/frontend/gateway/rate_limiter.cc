#include "frontend/gateway/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace tenon {
namespace {

using Seconds = std::chrono::duration<double>;

// Clients whose buckets are full are forgotten from this count on: without keys every address is
// a client.
constexpr size_t kManyClients = 10'000;
constexpr double kDefaultBurstSeconds = 10;

}  // namespace

void TokenBucket::Refill(Clock::time_point now) {
  const double gained = Seconds(now - updated_).count() * per_second_;
  level_ = std::min(capacity_, level_ + std::max(0.0, gained));
  updated_ = now;
}

Seconds TokenBucket::WaitFor(double cost) const {
  const double missing = std::min(cost, capacity_) - level_;
  return Seconds(missing <= 0 ? 0 : missing / per_second_);
}

RateLimiter::RateLimiter(RateLimit every, std::map<std::string, RateLimit> by_name)
    : every_(every), by_name_(std::move(by_name)) {}

void RateLimiter::ChangeLimits(RateLimit every, std::map<std::string, RateLimit> by_name) {
  every_ = every;
  by_name_ = std::move(by_name);
  clients_.clear();
}

RateLimiter::Client RateLimiter::MakeClient(const std::string& name, Clock::time_point now) const {
  const auto own = by_name_.find(name);
  const RateLimit& limit = own == by_name_.end() ? every_ : own->second;
  Client client;
  if (limit.requests_per_minute > 0) {
    const double rate = limit.requests_per_minute / 60;
    const double burst = limit.burst > 0 ? limit.burst : rate * kDefaultBurstSeconds;
    client.requests.emplace(std::max(1.0, burst), rate, now);
  }
  if (limit.tokens_per_minute > 0)
    client.tokens.emplace(limit.tokens_per_minute, limit.tokens_per_minute / 60, now);
  return client;
}

std::optional<int64_t> RateLimiter::Admit(const std::string& name, double tokens,
                                          Clock::time_point now) {
  auto found = clients_.find(name);
  if (found == clients_.end()) {
    if (clients_.size() >= kManyClients)
      ForgetIdle(now);
    found = clients_.emplace(name, MakeClient(name, now)).first;
  }
  const std::pair<std::optional<TokenBucket>*, double> costs[] = {{&found->second.requests, 1.0},
                                                                  {&found->second.tokens, tokens}};
  Seconds wait(0);
  for (const auto& [bucket, cost] : costs) {
    if (!bucket->has_value())
      continue;
    (*bucket)->Refill(now);
    wait = std::max(wait, (*bucket)->WaitFor(cost));
  }
  if (wait.count() > 0)
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wait.count())));
  for (const auto& [bucket, cost] : costs) {
    if (bucket->has_value())
      (*bucket)->Take(cost);
  }
  return std::nullopt;
}

void RateLimiter::ForgetIdle(Clock::time_point now) {
  const auto idle = [now](std::optional<TokenBucket>& bucket) {
    if (bucket)
      bucket->Refill(now);
    return !bucket || bucket->full();
  };
  for (auto client = clients_.begin(); client != clients_.end();) {
    const bool both = idle(client->second.requests) && idle(client->second.tokens);
    client = both ? clients_.erase(client) : std::next(client);
  }
}

}  // namespace tenon
