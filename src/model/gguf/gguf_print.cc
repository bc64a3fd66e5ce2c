// PrintGgufValue (gguf_metadata.h).
#include <fmt/format.h>

#include "model/gguf/gguf_metadata.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

// A chat template's first lines, or a licence's title; all of it would drown a listing.
constexpr size_t kLongestText = 256;
// Arrays of tags or languages are printed, vocabularies are only counted.
constexpr uint64_t kLongestArray = 16;

// `text` with its control characters escaped; bytes from 0x80 on stay, they are UTF-8 or should be.
std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

std::string PrintText(std::string_view text) {
  if (text.size() <= kLongestText)
    return Escape(text);
  return fmt::format("{}... [{} bytes]", Escape(Utf8Prefix(text, kLongestText)), text.size());
}

std::string PrintScalar(const GgufValue& value) {
  if (value.type == GgufType::kBool)
    return value.bytes[0] == std::byte{0} ? "false" : "true";
  if (const std::optional<int64_t> number = AsInteger(value))
    return fmt::format("{}", *number);
  if (value.type == GgufType::kFloat32)
    return fmt::format("{}", static_cast<float>(*AsFloat(value)));
  if (value.type == GgufType::kFloat64)
    return fmt::format("{}", *AsFloat(value));
  return "more than 2^63";
}

std::string PrintElements(const GgufValue& array) {
  std::string out = "[";
  const auto append = [&out](std::string_view text) {
    out += out.size() > 1 ? ", " : "";
    out += text;
  };
  if (array.element == GgufType::kString) {
    for (const std::string_view text : ArrayStrings(array))
      append(fmt::format("\"{}\"", Escape(text)));
  } else {
    for (uint64_t i = 0; i < array.count; ++i)
      append(PrintScalar(ArrayElement(array, i)));
  }
  return out + "]";
}

std::string PrintArray(const GgufValue& array) {
  const bool is_short = array.count <= kLongestArray && array.bytes.size() <= kLongestText;
  if (is_short && array.element != GgufType::kArray)
    return PrintElements(array);
  return fmt::format("[{} {}s]", array.count, GgufTypeName(array.element));
}

}  // namespace

std::string PrintGgufValue(const GgufValue& value) {
  switch (value.type) {
    case GgufType::kString:
      return PrintText(value.text());
    case GgufType::kArray:
      return PrintArray(value);
    default:
      return PrintScalar(value);
  }
}

}  // namespace tenon
