// Service: what all connections of one server share.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/server/http/http_server.h"
#include "frontend/server/http/request_gate.h"
#include "frontend/server/http/route_table.h"

namespace tenon {

// One open socket of the server: HTTP or WebSocket. Both functions from any thread.
class ServedConnection {
 public:
  virtual ~ServedConnection() = default;
  virtual void Drain() = 0;  // close as soon as no answer is open
  virtual void Abort() = 0;  // close now
};

// The open connections. A connection is listed from its start until its socket is closed.
// Threading: all functions from any thread.
class ConnectionList {
 public:
  void Add(const std::shared_ptr<ServedConnection>& connection) {
    const std::lock_guard lock(mutex_);
    open_.emplace(connection.get(), connection);
  }
  void Remove(const ServedConnection* connection) {
    const std::lock_guard lock(mutex_);
    open_.erase(connection);
    changed_.notify_all();
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  std::vector<std::shared_ptr<ServedConnection>> All() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<ServedConnection>> all;
    for (const auto& [key, weak] : open_) {
      if (auto connection = weak.lock())
        all.push_back(std::move(connection));
    }
    return all;
  }
  // True if none is open any more.
  bool WaitUntilEmpty(std::chrono::milliseconds limit) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return open_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<const ServedConnection*, std::weak_ptr<ServedConnection>> open_;
};

struct Service {
  Service(const HttpServerOptions& given, Router router)
      : options(given),
        routes(std::move(router)),
        gate_(std::make_shared<const RequestGate>(given)) {}

  std::shared_ptr<const RequestGate> gate() const {
    const std::lock_guard lock(gate_mutex_);
    return gate_;
  }
  void ReplaceGate(std::shared_ptr<const RequestGate> gate) {
    const std::lock_guard lock(gate_mutex_);
    gate_.swap(gate);
  }

  boost::asio::io_context io;  // first: sockets and timers go before it
  const HttpServerOptions options;
  const RouteTable routes;
  ConnectionList connections;
  std::atomic<bool> stopping = false;

 private:
  mutable std::mutex gate_mutex_;
  std::shared_ptr<const RequestGate> gate_;
};

}  // namespace tenon
