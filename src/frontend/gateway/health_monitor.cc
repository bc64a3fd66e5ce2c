#include "frontend/gateway/health_monitor.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "frontend/gateway/relay.h"

namespace tenon {
namespace {

// A list of models above this size is not believed.
constexpr size_t kMaxAnswerBytes = 4 << 20;
// A replica that is down is asked at least this often: a refused connection costs nothing, and it
// may be needed.
constexpr std::chrono::milliseconds kDownInterval{500};

// A whole answer; status 0 if there was none.
class WholeAnswer final : public UpstreamSink {
 public:
  using Done = std::function<void(int status, const std::string& body)>;
  explicit WholeAnswer(Done done) : done_(std::move(done)) {}

  void OnHead(int status, HttpHeaders /*headers*/) override { status_ = status; }
  void OnBody(std::string_view bytes) override {
    body_ += bytes.substr(0, std::min(bytes.size(), kMaxAnswerBytes - body_.size()));
  }
  void OnEnd() override { done_(status_, body_); }
  void OnFailure(const Error& /*error*/) override { done_(0, {}); }

 private:
  Done done_;
  int status_ = 0;
  std::string body_;
};

}  // namespace

void HealthMonitor::Watch() {
  for (const auto& replica : core_.replicas.all()) {
    if (!std::exchange(replica->checked, true))
      Check(replica);
  }
}

UpstreamRequest HealthMonitor::Question(const Replica& replica, const char* target) const {
  UpstreamRequest request;
  request.replica = replica.address;
  request.method = "GET";
  request.target = target;
  if (!replica.address.api_key.empty())
    request.headers.emplace("Authorization", "Bearer " + replica.address.api_key);
  const auto timeout = core_.config.health.timeout;
  request.connect_timeout = request.answer_timeout = request.stream_timeout = timeout;
  return request;
}

void HealthMonitor::Check(const std::weak_ptr<Replica>& weak) {
  const auto replica = weak.lock();
  const auto& all = core_.replicas.all();
  if (!replica)
    return;
  if (std::find(all.begin(), all.end(), replica) == all.end()) {
    replica->checked = false;
    return;
  }
  core_.client.Start(Question(*replica, "/health"),
                     std::make_shared<WholeAnswer>([this, replica](int status, const std::string&) {
                       OnHealth(replica, status);
                     }));
}

void HealthMonitor::OnHealth(const std::shared_ptr<Replica>& replica, int status) {
  if (status != 200)
    return Unwell(replica);
  core_.client.Start(
      Question(*replica, "/v1/models"),
      std::make_shared<WholeAnswer>([this, replica](int answered, const std::string& body) {
        OnModels(replica, answered, body);
      }));
}

void HealthMonitor::OnModels(const std::shared_ptr<Replica>& replica, int status,
                             const std::string& body) {
  const auto answer = nlohmann::json::parse(body, nullptr, false);
  if (status != 200 || !answer.is_object() || !answer.contains("data") ||
      !answer["data"].is_array())
    return Unwell(replica);
  std::map<std::string, std::string> models;
  for (const auto& model : answer["data"]) {
    if (model.is_object() && model.contains("id") && model["id"].is_string())
      models.emplace(model["id"].get<std::string>(), model.dump());
  }
  replica->models = std::move(models);
  Well(replica);
}

void HealthMonitor::Well(const std::shared_ptr<Replica>& replica) {
  if (NoteSuccess(*replica, core_.config.health.successes))
    Log(LogLevel::kInfo, "replica {} takes requests", replica->address.url);
  CheckLater(replica);
}

void HealthMonitor::Unwell(const std::shared_ptr<Replica>& replica) {
  if (NoteFailure(*replica, core_.config.health.failures)) {
    Log(LogLevel::kWarning, "replica {} is ejected: it fails its health checks",
        replica->address.url);
    const auto relays = core_.relays;  // asking others changes the list
    for (const auto& [key, weak] : relays) {
      if (const auto relay = weak.lock())
        relay->OnEjected(*replica);
    }
  }
  CheckLater(replica);
}

void HealthMonitor::CheckLater(const std::shared_ptr<Replica>& replica) {
  const auto interval = core_.config.health.interval;
  core_.loop.PostAfter(replica->up ? interval : std::min(interval, kDownInterval),
                       [this, weak = std::weak_ptr<Replica>(replica)] { Check(weak); });
}

}  // namespace tenon
