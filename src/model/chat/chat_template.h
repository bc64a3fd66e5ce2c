// ChatTemplate: a model's own Jinja template, rendered as transformers' apply_chat_template does.
//
// Owns the parsed template. Untrusted: rendering has a step and an output budget and sees only the
// values it is given. Threading: Render is const; any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tenon {

struct ChatBudget {
  int64_t steps = 2'000'000;          // evaluated nodes: a real template needs some thousands
  int64_t output_bytes = 64LL << 20;  // of text and values, intermediate ones included
  std::optional<std::tm> local_time;  // what strftime_now sees; empty: the system clock
};

class ChatTemplate {
 public:
  // Errors name the line. `name` stands for the template in messages.
  static Result<ChatTemplate> Parse(std::string_view source,
                                    std::string_view name = "chat template");

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables` is a JSON object: messages, tools, add_generation_prompt, bos_token, eos_token and
  // whatever else the caller passes. raise_exception and budget overruns are kInvalidArgument with
  // the template's own text.
  Result<std::string> Render(const nlohmann::ordered_json& variables,
                             const ChatBudget& budget = {}) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenon
