#include "frontend/server/api/tool_grammar.h"

#include <fmt/format.h>

#include <utility>

#include "engine/constrain/json_schema.h"

namespace tenon {
namespace {

constexpr std::string_view kHermesOpen = "<tool_call>";
constexpr std::string_view kHermesClose = "</tool_call>";

// {"name": ..., "arguments": ...}
Result<Grammar::Term> CallObject(JsonGrammar& json, const Json& tool, std::string_view arguments) {
  Grammar& grammar = json.grammar();
  const Json& function = *FindField(tool, "function");
  const Json* schema = FindField(function, "parameters");
  Grammar::Term value = -1;
  if (schema == nullptr) {
    value = json.AnyObject();
  } else {
    TENON_ASSIGN_OR_RETURN(value, CompileJsonSchema(json, *schema));
  }
  return grammar.Sequence(
      {grammar.Literal(fmt::format("{{\"name\": {}, \"{}\": ",
                                   JsonGrammar::Quote(StringField(function, "name")), arguments)),
       value, grammar.Literal("}")});
}

std::string ToolName(const Json& tool) {
  const Json* function = FindField(tool, "function");
  return function == nullptr ? "" : StringField(*function, "name");
}

}  // namespace

Result<Grammar::Term> ToolCallTerm(JsonGrammar& json, const ToolDemand& demand,
                                   const MessageSyntax& syntax) {
  Grammar& grammar = json.grammar();
  const char* arguments = syntax.tools == ToolSyntax::kLlama3 ? "parameters" : "arguments";
  std::vector<Grammar::Term> calls;
  for (size_t i = 0; i < demand.tools.size(); ++i) {
    if (!demand.name.empty() && ToolName(demand.tools[i]) != demand.name)
      continue;
    auto call = CallObject(json, demand.tools[i], arguments);
    if (!call.ok()) {
      return MakeError(call.error().code, call.error().message,
                       fmt::format("{}.function.parameters.{}", i, call.error().where));
    }
    calls.push_back(*call);
  }
  const Grammar::Term call = grammar.Either(std::move(calls));
  switch (syntax.tools) {
    case ToolSyntax::kHermes:
      return grammar.Sequence({grammar.Literal(kHermesOpen), grammar.Literal("\n"), call,
                               grammar.Literal("\n"), grammar.Literal(kHermesClose)});
    case ToolSyntax::kMistral:
    case ToolSyntax::kBarred:
      // Where the mark is a control token, it stands at the end of the prompt.
      return grammar.Sequence(
          {syntax.control_marks.empty() ? grammar.Literal(OpenMark(syntax.tools)) : grammar.Empty(),
           grammar.Literal("["), call, grammar.Literal("]")});
    case ToolSyntax::kDeepSeek:
    case ToolSyntax::kLlama3:
    case ToolSyntax::kNone:
      break;
  }
  return call;
}

Result<Grammar::Term> TextOrCalls(Grammar& grammar, Grammar::Term call,
                                  const MessageSyntax& syntax) {
  if (syntax.tools != ToolSyntax::kHermes) {
    return Unsupported("strict arguments need a tool_choice that forces a call with this model",
                       "tool_choice");
  }
  // The call term begins with the mark; here the mark was read when the call begins.
  const Grammar::Node& parts = grammar.node(call);
  const Grammar::Term rest =
      grammar.Sequence(std::vector<Grammar::Term>(parts.parts.begin() + 1, parts.parts.end()));
  const Grammar::Term more = grammar.Repeat(
      grammar.Sequence({grammar.Optional(grammar.Literal("\n")), call}), 0, Grammar::kNoLimit);
  return grammar.Until(kHermesOpen, grammar.Sequence({rest, more}), Grammar::Mark::kOptional);
}

}  // namespace tenon
