#include "frontend/gateway/relay.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"

namespace tenon {
namespace {

// A document above this size is handed on as it comes; an event above it in parts.
constexpr size_t kMaxHeldBytes = 4 << 20;

// The replica is full, starts, drains or has lost its own backend: another one may do better.
bool MayDoBetterElsewhere(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string MessageOf(const std::string& body) {
  const auto answer = nlohmann::json::parse(body, nullptr, false);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_object())
    return answer["error"].value("message", "the replica failed");
  return "the replica failed";
}

}  // namespace

Relay::Relay(GatewayCore& core, HttpRequest request, std::shared_ptr<ResponseWriter> writer)
    : core_(core), request_(std::move(request)), writer_(std::move(writer)) {}

void Relay::Start() {
  core_.relays.emplace(this, weak_from_this());
  writer_->OnClose([weak = weak_from_this(), &loop = core_.loop] {
    loop.Post([weak] {
      if (auto relay = weak.lock()) {
        ++relay->core_.counters.clients_gone;
        relay->Abort();
      }
    });
  });
  profile_ = ReadProfile(request_.body, core_.config.affinity_bytes);
  if (Admit())
    TryNext();
}

bool Relay::Admit() {
  const std::string& client =
      request_.key_name.empty() ? request_.remote_address : request_.key_name;
  const auto wait =
      core_.limiter.Admit(client, static_cast<double>(profile_.tokens), RateLimiter::Clock::now());
  if (!wait)
    return true;
  ++core_.counters.rate_limited;
  HttpResponse refused = ErrorResponse(429, "too many requests; see Retry-After",
                                       "rate_limit_error", {}, "rate_limit_exceeded");
  refused.headers.emplace("Retry-After", std::to_string(*wait));
  Answer(std::move(refused));
  return false;
}

void Relay::TryNext() {
  const bool may_try = tried_.size() < static_cast<size_t>(core_.config.max_tries);
  replica_ = may_try ? core_.replicas.Choose(profile_, tried_, core_.config.affinity_slack_tokens)
                     : nullptr;
  if (!replica_)
    return AnswerWithoutReplica();
  if (!tried_.empty())
    ++core_.counters.retries;
  tried_.push_back(replica_);
  share_ = profile_.tokens;
  replica_->outstanding_tokens += share_;
  ++replica_->outstanding_requests;
  body_.clear();
  status_ = 0;
  UpstreamRequest upstream;
  upstream.replica = replica_->address;
  upstream.method = request_.method;
  upstream.target = request_.target;
  const bool has_keys = !core_.config.server.api_keys.empty();
  upstream.headers = HeadersToReplica(request_, replica_->address,
                                      has_keys ? ClientKey::kForGateway : ClientKey::kForReplica);
  upstream.body = request_.body;
  upstream.connect_timeout = core_.config.connect_timeout;
  upstream.answer_timeout = core_.config.answer_timeout;
  upstream.stream_timeout = core_.config.stream_timeout;
  call_ = core_.client.Start(std::move(upstream), shared_from_this());
}

void Relay::AnswerWithoutReplica() {
  if (client_ != Client::kWaits)
    return BreakOff(last_failure_.empty() ? "no replica is available" : last_failure_);
  if (last_resort_)
    return Answer(std::move(*last_resort_));
  if (!last_failure_.empty())
    return Answer(ErrorResponse(502, "the replica failed: " + last_failure_, "server_error"));
  if (!profile_.model.empty() && core_.replicas.AnyUp() && !core_.replicas.Knows(profile_.model))
    return Answer(ErrorResponse(404, "no replica serves the model '" + profile_.model + "'",
                                "invalid_request_error", "model", "model_not_found"));
  HttpResponse busy = ErrorResponse(503, "no replica is available", "server_error");
  busy.headers.emplace("Retry-After", "1");
  Answer(std::move(busy));
}

void Relay::OnHead(int status, HttpHeaders headers) {
  ++replica_->answers[status];
  status_ = status;
  const auto type = headers.find(std::string_view("Content-Type"));
  content_type_ = type == headers.end() ? "" : type->second;
  const BodyForm form = FormOf(content_type_);
  use_ = Use::kHandOn;
  if (client_ == Client::kPinged && (status != 200 || form != form_))
    use_ = Use::kReportAsError;
  else if (MayDoBetterElsewhere(status))
    use_ = Use::kKeepAsLastResort;
  if (client_ == Client::kWaits)
    form_ = form;
  headers_ = HeadersToClient(headers);
}

void Relay::OnBody(std::string_view bytes) {
  body_ += bytes;
  if (use_ == Use::kHandOn)
    Forward();
  else if (body_.size() > kMaxHeldBytes)
    body_.resize(kMaxHeldBytes);
}

void Relay::BeginStream() {
  if (client_ != Client::kWaits)
    return;
  ++core_.counters.answers[status_];
  writer_->BeginStream(status_, content_type_, headers_);
  client_ = Client::kPinged;
}

void Relay::Forward() {
  const bool too_big =
      body_.size() > kMaxHeldBytes || (form_ == BodyForm::kWhole && client_ != Client::kWaits);
  const size_t whole = too_big ? body_.size() : WholePieces(body_, form_);
  if (whole == 0)
    return;
  std::string pieces = body_.substr(0, whole);
  body_.erase(0, whole);
  BeginStream();
  const int64_t events = too_big ? 1 : CountEvents(pieces, form_);
  if (events > 0)
    client_ = Client::kReceives;
  // An event is about a token: what remains is less by that.
  const int64_t made = std::min(events, std::max<int64_t>(share_ - 1, 0));
  share_ -= made;
  replica_->outstanding_tokens -= made;
  writer_->Write(std::move(pieces));
}

void Relay::OnEnd() {
  Release();
  if (use_ == Use::kReportAsError) {
    last_failure_ = MessageOf(body_);
    return TryNext();
  }
  if (use_ == Use::kKeepAsLastResort || (client_ == Client::kWaits && form_ == BodyForm::kWhole)) {
    HttpResponse response{status_, content_type_, std::move(body_), std::move(headers_)};
    if (use_ == Use::kHandOn)
      return Answer(std::move(response));
    last_resort_ = std::make_unique<HttpResponse>(std::move(response));
    return TryNext();
  }
  BeginStream();
  writer_->Write(std::move(body_));
  writer_->End();
  Finish();
}

void Relay::OnFailure(const Error& error) {
  Log(LogLevel::kWarning, "request {}: replica {}", request_.request_id, error.ToString());
  // A replica that can't be reached takes no requests until a health check passes.
  if (status_ == 0 && NoteFailure(*replica_, 1))
    Log(LogLevel::kWarning, "replica {} is ejected", replica_->address.url);
  Release();
  last_failure_ = error.message;
  if (client_ == Client::kReceives)
    return BreakOff(last_failure_);
  TryNext();
}

void Relay::OnEjected(const Replica& replica) {
  if (replica_.get() != &replica || client_ == Client::kReceives || !writer_)
    return;
  call_->Cancel();
  Release();
  last_failure_ = "the replica fails its health checks";
  TryNext();
}

void Relay::BreakOff(std::string_view message) {
  ++core_.counters.broken_streams;
  if (form_ == BodyForm::kWhole)
    return Finish();  // the writer goes without an end, so the client sees a cut answer
  writer_->Write(ErrorPiece(message, form_, request_.path));
  writer_->End();
  Finish();
}

void Relay::Answer(HttpResponse response) {
  ++core_.counters.answers[response.status];
  writer_->Send(std::move(response));
  Finish();
}

void Relay::Release() {
  if (!replica_)
    return;
  replica_->outstanding_tokens -= share_;
  --replica_->outstanding_requests;
  replica_ = nullptr;
  call_ = nullptr;
}

void Relay::Finish() {
  Release();
  writer_ = nullptr;
  core_.relays.erase(this);
}

void Relay::Abort() {
  if (!writer_)
    return;
  if (call_)
    call_->Cancel();
  Finish();
}

}  // namespace tenon
