#include "frontend/server/http/exchange.h"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

class Writer final : public ResponseWriter {
 public:
  explicit Writer(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Writer() override { exchange_->Abandon(); }

  void Send(HttpResponse response) override { exchange_->Send(std::move(response)); }
  void BeginStream(int status, std::string content_type, HttpHeaders headers) override {
    exchange_->BeginStream(status, std::move(content_type), std::move(headers));
  }
  void Write(std::string chunk) override { exchange_->Write(chunk); }
  void End() override { exchange_->End(); }
  void KeepAlive(std::string ping, std::chrono::milliseconds interval) override {
    exchange_->KeepAlive(std::move(ping), interval);
  }
  void OnClose(std::function<void()> callback) override { exchange_->OnClose(std::move(callback)); }
  size_t backlog() const override { return exchange_->backlog(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::shared_ptr<ResponseWriter> MakeWriter(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<Writer>(std::move(exchange));
}

Exchange::Exchange(std::shared_ptr<ExchangeOwner> owner, AnswerForm form, size_t max_backlog_bytes)
    : owner_(std::move(owner)), max_backlog_bytes_(max_backlog_bytes), form_(std::move(form)) {}

// One wake-up for all that is written before the connection looks. Posted under the lock, so that
// none is posted after OnGone: a stopped server's queue stays empty.
void Exchange::AppendLocked(std::string_view bytes) {
  output_ += bytes;
  unsent_bytes_ += bytes.size();
  last_write_ = Clock::now();
  if (!wake_posted_)
    owner_->WakeSender();
  wake_posted_ = true;
}

// The callback is handed out, to die outside the lock: it may hold the last writer.
std::function<void()> Exchange::EndLocked() {
  state_ = State::kEnded;
  return std::exchange(on_close_, nullptr);
}

void Exchange::SendLocked(const HttpResponse& response) {
  if (owner_->stopping())
    form_.connection = AnswerForm::Connection::kClose;
  std::string bytes = AnswerHead(form_, response, response.body.size());
  if (form_.body == AnswerForm::Body::kSent && response.status != 204 && response.status != 304)
    bytes += response.body;
  AppendLocked(bytes);
}

void Exchange::Send(HttpResponse response) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ != State::kOpen)
    return;
  dropped = EndLocked();
  SendLocked(response);
}

void Exchange::BeginStream(int status, std::string content_type, HttpHeaders headers) {
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ != State::kOpen)
    return;
  state_ = State::kStreaming;
  // HTTP/1.0 knows no chunks: there the end of the connection is the end of the body.
  if (owner_->stopping() || form_.version == AnswerForm::Version::kHttp10)
    form_.connection = AnswerForm::Connection::kClose;
  HttpResponse response;
  response.status = status;
  response.content_type = std::move(content_type);
  response.headers = std::move(headers);
  AppendLocked(AnswerHead(form_, response, std::nullopt));
}

void Exchange::WriteLocked(std::string_view chunk) {
  if (form_.body == AnswerForm::Body::kLeftOut || chunk.empty())
    return;
  AppendLocked(form_.version == AnswerForm::Version::kHttp11 ? Chunk(chunk) : std::string(chunk));
}

void Exchange::Write(std::string_view chunk) {
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ != State::kStreaming)
    return;
  WriteLocked(chunk);
  if (unsent_bytes_ > max_backlog_bytes_)
    owner_->CloseSoon();
}

void Exchange::End() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ != State::kStreaming)
    return;
  dropped = EndLocked();
  const bool chunked =
      form_.version == AnswerForm::Version::kHttp11 && form_.body == AnswerForm::Body::kSent;
  AppendLocked(chunked ? kLastChunk : std::string_view());
}

void Exchange::Abandon() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ == State::kEnded)
    return;
  const bool open = state_ == State::kOpen;
  dropped = EndLocked();
  if (open)
    SendLocked(ErrorResponse(500, "the request was dropped without an answer", "server_error"));
  else
    owner_->CloseSoon();
}

void Exchange::KeepAlive(std::string ping, std::chrono::milliseconds interval) {
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ == State::kEnded || interval.count() <= 0)
    return;
  ping_ = std::move(ping);
  ping_interval_ = interval;
  last_write_ = Clock::now();
  owner_->StartPings(interval);
}

std::chrono::milliseconds Exchange::Ping() {
  const std::lock_guard lock(mutex_);
  if (closed_ || state_ == State::kEnded)
    return std::chrono::milliseconds(0);
  const auto quiet =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_write_);
  if (quiet < ping_interval_)
    return ping_interval_ - quiet;
  // Not on top of what the client has yet to take.
  if (state_ == State::kStreaming && unsent_bytes_ == 0)
    WriteLocked(ping_);
  return ping_interval_;
}

void Exchange::OnClose(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded && !closed_)
      return;
    if (!closed_ && !half_closed_) {
      std::swap(on_close_, callback);  // an earlier callback dies outside the lock
      return;
    }
    if (!closed_)
      owner_->CloseSoon();
  }
  if (callback)
    callback();
}

size_t Exchange::backlog() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

std::string Exchange::TakeOutput() {
  const std::lock_guard lock(mutex_);
  wake_posted_ = false;
  return std::exchange(output_, {});
}

void Exchange::OnSent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= std::min(bytes, unsent_bytes_);  // 0 already when the client is gone
}

bool Exchange::finished() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kEnded && output_.empty();
}

bool Exchange::keeps_connection() const {
  const std::lock_guard lock(mutex_);
  return form_.connection == AnswerForm::Connection::kKeepAlive;
}

bool Exchange::OnGone(Gone gone) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      return true;
    half_closed_ = true;
    callback = std::exchange(on_close_, nullptr);
    closed_ = gone == Gone::kClosed || callback != nullptr;
    if (closed_ && gone == Gone::kClosed)
      output_.clear();
    unsent_bytes_ = closed_ ? 0 : unsent_bytes_;
  }
  if (callback)
    callback();
  return closed_;
}

}  // namespace tenon
