#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/utf8.h"

namespace tenon {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, SpecialText special)
    : tokenizer_(tokenizer), special_(special) {}

std::string StreamingDetokenizer::Push(int32_t id) {
  held_ += tokenizer_.BytesAfter(previous_, id, special_);
  previous_ = id;
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Char c = DecodeUtf8(held_, at);
    if (c.state == Utf8State::kTruncated)
      break;
    if (c.state == Utf8State::kValid)
      out.append(held_, at, c.length);
    else
      AppendUtf8(kReplacement, out);
    at += c.length;
  }
  held_.erase(0, at);
  return out;
}

// What is held is the valid start of one character: one maximal invalid part.
std::string StreamingDetokenizer::Flush() {
  std::string out;
  if (!held_.empty())
    AppendUtf8(kReplacement, out);
  held_.clear();
  return out;
}

}  // namespace tenon
