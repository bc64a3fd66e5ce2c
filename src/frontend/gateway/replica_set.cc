#include "frontend/gateway/replica_set.h"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

uint64_t Score(const Replica& replica, uint64_t prefix_hash) {
  uint64_t hash = HashBytes(replica.address.url, prefix_hash);
  // FNV's high bits follow the last bytes weakly: mixed as in MurmurHash3's finalizer.
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

}  // namespace

void ReplicaSet::Replace(std::span<const ReplicaAddress> addresses) {
  std::vector<Pointer> replicas;
  for (const ReplicaAddress& address : addresses) {
    const auto same = std::find_if(replicas_.begin(), replicas_.end(), [&](const Pointer& replica) {
      return replica->address == address;
    });
    if (same != replicas_.end()) {
      replicas.push_back(*same);
      continue;
    }
    replicas.push_back(std::make_shared<Replica>());
    replicas.back()->address = address;
  }
  replicas_ = std::move(replicas);
}

ReplicaSet::Pointer ReplicaSet::Choose(const RequestProfile& request,
                                       std::span<const Pointer> tried, int64_t slack_tokens) const {
  Pointer idlest;
  Pointer preferred;
  for (const Pointer& replica : replicas_) {
    const bool serves = request.model.empty() || replica->models.contains(request.model);
    if (!replica->up || !serves || std::find(tried.begin(), tried.end(), replica) != tried.end())
      continue;
    if (!idlest || replica->outstanding_tokens < idlest->outstanding_tokens ||
        (replica->outstanding_tokens == idlest->outstanding_tokens &&
         replica->outstanding_requests < idlest->outstanding_requests))
      idlest = replica;
    if (!preferred || Score(*replica, request.prefix_hash) > Score(*preferred, request.prefix_hash))
      preferred = replica;
  }
  const bool use_preferred =
      preferred && request.prefix_hash != 0 &&
      preferred->outstanding_tokens - idlest->outstanding_tokens <= slack_tokens;
  return use_preferred ? preferred : idlest;
}

bool ReplicaSet::Knows(const std::string& model) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const Pointer& replica) { return replica->models.contains(model); });
}

bool ReplicaSet::AnyUp() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const Pointer& replica) { return replica->up; });
}

bool NoteFailure(Replica& replica, int failures_to_eject) {
  replica.successes = 0;
  ++replica.failures;
  if (!replica.up || replica.failures < failures_to_eject)
    return false;
  replica.up = false;
  ++replica.ejections;
  return true;
}

bool NoteSuccess(Replica& replica, int successes_to_return) {
  replica.failures = 0;
  ++replica.successes;
  if (replica.up || replica.successes < successes_to_return)
    return false;
  replica.up = true;
  return true;
}

}  // namespace tenon
