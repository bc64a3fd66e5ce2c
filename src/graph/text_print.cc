#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/ops/registry.h"
#include "graph/text.h"
#include "graph/text_tokens.h"

namespace tenon {
namespace {

std::string DimText(const Dim& dim) {
  const char* symbol = dim.symbol == Symbol::kTokens ? "N" : "R";
  if (dim.symbol == Symbol::kNone)
    return fmt::format("{}", dim.extent);
  return dim.extent == 1 ? std::string(symbol) : fmt::format("{}*{}", symbol, dim.extent);
}

WeightRef RefOf(const Value& value) {
  return value.weight.value_or(WeightRef{value.name, 0, 0});
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string Run() {
    FindPartialTensors();
    for (size_t i = 0; i < graph_.values().size(); ++i)
      PrintInput(ValueId(static_cast<uint32_t>(i)));
    for (const Op& op : graph_.ops())
      PrintOp(op);
    text_ += "return";
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      text_ += fmt::format("{}{}", i == 0 ? " " : ", ", Reference(graph_.outputs()[i]));
    return std::move(text_) + "\n";
  }

 private:
  std::string Number(ValueId id) {
    const auto [known, inserted] = numbers_.emplace(id, numbers_.size());
    return fmt::format("%{}", known->second);
  }

  bool IsValue(ValueId id) const { return id.valid() && id.index() < graph_.values().size(); }

  // Tensors that ops read in more than one range of rows.
  void FindPartialTensors() {
    std::map<std::string, WeightRef> first;
    for (const Op& op : graph_.ops()) {
      for (const ValueId id : op.inputs) {
        if (!IsValue(id) || graph_.value(id).kind != ValueKind::kWeight)
          continue;
        const WeightRef ref = RefOf(graph_.value(id));
        if (first.emplace(ref.tensor, ref).first->second != ref)
          partial_.insert(ref.tensor);
      }
    }
  }

  // Rows are shown when they do not begin at 0, or when without them two weights would look alike.
  std::string WeightText(const Value& value) const {
    const WeightRef ref = RefOf(value);
    const int64_t rows = value.shape.empty() ? 0 : value.shape[0].extent;
    if (ref.row_begin == 0 && ref.row_end == rows && !partial_.contains(ref.tensor))
      return WeightToken(ref.tensor);
    return fmt::format("{}[{}:{}]", WeightToken(ref.tensor), ref.row_begin, ref.row_end);
  }

  // Bad ids are shown, not followed: the printer also serves to look at broken graphs.
  std::string Reference(ValueId id) {
    if (!IsValue(id))
      return "%invalid";
    const Value& value = graph_.value(id);
    return value.kind == ValueKind::kWeight ? WeightText(value) : Number(id);
  }

  void PrintInput(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.kind == ValueKind::kInput)
      text_ += fmt::format("{}: {} = input  # {}\n", Number(id), TypeText(value),
                           EscapeText(value.name));
  }

  void DeclareWeights(const Op& op) {
    for (const ValueId id : op.inputs) {
      if (!IsValue(id))
        continue;
      const Value& value = graph_.value(id);
      if (value.kind == ValueKind::kWeight && declared_.insert(id).second)
        text_ += fmt::format("{}: {}\n", WeightText(value), TypeText(value));
    }
  }

  void PrintOp(const Op& op) {
    DeclareWeights(op);
    std::string inputs;
    for (const ValueId id : op.inputs)
      inputs += fmt::format("{}{}", inputs.empty() ? "" : ", ", Reference(id));
    std::string outputs;
    for (const ValueId id : op.outputs)
      outputs += fmt::format("{}{}: {}", outputs.empty() ? "" : ", ", Reference(id),
                             IsValue(id) ? TypeText(graph_.value(id)) : "?");
    const std::string attrs = PrintAttrs(op.attrs);
    text_ += fmt::format("{} = {}({})", outputs, SchemaOf(op.attrs).name, inputs);
    if (!attrs.empty())
      text_ += fmt::format(" {{{}}}", attrs);
    text_ += fmt::format("  # {}\n", EscapeText(op.name));
  }

  const Graph& graph_;
  std::string text_;
  std::set<std::string> partial_;
  std::unordered_map<ValueId, size_t> numbers_;  // of inputs and temporaries, by appearance
  std::unordered_set<ValueId> declared_;         // weights
};

}  // namespace

std::string TypeText(const ValueType& type) {
  std::string text;
  for (const char c : DTypeName(type.dtype))
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", DimText(type.shape[i]));
  return text + ']';
}

std::string TypeText(const Value& value) {
  return TypeText(ValueType{value.dtype, value.shape});
}

std::string PrintGraph(const Graph& graph) {
  return Printer(graph).Run();
}

}  // namespace tenon
