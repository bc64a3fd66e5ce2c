// The order in which waiting requests enter, and in which running ones give way.
//
// Entry: what was preempted first, in its old order; then the highest priority; among equals the
// tenant whose last turn is longest ago; of one tenant the earliest arrival. So a tenant with a
// thousand requests delays another's single one by one request, not by a thousand.
//
// Pure functions over plain data, but for the tenants' turns. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon {

enum class Entry : uint8_t { kFirst, kAgain };  // kAgain: it was running and was preempted

struct WaitingRequest {
  uint64_t arrival = 0;  // rises with every request
  int32_t priority = 0;  // higher goes first
  std::string_view tenant;
  Entry entry = Entry::kFirst;
};

// Who had the last turn.
class TenantTurns {
 public:
  // 0 for a tenant that never had one, or so long ago that it was forgotten.
  uint64_t LastTurn(std::string_view tenant) const;
  void Take(std::string_view tenant);

  // Turns remembered; beyond it all are forgotten, which costs at most one unfair turn each.
  static constexpr size_t kMaxTenants = 4096;

 private:
  std::unordered_map<std::string, uint64_t> last_;
  uint64_t turn_ = 0;
};

// The index of the one that enters next; nullopt when nobody waits.
std::optional<size_t> NextToEnter(std::span<const WaitingRequest> waiting,
                                  const TenantTurns& turns);

struct RunningRequest {
  uint64_t arrival = 0;
  int32_t priority = 0;
  int32_t choice = 0;
};

// The index of the one that gives way when memory runs out: the lowest priority, among equals the
// latest arrival, of one request the last choice. REQUIRES: not empty.
size_t NextToPreempt(std::span<const RunningRequest> running);

}  // namespace tenon
