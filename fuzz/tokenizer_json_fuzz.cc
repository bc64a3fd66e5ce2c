// Any text as a tokenizer.json: it is refused, or becomes a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/hf/tokenizer_json.h"
#include "model/tokenizer/tokenizer.h"

namespace {

// Some of everything: words, spaces, accents, digits, what is no UTF-8, control text.
constexpr std::string_view kText =
    "Hello  w\xC3\xB6rld\xCC\x81 <s>ab</s> 12\xC2\xBD \xE6\xBC\xA2\xE5\xAD\x97 "
    "it's\r\n\t\xFF\xE2\x96 "
    "\xF0\x9F\x98\x80";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = tenon::JsonDocument::Parse(text, "input");
  if (!document.ok())
    return 0;
  auto spec = tenon::ReadTokenizerJson(document->root(), 0);
  if (!spec.ok())
    return 0;
  const auto tokenizer = tenon::Tokenizer::Create(*std::move(spec));
  if (!tokenizer.ok())
    return 0;
  for (const auto special : {tenon::SpecialText::kPlain, tenon::SpecialText::kParse}) {
    const auto ids = (*tokenizer)->Encode(kText, special, tenon::AddSpecial::kModelDefault);
    for (const int32_t id : ids)
      TENON_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    (void)(*tokenizer)->Decode(ids, special);
  }
  return 0;
}
