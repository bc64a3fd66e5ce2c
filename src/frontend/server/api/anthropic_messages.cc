// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API.
#include <fmt/format.h>

#include "frontend/server/api/anthropic_format.h"
#include "frontend/server/api/chat_messages.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

Json CallOf(const Json& block) {
  const Json* input = FindField(block, "input");
  Json call;
  call["id"] = StringField(block, "id");
  call["type"] = "function";
  call["function"] = {{"name", StringField(block, "name")},
                      {"arguments", input == nullptr ? Json::object() : *input}};
  return call;
}

// The blocks of one message. Results of tools become messages of their own, before the rest.
Status AddBlocks(const Json& blocks, const std::string& role, const std::string& path,
                 Json& messages) {
  std::string text;
  Json calls = Json::array();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Json& block = blocks[i];
    const std::string block_path = fmt::format("{}[{}]", path, i);
    const std::string type = StringField(block, "type");
    if (type == "text") {
      const Json* piece = FindField(block, "text");
      if (piece == nullptr || !piece->is_string())
        return InvalidArgument("a string is missing", block_path + ".text");
      text += piece->get_ref<const std::string&>();
    } else if (type == "tool_use" && role == "assistant") {
      calls.push_back(CallOf(block));
    } else if (type == "tool_result" && role == "user") {
      TENON_ASSIGN_OR_RETURN(std::string result,
                             ReadContent(FindField(block, "content"), block_path + ".content"));
      AddMessage(messages, "tool", std::move(result));
      messages.back()["tool_call_id"] = StringField(block, "tool_use_id");
    } else if (type != "thinking" && type != "redacted_thinking") {
      return Unsupported(fmt::format("blocks of type '{}' are not supported here", type),
                         block_path + ".type");
    }
  }
  const bool only_results =
      role == "user" && text.empty() && !messages.empty() && messages.back()["role"] == "tool";
  if (only_results)
    return {};
  AddMessage(messages, role, std::move(text));
  if (!calls.empty())
    messages.back()["tool_calls"] = std::move(calls);
  return {};
}

Status AddMessages(const Json& given, Json& messages) {
  if (!given.is_array() || given.empty())
    return InvalidArgument("expected an array with at least one message", "messages");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    FieldReader fields(given[i], path);
    std::string role;
    fields.Required("role");
    fields.String("role", role);
    const Json* content = fields.Required("content");
    TENON_RETURN_IF_ERROR(fields.Finish());
    if (role != "user" && role != "assistant")
      return InvalidArgument(fmt::format("found '{}', expected user or assistant", role),
                             path + ".role");
    if (content->is_array()) {
      TENON_RETURN_IF_ERROR(AddBlocks(*content, role, path + ".content", messages));
      continue;
    }
    TENON_ASSIGN_OR_RETURN(std::string text, ReadContent(content, path + ".content"));
    AddMessage(messages, role, std::move(text));
  }
  return {};
}

Result<Json> ToChatTools(const Json& tools) {
  if (!tools.is_array())
    return InvalidArgument("expected an array", "tools");
  Json result = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const std::string type = StringField(tools[i], "type");
    if (!type.empty() && type != "custom")
      return Unsupported(fmt::format("tools of type '{}' are not supported", type), path + ".type");
    if (StringField(tools[i], "name").empty())
      return InvalidArgument("a string is missing", path + ".name");
    Json function;
    function["name"] = StringField(tools[i], "name");
    if (const Json* text = FindField(tools[i], "description"); text != nullptr)
      function["description"] = *text;
    if (const Json* schema = FindField(tools[i], "input_schema"); schema != nullptr)
      function["parameters"] = *schema;
    if (const Json* strict = FindField(tools[i], "strict"); strict != nullptr)
      function["strict"] = *strict;
    result.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return result;
}

void ReadChoice(FieldReader& fields, ToolDemand& demand) {
  const Json* choice = fields.Object("tool_choice");
  if (choice == nullptr)
    return;
  FieldReader inner(*choice, "tool_choice");
  std::string type;
  bool single = false;
  inner.String("type", type);
  inner.String("name", demand.name);
  inner.Bool("disable_parallel_tool_use", single);
  fields.Take(inner.Finish());
  demand.limit = single ? CallLimit::kOne : CallLimit::kNone;
  if (type == "none")
    demand.choice = ToolChoice::kNone;
  else if (type == "any" || type == "tool")
    demand.choice = ToolChoice::kForced;
  else if (type != "auto")
    fields.Fail("tool_choice", "expected a type of auto, any, tool or none");
  if (type != "tool")
    demand.name.clear();
  else if (demand.name.empty())
    fields.Fail("tool_choice", "a tool's name is missing");
}

// Anthropic's structured answers: the schema of output_format, or of output_config.format.
void ReadOutputFormat(FieldReader& fields, AnswerShape& shape) {
  ReadFormat(fields, "output_format", shape);
  const Json* config = fields.Object("output_config");
  if (config == nullptr)
    return;
  FieldReader inner(*config, "output_config");
  ReadFormat(inner, "format", shape);
  inner.Refuse("effort", "models here have no such setting");
  fields.Take(inner.Finish());
}

// Templates that can think know `enable_thinking`; a budget of it is not enforced.
void ReadThinking(FieldReader& fields, const Model& model, Conversation& conversation) {
  const Json* thinking = fields.Object("thinking");
  if (thinking == nullptr)
    return;
  const std::string type = StringField(*thinking, "type");
  if (type == "disabled") {
    conversation.variables["enable_thinking"] = false;
    return;
  }
  if (type != "enabled" && type != "adaptive")
    fields.Fail("thinking", "expected a type of enabled, adaptive or disabled");
  if (!HasReasoning(model.source().chat_template))
    fields.Fail("thinking", "the model does not reason", ErrorCode::kUnsupported);
  conversation.variables["enable_thinking"] = true;
}

// Everything that becomes the prompt.
Result<Conversation> ReadConversation(FieldReader& fields, const Model& model) {
  Conversation conversation;
  if (const Json* system = fields.Any("system"); system != nullptr) {
    TENON_ASSIGN_OR_RETURN(std::string text, ReadContent(system, "system"));
    if (!text.empty())
      AddMessage(conversation.messages, "system", std::move(text));
  }
  if (const Json* messages = fields.Required("messages"); messages != nullptr)
    TENON_RETURN_IF_ERROR(AddMessages(*messages, conversation.messages));
  ReadChoice(fields, conversation.demand);
  Json chat_tools = Json::array();
  if (const Json* tools = fields.Any("tools"); tools != nullptr) {
    TENON_ASSIGN_OR_RETURN(chat_tools, ToChatTools(*tools));
  }
  if (fields.ok())
    fields.Take(UseTools(model, chat_tools, conversation));
  ReadThinking(fields, model, conversation);
  return conversation;
}

}  // namespace

Result<TextJob> ParseMessages(const ApiContext& context, const Model& model, const Json& body) {
  TextJob job;
  ServingRequest request;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, job));
  TENON_ASSIGN_OR_RETURN(Conversation conversation, ReadConversation(fields, model));
  ReadOutputFormat(fields, conversation.shape);
  fields.Required("max_tokens");
  ReadMaxTokens(fields, "max_tokens", request.max_tokens);
  fields.Float("temperature", request.sampling.temperature);
  fields.Float("top_p", request.sampling.top_p);
  ReadTopK(fields, request.sampling);
  ReadSeed(fields, request.sampling);
  fields.Strings("stop_sequences", request.stop);
  ReadDelivery(fields, job);
  fields.Refuse("container", "there are no containers");
  fields.Refuse("mcp_servers", "calls are made by the client", {Json::array()});
  fields.Ignore({"metadata", "service_tier", "inference_geo", "cache_control"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  TENON_RETURN_IF_ERROR(UseConversation(context, model, conversation, request, job));
  job.requests.push_back(std::move(request));
  job.format = MakeAnthropicFormat();
  return job;
}

Result<Json> CountMessageTokens(ApiContext& context, ServingEngine& engine, const Json& body) {
  TextJob named;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, named));
  TENON_ASSIGN_OR_RETURN(const Conversation conversation, ReadConversation(fields, engine.model()));
  fields.Ignore({"cache_control"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_ASSIGN_OR_RETURN(const ChatPrompt prompt, MakeChatPrompt(engine.model(), conversation));
  return Json{{"input_tokens", prompt.tokens.size()}};
}

}  // namespace tenon
