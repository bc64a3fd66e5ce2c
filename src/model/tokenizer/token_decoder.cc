#include "model/tokenizer/token_decoder.h"

#include "model/tokenizer/named_byte.h"

namespace tenon {
namespace {

void ReplaceEach(std::string_view from, std::string_view to, std::string& text) {
  if (from.empty())
    return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// What WordPiece's decoder mends of English, in its order.
constexpr std::pair<std::string_view, std::string_view> kCleanup[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

}  // namespace

std::string TokenDecoder::Bytes(const Token& token) const {
  std::string out(token.text);
  for (const DecoderStep& step : steps_)
    std::visit([&](const auto& concrete) { Apply(concrete, token, out); }, step);
  return out;
}

// A token with a character outside the alphabet stands for itself.
void TokenDecoder::Apply(const decoder::ByteLevel&, const Token&, std::string& out) const {
  std::string bytes = alphabet_.Bytes(out);
  if (SpellBytes(bytes) == out)
    out = std::move(bytes);
}

void TokenDecoder::Apply(const decoder::ByteFallback&, const Token&, std::string& out) const {
  if (const int byte = NamedByte(out); byte >= 0)
    out.assign(1, static_cast<char>(byte));
}

void TokenDecoder::Apply(const decoder::Replace& step, const Token&, std::string& out) const {
  ReplaceEach(step.from, step.to, out);
}

void TokenDecoder::Apply(const decoder::Strip& step, const Token& token, std::string& out) const {
  for (int64_t i = 0; token.first && i < step.start && out.starts_with(step.content); ++i)
    out.erase(0, step.content.size());
}

void TokenDecoder::Apply(const decoder::Metaspace& step, const Token& token,
                         std::string& out) const {
  ReplaceEach(step.replacement, token.first && step.strips_first ? "" : " ", out);
}

void TokenDecoder::Apply(const decoder::WordPiece& step, const Token& token,
                         std::string& out) const {
  if (!token.first) {
    if (out.starts_with(step.prefix))
      out.erase(0, step.prefix.size());
    else
      out.insert(0, " ");
  }
  if (step.cleanup) {
    for (const auto& [from, to] : kCleanup)
      ReplaceEach(from, to, out);
  }
}

// A suffix is a space once another token follows: the following one brings it.
void TokenDecoder::Apply(const decoder::Bpe& step, const Token& token, std::string& out) const {
  ReplaceEach(step.suffix, "", out);
  if (!token.first && !step.suffix.empty() && token.previous.ends_with(step.suffix))
    out.insert(0, " ");
}

void TokenDecoder::Apply(const decoder::Fuse&, const Token&, std::string&) const {}

void TokenDecoder::Apply(const decoder::JoinWithSpaces&, const Token& token,
                         std::string& out) const {
  if (!token.first)
    out.insert(0, " ");
}

}  // namespace tenon
