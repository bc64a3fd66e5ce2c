// What clients ask of an answer's form: response_format and its like in other APIs, tools that must
// be called, tools with strict arguments. Becomes the constraint of the engine's request.
// Threading: functions from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/server/api/api_context.h"
#include "frontend/server/api/field_reader.h"
#include "frontend/server/api/message_parser.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

struct AnswerShape {
  enum class Kind : uint8_t { kFree, kSchema, kRegex, kChoice, kGrammar };
  Kind kind = Kind::kFree;
  std::string field;  // that asks for it, for errors
  Json schema;
  std::string regex;
  std::string grammar;  // GBNF
  std::vector<std::string> choices;
};

// tool_choice: whether the model may, must or must not call.
enum class ToolChoice : uint8_t { kAuto, kNone, kForced };

// The tools of a request that the answer's form depends on.
struct ToolDemand {
  ToolChoice choice = ToolChoice::kAuto;
  CallLimit limit = CallLimit::kNone;
  std::string name;            // kForced: this one; empty: any of them
  Json tools = Json::array();  // as chat templates know them
  std::string field = "tools";
};

// {"type": "text" | "json_object" | "json_schema", ...}: response_format, text.format and
// output_format.
void ReadFormat(FieldReader& fields, std::string_view name, AnswerShape& shape);
// Ollama's: "json" or a schema.
void ReadOllamaFormat(FieldReader& fields, AnswerShape& shape);
// json_schema and grammar (llama-server's), guided_json, guided_regex, guided_choice,
// guided_grammar, structured_outputs (vLLM's). One that is given and empty is refused, except
// "grammar".
void ReadShapeFields(FieldReader& fields, AnswerShape& shape);

// What an answer has to be like. Views.
struct AnswerRules {
  const AnswerShape& shape;
  const ToolDemand& demand;
  const MessageSyntax& syntax;
};

// Gives `request` the constraint that both ask for, none when they leave the answer free. Fails,
// naming the field and the keyword, for what can't be kept.
Status ConstrainAnswer(const ApiContext& context, const Model& model, const AnswerRules& rules,
                       ServingRequest& request);

}  // namespace tenon
