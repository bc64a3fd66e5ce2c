// Relay: one client's request on its way through the gateway.
//
// A request goes to another replica as long as the client has seen nothing of the answer but
// pings. For that, single documents are handed on when they are complete (up to a size), and
// streams event by event, never half an event. A stream that breaks later ends with an error event.
// Threading: on the core's loop; the core lives longer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/gateway/gateway_core.h"
#include "frontend/gateway/proxy_text.h"

namespace tenon {

class Relay final : public UpstreamSink, public std::enable_shared_from_this<Relay> {
 public:
  Relay(GatewayCore& core, HttpRequest request, std::shared_ptr<ResponseWriter> writer);

  void Start();
  // The replica was ejected: if nothing of its answer was handed on, another one is asked.
  void OnEjected(const Replica& replica);
  // Nobody waits for the answer any more.
  void Abort();

  void OnHead(int status, HttpHeaders headers) override;
  void OnBody(std::string_view bytes) override;
  void OnEnd() override;
  void OnFailure(const Error& error) override;

 private:
  enum class Client : uint8_t {
    kWaits,     // has seen nothing
    kPinged,    // has the stream's head and comments
    kReceives,  // has seen a part of the answer
  };
  // What is done with the answer that comes.
  enum class Use : uint8_t { kHandOn, kKeepAsLastResort, kReportAsError };

  bool Admit();
  void TryNext();
  void AnswerWithoutReplica();
  void Forward();
  void BeginStream();
  void Release();
  void Finish();
  void Answer(HttpResponse response);
  void BreakOff(std::string_view message);

  GatewayCore& core_;
  HttpRequest request_;
  std::shared_ptr<ResponseWriter> writer_;  // nullptr: finished
  RequestProfile profile_;
  std::vector<ReplicaSet::Pointer> tried_;
  ReplicaSet::Pointer replica_;  // that is asked now
  int64_t share_ = 0;            // of its outstanding tokens
  std::shared_ptr<UpstreamCall> call_;

  Client client_ = Client::kWaits;
  Use use_ = Use::kHandOn;
  BodyForm form_ = BodyForm::kWhole;
  int status_ = 0;
  HttpHeaders headers_;
  std::string content_type_;
  std::string body_;  // not yet handed on
  std::string last_failure_;
  std::unique_ptr<HttpResponse> last_resort_;  // an answer that another replica might better
};

}  // namespace tenon
