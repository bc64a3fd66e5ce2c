#include "frontend/server/api/request_log.h"

#include "base/log.h"

namespace tenon {
namespace {

Json LineOf(const Caller& caller, int status) {
  Json line;
  line["request_id"] = caller.request_id;
  line["path"] = caller.path;
  line["status"] = status;
  if (!caller.key_name.empty())
    line["key"] = caller.key_name;
  return line;
}

int64_t Milliseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1000.0 + 0.5);
}

void AddContent(const ApiAnswer& answer, Json& line) {
  Json prompts = Json::array();
  for (const AnswerPrompt& prompt : answer.prompts)
    prompts.push_back(answer.tokenizer->Decode(prompt.ids, SpecialText::kParse));
  line["prompts"] = std::move(prompts);
  Json answers = Json::array();
  for (const AnswerChoice& choice : answer.choices)
    answers.push_back(choice.reasoning + choice.content);
  line["answers"] = std::move(answers);
}

}  // namespace

void LogAnswer(ApiContext& context, const Caller& caller, const ApiAnswer& answer, int status,
               std::string_view outcome) {
  context.metrics().OnHttpRequest(caller.path, status);
  if (!LogEnabled(LogLevel::kInfo))
    return;
  const RequestTimings timings = answer.timings();
  Json line = LineOf(caller, status);
  line["outcome"] = outcome;
  line["prompt_tokens"] = answer.prompt_tokens();
  line["cached_tokens"] = answer.cached_tokens();
  line["completion_tokens"] = answer.completion_tokens();
  line["queue_ms"] = Milliseconds(timings.queue_s);
  line["first_token_ms"] = Milliseconds(timings.first_token_s);
  line["total_ms"] = Milliseconds(timings.total_s);
  if (context.options().content_log == ContentLog::kOn)
    AddContent(answer, line);
  LogMessage(LogLevel::kInfo, DumpJson(line));
}

void LogRequest(ApiContext& context, const Caller& caller, int status) {
  context.metrics().OnHttpRequest(caller.path, status);
  if (LogEnabled(LogLevel::kInfo))
    LogMessage(LogLevel::kInfo, DumpJson(LineOf(caller, status)));
}

}  // namespace tenon
