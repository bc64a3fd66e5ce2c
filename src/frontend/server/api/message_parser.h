// MessageParser: a model's text, as it comes, into content, reasoning and tool calls.
//
// Text that could be the beginning of a mark is held back until it is decided. A tool call is
// given out whole, when its JSON is complete; text that only began like one comes out as content,
// and nothing is lost. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/server/api/json.h"
#include "frontend/server/api/tool_call_json.h"
#include "frontend/session/model.h"

namespace tenon {

// How a family of models writes its calls.
enum class ToolSyntax : uint8_t {
  kNone,
  kHermes,    // <tool_call>{"name", "arguments"}</tool_call>: Hermes, Qwen; inside it also
              // Qwen3-Coder's <function=name><parameter=key>value</parameter></function>
  kLlama3,    // {"name", "parameters"}, perhaps after <|python_tag|>; the whole message
  kMistral,   // [TOOL_CALLS][{"name", "arguments"}, ...], or [TOOL_CALLS]name[ARGS]{...}
  kBarred,    // <|tool_call|>[{"name", "arguments"}, ...], perhaps <|/tool_call|>: Granite, Phi 4
  kDeepSeek,  // <｜tool▁calls▁begin｜> ... <｜tool▁calls▁end｜> (tool_call_text.h)
};

enum class ReasoningSyntax : uint8_t {
  kPlain,    // no reasoning, or left in the text
  kThink,    // the text may begin with <think> ... </think>
  kInThink,  // the prompt ended with <think>: the text begins inside
};

// With kOne what follows the first call is left out.
enum class CallLimit : uint8_t { kNone, kOne };

struct MessageSyntax {
  CallLimit call_limit = CallLimit::kNone;
  ToolSyntax tools = ToolSyntax::kNone;
  ReasoningSyntax reasoning = ReasoningSyntax::kPlain;
  // Control tokens that the engine's text leaves out, and the mark that each stands for.
  std::vector<std::pair<int32_t, std::string>> control_marks;
  std::shared_ptr<const Json> declared;  // the request's tools; null: none
  std::string primed;  // stands at the prompt's end and belongs to the answer's text
};

// How the model with this template (Jinja source) writes calls and reasoning.
ToolSyntax ToolSyntaxOf(std::string_view chat_template);
bool HasReasoning(std::string_view chat_template);
// What a call begins with; empty: no mark.
std::string_view OpenMark(ToolSyntax tools);
// Those of the syntax's marks that are control tokens of the model.
std::vector<std::pair<int32_t, std::string>> ControlMarks(const Tokenizer& tokenizer,
                                                          ToolSyntax tools);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON
};

struct MessageDelta {
  enum class Kind : uint8_t { kContent, kReasoning, kToolCall };
  Kind kind = Kind::kContent;
  std::string text;
  ToolCall call;
};

class MessageParser {
 public:
  // `id_seed` makes the ids of this choice's calls its own.
  MessageParser(const MessageSyntax& syntax, std::string id_seed);

  std::vector<MessageDelta> Push(std::string_view text);
  // The end of the text.
  std::vector<MessageDelta> Finish();

 private:
  enum class State : uint8_t { kStart, kReasoning, kAfterReasoning, kContent, kCall };

  bool Advance();
  bool AdvanceStart();
  bool AdvanceReasoning();
  bool AdvanceContent();
  bool AdvanceCall();
  void StartCallWithoutMark();
  std::vector<ParsedCall> CallsIn(std::string_view body) const;
  bool TakeCalls(std::string_view body);
  void Content(std::string text);
  void Emit(MessageDelta::Kind kind, std::string text);

  MessageSyntax syntax_;
  std::string id_seed_;
  State state_ = State::kStart;
  std::string held_;    // not given out yet
  std::string spaces_;  // white space of the content that is dropped when a call follows
  std::string mark_;    // of the call that is being read
  size_t scanned_ = 0;  // bytes of held_ known to hold no end mark
  size_t calls_ = 0;
  bool ended_ = false;
  bool reasoned_ = false;  // some reasoning was given out
  std::vector<MessageDelta> out_;
};

}  // namespace tenon
