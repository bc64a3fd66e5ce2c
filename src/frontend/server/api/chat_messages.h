// From the messages and tools of an API to what chat templates expect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/server/api/answer_shape.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/api/field_reader.h"
#include "frontend/server/api/text_job.h"

namespace tenon {

struct Conversation {
  Json messages = Json::array();                        // as templates expect them
  Json variables = Json::object();                      // tools, chat_template_kwargs and the like
  ReasoningSyntax reasoning = ReasoningSyntax::kThink;  // kPlain: leave it in the text
  ToolSyntax tools = ToolSyntax::kNone;                 // kNone: read no calls
  ToolDemand demand;
  AnswerShape shape;
};

// OpenAI's messages: roles, text parts joined, null content as "", arguments of calls as objects.
Result<Json> ReadMessages(const Json& messages);

// The text of a content field: a string, null, or an array of text parts.
Result<std::string> ReadContent(const Json* content, const std::string& path);

// Adds {"role", "content"} to the messages.
void AddMessage(Json& messages, std::string_view role, std::string text);

// OpenAI's function tools, checked.
Status CheckTools(const Json& tools);

// tool_choice: "auto" (the default with tools), "none", "required", or a function by its name, in
// OpenAI's or the responses' shape.
void ReadToolChoice(FieldReader& fields, ToolDemand& demand);

// parallel_tool_calls: without them an answer ends with its first call.
void ReadParallelCalls(FieldReader& fields, ToolDemand& demand);

// chat_template_kwargs: whatever the model's template knows.
void ReadTemplateVariables(FieldReader& fields, Json& variables);

// reasoning_format: "auto" or "deepseek" takes reasoning out of the text, "none" leaves it in.
void ReadReasoningFormat(FieldReader& fields, Conversation& conversation);

// Puts tools where templates look for them, and chooses how calls are read. Fails when the choice
// asks for a tool that is not there.
Status UseTools(const Model& model, const Json& tools, Conversation& conversation);

// The prompt's tokens, and how its answer is to be read.
struct ChatPrompt {
  std::vector<int32_t> tokens;
  MessageSyntax syntax;
};
Result<ChatPrompt> MakeChatPrompt(const Model& model, const Conversation& conversation);
// Makes it the prompt of `request` and the syntax of `job`, with the constraint that is asked for.
Status UseConversation(const ApiContext& context, const Model& model,
                       const Conversation& conversation, ServingRequest& request, TextJob& job);

}  // namespace tenon
