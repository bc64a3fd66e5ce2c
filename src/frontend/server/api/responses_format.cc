#include "frontend/server/api/responses_format.h"

#include <fmt/format.h>

#include "frontend/server/api/answer_json.h"

namespace tenon {
namespace {

// Output items in the order in which the model wrote them. At most one is open at a time.
class ResponsesFormat final : public AnswerFormat {
 public:
  explicit ResponsesFormat(ResponsesEcho echo) : echo_(std::move(echo)) {}

  Json Whole(const ApiAnswer& answer) override;
  void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) override;
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override;
  void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) override;
  void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) override;

 private:
  enum class Open : uint8_t { kNone, kText, kReasoning };

  Json Response(const ApiAnswer& answer, const char* status, Json output) const;
  Json FinalResponse(const ApiAnswer& answer) const;
  Json TextItem(const ApiAnswer& answer, const char* status) const;
  Json ReasoningItem(const ApiAnswer& answer, const char* status) const;
  Json CallItem(const ApiAnswer& answer, const ToolCall& call, const char* status) const;
  std::string ItemId(const char* prefix, const ApiAnswer& answer) const;

  void Send(const char* type, Json data, AnswerChannel& channel);
  Json At(const std::string& id) const;
  void OpenItem(const ApiAnswer& answer, Open kind, AnswerChannel& channel);
  void CloseItem(const ApiAnswer& answer, AnswerChannel& channel);
  void SendCall(const ApiAnswer& answer, const ToolCall& call, AnswerChannel& channel);

  ResponsesEcho echo_;
  int64_t sequence_ = 0;  // number of the next event
  Open open_ = Open::kNone;
  std::string text_;            // of the open item
  Json items_ = Json::array();  // finished ones
};

Json TextPart(const std::string& text) {
  Json part;
  part["type"] = "output_text";
  part["text"] = text;
  part["annotations"] = Json::array();
  part["logprobs"] = Json::array();
  return part;
}

std::string ResponsesFormat::ItemId(const char* prefix, const ApiAnswer& answer) const {
  return fmt::format("{}_{}_{}", prefix, answer.request_id, items_.size());
}

Json ResponsesFormat::TextItem(const ApiAnswer& answer, const char* status) const {
  Json item;
  item["id"] = ItemId("msg", answer);
  item["type"] = "message";
  item["status"] = status;
  item["role"] = "assistant";
  item["content"] = text_.empty() ? Json::array() : Json::array({TextPart(text_)});
  return item;
}

Json ResponsesFormat::ReasoningItem(const ApiAnswer& answer, const char* status) const {
  Json item;
  item["id"] = ItemId("rs", answer);
  item["type"] = "reasoning";
  item["summary"] = Json::array();
  item["status"] = status;
  item["content"] = Json::array();
  if (!text_.empty())
    item["content"].push_back({{"type", "reasoning_text"}, {"text", text_}});
  return item;
}

Json ResponsesFormat::CallItem(const ApiAnswer& answer, const ToolCall& call,
                               const char* status) const {
  Json item;
  item["id"] = ItemId("fc", answer);
  item["type"] = "function_call";
  item["status"] = status;
  item["call_id"] = call.id;
  item["name"] = call.name;
  item["arguments"] = call.arguments;
  return item;
}

Json ResponsesFormat::Response(const ApiAnswer& answer, const char* status, Json output) const {
  Json json;
  json["id"] = "resp_" + answer.request_id;
  json["object"] = "response";
  json["created_at"] = answer.created;
  json["status"] = status;
  json["error"] = nullptr;
  json["incomplete_details"] = nullptr;
  json["instructions"] = echo_.instructions.empty() ? Json(nullptr) : Json(echo_.instructions);
  json["max_output_tokens"] =
      echo_.max_output_tokens < 0 ? Json(nullptr) : Json(echo_.max_output_tokens);
  json["metadata"] = echo_.metadata;
  json["model"] = answer.model;
  json["output"] = std::move(output);
  json["parallel_tool_calls"] = true;
  json["previous_response_id"] = nullptr;
  json["store"] = false;
  json["temperature"] = echo_.temperature;
  json["text"] = {{"format", {{"type", "text"}}}};
  json["tool_choice"] = echo_.tool_choice;
  json["tools"] = echo_.tools;
  json["top_p"] = echo_.top_p;
  json["truncation"] = "disabled";
  json["usage"] = nullptr;
  return json;
}

Json ResponsesFormat::FinalResponse(const ApiAnswer& answer) const {
  const AnswerChoice& choice = answer.choices.front();
  const bool cut = choice.finish_reason == FinishReason::kLength;
  Json json = Response(answer, cut ? "incomplete" : "completed", items_);
  if (cut)
    json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  Json usage;
  usage["input_tokens"] = answer.prompt_tokens();
  usage["input_tokens_details"] = {{"cached_tokens", answer.cached_tokens()}};
  usage["output_tokens"] = answer.completion_tokens();
  usage["output_tokens_details"] = {{"reasoning_tokens", 0}};
  usage["total_tokens"] = answer.prompt_tokens() + answer.completion_tokens();
  json["usage"] = std::move(usage);
  return json;
}

// A channel that drops everything: the whole answer is put together from the same events.
class NoChannel final : public AnswerChannel {
 public:
  void SendWhole(const Json&) override {}
  void BeginEvents() override {}
  void SendEvent(std::string_view, const Json&) override {}
  void EndEvents() override {}
  void SendError(const ApiError&) override {}
  void OnClose(std::function<void()>) override {}
};

Json ResponsesFormat::Whole(const ApiAnswer& answer) {
  NoChannel none;
  const AnswerChoice& choice = answer.choices.front();
  AnswerPiece piece;
  if (!choice.reasoning.empty())
    piece.deltas.push_back({MessageDelta::Kind::kReasoning, choice.reasoning, {}});
  if (!choice.content.empty())
    piece.deltas.push_back({MessageDelta::Kind::kContent, choice.content, {}});
  for (const ToolCall& call : choice.tool_calls)
    piece.deltas.push_back({MessageDelta::Kind::kToolCall, {}, call});
  OnPiece(answer, piece, none);
  CloseItem(answer, none);
  return FinalResponse(answer);
}

void ResponsesFormat::Send(const char* type, Json data, AnswerChannel& channel) {
  Json event;
  event["type"] = type;
  event["sequence_number"] = sequence_++;
  for (auto& [key, value] : data.get_ref<Json::object_t&>())
    event[key] = std::move(value);
  channel.SendEvent(type, event);
}

// Where an event belongs.
Json ResponsesFormat::At(const std::string& id) const {
  return {{"item_id", id}, {"output_index", items_.size()}};
}

void ResponsesFormat::OnStarted(const ApiAnswer& answer, size_t, AnswerChannel& channel) {
  const Json response = Response(answer, "in_progress", Json::array());
  Send("response.created", {{"response", response}}, channel);
  Send("response.in_progress", {{"response", response}}, channel);
}

void ResponsesFormat::OpenItem(const ApiAnswer& answer, Open kind, AnswerChannel& channel) {
  if (open_ == kind)
    return;
  CloseItem(answer, channel);
  open_ = kind;
  const bool text = kind == Open::kText;
  Json item = text ? TextItem(answer, "in_progress") : ReasoningItem(answer, "in_progress");
  const std::string id = item["id"];
  Send("response.output_item.added", {{"output_index", items_.size()}, {"item", std::move(item)}},
       channel);
  if (!text)
    return;
  Json part = At(id);
  part["content_index"] = 0;
  part["part"] = TextPart("");
  Send("response.content_part.added", std::move(part), channel);
}

void ResponsesFormat::CloseItem(const ApiAnswer& answer, AnswerChannel& channel) {
  if (open_ == Open::kNone)
    return;
  const bool text = open_ == Open::kText;
  Json item = text ? TextItem(answer, "completed") : ReasoningItem(answer, "completed");
  Json done = At(item["id"]);
  done["content_index"] = 0;
  done["text"] = text_;
  if (text) {
    done["logprobs"] = Json::array();
    Send("response.output_text.done", std::move(done), channel);
    Json part = At(item["id"]);
    part["content_index"] = 0;
    part["part"] = TextPart(text_);
    Send("response.content_part.done", std::move(part), channel);
  } else {
    Send("response.reasoning_text.done", std::move(done), channel);
  }
  Send("response.output_item.done", {{"output_index", items_.size()}, {"item", item}}, channel);
  items_.push_back(std::move(item));
  text_.clear();
  open_ = Open::kNone;
}

void ResponsesFormat::SendCall(const ApiAnswer& answer, const ToolCall& call,
                               AnswerChannel& channel) {
  CloseItem(answer, channel);
  Json item = CallItem(answer, call, "completed");
  Json begun = CallItem(answer, {call.id, call.name, ""}, "in_progress");
  const std::string id = item["id"];
  Send("response.output_item.added", {{"output_index", items_.size()}, {"item", std::move(begun)}},
       channel);
  Json delta = At(id);
  delta["delta"] = call.arguments;
  Send("response.function_call_arguments.delta", std::move(delta), channel);
  Json done = At(id);
  done["name"] = call.name;
  done["arguments"] = call.arguments;
  Send("response.function_call_arguments.done", std::move(done), channel);
  Send("response.output_item.done", {{"output_index", items_.size()}, {"item", item}}, channel);
  items_.push_back(std::move(item));
}

void ResponsesFormat::OnPiece(const ApiAnswer& answer, const AnswerPiece& piece,
                              AnswerChannel& channel) {
  for (const MessageDelta& delta : piece.deltas) {
    if (delta.kind == MessageDelta::Kind::kToolCall) {
      SendCall(answer, delta.call, channel);
      continue;
    }
    const bool text = delta.kind == MessageDelta::Kind::kContent;
    OpenItem(answer, text ? Open::kText : Open::kReasoning, channel);
    Json event = At(ItemId(text ? "msg" : "rs", answer));
    event["content_index"] = 0;
    event["delta"] = delta.text;
    if (text)
      event["logprobs"] = Json::array();
    text_ += delta.text;
    Send(text ? "response.output_text.delta" : "response.reasoning_text.delta", std::move(event),
         channel);
  }
}

void ResponsesFormat::OnChoiceEnd(const ApiAnswer& answer, size_t, AnswerChannel& channel) {
  CloseItem(answer, channel);
}

void ResponsesFormat::OnEnd(const ApiAnswer& answer, AnswerChannel& channel) {
  Json response = FinalResponse(answer);
  const bool cut = response["status"] == "incomplete";
  Send(cut ? "response.incomplete" : "response.completed", {{"response", std::move(response)}},
       channel);
}

}  // namespace

std::unique_ptr<AnswerFormat> MakeResponsesFormat(ResponsesEcho echo) {
  return std::make_unique<ResponsesFormat>(std::move(echo));
}

}  // namespace tenon
