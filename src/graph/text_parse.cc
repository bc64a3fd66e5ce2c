#include <fmt/format.h>

#include <cctype>
#include <map>
#include <unordered_map>
#include <utility>

#include "graph/ops/registry.h"
#include "graph/plugin/plugin_text.h"
#include "graph/text.h"
#include "graph/text_tokens.h"
#include "graph/verify.h"

namespace tenon {
namespace {

Error Expected(std::string_view what, const LineReader& reader) {
  // Enough of the rest of the line to find the place by eye.
  constexpr size_t kShown = 40;
  return InvalidArgument(
      fmt::format("found \"{}\", expected {}", reader.rest().substr(0, kShown), what));
}

Result<Dim> ParseDim(LineReader& reader) {
  Dim dim;
  if (reader.Accept("N"))
    dim.symbol = Symbol::kTokens;
  else if (reader.Accept("R"))
    dim.symbol = Symbol::kOutputs;
  if (dim.symbol != Symbol::kNone && !reader.Accept("*"))
    return dim;
  const std::optional<int64_t> extent = reader.Number();
  if (!extent)
    return Expected("a number, N or R", reader);
  dim.extent = *extent;
  return dim;
}

Result<ValueType> ParseType(LineReader& reader) {
  std::string name;
  for (const char c : reader.Word())
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::optional<DType> dtype = FindDType(name);
  if (!dtype)
    return InvalidArgument(fmt::format("\"{}\" is no dtype", name));
  ValueType type{*dtype, {}};
  if (!reader.Accept("["))
    return Expected("[", reader);
  while (!reader.Accept("]")) {
    if (!type.shape.empty() && !reader.Accept(","))
      return Expected(", or ]", reader);
    TENON_ASSIGN_OR_RETURN(const Dim dim, ParseDim(reader));
    type.shape.push_back(dim);
  }
  return type;
}

// What a weight is called in a text: its tensor, and its rows when they are written.
struct WeightKey {
  std::string tensor;
  std::optional<std::pair<int64_t, int64_t>> rows;
  auto operator<=>(const WeightKey&) const = default;
};

// After "@".
Result<WeightKey> ParseWeightKey(LineReader& reader) {
  std::optional<std::string> name = reader.Name();
  if (!name)
    return Expected("a tensor's name", reader);
  WeightKey key{std::move(*name), std::nullopt};
  if (!reader.Accept("["))
    return key;
  const std::optional<int64_t> begin = reader.Number();
  if (!begin || !reader.Accept(":"))
    return Expected("rows begin:end", reader);
  const std::optional<int64_t> end = reader.Number();
  if (!end || !reader.Accept("]"))
    return Expected("the end of the rows and ]", reader);
  key.rows = std::pair(*begin, *end);
  return key;
}

class Parser {
 public:
  explicit Parser(const PluginOperators* plugins) : plugins_(plugins) {}

  Result<Graph> Run(std::string_view text) {
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (Status status = ParseLine(line); !status.ok()) {
        Error error = std::move(status).error();
        error.where = fmt::format("line {}", number);
        return error;
      }
    }
    TENON_RETURN_IF_ERROR(VerifyGraph(graph_));
    return std::move(graph_);
  }

 private:
  struct Target {
    int64_t number;
    ValueType type;
  };

  Status ParseLine(std::string_view line);
  Status ParseWeight(LineReader& reader);
  Status ParseReturn(LineReader& reader);
  Status ParseAssignment(LineReader& reader, std::string comment);
  Result<std::vector<Target>> ParseTargets(LineReader& reader);
  Result<std::vector<ValueId>> ParseOperands(LineReader& reader);
  Result<ValueId> ParseOperand(LineReader& reader);
  Status ParseAttrs(LineReader& reader, OpAttrs& attrs) const;
  Status AddInput(const std::vector<Target>& targets, std::string name);
  Status Bind(const std::vector<Target>& targets, const std::vector<ValueId>& outputs);

  const PluginOperators* plugins_;
  Graph graph_;
  std::unordered_map<int64_t, ValueId> numbered_;
  std::map<WeightKey, ValueId> weights_;
};

// Where the comment begins: the first # outside quotes.
size_t CommentStart(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"')
      quoted = !quoted;
    if (line[i] == '#' && !quoted)
      return i;
  }
  return line.size();
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

Status Parser::ParseLine(std::string_view line) {
  const size_t start = CommentStart(line);
  const std::string_view raw = start < line.size() ? line.substr(start + 1) : std::string_view();
  std::optional<std::string> comment = UnescapeText(Trim(raw));
  if (!comment)
    return InvalidArgument("malformed \\x escape in the name after #");
  LineReader reader(line.substr(0, start));
  if (reader.AtEnd())
    return {};
  if (reader.Accept("@"))
    TENON_RETURN_IF_ERROR(ParseWeight(reader));
  else if (reader.Accept("return"))
    TENON_RETURN_IF_ERROR(ParseReturn(reader));
  else
    TENON_RETURN_IF_ERROR(ParseAssignment(reader, std::move(*comment)));
  return reader.AtEnd() ? Status() : Expected("the end of the line", reader);
}

Status Parser::ParseWeight(LineReader& reader) {
  TENON_ASSIGN_OR_RETURN(WeightKey key, ParseWeightKey(reader));
  if (!reader.Accept(":"))
    return Expected(":", reader);
  TENON_ASSIGN_OR_RETURN(ValueType type, ParseType(reader));
  const int64_t rows = type.shape.empty() ? 0 : type.shape[0].extent;
  const auto [begin, end] = key.rows.value_or(std::pair<int64_t, int64_t>(0, rows));
  const ValueId id = graph_.AddWeightRows({key.tensor, begin, end}, type.dtype, type.shape);
  if (!weights_.emplace(std::move(key), id).second)
    return InvalidArgument("this weight is declared twice");
  return {};
}

Status Parser::ParseReturn(LineReader& reader) {
  do {
    TENON_ASSIGN_OR_RETURN(const ValueId id, ParseOperand(reader));
    graph_.MarkOutput(id);
  } while (reader.Accept(","));
  return {};
}

Result<std::vector<Parser::Target>> Parser::ParseTargets(LineReader& reader) {
  std::vector<Target> targets;
  do {
    if (!reader.Accept("%"))
      return Expected("%number", reader);
    const std::optional<int64_t> number = reader.Number();
    if (!number || !reader.Accept(":"))
      return Expected("%number:", reader);
    if (numbered_.contains(*number))
      return InvalidArgument(fmt::format("%{} is defined twice", *number));
    TENON_ASSIGN_OR_RETURN(ValueType type, ParseType(reader));
    targets.push_back({*number, std::move(type)});
  } while (reader.Accept(","));
  return targets;
}

Result<ValueId> Parser::ParseOperand(LineReader& reader) {
  if (reader.Accept("@")) {
    TENON_ASSIGN_OR_RETURN(const WeightKey key, ParseWeightKey(reader));
    const auto found = weights_.find(key);
    if (found == weights_.end())
      return InvalidArgument(fmt::format("weight {} is not declared", key.tensor));
    return found->second;
  }
  const std::optional<int64_t> number =
      reader.Accept("%") ? reader.Number() : std::optional<int64_t>();
  if (!number)
    return Expected("%number or @weight", reader);
  const auto found = numbered_.find(*number);
  if (found == numbered_.end())
    return InvalidArgument(fmt::format("%{} is not defined", *number));
  return found->second;
}

Result<std::vector<ValueId>> Parser::ParseOperands(LineReader& reader) {
  std::vector<ValueId> operands;
  if (!reader.Accept("("))
    return Expected("(", reader);
  while (!reader.Accept(")")) {
    if (!operands.empty() && !reader.Accept(","))
      return Expected(", or )", reader);
    TENON_ASSIGN_OR_RETURN(const ValueId id, ParseOperand(reader));
    operands.push_back(id);
  }
  return operands;
}

Status Parser::ParseAttrs(LineReader& reader, OpAttrs& attrs) const {
  if (std::holds_alternative<PluginAttrs>(attrs)) {
    TENON_ASSIGN_OR_RETURN(attrs, ParsePluginAttrs(reader, plugins_));
    return {};
  }
  if (!reader.Accept("{"))
    return {};
  bool first = true;
  while (!reader.Accept("}")) {
    if (!first && !reader.Accept(","))
      return Expected(", or }", reader);
    first = false;
    const std::string_view name = reader.Word();
    if (!reader.Accept("="))
      return Expected("attribute=value", reader);
    TENON_RETURN_IF_ERROR(SetAttr(attrs, name, reader.Word()));
  }
  return {};
}

Status Parser::AddInput(const std::vector<Target>& targets, std::string name) {
  if (targets.size() != 1)
    return InvalidArgument("an input is one value");
  const ValueType& type = targets[0].type;
  numbered_[targets[0].number] = graph_.AddInput(std::move(name), type.dtype, type.shape);
  return {};
}

// Gives the op's outputs their numbers, checking that they are of the written types.
Status Parser::Bind(const std::vector<Target>& targets, const std::vector<ValueId>& outputs) {
  if (targets.size() != outputs.size())
    return InvalidArgument(
        fmt::format("{} values are written, the op has {}", targets.size(), outputs.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    Value& value = graph_.mutable_value(outputs[i]);
    // Whether the op may quantize its output is left to the verifier.
    if (value.dtype == DType::kF32 && IsQuantizedActivation(targets[i].type.dtype))
      value.dtype = targets[i].type.dtype;
    if (ValueType{value.dtype, value.shape} != targets[i].type)
      return InvalidArgument(fmt::format("%{} is written as {}, but is {}", targets[i].number,
                                         TypeText(targets[i].type), TypeText(value)));
    if (!numbered_.emplace(targets[i].number, outputs[i]).second)
      return InvalidArgument(fmt::format("%{} is defined twice", targets[i].number));
  }
  return {};
}

Status Parser::ParseAssignment(LineReader& reader, std::string comment) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(reader));
  if (!reader.Accept("="))
    return Expected("=", reader);
  const std::string_view name = reader.Word();
  if (name == "input")
    return AddInput(targets, std::move(comment));
  const OpSchema* schema = FindOpSchema(name);
  if (schema == nullptr)
    return InvalidArgument(fmt::format("there is no op \"{}\"", name));
  TENON_ASSIGN_OR_RETURN(std::vector<ValueId> operands, ParseOperands(reader));
  OpAttrs attrs = schema->make();
  TENON_RETURN_IF_ERROR(ParseAttrs(reader, attrs));
  TENON_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                         graph_.AddOp(std::move(comment), attrs, std::move(operands)));
  return Bind(targets, outputs);
}

}  // namespace

Result<Graph> ParseGraph(std::string_view text, const PluginOperators* plugins) {
  return Parser(plugins).Run(text);
}

}  // namespace tenon
