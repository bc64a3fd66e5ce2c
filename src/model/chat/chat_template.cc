#include "model/chat/chat_template.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/chat/evaluator.h"
#include "model/chat/parser.h"
#include "model/chat/scopes.h"
#include "model/chat/template_failure.h"
#include "model/chat/unicode.h"

namespace tenon {
namespace {

// Published templates take up to 30 kB.
constexpr size_t kMaxSourceBytes = 1 << 20;

std::string Place(const std::string& name, int line) {
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

}  // namespace

struct ChatTemplate::State {
  chat::Template parsed;
  std::string name;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view name) {
  auto state = std::make_unique<State>();
  state->name = name;
  if (source.size() > kMaxSourceBytes)
    return InvalidArgument(fmt::format("the template has {} bytes; at most {} are accepted",
                                       source.size(), kMaxSourceBytes),
                           state->name);
  if (!chat::IsValidUtf8(source))
    return InvalidArgument("the template is not valid UTF-8", state->name);
  try {
    state->parsed = chat::ParseTemplate(source);
    chat::ResolveScopes(state->parsed);
  } catch (const chat::TemplateFailure& failure) {
    return InvalidArgument(failure.message, Place(state->name, failure.line));
  }
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::Render(const nlohmann::ordered_json& variables,
                                         const ChatBudget& budget) const {
  if (!variables.is_object())
    return InvalidArgument("the variables of a chat template must be an object", state_->name);
  chat::Runtime runtime(budget.steps, budget.output_bytes);
  runtime.local_time = budget.local_time;
  try {
    return chat::Evaluator(state_->parsed, runtime, variables).Run();
  } catch (const chat::TemplateFailure& failure) {
    const int line = failure.line > 0 ? failure.line : runtime.line;
    return InvalidArgument(failure.message, Place(state_->name, line));
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kResourceExhausted, "out of memory while rendering the template",
                     state_->name);
  }
}

}  // namespace tenon
