#include "engine/sched/queue_order.h"

#include <algorithm>
#include <tuple>

namespace tenon {

uint64_t TenantTurns::LastTurn(std::string_view tenant) const {
  const auto found = last_.find(std::string(tenant));
  return found == last_.end() ? 0 : found->second;
}

void TenantTurns::Take(std::string_view tenant) {
  if (last_.size() >= kMaxTenants && !last_.contains(std::string(tenant)))
    last_.clear();
  last_[std::string(tenant)] = ++turn_;
}

std::optional<size_t> NextToEnter(std::span<const WaitingRequest> waiting,
                                  const TenantTurns& turns) {
  if (waiting.empty())
    return std::nullopt;
  // Smaller goes first. Preempted requests had their turn already.
  const auto rank = [&](const WaitingRequest& request) {
    const bool again = request.entry == Entry::kAgain;
    return std::tuple(again ? 0 : 1, -int64_t{request.priority},
                      again ? 0 : turns.LastTurn(request.tenant), request.arrival);
  };
  size_t best = 0;
  auto best_rank = rank(waiting[0]);
  for (size_t i = 1; i < waiting.size(); ++i) {
    auto other = rank(waiting[i]);
    if (other < best_rank) {
      best = i;
      best_rank = other;
    }
  }
  return best;
}

size_t NextToPreempt(std::span<const RunningRequest> running) {
  const auto before = [](const RunningRequest& a, const RunningRequest& b) {
    return std::tuple(-int64_t{a.priority}, a.arrival, a.choice) <
           std::tuple(-int64_t{b.priority}, b.arrival, b.choice);
  };
  return static_cast<size_t>(std::max_element(running.begin(), running.end(), before) -
                             running.begin());
}

}  // namespace tenon
