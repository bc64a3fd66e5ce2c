#include "frontend/server/api/anthropic_format.h"

#include <string>

namespace tenon {
namespace {

class AnthropicFormat final : public AnswerFormat {
 public:
  Json Whole(const ApiAnswer& answer) override;
  void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) override;
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override;
  void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) override;
  void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) override;

 private:
  enum class Block : uint8_t { kNone, kText, kThinking };

  void Open(Block kind, Json block, AnswerChannel& channel);
  void Close(AnswerChannel& channel);
  void SendDelta(Json delta, AnswerChannel& channel) const;
  void SendToolUse(const ToolCall& call, AnswerChannel& channel);

  Block open_ = Block::kNone;
  size_t index_ = 0;  // of the open block, or the next one
};

std::string_view StopReason(const AnswerChoice& choice) {
  if (choice.finish_reason == FinishReason::kLength)
    return "max_tokens";
  if (!choice.tool_calls.empty())
    return "tool_use";
  return choice.stop_text.empty() ? "end_turn" : "stop_sequence";
}

Json StopSequence(const AnswerChoice& choice) {
  return choice.stop_text.empty() ? Json(nullptr) : Json(choice.stop_text);
}

// Tokens from the cache are counted apart from the others.
Json InputUsage(const ApiAnswer& answer) {
  Json usage;
  usage["input_tokens"] = answer.prompt_tokens() - answer.cached_tokens();
  usage["cache_creation_input_tokens"] = 0;
  usage["cache_read_input_tokens"] = answer.cached_tokens();
  usage["output_tokens"] = answer.completion_tokens();
  return usage;
}

Json MessageJson(const ApiAnswer& answer, Json content) {
  Json json;
  json["id"] = "msg_" + answer.request_id;
  json["type"] = "message";
  json["role"] = "assistant";
  json["model"] = answer.model;
  json["content"] = std::move(content);
  json["stop_reason"] = nullptr;
  json["stop_sequence"] = nullptr;
  json["usage"] = InputUsage(answer);
  return json;
}

Json ThinkingBlock(const std::string& text) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

Json ToolUseBlock(const ToolCall& call) {
  auto input = ParseJson(call.arguments);
  return {{"type", "tool_use"},
          {"id", call.id},
          {"name", call.name},
          {"input", input.ok() ? std::move(*input) : Json::object()}};
}

Json AnthropicFormat::Whole(const ApiAnswer& answer) {
  const AnswerChoice& choice = answer.choices.front();
  Json content = Json::array();
  if (!choice.reasoning.empty())
    content.push_back(ThinkingBlock(choice.reasoning));
  if (!choice.content.empty())
    content.push_back({{"type", "text"}, {"text", choice.content}});
  for (const ToolCall& call : choice.tool_calls)
    content.push_back(ToolUseBlock(call));
  Json json = MessageJson(answer, std::move(content));
  json["stop_reason"] = StopReason(choice);
  json["stop_sequence"] = StopSequence(choice);
  return json;
}

void AnthropicFormat::OnStarted(const ApiAnswer& answer, size_t, AnswerChannel& channel) {
  channel.SendEvent("message_start",
                    {{"type", "message_start"}, {"message", MessageJson(answer, Json::array())}});
}

void AnthropicFormat::Open(Block kind, Json block, AnswerChannel& channel) {
  open_ = kind;
  channel.SendEvent(
      "content_block_start",
      {{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(block)}});
}

void AnthropicFormat::Close(AnswerChannel& channel) {
  if (open_ == Block::kNone)
    return;
  open_ = Block::kNone;
  channel.SendEvent("content_block_stop", {{"type", "content_block_stop"}, {"index", index_++}});
}

void AnthropicFormat::SendDelta(Json delta, AnswerChannel& channel) const {
  channel.SendEvent(
      "content_block_delta",
      {{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
}

void AnthropicFormat::SendToolUse(const ToolCall& call, AnswerChannel& channel) {
  Close(channel);
  channel.SendEvent(
      "content_block_start",
      {{"type", "content_block_start"},
       {"index", index_},
       {"content_block",
        {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}}}});
  SendDelta({{"type", "input_json_delta"}, {"partial_json", call.arguments}}, channel);
  channel.SendEvent("content_block_stop", {{"type", "content_block_stop"}, {"index", index_++}});
}

void AnthropicFormat::OnPiece(const ApiAnswer&, const AnswerPiece& piece, AnswerChannel& channel) {
  for (const MessageDelta& delta : piece.deltas) {
    if (delta.kind == MessageDelta::Kind::kToolCall) {
      SendToolUse(delta.call, channel);
      continue;
    }
    const bool text = delta.kind == MessageDelta::Kind::kContent;
    const Block kind = text ? Block::kText : Block::kThinking;
    if (open_ != kind) {
      Close(channel);
      Open(kind, text ? Json{{"type", "text"}, {"text", ""}} : ThinkingBlock(""), channel);
    }
    if (text)
      SendDelta({{"type", "text_delta"}, {"text", delta.text}}, channel);
    else
      SendDelta({{"type", "thinking_delta"}, {"thinking", delta.text}}, channel);
  }
}

void AnthropicFormat::OnChoiceEnd(const ApiAnswer&, size_t, AnswerChannel& channel) {
  Close(channel);
}

void AnthropicFormat::OnEnd(const ApiAnswer& answer, AnswerChannel& channel) {
  const AnswerChoice& choice = answer.choices.front();
  channel.SendEvent(
      "message_delta",
      {{"type", "message_delta"},
       {"delta", {{"stop_reason", StopReason(choice)}, {"stop_sequence", StopSequence(choice)}}},
       {"usage", InputUsage(answer)}});
  channel.SendEvent("message_stop", {{"type", "message_stop"}});
}

}  // namespace

std::unique_ptr<AnswerFormat> MakeAnthropicFormat() {
  return std::make_unique<AnthropicFormat>();
}

}  // namespace tenon
