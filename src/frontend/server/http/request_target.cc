#include "frontend/server/http/request_target.h"

#include <algorithm>
#include <optional>

namespace tenon {
namespace {

enum class Plus : uint8_t { kLiteral, kSpace };

int HexValue(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Decode(std::string_view text, Plus plus) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3)
        return std::nullopt;
      const int high = HexValue(text[i + 1]);
      const int low = HexValue(text[i + 2]);
      if (high < 0 || low < 0)
        return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus == Plus::kSpace) {
      c = ' ';
    }
    if (c == '\0')
      return std::nullopt;
    decoded.push_back(c);
  }
  return decoded;
}

// Calls `each` for the pieces of `text` between separators; false as soon as `each` returns false.
template <class Each>
bool Split(std::string_view text, char separator, const Each& each) {
  for (;;) {
    const size_t end = text.find(separator);
    if (!each(text.substr(0, end)))
      return false;
    if (end == std::string_view::npos)
      return true;
    text.remove_prefix(end + 1);
  }
}

bool ParsePath(std::string_view text, RequestTarget& target) {
  return Split(text.substr(1), '/', [&](std::string_view piece) {
    auto segment = Decode(piece, Plus::kLiteral);
    if (!segment)
      return false;
    target.path += '/';
    target.path += *segment;
    target.segments.push_back(*std::move(segment));
    return true;
  });
}

bool ParseQuery(std::string_view text, RequestTarget& target) {
  return Split(text, '&', [&](std::string_view piece) {
    const size_t equals = std::min(piece.find('='), piece.size());
    auto name = Decode(piece.substr(0, equals), Plus::kSpace);
    auto value = Decode(piece.substr(std::min(equals + 1, piece.size())), Plus::kSpace);
    if (!name || !value)
      return false;
    if (!name->empty())
      target.query.insert_or_assign(*std::move(name), *std::move(value));
    return true;
  });
}

}  // namespace

Result<RequestTarget> ParseTarget(std::string_view text) {
  RequestTarget target;
  if (text == "*") {
    target.path = target.origin_form = "*";
    return target;
  }
  const size_t scheme = text.find("://");
  if (!text.empty() && text[0] != '/' && scheme != std::string_view::npos) {
    text.remove_prefix(scheme + 3);
    const size_t end = std::min(text.find_first_of("/?"), text.size());
    target.authority = std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  const size_t fragment = text.find('#');
  text = text.substr(0, fragment);
  const size_t question = std::min(text.find('?'), text.size());
  std::string_view path = text.substr(0, question);
  if (path.empty() && !target.authority.empty())
    path = "/";
  target.origin_form = std::string(path);
  target.origin_form += text.substr(question);
  if (path.empty() || path[0] != '/')
    return InvalidArgument("the request target has no path");
  if (!ParsePath(path, target))
    return InvalidArgument("the path has a broken percent code");
  if (question < text.size() && !ParseQuery(text.substr(question + 1), target))
    return InvalidArgument("the query has a broken percent code");
  return target;
}

}  // namespace tenon
