#include "frontend/server/api/answer_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/constrain/gbnf.h"
#include "engine/constrain/json_schema.h"
#include "engine/constrain/regex.h"
#include "frontend/server/api/tool_grammar.h"
#include "frontend/serving/constraint_store.h"

namespace tenon {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
// Choices are compared byte by byte while they are made.
constexpr size_t kMaxChoices = 10'000;

// One form only: two would have to hold at once.
bool Claim(FieldReader& fields, std::string_view name, AnswerShape::Kind kind, AnswerShape& shape) {
  if (shape.kind != AnswerShape::Kind::kFree) {
    fields.Fail(name, fmt::format("the answer's form is already given by '{}'", shape.field));
    return false;
  }
  shape.kind = kind;
  shape.field = fields.PathOf(name);
  return true;
}

void UseSchema(FieldReader& fields, std::string_view name, const Json& schema, AnswerShape& shape) {
  if (Claim(fields, name, AnswerShape::Kind::kSchema, shape))
    shape.schema = schema;
}

// A form that is a text. Who names one and leaves it empty would get free text: that is refused.
void UseText(FieldReader& fields, std::string_view name, AnswerShape::Kind kind,
             AnswerShape& shape) {
  if (fields.Any(name) == nullptr)
    return;
  const bool is_regex = kind == AnswerShape::Kind::kRegex;
  std::string text;
  fields.String(name, text);
  if (text.empty())
    return fields.Fail(name, fmt::format("expected a {}, found an empty text",
                                         is_regex ? "regular expression" : "grammar"));
  if (Claim(fields, name, kind, shape))
    (is_regex ? shape.regex : shape.grammar) = std::move(text);
}

void UseRegex(FieldReader& fields, std::string_view name, AnswerShape& shape) {
  UseText(fields, name, AnswerShape::Kind::kRegex, shape);
}

void UseGrammar(FieldReader& fields, std::string_view name, AnswerShape& shape) {
  UseText(fields, name, AnswerShape::Kind::kGrammar, shape);
}

void UseChoices(FieldReader& fields, std::string_view name, AnswerShape& shape) {
  if (fields.Any(name) == nullptr)
    return;
  std::vector<std::string> choices;
  fields.Strings(name, choices);
  if (choices.empty() || choices.size() > kMaxChoices || std::ranges::count(choices, "") > 0)
    return fields.Fail(name, fmt::format("expected 1 to {} texts, none empty", kMaxChoices));
  if (Claim(fields, name, AnswerShape::Kind::kChoice, shape))
    shape.choices = std::move(choices);
}

// The schema of {"type": "json_schema"}: inside "json_schema" as in chat, or beside the type.
void ReadSchemaFormat(FieldReader& fields, std::string_view name, const Json& format,
                      AnswerShape& shape) {
  const Json* wrapper = FindField(format, "json_schema");
  const Json* schema = FindField(wrapper == nullptr ? format : *wrapper, "schema");
  if (schema == nullptr)
    return fields.Fail(name, "a schema is missing");
  UseSchema(fields, name, *schema, shape);
  if (wrapper != nullptr)
    shape.field += ".json_schema";
  shape.field += ".schema";
}

// What a model that reasons writes before its answer.
Grammar::Term WithReasoning(Grammar& grammar, ReasoningSyntax reasoning, Grammar::Term answer) {
  if (reasoning == ReasoningSyntax::kPlain)
    return answer;
  const Grammar::Term line = grammar.Repeat(grammar.Literal("\n"), 0, 2);
  const Grammar::Term after = grammar.Sequence({line, answer});
  const Grammar::Term thought = grammar.Until(kThinkClose, after, Grammar::Mark::kNeeded);
  if (reasoning == ReasoningSyntax::kInThink)
    return thought;
  return grammar.Either({answer, grammar.Sequence({grammar.Literal(kThinkOpen), thought})});
}

Error AtField(const Error& error, const std::string& field) {
  return MakeError(error.code, error.message,
                   error.where.empty() ? field : fmt::format("{}.{}", field, error.where));
}

Result<Grammar::Term> ShapeTerm(JsonGrammar& json, const AnswerShape& shape) {
  switch (shape.kind) {
    case AnswerShape::Kind::kSchema:
      return CompileJsonSchema(json, shape.schema);
    case AnswerShape::Kind::kRegex:
      return CompileRegex(json.grammar(), shape.regex, TextForm::kPlain, RegexMatch::kWhole);
    case AnswerShape::Kind::kChoice:
      return json.grammar().AnyOf(shape.choices);
    case AnswerShape::Kind::kGrammar:
      return CompileGbnf(json.grammar(), shape.grammar);
    case AnswerShape::Kind::kFree:
      break;
  }
  return MakeError(ErrorCode::kInternal, "no shape is asked for");
}

// With tools that the model may call: a call, or an answer of the shape.
Result<Grammar::Term> AnswerTerm(JsonGrammar& json, const AnswerShape& shape,
                                 const ToolDemand& demand, const MessageSyntax& syntax) {
  Grammar& grammar = json.grammar();
  const bool has_tools = demand.choice != ToolChoice::kNone && !demand.tools.empty();
  if (!has_tools) {
    auto term = ShapeTerm(json, shape);
    if (!term.ok())
      return AtField(term.error(), shape.field);
    return term;
  }
  auto call = ToolCallTerm(json, demand, syntax);
  if (!call.ok())
    return AtField(call.error(), demand.field);
  if (demand.choice == ToolChoice::kForced)
    return call;
  if (shape.kind == AnswerShape::Kind::kFree)
    return TextOrCalls(grammar, *call, syntax);
  auto term = ShapeTerm(json, shape);
  if (!term.ok())
    return AtField(term.error(), shape.field);
  return grammar.Either({*call, *term});
}

std::string KeyOf(const AnswerShape& shape, const ToolDemand& demand, const MessageSyntax& syntax) {
  Json key;
  key["kind"] = static_cast<int>(shape.kind);
  key["schema"] = shape.schema;
  key["regex"] = shape.regex;
  key["choices"] = shape.choices;
  key["grammar"] = shape.grammar;
  key["call"] = {static_cast<int>(demand.choice), demand.name, demand.tools};
  key["syntax"] = {static_cast<int>(syntax.tools), static_cast<int>(syntax.reasoning),
                   syntax.control_marks.size()};
  return DumpJson(key);
}

bool IsStrict(const Json& tool) {
  const Json* function = FindField(tool, "function");
  const Json* strict = function == nullptr ? nullptr : FindField(*function, "strict");
  return strict != nullptr && *strict == true;
}

// Free text needs no constraint, unless a tool's arguments are to be kept.
bool NeedsConstraint(const AnswerShape& shape, const ToolDemand& demand) {
  if (shape.kind != AnswerShape::Kind::kFree || demand.choice == ToolChoice::kForced)
    return true;
  return demand.choice == ToolChoice::kAuto && std::ranges::any_of(demand.tools, IsStrict);
}

}  // namespace

void ReadFormat(FieldReader& fields, std::string_view name, AnswerShape& shape) {
  const Json* format = fields.Object(name);
  if (format == nullptr)
    return;
  const std::string type = StringField(*format, "type");
  if (type == "text")
    return;
  if (type == "json_schema")
    return ReadSchemaFormat(fields, name, *format, shape);
  if (type == "json_object") {
    // Some clients put a schema here.
    const Json* schema = FindField(*format, "schema");
    return UseSchema(fields, name, schema == nullptr ? Json{{"type", "object"}} : *schema, shape);
  }
  fields.Fail(name,
              fmt::format("found the type '{}', expected text, json_object or json_schema", type),
              ErrorCode::kUnsupported);
}

void ReadOllamaFormat(FieldReader& fields, AnswerShape& shape) {
  const Json* format = fields.Any("format");
  if (format == nullptr || *format == "")
    return;
  if (*format == "json")
    UseSchema(fields, "format", Json{{"type", "object"}}, shape);
  else if (format->is_object())
    UseSchema(fields, "format", *format, shape);
  else
    fields.Fail("format", "expected \"json\" or a JSON schema");
}

void ReadShapeFields(FieldReader& fields, AnswerShape& shape) {
  for (const char* name : {"json_schema", "guided_json"}) {
    if (const Json* schema = fields.Any(name); schema != nullptr)
      UseSchema(fields, name, *schema, shape);
  }
  UseRegex(fields, "guided_regex", shape);
  UseChoices(fields, "guided_choice", shape);
  if (const Json* given = fields.Object("structured_outputs"); given != nullptr) {
    FieldReader inner(*given, "structured_outputs");
    if (const Json* schema = inner.Any("json"); schema != nullptr)
      UseSchema(inner, "json", *schema, shape);
    UseRegex(inner, "regex", shape);
    UseChoices(inner, "choice", shape);
    UseGrammar(inner, "grammar", shape);
    fields.Take(inner.Finish());
  }
  // llama-server's clients send an empty one for none.
  if (const Json* grammar = fields.Any("grammar"); grammar != nullptr && *grammar != "")
    UseGrammar(fields, "grammar", shape);
  UseGrammar(fields, "guided_grammar", shape);
}

Status ConstrainAnswer(const ApiContext& context, const Model& model, const AnswerRules& rules,
                       ServingRequest& request) {
  const auto& [shape, demand, syntax] = rules;
  if (!NeedsConstraint(shape, demand))
    return {};
  const auto vocab_size = std::max(static_cast<int32_t>(model.source().config.vocab_size),
                                   model.tokenizer().vocab_size());
  auto constraint = context.constraints().Get(
      model.tokenizer(), vocab_size, KeyOf(shape, demand, syntax),
      [&](JsonGrammar& json) -> Result<Grammar::Term> {
        TENON_ASSIGN_OR_RETURN(const Grammar::Term answer, AnswerTerm(json, shape, demand, syntax));
        return WithReasoning(json.grammar(), syntax.reasoning, answer);
      });
  if (!constraint.ok()) {
    const Error& error = constraint.error();
    const std::string& field = shape.kind == AnswerShape::Kind::kFree ? demand.field : shape.field;
    return error.where.empty() ? AtField(error, field) : error;
  }
  request.constraint = std::move(*constraint);
  return {};
}

}  // namespace tenon
