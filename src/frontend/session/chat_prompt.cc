#include "frontend/session/chat_prompt.h"

#include <array>
#include <string>
#include <string_view>

namespace tenon {
namespace {

// Characters that Unicode reserves for internal use and that no text may interchange. One of them
// is put into control text of users before rendering, and taken out afterwards.
constexpr std::array<std::string_view, 4> kMarks = {"\xEF\xB7\x90", "\xEF\xB7\x91", "\xEF\xB7\x92",
                                                    "\xEF\xB7\x93"};

bool Contains(const nlohmann::ordered_json& value, std::string_view text) {
  if (value.is_string())
    return value.get_ref<const std::string&>().find(text) != std::string::npos;
  for (const auto& element : value) {
    if (value.is_structured() && Contains(element, text))
      return true;
  }
  return false;
}

// Puts the mark after the first byte of each spelling of a control token.
void MarkControlText(const Tokenizer& tokenizer, std::string_view mark,
                     nlohmann::ordered_json& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    const std::vector<size_t> offsets = tokenizer.FindControlText(text);
    for (auto offset = offsets.rbegin(); offset != offsets.rend(); ++offset)
      text.insert(*offset + 1, mark);
    return;
  }
  if (!value.is_structured())
    return;
  for (auto& element : value)
    MarkControlText(tokenizer, mark, element);
}

// Removes the marks; the offsets of the control text that they stood in.
std::vector<size_t> TakeMarks(std::string_view mark, std::string& text) {
  std::vector<size_t> offsets;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.erase(at, mark.size());
    if (at > 0)
      offsets.push_back(at - 1);
  }
  return offsets;
}

}  // namespace

Result<std::vector<int32_t>> EncodeChat(const Model& model, const nlohmann::ordered_json& messages,
                                        const nlohmann::ordered_json& variables) {
  std::string_view mark;
  for (std::string_view candidate : kMarks) {
    if (!Contains(messages, candidate))
      mark = candidate;
  }
  if (mark.empty())
    return InvalidArgument("the text uses all of U+FDD0 to U+FDD3, which no text may hold",
                           "messages");
  nlohmann::ordered_json marked = messages;
  MarkControlText(model.tokenizer(), mark, marked);
  TENON_ASSIGN_OR_RETURN(std::string text, model.RenderChat(marked, variables));
  const std::vector<size_t> plain_offsets = TakeMarks(mark, text);
  return model.tokenizer().EncodeRendered(text, plain_offsets);
}

}  // namespace tenon
