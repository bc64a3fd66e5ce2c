#include "graph/text_tokens.h"

#include <fmt/format.h>

#include <charconv>

namespace tenon {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '/' || c == ':' || c == '-' || c == '+';
}

// ':' ends a declaration, so a bare name may not end in it.
bool IsBareName(std::string_view name) {
  if (name.empty() || name.back() == ':')
    return false;
  for (const char c : name) {
    if (!IsWordChar(c))
      return false;
  }
  return true;
}

bool NeedsEscape(char c) {
  return c == '\\' || c == '"' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

}  // namespace

std::string EscapeText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (NeedsEscape(c))
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      escaped += c;
  }
  return escaped;
}

std::optional<std::string> UnescapeText(std::string_view text) {
  constexpr size_t kEscapeLength = 4;  // \xNN
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    if (text.size() - i < kEscapeLength || text[i + 1] != 'x')
      return std::nullopt;
    unsigned byte = 0;
    const char* begin = text.data() + i + 2;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    if (error != std::errc() || end != begin + 2)
      return std::nullopt;
    plain += static_cast<char>(byte);
    i += kEscapeLength - 1;
  }
  return plain;
}

std::string NameToken(std::string_view name) {
  return IsBareName(name) ? std::string(name) : fmt::format("\"{}\"", EscapeText(name));
}

std::string WeightToken(std::string_view tensor) {
  return fmt::format("@{}", NameToken(tensor));
}

void LineReader::SkipSpaces() {
  while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r'))
    rest_.remove_prefix(1);
}

bool LineReader::Accept(std::string_view token) {
  SkipSpaces();
  if (rest_.substr(0, token.size()) != token)
    return false;
  rest_.remove_prefix(token.size());
  return true;
}

bool LineReader::AtEnd() {
  SkipSpaces();
  return rest_.empty();
}

std::string_view LineReader::Word() {
  SkipSpaces();
  size_t size = 0;
  while (size < rest_.size() && IsWordChar(rest_[size]))
    ++size;
  const std::string_view word = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return word;
}

std::optional<int64_t> LineReader::Number() {
  SkipSpaces();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
  if (error != std::errc())
    return std::nullopt;
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  return number;
}

std::optional<std::string> LineReader::Name() {
  if (!Accept("\"")) {
    std::string_view word = Word();
    if (!word.empty() && word.back() == ':') {
      word.remove_suffix(1);
      rest_ = std::string_view(word.data() + word.size(), rest_.size() + 1);
    }
    return word.empty() ? std::nullopt : std::optional<std::string>(word);
  }
  const size_t end = rest_.find('"');
  if (end == std::string_view::npos)
    return std::nullopt;
  const std::string_view quoted = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return UnescapeText(quoted);
}

}  // namespace tenon
