// ReplicaSet: which replicas there are, how they are and which one takes the next request. Policy
// over plain data: no sockets, no clock.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/gateway/gateway_config.h"
#include "frontend/gateway/request_profile.h"

namespace tenon {

struct Replica {
  ReplicaAddress address;
  bool up = false;                            // takes requests
  std::map<std::string, std::string> models;  // id to JSON, as its /v1/models said last
  bool checked = false;                       // a health check of it is under way or planned
  int failures = 0;                           // health checks failed in a row
  int successes = 0;
  int64_t outstanding_tokens = 0;
  int64_t outstanding_requests = 0;
  // Since it was first listed, for metrics.
  int64_t ejections = 0;
  std::map<int, int64_t> answers;  // by status
};

class ReplicaSet {
 public:
  using Pointer = std::shared_ptr<Replica>;

  // Replicas whose address stays keep their state. Those that left live on with their requests.
  void Replace(std::span<const ReplicaAddress> addresses);

  // The replica for a request, among those that are up, serve its model and are not in `tried`;
  // nullptr if there is none. The one that the prefix chooses (rendezvous hashing, so that a
  // replica's loss moves only its own prefixes) if it is not `slack_tokens` busier than the
  // idlest, else the idlest.
  Pointer Choose(const RequestProfile& request, std::span<const Pointer> tried,
                 int64_t slack_tokens) const;

  // True if any replica, up or not, is known to serve the model.
  bool Knows(const std::string& model) const;
  bool AnyUp() const;
  const std::vector<Pointer>& all() const { return replicas_; }

 private:
  std::vector<Pointer> replicas_;
};

// The result of a health check or of a connection. True if the replica was ejected by it.
bool NoteFailure(Replica& replica, int failures_to_eject);
// True if the replica returned by it.
bool NoteSuccess(Replica& replica, int successes_to_return);

}  // namespace tenon
