// POST /v1/responses.
#include <fmt/format.h>

#include "frontend/server/api/chat_messages.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/responses_format.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

// Responses' tools carry name and parameters at the top; templates know the nested shape.
Result<Json> ToChatTools(const Json& tools) {
  if (!tools.is_array())
    return InvalidArgument("expected an array", "tools");
  Json result = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const Json* type = FindField(tools[i], "type");
    if (type == nullptr || *type != "function")
      return Unsupported("only \"function\" tools are supported", path + ".type");
    const Json* name = FindField(tools[i], "name");
    if (name == nullptr || !name->is_string())
      return InvalidArgument("a string is missing", path + ".name");
    Json function;
    for (const char* key : {"name", "description", "parameters", "strict"}) {
      if (const Json* value = FindField(tools[i], key); value != nullptr)
        function[key] = *value;
    }
    result.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return result;
}

Status AddFunctionCall(const Json& item, const std::string& path, Json& messages) {
  Json call;
  call["id"] = StringField(item, "call_id");
  call["type"] = "function";
  call["function"] = {{"name", StringField(item, "name")},
                      {"arguments", StringField(item, "arguments")}};
  if (StringField(item, "name").empty())
    return InvalidArgument("a string is missing", path + ".name");
  // Calls of one turn belong to one message.
  if (!messages.empty() && messages.back().contains("tool_calls")) {
    messages.back()["tool_calls"].push_back(std::move(call));
    return {};
  }
  Json message;
  message["role"] = "assistant";
  message["content"] = "";
  message["tool_calls"] = Json::array({std::move(call)});
  messages.push_back(std::move(message));
  return {};
}

Status AddItem(const Json& item, const std::string& path, Json& messages) {
  const std::string type = StringField(item, "type");
  if (type.empty() || type == "message") {
    TENON_ASSIGN_OR_RETURN(std::string text,
                           ReadContent(FindField(item, "content"), path + ".content"));
    AddMessage(messages, StringField(item, "role"), std::move(text));
    return {};
  }
  if (type == "function_call")
    return AddFunctionCall(item, path, messages);
  if (type == "function_call_output") {
    TENON_ASSIGN_OR_RETURN(std::string text,
                           ReadContent(FindField(item, "output"), path + ".output"));
    AddMessage(messages, "tool", std::move(text));
    messages.back()["tool_call_id"] = StringField(item, "call_id");
    return {};
  }
  // What a model thought in an earlier turn is not shown to it again.
  if (type == "reasoning")
    return {};
  return Unsupported(fmt::format("items of type '{}' are not supported", type), path + ".type");
}

Result<Json> ToMessages(const Json& input, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty())
    AddMessage(messages, "system", instructions);
  if (input.is_string()) {
    AddMessage(messages, "user", input.get<std::string>());
    return messages;
  }
  if (!input.is_array())
    return InvalidArgument("expected a string or an array of items", "input");
  for (size_t i = 0; i < input.size(); ++i)
    TENON_RETURN_IF_ERROR(AddItem(input[i], fmt::format("input[{}]", i), messages));
  // The same checks as for chat messages.
  return ReadMessages(messages);
}

void ReadText(FieldReader& fields, AnswerShape& shape) {
  const Json* text = fields.Object("text");
  if (text == nullptr)
    return;
  FieldReader inner(*text, "text");
  ReadFormat(inner, "format", shape);
  inner.Refuse("verbosity", "models here have no such setting", {"medium"});
  fields.Take(inner.Finish());
}

void ReadReasoning(FieldReader& fields, Json& variables) {
  const Json* reasoning = fields.Object("reasoning");
  if (reasoning == nullptr)
    return;
  FieldReader inner(*reasoning, "reasoning");
  std::string effort;
  inner.String("effort", effort);
  inner.Refuse("summary", "reasoning is given as it is", {"auto"});
  fields.Take(inner.Finish());
  if (!effort.empty())
    variables["reasoning_effort"] = effort;
}

void RefuseResponsesFields(FieldReader& fields) {
  fields.Refuse("previous_response_id", "nothing is stored; send the whole conversation");
  fields.Refuse("conversation", "nothing is stored; send the whole conversation");
  fields.Refuse("background", "nothing is stored", {false});
  fields.Refuse("prompt", "there are no stored prompts");
  fields.Refuse("max_tool_calls", "calls are made by the client");
  fields.Refuse("truncation", "a prompt is never cut", {"disabled"});
  fields.Refuse("include", "there is nothing more to include",
                {Json::array(), Json::array({"reasoning.encrypted_content"})});
  fields.Refuse(
      "stream_options", "streams have no options",
      {Json::object(), Json{{"include_obfuscation", false}}, Json{{"include_obfuscation", true}}});
  fields.Refuse("top_logprobs", "use /v1/chat/completions", {0});
}

}  // namespace

Result<TextJob> ParseResponses(const ApiContext& context, const Model& model, const Json& body) {
  TextJob job;
  ServingRequest request;
  Conversation conversation;
  ResponsesEcho echo;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, job));
  fields.String("instructions", echo.instructions);
  if (const Json* input = fields.Required("input"); input != nullptr) {
    TENON_ASSIGN_OR_RETURN(conversation.messages, ToMessages(*input, echo.instructions));
  }
  ReadToolChoice(fields, conversation.demand);
  ReadParallelCalls(fields, conversation.demand);
  Json chat_tools = Json::array();
  if (const Json* tools = fields.Any("tools"); tools != nullptr) {
    TENON_ASSIGN_OR_RETURN(chat_tools, ToChatTools(*tools));
    echo.tools = *tools;
  }
  if (fields.ok())
    fields.Take(UseTools(model, chat_tools, conversation));
  if (const Json* choice = fields.Any("tool_choice"); choice != nullptr)
    echo.tool_choice = *choice;
  ReadTemplateVariables(fields, conversation.variables);
  ReadReasoning(fields, conversation.variables);
  ReadText(fields, conversation.shape);
  ReadShapeFields(fields, conversation.shape);
  RefuseResponsesFields(fields);
  ReadSamplingFields(fields, model.tokenizer(), request);
  if (request.choices != 1)
    fields.Fail("n", "one answer only");
  ReadMaxTokens(fields, "max_output_tokens", request.max_tokens);
  echo.max_output_tokens = request.max_tokens;
  echo.temperature = request.sampling.temperature;
  echo.top_p = request.sampling.top_p;
  ReadDelivery(fields, job);
  if (const Json* metadata = fields.Object("metadata"); metadata != nullptr)
    echo.metadata = *metadata;
  RefuseNativeFields(fields);
  IgnoreOpenAiFields(fields);
  ReadPriority(fields, context, job);
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  TENON_RETURN_IF_ERROR(UseConversation(context, model, conversation, request, job));
  job.requests.push_back(std::move(request));
  job.format = MakeResponsesFormat(std::move(echo));
  return job;
}

}  // namespace tenon
