// HttpClient: GET requests over libcurl, with bounded redirects, time limits and secrets that stay
// with the host they are for.
//
// A transfer that stands still fails instead of hanging. Errors name the URL without its secrets.
// Threading: one client per thread; it keeps connections open between requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

struct HttpSettings {
  // A file or a directory of certificates; empty: what the system uses.
  std::filesystem::path ca_bundle;
  std::chrono::seconds connect_timeout{20};
  // A transfer slower than 1 KiB/s for this long is given up (and retried).
  std::chrono::seconds stall_timeout{30};
  // Tries in a row that bring nothing new, and the waits between them: doubled from first to last.
  int max_tries = 5;
  std::chrono::milliseconds first_retry_delay{500};
  std::chrono::milliseconds last_retry_delay{8000};
};

struct FetchRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string access_hint;           // what to add to the error if access is refused
  std::string bearer_token;          // sent to the origin of `url` only, whatever it redirects to
};

// Status and headers of the last response of a redirect chain.
struct HttpHead {
  int status = 0;
  std::string url;                             // where the response came from
  std::map<std::string, std::string> headers;  // names in lower case

  // The header's value, "" if there is none.
  std::string_view Header(std::string_view name) const;
};

// Receives a successful (2xx) response. An error from either function ends the transfer.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual Status OnHead(const HttpHead& head) = 0;
  virtual Status OnBody(std::span<const std::byte> bytes) = 0;
};

enum class RetryAdvice {
  kFinal,      // the same request would fail again
  kTransient,  // the network or the server may recover
};

struct HttpOutcome {
  HttpHead head;               // status 0 if no response came
  std::optional<Error> error;  // nullopt: the sink has the whole body
  RetryAdvice advice = RetryAdvice::kFinal;
  std::chrono::milliseconds retry_after{0};  // what the server asked for
};

struct HttpBody {
  HttpHead head;
  std::string text;
};

// Waits; fails with kCancelled as soon as a stop is requested.
Status WaitUnlessStopped(const std::stop_token& stop, std::chrono::milliseconds delay);

class HttpClient {
 public:
  // `stop` ends any request or wait with kCancelled.
  HttpClient(HttpSettings settings, std::stop_token stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One try. A status other than 2xx is an error.
  HttpOutcome Fetch(const FetchRequest& request, HttpSink& sink);

  // A whole small body, with retries.
  Result<HttpBody> FetchText(const FetchRequest& request, uint64_t max_bytes);

  // Waits before try number `failures` + 1. Fails with kCancelled if the client was stopped.
  Status WaitToRetry(int failures, std::chrono::milliseconds retry_after);

  const HttpSettings& settings() const { return settings_; }

 private:
  struct Transfer;
  void Configure(const FetchRequest& request, const std::string& url, Transfer& transfer);
  HttpOutcome FetchOnce(const FetchRequest& request, const std::string& url, HttpSink& sink);

  HttpSettings settings_;
  std::stop_token stop_;
  void* curl_ = nullptr;  // CURL*
};

}  // namespace tenon
