#include "frontend/server/api/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "frontend/session/chat_prompt.h"

namespace tenon {
namespace {

// Parallel with what a context can hold; bounds the work before any token is counted.
constexpr size_t kMaxMessages = 10'000;

constexpr size_t kMaxTemplateVariables = 64;

// Roles as APIs spell them, and as templates know them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kRoles = {{
    {"system", "system"},
    {"developer", "system"},
    {"user", "user"},
    {"assistant", "assistant"},
    {"tool", "tool"},
}};

Result<std::string> ReadRole(const Json& message, const std::string& path) {
  const Json* role = FindField(message, "role");
  const std::string found = role != nullptr && role->is_string() ? role->get<std::string>() : "";
  for (const auto& [name, template_name] : kRoles) {
    if (found == name)
      return std::string(template_name);
  }
  return InvalidArgument(
      fmt::format("found {}, expected system, developer, user, assistant or tool",
                  role == nullptr ? "nothing" : DumpJson(*role)),
      path + ".role");
}

// Templates print arguments as an object; clients send them back as the text they got.
Result<Json> ReadCall(const Json& call, const std::string& path) {
  const Json* function = FindField(call, "function");
  const Json* name = function == nullptr ? nullptr : FindField(*function, "name");
  if (name == nullptr || !name->is_string())
    return InvalidArgument("a string is missing", path + ".function.name");
  Json arguments = Json::object();
  if (const Json* given = FindField(*function, "arguments"); given != nullptr) {
    arguments = *given;
    if (given->is_string() && !given->get_ref<const std::string&>().empty()) {
      auto parsed = ParseJson(given->get_ref<const std::string&>());
      if (!parsed.ok())
        return InvalidArgument(parsed.error().message, path + ".function.arguments");
      arguments = std::move(*parsed);
    }
  }
  Json result;
  if (const Json* id = FindField(call, "id"); id != nullptr)
    result["id"] = *id;
  result["type"] = "function";
  result["function"] = {{"name", *name}, {"arguments", std::move(arguments)}};
  return result;
}

Status CopyCalls(const Json& message, const std::string& path, Json& result) {
  const Json* calls = FindField(message, "tool_calls");
  if (calls == nullptr)
    return {};
  if (!calls->is_array())
    return InvalidArgument("expected an array", path + ".tool_calls");
  Json copied = Json::array();
  for (size_t i = 0; i < calls->size(); ++i) {
    TENON_ASSIGN_OR_RETURN(Json call,
                           ReadCall((*calls)[i], fmt::format("{}.tool_calls[{}]", path, i)));
    copied.push_back(std::move(call));
  }
  if (!copied.empty())
    result["tool_calls"] = std::move(copied);
  return {};
}

Result<Json> ReadMessage(const Json& message, const std::string& path) {
  FieldReader fields(message, path);
  fields.Required("role");
  const Json* content = fields.Any("content");
  fields.Ignore({"tool_calls", "refusal", "annotations"});
  fields.Refuse("function_call", "use tool_calls");
  fields.Refuse("audio", "only text is");
  std::string name;
  std::string tool_call_id;
  std::string reasoning;
  fields.String("name", name);
  fields.String("tool_call_id", tool_call_id);
  fields.String("reasoning_content", reasoning);
  TENON_RETURN_IF_ERROR(fields.Finish());
  Json result;
  TENON_ASSIGN_OR_RETURN(result["role"], ReadRole(message, path));
  TENON_ASSIGN_OR_RETURN(result["content"], ReadContent(content, path + ".content"));
  if (!name.empty())
    result["name"] = name;
  if (!tool_call_id.empty())
    result["tool_call_id"] = tool_call_id;
  if (!reasoning.empty())
    result["reasoning_content"] = reasoning;
  TENON_RETURN_IF_ERROR(CopyCalls(message, path, result));
  return result;
}

// Whether the prompt ended with an open <think>.
bool EndsInThink(const Model& model, const std::vector<int32_t>& tokens) {
  // "<think>" and the white space after it are a few tokens even where they are spelled out.
  constexpr size_t kTail = 12;
  const size_t first = tokens.size() - std::min(tokens.size(), kTail);
  std::string text = model.tokenizer().Decode(
      std::vector<int32_t>(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()),
      SpecialText::kParse);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text.ends_with("<think>");
}

}  // namespace

Result<std::string> ReadContent(const Json* content, const std::string& path) {
  if (content == nullptr)
    return std::string();
  if (content->is_string())
    return content->get<std::string>();
  if (!content->is_array()) {
    return InvalidArgument(
        fmt::format("found {}, expected a string or an array of parts", JsonTypeName(*content)),
        path);
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string part_path = fmt::format("{}[{}]", path, i);
    const Json* type = FindField(part, "type");
    const Json* piece = FindField(part, "text");
    const std::string kind = type != nullptr && type->is_string() ? type->get<std::string>() : "";
    if (kind != "text" && kind != "input_text" && kind != "output_text")
      return Unsupported(fmt::format("found '{}', only text is supported", kind),
                         part_path + ".type");
    if (piece == nullptr || !piece->is_string())
      return InvalidArgument("a string is missing", part_path + ".text");
    text += piece->get_ref<const std::string&>();
  }
  return text;
}

void AddMessage(Json& messages, std::string_view role, std::string text) {
  Json message;
  message["role"] = role;
  message["content"] = std::move(text);
  messages.push_back(std::move(message));
}

Result<Json> ReadMessages(const Json& messages) {
  if (!messages.is_array() || messages.empty() || messages.size() > kMaxMessages) {
    return InvalidArgument(fmt::format("found {}, expected an array of 1 to {} messages",
                                       messages.is_array() ? fmt::format("{}", messages.size())
                                                           : JsonTypeName(messages),
                                       kMaxMessages),
                           "messages");
  }
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(Json message, ReadMessage(messages[i], fmt::format("messages[{}]", i)));
    result.push_back(std::move(message));
  }
  return result;
}

Status CheckTools(const Json& tools) {
  if (!tools.is_array())
    return InvalidArgument("expected an array", "tools");
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const Json* type = FindField(tools[i], "type");
    if (type == nullptr || *type != "function")
      return InvalidArgument("expected \"function\"", path + ".type");
    const Json* function = FindField(tools[i], "function");
    const Json* name = function == nullptr ? nullptr : FindField(*function, "name");
    if (name == nullptr || !name->is_string() || *name == "")
      return InvalidArgument("a string is missing", path + ".function.name");
  }
  return {};
}

void ReadToolChoice(FieldReader& fields, ToolDemand& demand) {
  const Json* choice = fields.Any("tool_choice");
  if (choice == nullptr || *choice == "auto")
    return;
  if (*choice == "none") {
    demand.choice = ToolChoice::kNone;
    return;
  }
  demand.choice = ToolChoice::kForced;
  if (*choice == "required")
    return;
  const Json* function = FindField(*choice, "function");
  demand.name = StringField(function == nullptr ? *choice : *function, "name");
  if (StringField(*choice, "type") != "function" || demand.name.empty())
    fields.Fail("tool_choice",
                fmt::format("found {}, expected auto, none, required or a function's name",
                            DumpJson(*choice)));
}

void ReadParallelCalls(FieldReader& fields, ToolDemand& demand) {
  bool parallel = true;
  fields.Bool("parallel_tool_calls", parallel);
  demand.limit = parallel ? CallLimit::kNone : CallLimit::kOne;
}

void ReadTemplateVariables(FieldReader& fields, Json& variables) {
  const Json* given = fields.Object("chat_template_kwargs");
  if (given == nullptr)
    return;
  if (given->size() > kMaxTemplateVariables)
    return fields.Fail("chat_template_kwargs",
                       fmt::format("at most {} variables", kMaxTemplateVariables));
  for (const auto& [key, value] : given->get_ref<const Json::object_t&>()) {
    if (key == "messages" || key == "tools")
      fields.Fail("chat_template_kwargs", fmt::format("'{}' has its own field", key));
    variables[key] = value;
  }
}

void ReadReasoningFormat(FieldReader& fields, Conversation& conversation) {
  std::string format = "auto";
  fields.String("reasoning_format", format);
  if (format == "none")
    conversation.reasoning = ReasoningSyntax::kPlain;
  else if (format != "auto" && format != "deepseek")
    fields.Fail("reasoning_format",
                fmt::format("found '{}', expected auto, deepseek or none", format));
}

Status UseTools(const Model& model, const Json& tools, Conversation& conversation) {
  const ToolDemand& demand = conversation.demand;
  const auto is_named = [&](const Json& tool) {
    const Json* function = FindField(tool, "function");
    return demand.name.empty() ||
           (function != nullptr && StringField(*function, "name") == demand.name);
  };
  if (demand.choice == ToolChoice::kForced && std::ranges::none_of(tools, is_named)) {
    return InvalidArgument(demand.name.empty()
                               ? std::string("a call is demanded and there are no tools")
                               : fmt::format("'{}' is none of the tools", demand.name),
                           "tool_choice");
  }
  if (tools.empty() || demand.choice == ToolChoice::kNone)
    return {};
  conversation.variables["tools"] = tools;
  conversation.tools = ToolSyntaxOf(model.source().chat_template);
  conversation.demand.tools = tools;
  return {};
}

Result<ChatPrompt> MakeChatPrompt(const Model& model, const Conversation& conversation) {
  ChatPrompt prompt;
  auto tokens = EncodeChat(model, conversation.messages, conversation.variables);
  if (!tokens.ok()) {
    Error error = std::move(tokens).error();
    error.message = error.ToString();
    error.where = "messages";
    return error;
  }
  prompt.tokens = std::move(*tokens);
  prompt.syntax.tools = conversation.tools;
  prompt.syntax.call_limit = conversation.demand.limit;
  prompt.syntax.control_marks = ControlMarks(model.tokenizer(), conversation.tools);
  prompt.syntax.declared = std::make_shared<const Json>(conversation.demand.tools);
  const bool takes_reasoning = conversation.reasoning != ReasoningSyntax::kPlain &&
                               HasReasoning(model.source().chat_template);
  if (takes_reasoning)
    prompt.syntax.reasoning =
        EndsInThink(model, prompt.tokens) ? ReasoningSyntax::kInThink : ReasoningSyntax::kThink;
  return prompt;
}

namespace {

// A forced call of a family that marks calls with a control token: the mark ends the prompt, as
// constraints know text only, and the answer is read as if it began with it. DeepSeek's marks of
// single calls could not follow, so there the call is JSON (tool_grammar.h) and stands alone.
void PrimeCall(const Conversation& conversation, ChatPrompt& prompt) {
  if (conversation.demand.choice != ToolChoice::kForced)
    return;
  if (conversation.tools == ToolSyntax::kDeepSeek) {
    prompt.syntax.primed = OpenMark(conversation.tools);
    return;
  }
  const bool is_marked =
      conversation.tools == ToolSyntax::kMistral || conversation.tools == ToolSyntax::kBarred;
  if (!is_marked || prompt.syntax.control_marks.empty())
    return;
  const auto& [token, mark] = prompt.syntax.control_marks.front();
  prompt.tokens.push_back(token);
  prompt.syntax.primed = mark;
}

}  // namespace

Status UseConversation(const ApiContext& context, const Model& model,
                       const Conversation& conversation, ServingRequest& request, TextJob& job) {
  TENON_ASSIGN_OR_RETURN(ChatPrompt prompt, MakeChatPrompt(model, conversation));
  PrimeCall(conversation, prompt);
  TENON_RETURN_IF_ERROR(ConstrainAnswer(
      context, model, {conversation.shape, conversation.demand, prompt.syntax}, request));
  request.prompt = std::move(prompt.tokens);
  job.syntax = std::move(prompt.syntax);
  return {};
}

}  // namespace tenon
