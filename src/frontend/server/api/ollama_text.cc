// Ollama's /api/generate and /api/chat: a line of JSON for each piece.
#include <fmt/format.h>

#include "frontend/server/api/chat_messages.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/ollama_fields.h"

namespace tenon {
namespace {

enum class Shape : uint8_t { kGenerate, kChat };

class OllamaFormat final : public AnswerFormat {
 public:
  explicit OllamaFormat(Shape shape) : shape_(shape) {}

  Json Whole(const ApiAnswer& answer) override {
    const AnswerChoice& choice = answer.choices.front();
    Json json = Line(answer, choice.content, choice.reasoning, choice.tool_calls);
    AddOllamaEnd(answer, json);
    return json;
  }
  void OnStarted(const ApiAnswer&, size_t, AnswerChannel&) override {}
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override {
    for (const MessageDelta& delta : piece.deltas) {
      const bool content = delta.kind == MessageDelta::Kind::kContent;
      const bool reasoning = delta.kind == MessageDelta::Kind::kReasoning;
      std::vector<ToolCall> calls;
      if (delta.kind == MessageDelta::Kind::kToolCall)
        calls.push_back(delta.call);
      Json line = Line(answer, content ? delta.text : "", reasoning ? delta.text : "", calls);
      line["done"] = false;
      channel.SendEvent("line", line);
    }
  }
  void OnChoiceEnd(const ApiAnswer&, size_t, AnswerChannel&) override {}
  void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) override {
    Json line = Line(answer, "", "", {});
    AddOllamaEnd(answer, line);
    channel.SendEvent("line", line);
  }

 private:
  Json Line(const ApiAnswer& answer, const std::string& text, const std::string& thinking,
            const std::vector<ToolCall>& calls) const;

  Shape shape_;
};

Json OllamaFormat::Line(const ApiAnswer& answer, const std::string& text,
                        const std::string& thinking, const std::vector<ToolCall>& calls) const {
  Json json = OllamaFrame(answer);
  Json part;
  if (shape_ == Shape::kChat)
    part["role"] = "assistant";
  part[shape_ == Shape::kChat ? "content" : "response"] = text;
  if (!thinking.empty())
    part["thinking"] = thinking;
  for (const ToolCall& call : calls) {
    auto arguments = ParseJson(call.arguments);
    part["tool_calls"].push_back(
        {{"function",
          {{"name", call.name},
           {"arguments", arguments.ok() ? std::move(*arguments) : Json::object()}}}});
  }
  if (shape_ == Shape::kChat)
    json["message"] = std::move(part);
  else
    json.update(part);
  return json;
}

// Ollama's messages differ from OpenAI's in arguments that are objects, and in images.
Result<Json> ToMessages(const Json& given) {
  Json messages = given;
  for (size_t i = 0; messages.is_array() && i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object())
      continue;
    if (const Json* images = FindField(message, "images"); images != nullptr && !images->empty())
      return Unsupported("only text is supported", fmt::format("messages[{}].images", i));
    for (const char* dropped : {"images", "thinking", "tool_name"})
      message.erase(dropped);
  }
  return ReadMessages(messages);
}

Result<TextJob> FinishJob(TextJob job, ServingRequest request, const Model& model, Shape shape) {
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  job.requests.push_back(std::move(request));
  job.format = std::make_unique<OllamaFormat>(shape);
  return job;
}

}  // namespace

Result<TextJob> ParseOllamaChat(const ApiContext& context, const Model& model, const Json& body) {
  TextJob job;
  ServingRequest request;
  Conversation conversation;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadOllamaFields(fields, context, model, job, request));
  if (const Json* messages = fields.Required("messages"); messages != nullptr) {
    TENON_ASSIGN_OR_RETURN(conversation.messages, ToMessages(*messages));
  }
  if (const Json* tools = fields.Any("tools"); tools != nullptr) {
    TENON_RETURN_IF_ERROR(CheckTools(*tools));
    TENON_RETURN_IF_ERROR(UseTools(model, *tools, conversation));
  }
  ReadThink(fields, conversation.variables);
  ReadOllamaFormat(fields, conversation.shape);
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_RETURN_IF_ERROR(UseConversation(context, model, conversation, request, job));
  return FinishJob(std::move(job), std::move(request), model, Shape::kChat);
}

Result<TextJob> ParseOllamaGenerate(const ApiContext& context, const Model& model,
                                    const Json& body) {
  TextJob job;
  ServingRequest request;
  Conversation conversation;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadOllamaFields(fields, context, model, job, request));
  std::string prompt;
  std::string system;
  bool raw = false;
  fields.String("prompt", prompt);
  fields.String("system", system);
  fields.Bool("raw", raw);
  ReadThink(fields, conversation.variables);
  ReadOllamaFormat(fields, conversation.shape);
  fields.Refuse("suffix", "there is no filling in between", {""});
  fields.Refuse("images", "only text is supported", {Json::array()});
  fields.Refuse("template", "the model's own template is used", {""});
  fields.Refuse("context", "use /api/chat with all messages", {Json::array()});
  TENON_RETURN_IF_ERROR(fields.Finish());
  if (prompt.empty())
    return InvalidArgument("is empty", "prompt");
  if (raw || !model.has_chat_template()) {
    request.prompt =
        model.tokenizer().Encode(prompt, SpecialText::kParse, AddSpecial::kModelDefault);
    TENON_RETURN_IF_ERROR(ConstrainAnswer(context, model, {conversation.shape, {}, {}}, request));
    return FinishJob(std::move(job), std::move(request), model, Shape::kGenerate);
  }
  if (!system.empty())
    AddMessage(conversation.messages, "system", system);
  AddMessage(conversation.messages, "user", prompt);
  TENON_RETURN_IF_ERROR(UseConversation(context, model, conversation, request, job));
  return FinishJob(std::move(job), std::move(request), model, Shape::kGenerate);
}

std::optional<Json> OllamaLoad(const ApiContext& context, std::string_view body, OllamaText kind) {
  const auto parsed = ParseJson(body);
  if (!parsed.ok() || !parsed->is_object())
    return std::nullopt;
  const Json* text = FindField(*parsed, kind == OllamaText::kChat ? "messages" : "prompt");
  const bool empty = text == nullptr || *text == "" || *text == Json::array();
  const auto name = context.ResolveModelName(StringField(*parsed, "model"));
  if (!empty || StringField(*parsed, "model").empty() || !name.ok())
    return std::nullopt;
  const Json* keep_alive = FindField(*parsed, "keep_alive");
  const bool unload = keep_alive != nullptr && (*keep_alive == 0 || *keep_alive == "0");
  Json json;
  json["model"] = *name;
  json["created_at"] = OllamaTime(UnixSeconds());
  if (kind == OllamaText::kChat)
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    json["response"] = "";
  json["done"] = true;
  json["done_reason"] = unload ? "unload" : "load";  // in truth it stays until the server ends
  return json;
}

}  // namespace tenon
