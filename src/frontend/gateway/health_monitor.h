// HealthMonitor: asks each replica's /health in turns, and its /v1/models when it is well.
//
// Threading: on the core's loop; the core and the monitor live until the loop has stopped.
#pragma once

#include <memory>

#include "frontend/gateway/gateway_core.h"

namespace tenon {

class HealthMonitor {
 public:
  explicit HealthMonitor(GatewayCore& core) : core_(core) {}

  // Begins to check replicas that are not checked yet. One that leaves the list is forgotten.
  void Watch();

 private:
  void Check(const std::weak_ptr<Replica>& weak);
  void OnHealth(const std::shared_ptr<Replica>& replica, int status);
  void OnModels(const std::shared_ptr<Replica>& replica, int status, const std::string& body);
  void Well(const std::shared_ptr<Replica>& replica);
  void Unwell(const std::shared_ptr<Replica>& replica);
  void CheckLater(const std::shared_ptr<Replica>& replica);
  UpstreamRequest Question(const Replica& replica, const char* target) const;

  GatewayCore& core_;
};

}  // namespace tenon
