// HttpConnection: one accepted socket that speaks HTTP/1.1, request after request.
//
// Bytes are read all the time, also while a handler works: only so is a client that leaves seen at
// once. What a client sends ahead (pipelining) waits in a bounded buffer.
// Threading: everything on the transport's strand, except where ExchangeOwner says otherwise.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "frontend/server/http/exchange.h"
#include "frontend/server/http/service.h"
#include "frontend/server/http/transport.h"

namespace tenon {

class HttpConnection final : public ExchangeOwner,
                             public ServedConnection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  // kServe: answers requests. kRefuse: answers 503 and closes, because there are too many.
  enum class Mode : uint8_t { kServe, kRefuse };

  HttpConnection(std::shared_ptr<Service> service, std::unique_ptr<Transport> transport,
                 std::string remote_address);

  void Start(Mode mode);

  void WakeSender() override;
  void CloseSoon() override;
  void StartPings(std::chrono::milliseconds interval) override;
  bool stopping() const override { return service_->stopping.load(); }
  void Drain() override;
  void Abort() override { CloseSoon(); }

 private:
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Phase : uint8_t {
    kIdle,       // between requests
    kHeader,     // a request began
    kBody,       // its header is complete
    kHandling,   // its answer is open
    kLingering,  // the last answer is sent; what still comes is thrown away
    kClosed,
  };
  enum class Need : uint8_t { kMoreBytes, kNothing };

  // Input.
  void ReadMore();
  void OnRead(ErrorCode error, size_t bytes);
  void OnEndOfInput();
  void Advance();
  Need ParseSome();
  Need BeginRequest();
  Need ParseHeader();
  Need ParseBody();
  size_t Put(ErrorCode& error);
  void OnDeadline();

  // Requests.
  void OnHeader();
  bool ReadRequest();
  bool CheckFraming();
  bool ReadTarget();
  bool CheckAccess();
  bool CheckBrowser(const RequestGate& gate, AnswerForm::Connection after);
  bool CheckExpectation();
  void AnswerOptions();
  void Dispatch();
  void CallHandler(const HttpHandler& handler);
  void Upgrade(const WebSocketFactory& factory);
  void OpenExchange(AnswerForm::Connection after);
  void Reject(HttpResponse response, AnswerForm::Connection after);

  // Output.
  void SendMore();
  void OnSent(ErrorCode error, size_t bytes);
  void FinishAnswer();
  void Linger();
  void Close();

  void ArmDeadline(std::chrono::milliseconds delay);
  void ArmSendDeadline();
  void ArmPing(std::chrono::milliseconds delay);

  const std::shared_ptr<Service> service_;
  std::unique_ptr<Transport> transport_;
  const std::string remote_address_;
  boost::asio::steady_timer deadline_;       // of the phase
  boost::asio::steady_timer send_deadline_;  // of one write
  boost::asio::steady_timer ping_timer_;

  Phase phase_ = Phase::kIdle;
  bool reading_ = false;
  bool sending_ = false;
  bool end_of_input_ = false;
  std::array<char, 16384> chunk_;
  std::string input_;  // not yet parsed
  size_t header_bytes_ = 0;
  std::optional<Parser> parser_;
  HttpRequest request_;
  RouteMatch match_;
  AnswerForm form_;  // of the request that is read
  std::shared_ptr<Exchange> exchange_;
  std::string output_;  // being sent
  size_t sent_bytes_ = 0;
  size_t interim_bytes_ = 0;  // of output_ that no exchange counts (100 Continue)
};

}  // namespace tenon
