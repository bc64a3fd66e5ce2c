#include "frontend/store/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>

#include "base/check.h"
#include "base/log.h"
#include "frontend/store/ascii.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

constexpr int kMaxRedirects = 10;
constexpr long kStallBytesPerSecond = 1024;
// An error page is read up to here and then dropped with its connection.
constexpr size_t kMaxIgnoredBytes = 1 << 20;
// A server may ask for a longer pause than a person wants to wait for.
constexpr std::chrono::seconds kMaxRetryAfter{60};

void InitializeCurl() {
  static std::once_flag once;
  std::call_once(once, [] { TENON_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool IsTransientStatus(int status) {
  return status == 408 || status == 425 || status == 429 || (status >= 500 && status != 501);
}

bool IsTransientCode(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

// Retry-After in seconds; its date form is rare enough to be ignored.
std::chrono::milliseconds RetryAfter(const HttpHead& head) {
  const std::string_view text = head.Header("retry-after");
  int64_t seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc() || seconds < 0)
    return std::chrono::milliseconds(0);
  return std::chrono::seconds(std::min<int64_t>(seconds, kMaxRetryAfter.count()));
}

Error StatusError(const HttpHead& head, std::string_view access_hint) {
  const std::string where = RedactUrl(head.url);
  switch (head.status) {
    case 401:
    case 403:
      return MakeError(ErrorCode::kIo,
                       fmt::format("HTTP status {}: access was refused{}{}", head.status,
                                   access_hint.empty() ? "" : ": ", access_hint),
                       where);
    case 404:
    case 410:
      return NotFound(fmt::format("HTTP status {}: not found on the server", head.status), where);
    default:
      return MakeError(ErrorCode::kIo, fmt::format("HTTP status {}", head.status), where);
  }
}

Error CancelledError() {
  return MakeError(ErrorCode::kCancelled, "stopped on request");
}

// The place a redirect leads to. Leaving https is refused: anybody could answer there.
Result<std::string> RedirectTarget(const HttpHead& head) {
  const std::string_view location = head.Header("location");
  if (location.empty())
    return MakeError(ErrorCode::kIo, "a redirect without a target", RedactUrl(head.url));
  TENON_ASSIGN_OR_RETURN(std::string target, ResolveUrl(head.url, location));
  if (head.url.starts_with("https:") && !target.starts_with("https:")) {
    return MakeError(ErrorCode::kIo,
                     fmt::format("a redirect from https to '{}' is refused", RedactUrl(target)),
                     RedactUrl(head.url));
  }
  return target;
}

// Collects a small body.
class TextSink : public HttpSink {
 public:
  explicit TextSink(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  Status OnHead(const HttpHead& head) override {
    url_ = head.url;
    text_.clear();
    return {};
  }
  Status OnBody(std::span<const std::byte> bytes) override {
    if (bytes.size() > max_bytes_ - text_.size()) {
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("the answer is longer than {} bytes", max_bytes_),
                       RedactUrl(url_));
    }
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  std::string TakeText() { return std::move(text_); }

 private:
  uint64_t max_bytes_;
  std::string url_;
  std::string text_;
};

}  // namespace

Status WaitUnlessStopped(const std::stop_token& stop, std::chrono::milliseconds delay) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, delay, [] { return false; });
  if (stop.stop_requested())
    return CancelledError();
  return {};
}

std::string_view HttpHead::Header(std::string_view name) const {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

// What libcurl's callbacks work on during one exchange.
struct HttpClient::Transfer {
  enum class Stage { kHeaders, kBody };

  HttpSink* sink = nullptr;
  std::stop_token stop;
  HttpHead head;
  Stage stage = Stage::kHeaders;
  std::optional<Error> sink_error;
  size_t ignored_bytes = 0;
  curl_slist* headers = nullptr;
  char message[CURL_ERROR_SIZE] = {};

  ~Transfer() { curl_slist_free_all(headers); }
  void AddHeader(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
  bool Succeeds() const { return head.status >= 200 && head.status < 300; }

  // Hands the head to the sink once, before the first byte of the body or after the last header.
  void StartBody() {
    if (stage == Stage::kBody)
      return;
    stage = Stage::kBody;
    if (!Succeeds())
      return;
    if (Status status = sink->OnHead(head); !status.ok())
      sink_error = status.error();
  }

  void TakeHeaderLine(std::string_view line) {
    if (stage == Stage::kBody)
      return;  // a trailer
    if (line.starts_with("HTTP/")) {
      // A new response starts: the one before it was informational or a proxy's.
      head.headers.clear();
      const size_t space = std::min(line.find(' '), line.size() - 1) + 1;
      std::from_chars(line.data() + space, line.data() + line.size(), head.status);
      return;
    }
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      head.headers[LowerCaseAscii(line.substr(0, colon))] =
          std::string(TrimAscii(line.substr(colon + 1)));
  }

  static size_t OnHeaderLine(char* data, size_t size, size_t count, void* self) {
    static_cast<Transfer*>(self)->TakeHeaderLine({data, size * count});
    return size * count;
  }

  // Returning less than was given ends the transfer.
  static size_t OnBodyBytes(char* data, size_t size, size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const size_t bytes = size * count;
    transfer.StartBody();
    if (!transfer.Succeeds()) {
      transfer.ignored_bytes += bytes;
      return transfer.ignored_bytes > kMaxIgnoredBytes ? 0 : bytes;
    }
    if (!transfer.sink_error.has_value()) {
      if (Status status = transfer.sink->OnBody(std::as_bytes(std::span(data, bytes)));
          !status.ok())
        transfer.sink_error = status.error();
    }
    return transfer.sink_error.has_value() ? 0 : bytes;
  }

  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(self)->stop.stop_requested() ? 1 : 0;
  }
};

HttpClient::HttpClient(HttpSettings settings, std::stop_token stop)
    : settings_(std::move(settings)), stop_(std::move(stop)) {
  InitializeCurl();
  curl_ = curl_easy_init();
  TENON_CHECK(curl_ != nullptr);
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(static_cast<CURL*>(curl_));
}

void HttpClient::Configure(const FetchRequest& request, const std::string& url,
                           Transfer& transfer) {
  CURL* curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);  // connections stay
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tenon");
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT,
                   static_cast<long>(settings_.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(settings_.stall_timeout.count()));
  if (!settings_.ca_bundle.empty()) {
    std::error_code ignored;
    const bool directory = std::filesystem::is_directory(settings_.ca_bundle, ignored);
    curl_easy_setopt(curl, directory ? CURLOPT_CAPATH : CURLOPT_CAINFO,
                     settings_.ca_bundle.c_str());
  }
  for (const std::string& header : request.headers)
    transfer.AddHeader(header);
  if (!request.bearer_token.empty() && SameOrigin(url, request.url))
    transfer.AddHeader("Authorization: Bearer " + request.bearer_token);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, transfer.headers);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer.message);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::OnHeaderLine);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::OnBodyBytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
}

HttpOutcome HttpClient::FetchOnce(const FetchRequest& request, const std::string& url,
                                  HttpSink& sink) {
  Transfer transfer;
  transfer.sink = &sink;
  transfer.stop = stop_;
  transfer.head.url = url;
  Configure(request, url, transfer);
  const CURLcode code = curl_easy_perform(static_cast<CURL*>(curl_));
  if (code == CURLE_OK)
    transfer.StartBody();
  HttpOutcome outcome;
  outcome.head = std::move(transfer.head);
  const bool dropped_page = transfer.ignored_bytes > kMaxIgnoredBytes;
  if (transfer.sink_error.has_value()) {
    outcome.error = std::move(transfer.sink_error);
  } else if (code == CURLE_ABORTED_BY_CALLBACK) {
    outcome.error = CancelledError();
  } else if (code != CURLE_OK && !dropped_page) {
    const char* detail = transfer.message[0] != '\0' ? transfer.message : curl_easy_strerror(code);
    outcome.error = MakeError(ErrorCode::kIo, detail, RedactUrl(url));
    outcome.advice = IsTransientCode(code) ? RetryAdvice::kTransient : RetryAdvice::kFinal;
  }
  return outcome;
}

HttpOutcome HttpClient::Fetch(const FetchRequest& request, HttpSink& sink) {
  std::string url = request.url;
  HttpOutcome outcome;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    outcome = FetchOnce(request, url, sink);
    const int status = outcome.head.status;
    if (outcome.error.has_value())
      return outcome;
    if (!IsRedirect(status)) {
      if (status < 200 || status >= 300) {
        outcome.error = StatusError(outcome.head, request.access_hint);
        outcome.advice = IsTransientStatus(status) ? RetryAdvice::kTransient : RetryAdvice::kFinal;
        outcome.retry_after = RetryAfter(outcome.head);
      }
      return outcome;
    }
    Result<std::string> target = RedirectTarget(outcome.head);
    if (!target.ok()) {
      outcome.error = std::move(target).error();
      return outcome;
    }
    url = std::move(target).value();
  }
  outcome.error = MakeError(ErrorCode::kIo, fmt::format("more than {} redirects", kMaxRedirects),
                            RedactUrl(request.url));
  return outcome;
}

Result<HttpBody> HttpClient::FetchText(const FetchRequest& request, uint64_t max_bytes) {
  TextSink sink(max_bytes);
  for (int failures = 1;; ++failures) {
    HttpOutcome outcome = Fetch(request, sink);
    if (!outcome.error.has_value())
      return HttpBody{std::move(outcome.head), sink.TakeText()};
    if (outcome.advice == RetryAdvice::kFinal || failures >= settings_.max_tries)
      return *std::move(outcome.error);
    Log(LogLevel::kInfo, "trying again: {}", outcome.error->ToString());
    TENON_RETURN_IF_ERROR(WaitToRetry(failures, outcome.retry_after));
  }
}

Status HttpClient::WaitToRetry(int failures, std::chrono::milliseconds retry_after) {
  // Doubling stops at 2^16: the last delay has long been reached.
  const auto doubled = settings_.first_retry_delay * (1 << std::clamp(failures - 1, 0, 16));
  const auto delay = std::max(std::min(doubled, settings_.last_retry_delay), retry_after);
  return WaitUnlessStopped(stop_, delay);
}

}  // namespace tenon
