#include "frontend/server/api/message_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "frontend/server/api/tool_call_text.h"

namespace tenon {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kHermesOpen = "<tool_call>";
constexpr std::string_view kHermesClose = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kMistralOpen = "[TOOL_CALLS]";
constexpr std::string_view kMistralArgs = "[ARGS]";
constexpr std::string_view kBarredOpen = "<|tool_call|>";
constexpr std::string_view kBarredClose = "<|/tool_call|>";
constexpr std::string_view kDeepSeekOpen = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kDeepSeekClose = "<｜tool▁calls▁end｜>";
constexpr std::string_view kSpace = " \t\r\n";

// Empty where a call goes on to the end of the message.
std::string_view CloseMark(ToolSyntax tools) {
  switch (tools) {
    case ToolSyntax::kHermes:
      return kHermesClose;
    case ToolSyntax::kBarred:
      return kBarredClose;
    case ToolSyntax::kDeepSeek:
      return kDeepSeekClose;
    default:
      return {};
  }
}

std::vector<std::string_view> MarksOf(ToolSyntax tools) {
  std::vector<std::string_view> marks = {OpenMark(tools), CloseMark(tools)};
  if (tools == ToolSyntax::kMistral)
    marks.push_back(kMistralArgs);
  if (tools == ToolSyntax::kDeepSeek)
    marks.insert(marks.end(), {kDeepSeekCallOpen, kDeepSeekSeparator, kDeepSeekCallClose});
  std::erase(marks, std::string_view());
  return marks;
}

// Bytes at the end of `text` that could be the beginning of `mark`.
size_t PartialMark(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
    if (mark.starts_with(text.substr(text.size() - length)))
      return length;
  }
  return 0;
}

size_t SpacesBefore(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? text.size() : first;
}

// Mistral's newer form, name[ARGS]{...}, into the older one.
std::string WithoutArgsMark(std::string_view body) {
  const size_t args = body.find(kMistralArgs);
  if (args == std::string_view::npos)
    return std::string(body);
  const size_t begin = SpacesBefore(body);
  const size_t end = body.find_last_not_of(kSpace, args == 0 ? 0 : args - 1) + 1;
  if (begin >= end || body[begin] == '[' || body[begin] == '{')
    return std::string(body);
  return fmt::format("{{\"name\":{},\"arguments\":{}}}",
                     DumpJson(Json(std::string(body.substr(begin, end - begin)))),
                     body.substr(args + kMistralArgs.size()));
}

}  // namespace

std::string_view OpenMark(ToolSyntax tools) {
  switch (tools) {
    case ToolSyntax::kHermes:
      return kHermesOpen;
    case ToolSyntax::kLlama3:
      return kPythonTag;
    case ToolSyntax::kMistral:
      return kMistralOpen;
    case ToolSyntax::kBarred:
      return kBarredOpen;
    case ToolSyntax::kDeepSeek:
      return kDeepSeekOpen;
    case ToolSyntax::kNone:
      break;
  }
  return {};
}

ToolSyntax ToolSyntaxOf(std::string_view chat_template) {
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != std::string_view::npos;
  };
  if (has(kMistralOpen))
    return ToolSyntax::kMistral;
  if (has(kDeepSeekOpen))
    return ToolSyntax::kDeepSeek;
  if (has(kBarredOpen))
    return ToolSyntax::kBarred;
  if (has(kPythonTag) || (has("ipython") && has("<|start_header_id|>")))
    return ToolSyntax::kLlama3;
  return ToolSyntax::kHermes;
}

bool HasReasoning(std::string_view chat_template) {
  return chat_template.find("<think>") != std::string_view::npos ||
         chat_template.find("</think>") != std::string_view::npos;
}

std::vector<std::pair<int32_t, std::string>> ControlMarks(const Tokenizer& tokenizer,
                                                          ToolSyntax tools) {
  std::vector<std::pair<int32_t, std::string>> marks;
  for (const std::string_view mark : MarksOf(tools)) {
    const auto ids = tokenizer.Encode(mark, SpecialText::kParse, AddSpecial::kNone);
    const bool is_control =
        ids.size() == 1 && tokenizer.TokenBytes(ids[0], SpecialText::kPlain).empty();
    if (is_control)
      marks.emplace_back(ids[0], mark);
  }
  return marks;
}

MessageParser::MessageParser(const MessageSyntax& syntax, std::string id_seed)
    : syntax_(syntax), id_seed_(std::move(id_seed)) {
  if (syntax_.reasoning == ReasoningSyntax::kInThink)
    state_ = State::kReasoning;
}

std::vector<MessageDelta> MessageParser::Push(std::string_view text) {
  held_ += text;
  while (Advance()) {
  }
  return std::exchange(out_, {});
}

std::vector<MessageDelta> MessageParser::Finish() {
  ended_ = true;
  while (Advance()) {
  }
  if (calls_ == 0)
    Emit(MessageDelta::Kind::kContent, std::exchange(spaces_, {}));
  return std::exchange(out_, {});
}

// One step; false when more text is needed, or nothing is left.
bool MessageParser::Advance() {
  if (syntax_.call_limit == CallLimit::kOne && calls_ > 0) {
    held_.clear();
    return false;
  }
  switch (state_) {
    case State::kStart:
      return AdvanceStart();
    case State::kReasoning:
      return AdvanceReasoning();
    case State::kAfterReasoning:
      held_.erase(0, SpacesBefore(held_));
      if (held_.empty())
        return false;
      syntax_.reasoning = ReasoningSyntax::kPlain;
      state_ = State::kStart;
      return true;
    case State::kContent:
      return AdvanceContent();
    case State::kCall:
      return AdvanceCall();
  }
  return false;
}

bool MessageParser::AdvanceStart() {
  const std::string_view rest = std::string_view(held_).substr(SpacesBefore(held_));
  if (syntax_.reasoning == ReasoningSyntax::kThink) {
    if (rest.starts_with(kThinkOpen)) {
      held_ = std::string(rest.substr(kThinkOpen.size()));
      state_ = State::kReasoning;
      return true;
    }
    if (kThinkOpen.starts_with(rest) && !ended_)
      return false;
  }
  // One more byte decides whether "[" begins an array of calls.
  const bool undecided = syntax_.tools == ToolSyntax::kMistral && rest == "[";
  if ((rest.empty() || undecided) && !ended_)
    return false;
  state_ = State::kContent;
  StartCallWithoutMark();
  return true;
}

// Llama 3 begins a call with the JSON itself, and Mistral's mark may be lost as a control token.
void MessageParser::StartCallWithoutMark() {
  const std::string_view rest = std::string_view(held_).substr(SpacesBefore(held_));
  const bool starts = (syntax_.tools == ToolSyntax::kLlama3 && rest.starts_with('{')) ||
                      (syntax_.tools == ToolSyntax::kMistral && rest.starts_with("[{"));
  if (!starts)
    return;
  mark_.clear();
  scanned_ = 0;
  state_ = State::kCall;
}

bool MessageParser::AdvanceReasoning() {
  if (!reasoned_)
    held_.erase(0, SpacesBefore(held_));
  const size_t close = held_.find(kThinkClose);
  if (close != std::string::npos) {
    size_t end = close;
    while (end > 0 && kSpace.find(held_[end - 1]) != std::string_view::npos)
      --end;
    Emit(MessageDelta::Kind::kReasoning, held_.substr(0, end));
    held_.erase(0, close + kThinkClose.size());
    state_ = State::kAfterReasoning;
    return true;
  }
  // White space before the close mark is no reasoning, so it waits as the mark's beginning does.
  size_t ready = held_.size() - PartialMark(held_, kThinkClose);
  while (ready > 0 && kSpace.find(held_[ready - 1]) != std::string_view::npos)
    --ready;
  if (ended_)
    ready = held_.size();
  reasoned_ = reasoned_ || ready > 0;
  Emit(MessageDelta::Kind::kReasoning, held_.substr(0, ready));
  held_.erase(0, ready);
  return false;
}

bool MessageParser::AdvanceContent() {
  const std::string_view mark = OpenMark(syntax_.tools);
  if (mark.empty()) {
    Content(std::exchange(held_, {}));
    return false;
  }
  const size_t open = held_.find(mark);
  if (open == std::string::npos) {
    const size_t keep = ended_ ? 0 : PartialMark(held_, mark);
    Content(held_.substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
    return false;
  }
  Content(held_.substr(0, open));
  held_.erase(0, open + mark.size());
  mark_ = std::string(mark);
  scanned_ = 0;
  state_ = State::kCall;
  return true;
}

bool MessageParser::AdvanceCall() {
  const std::string_view close = CloseMark(syntax_.tools);
  size_t end = std::string::npos;
  if (!close.empty()) {
    end = held_.find(close, scanned_);
    scanned_ = held_.size() - std::min(held_.size(), close.size());
  }
  if (end == std::string::npos && !ended_)
    return false;
  const std::string body = held_.substr(0, end);
  const size_t taken = end == std::string::npos ? held_.size() : end + close.size();
  const std::string all = mark_ + held_.substr(0, taken);
  held_.erase(0, taken);
  state_ = State::kContent;
  if (!TakeCalls(body))
    Content(all);
  return !held_.empty();
}

std::vector<ParsedCall> MessageParser::CallsIn(std::string_view body) const {
  if (syntax_.tools == ToolSyntax::kMistral)
    return ParseCalls(WithoutArgsMark(body));
  if (syntax_.tools == ToolSyntax::kDeepSeek)
    return ParseDeepSeekCalls(body);
  if (syntax_.tools == ToolSyntax::kHermes && IsTaggedCall(body))
    return ParseTaggedCalls(body, syntax_.declared == nullptr ? Json::array() : *syntax_.declared);
  return ParseCalls(body);
}

bool MessageParser::TakeCalls(std::string_view body) {
  std::vector<ParsedCall> calls = CallsIn(body);
  if (syntax_.call_limit == CallLimit::kOne && calls.size() > 1)
    calls.resize(1);
  for (const ParsedCall& call : calls) {
    MessageDelta delta;
    delta.kind = MessageDelta::Kind::kToolCall;
    delta.call = {fmt::format("call_{}_{}", id_seed_, calls_), call.name, call.arguments};
    out_.push_back(std::move(delta));
    ++calls_;
  }
  if (!calls.empty())
    spaces_.clear();
  return !calls.empty();
}

// White space between and around calls is no content; before other text it is.
void MessageParser::Content(std::string text) {
  if (syntax_.tools == ToolSyntax::kNone)
    return Emit(MessageDelta::Kind::kContent, std::move(text));
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string::npos) {
    spaces_ += text;
    return;
  }
  Emit(MessageDelta::Kind::kContent,
       std::exchange(spaces_, text.substr(last + 1)) + text.substr(0, last + 1));
}

void MessageParser::Emit(MessageDelta::Kind kind, std::string text) {
  if (text.empty())
    return;
  if (!out_.empty() && out_.back().kind == kind && kind != MessageDelta::Kind::kToolCall) {
    out_.back().text += text;
    return;
  }
  MessageDelta delta;
  delta.kind = kind;
  delta.text = std::move(text);
  out_.push_back(std::move(delta));
}

}  // namespace tenon
