// Fuzzes ChatTemplate: the input is a template, rendered with a fixed conversation under a small
// budget. Whatever it holds, it parses and renders or gives an error.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/chat/chat_template.h"

namespace {

constexpr char kVariables[] = R"({
  "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "h\u00e9 \ud83d\udc69"},
               {"role": "assistant", "content": null,
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
  "s": "Hello World", "i": 7, "f": -2.5, "l": [3, 1, 2], "d": {"b": 2, "a": 1}, "n": null,
  "big": 18446744073709551615, "bos_token": "<s>", "add_generation_prompt": true})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto variables = nlohmann::ordered_json::parse(kVariables);
  const auto parsed =
      tenon::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parsed)
    return 0;
  tenon::ChatBudget budget;
  budget.steps = 20000;
  budget.output_bytes = 1 << 20;
  (void)parsed->Render(variables, budget);
  return 0;
}
