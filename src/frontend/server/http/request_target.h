// The target of an HTTP request line, taken apart and decoded. All text is untrusted.
//
// Source: RFC 9112 section 3.2, RFC 3986.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

struct RequestTarget {
  std::string authority;              // of the absolute form "http://host/path", else empty
  std::string origin_form;            // path and query as they came
  std::string path;                   // decoded
  std::vector<std::string> segments;  // of the path: split at '/', then decoded
  std::map<std::string, std::string> query;
};

// Fails for a target without a path, for broken percent codes and for NUL characters. "*" (as in
// OPTIONS *) is a path of its own without segments.
Result<RequestTarget> ParseTarget(std::string_view text);

}  // namespace tenon
