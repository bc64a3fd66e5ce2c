// Small operations on URLs, on libcurl's parser. All text is untrusted; a bad URL is an error.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tenon {

// True for text that starts with http:// or https://, in any case.
bool IsHttpUrl(std::string_view text);

// `reference` (absolute or relative) as seen from `base`. Only http and https come out.
Result<std::string> ResolveUrl(std::string_view base, std::string_view reference);

// "https://host:443": two URLs with the same origin are answered by the same server.
Result<std::string> UrlOrigin(std::string_view url);

// True if both are URLs of one origin.
bool SameOrigin(std::string_view a, std::string_view b);

// True if the URL's host is this machine (localhost, 127.0.0.1, [::1]).
bool IsLoopbackUrl(std::string_view url);

// The URL for messages: without user, password, query and fragment, any of which may be secret.
std::string RedactUrl(std::string_view url);

// `url` with the user and password of `from`, if they share an origin and `url` has none.
std::string AdoptCredentials(std::string_view url, std::string_view from);

// The decoded last segment of the path, "" if there is none.
std::string UrlFileName(std::string_view url);

// Percent-encodes a path, keeping its slashes.
std::string EncodeUrlPath(std::string_view path);

// Decodes %XX.
std::string DecodeUrl(std::string_view text);

}  // namespace tenon
