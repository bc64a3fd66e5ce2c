// POST /v1/chat/completions.
#include <fmt/format.h>

#include "frontend/server/api/answer_json.h"
#include "frontend/server/api/chat_messages.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

struct ChatOptions {
  OutputOptions output;
  bool logprobs = false;
  int32_t top_logprobs = 0;
};

class ChatFormat final : public AnswerFormat {
 public:
  explicit ChatFormat(const ChatOptions& options) : options_(options) {}

  Json Whole(const ApiAnswer& answer) override;
  void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) override;
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override;
  void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) override;
  void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) override;

 private:
  Json WholeChoice(const ApiAnswer& answer, size_t index) const;
  Json Frame(const ApiAnswer& answer, const char* object) const;
  Json Chunk(const ApiAnswer& answer, size_t choice, Json delta) const;
  Json LogprobsOf(const ApiAnswer& answer, const std::vector<SampledToken>& sampled) const;

  ChatOptions options_;
  std::vector<size_t> calls_;  // of each choice, given out so far
};

Json ChatFormat::Frame(const ApiAnswer& answer, const char* object) const {
  Json json;
  json["id"] = "chatcmpl-" + answer.request_id;
  json["object"] = object;
  json["created"] = answer.created;
  json["model"] = answer.model;
  json["system_fingerprint"] = kSystemFingerprint;
  return json;
}

Json ChatFormat::LogprobsOf(const ApiAnswer& answer,
                            const std::vector<SampledToken>& sampled) const {
  if (!options_.logprobs)
    return nullptr;
  return ChatLogprobs(*answer.tokenizer, sampled, static_cast<size_t>(options_.top_logprobs));
}

Json ChatFormat::WholeChoice(const ApiAnswer& answer, size_t index) const {
  const AnswerChoice& choice = answer.choices[index];
  Json message;
  message["role"] = "assistant";
  const bool only_calls = choice.content.empty() && !choice.tool_calls.empty();
  message["content"] = only_calls ? Json(nullptr) : Json(choice.content);
  message["refusal"] = nullptr;
  if (!choice.reasoning.empty())
    message["reasoning_content"] = choice.reasoning;
  for (const ToolCall& call : choice.tool_calls)
    message["tool_calls"].push_back(ToolCallJson(call));
  Json json;
  json["index"] = index;
  json["message"] = std::move(message);
  json["logprobs"] = LogprobsOf(answer, choice.sampled);
  json["finish_reason"] = OpenAiFinishReason(choice);
  if (options_.output.return_tokens)
    json["tokens"] = choice.tokens;
  return json;
}

Json ChatFormat::Whole(const ApiAnswer& answer) {
  Json json = Frame(answer, "chat.completion");
  json["choices"] = Json::array();
  for (size_t i = 0; i < answer.choices.size(); ++i)
    json["choices"].push_back(WholeChoice(answer, i));
  json["usage"] = UsageJson(answer);
  json["timings"] = TimingsJson(answer.prompts.front(), answer.choices.front());
  return json;
}

Json ChatFormat::Chunk(const ApiAnswer& answer, size_t choice, Json delta) const {
  Json json = Frame(answer, "chat.completion.chunk");
  Json entry;
  entry["index"] = choice;
  entry["delta"] = std::move(delta);
  entry["logprobs"] = nullptr;
  entry["finish_reason"] = nullptr;
  json["choices"] = Json::array({std::move(entry)});
  if (options_.output.include_usage)
    json["usage"] = nullptr;
  return json;
}

void ChatFormat::OnStarted(const ApiAnswer& answer, size_t, AnswerChannel& channel) {
  calls_.resize(answer.choices.size());
  for (size_t i = 0; i < answer.choices.size(); ++i)
    channel.SendEvent("chunk", Chunk(answer, i, {{"role", "assistant"}, {"content", ""}}));
}

void ChatFormat::OnPiece(const ApiAnswer& answer, const AnswerPiece& piece,
                         AnswerChannel& channel) {
  std::vector<Json> deltas;
  for (const MessageDelta& delta : piece.deltas) {
    if (delta.kind == MessageDelta::Kind::kToolCall) {
      Json call = ToolCallJson(delta.call);
      call["index"] = calls_[piece.choice]++;
      deltas.push_back({{"tool_calls", Json::array({std::move(call)})}});
      continue;
    }
    const bool content = delta.kind == MessageDelta::Kind::kContent;
    deltas.push_back({{content ? "content" : "reasoning_content", delta.text}});
  }
  const bool has_more = (options_.logprobs && !piece.sampled.empty()) ||
                        (options_.output.return_tokens && !piece.tokens.empty()) ||
                        options_.output.timings_per_token;
  if (deltas.empty() && has_more)
    deltas.push_back({{"content", ""}});
  for (size_t i = 0; i < deltas.size(); ++i) {
    Json chunk = Chunk(answer, piece.choice, std::move(deltas[i]));
    // Numbers of the tokens go with the first delta.
    if (i == 0 && options_.logprobs && !piece.sampled.empty())
      chunk["choices"][0]["logprobs"] = LogprobsOf(answer, piece.sampled);
    if (i == 0 && options_.output.return_tokens)
      chunk["choices"][0]["tokens"] = piece.tokens;
    if (i == 0 && options_.output.timings_per_token)
      chunk["timings"] = TimingsJson(answer.prompts.front(), answer.choices[piece.choice]);
    channel.SendEvent("chunk", chunk);
  }
}

void ChatFormat::OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) {
  Json chunk = Chunk(answer, choice, Json::object());
  chunk["choices"][0]["finish_reason"] = OpenAiFinishReason(answer.choices[choice]);
  chunk["timings"] = TimingsJson(answer.prompts.front(), answer.choices[choice]);
  channel.SendEvent("chunk", chunk);
}

void ChatFormat::OnEnd(const ApiAnswer& answer, AnswerChannel& channel) {
  if (!options_.output.include_usage)
    return;
  Json chunk = Frame(answer, "chat.completion.chunk");
  chunk["choices"] = Json::array();
  chunk["usage"] = UsageJson(answer);
  channel.SendEvent("chunk", chunk);
}

void ReadLogprobs(FieldReader& fields, ChatOptions& options, SamplingParams& sampling) {
  fields.Bool("logprobs", options.logprobs);
  fields.Int("top_logprobs", options.top_logprobs, {0, kMaxTopLogprobs});
  if (options.top_logprobs > 0 && !options.logprobs)
    fields.Fail("top_logprobs", "needs logprobs");
  if (options.logprobs)
    sampling.logprobs = std::max(options.top_logprobs, 1);
}

void ReadLimits(FieldReader& fields, ServingRequest& request) {
  ReadMaxTokens(fields, "max_tokens", request.max_tokens);
  ReadMaxTokens(fields, "max_completion_tokens", request.max_tokens);
}

void RefuseChatFields(FieldReader& fields) {
  fields.Refuse("functions", "use tools", {Json::array()});
  fields.Refuse("function_call", "use tool_choice");
  fields.Refuse("modalities", "only text is", {Json::array({"text"})});
  fields.Refuse("audio", "only text is");
  fields.Refuse("prediction", "there is no such speed-up");
  fields.Refuse("web_search_options", "there is no search");
  fields.Refuse("verbosity", "models here have no such setting");
  fields.Refuse("chat_template", "the model's own template is used");
  fields.Refuse("add_generation_prompt", "an answer always follows", {true});
  fields.Refuse("continue_final_message", "an answer always follows", {false});
  fields.Refuse("echo", "only /v1/completions has it", {false});
}

Result<Conversation> ReadConversation(FieldReader& fields, const Model& model) {
  Conversation conversation;
  if (const Json* messages = fields.Required("messages"); messages != nullptr) {
    TENON_ASSIGN_OR_RETURN(conversation.messages, ReadMessages(*messages));
  }
  std::string effort;
  fields.String("reasoning_effort", effort);
  if (!effort.empty())
    conversation.variables["reasoning_effort"] = effort;
  ReadTemplateVariables(fields, conversation.variables);
  ReadReasoningFormat(fields, conversation);
  ReadToolChoice(fields, conversation.demand);
  ReadParallelCalls(fields, conversation.demand);
  const Json* tools = fields.Any("tools");
  if (tools != nullptr)
    TENON_RETURN_IF_ERROR(CheckTools(*tools));
  if (fields.ok())
    fields.Take(UseTools(model, tools == nullptr ? Json::array() : *tools, conversation));
  ReadFormat(fields, "response_format", conversation.shape);
  ReadShapeFields(fields, conversation.shape);
  return conversation;
}

}  // namespace

Result<TextJob> ParseChatCompletion(const ApiContext& context, const Model& model,
                                    const Json& body) {
  TextJob job;
  ServingRequest request;
  ChatOptions options;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, job));
  TENON_ASSIGN_OR_RETURN(const Conversation conversation, ReadConversation(fields, model));
  ReadSamplingFields(fields, model.tokenizer(), request);
  ReadLogprobs(fields, options, request.sampling);
  ReadLimits(fields, request);
  ReadOutputOptions(fields, options.output, job);
  RefuseChatFields(fields);
  RefuseNativeFields(fields);
  IgnoreOpenAiFields(fields);
  ReadPriority(fields, context, job);
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  TENON_RETURN_IF_ERROR(UseConversation(context, model, conversation, request, job));
  job.requests.push_back(std::move(request));
  job.format = std::make_unique<ChatFormat>(options);
  return job;
}

}  // namespace tenon
