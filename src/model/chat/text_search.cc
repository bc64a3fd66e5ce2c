#include "model/chat/text_search.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

void ChargeFound(Runtime& rt) {
  rt.budget().Step();
  rt.budget().Bytes(sizeof(size_t));
}

}  // namespace

size_t FindPart(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size())
    return kNotFound;
  const std::string_view rest = text.substr(from);
  if (part.empty())
    return from;
  // memmem is linear in the worst case; string_view::find is not.
  const void* found = memmem(rest.data(), rest.size(), part.data(), part.size());
  return found == nullptr ? kNotFound
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLastPart(std::string_view text, std::string_view part) {
  // Reversed, the last place is the first.
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t found = FindPart(reversed, reversed_part);
  return found == kNotFound ? kNotFound : text.size() - found - part.size();
}

std::vector<size_t> FindParts(Runtime& rt, std::string_view text, std::string_view part,
                              int64_t limit) {
  rt.budget().Scan(text.size());
  std::vector<size_t> places;
  size_t at = FindPart(text, part);
  while (at != kNotFound && limit-- != 0) {
    ChargeFound(rt);
    places.push_back(at);
    at = FindPart(text, part, at + part.size());
  }
  return places;
}

std::vector<size_t> FindPartsFromRight(Runtime& rt, std::string_view text, std::string_view part,
                                       int64_t limit) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  std::vector<size_t> places = FindParts(rt, reversed, reversed_part, limit);
  for (size_t& place : places)
    place = text.size() - place - part.size();
  return places;
}

Value ReplaceParts(Runtime& rt, const Value& text, std::string_view part,
                   std::string_view replacement, int64_t limit) {
  const std::string_view source = text.text();
  TextBuilder out(rt);
  if (part.empty()) {  // before every character and at the end
    size_t pos = 0;
    for (; limit != 0; --limit) {
      rt.budget().Step();
      out.Append(replacement);
      const size_t start = pos;
      if (pos == source.size())
        return out.Finish();
      DecodeAt(source, pos);
      out.Append(source.substr(start, pos - start));
    }
    return out.Append(source.substr(pos)).Finish();
  }
  const std::vector<size_t> places = FindParts(rt, source, part, limit);
  if (places.empty())
    return text;
  size_t done = 0;
  for (const size_t place : places) {
    out.Append(source.substr(done, place - done)).Append(replacement);
    done = place + part.size();
  }
  return out.Append(source.substr(done)).Finish();
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    if (!IsLineBreak(c))
      continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n')
      ++pos;
    lines.push_back(text.substr(start, pos - start));
    start = pos;
  }
  if (start < text.size())
    lines.push_back(text.substr(start));
  return lines;
}

std::string_view WithoutBreak(std::string_view line) {
  if (line.size() >= 2 && line.substr(line.size() - 2) == "\r\n")
    return line.substr(0, line.size() - 2);
  if (line.empty())
    return line;
  const size_t start = PreviousStart(line, line.size());
  size_t pos = start;
  return IsLineBreak(DecodeAt(line, pos)) ? line.substr(0, start) : line;
}

}  // namespace tenon::chat
