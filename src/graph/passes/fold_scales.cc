#include <cmath>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// The product of two factors, unless it leaves the normal range of float: then the fold would
// change the result by more than rounding.
std::optional<float> Product(float a, float b) {
  const float product = a * b;
  if (product == 0.0F && (a == 0.0F || b == 0.0F))
    return product;
  return std::isnormal(product) ? std::optional<float>(product) : std::nullopt;
}

class ScaleFolder {
 public:
  explicit ScaleFolder(Graph& graph) : graph_(graph), removed_(graph.ops().size(), false) {}

  void Run() {
    // In order: the input of a scale is final when the scale is looked at.
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      if (std::holds_alternative<ScaleAttrs>(graph_.ops()[i].attrs))
        FoldIntoInput(i);
    }
    for (Op& op : graph_.mutable_ops()) {
      if (std::holds_alternative<AttentionAttrs>(op.attrs))
        while (FoldIntoAttention(op)) {
        }
    }
    RemoveOps(graph_, removed_);
  }

 private:
  // scale(scale(x)) and scale(embed) when the inner result is used only here, then scale by 1.
  void FoldIntoInput(size_t index) {
    Op& op = graph_.mutable_ops()[index];
    float& factor = std::get<ScaleAttrs>(op.attrs).factor;
    const OpId producer = graph_.value(op.inputs[0]).producer;
    if (producer.valid() && UseMap(graph_).OnlyUser(op.inputs[0]).valid()) {
      Op& source = graph_.mutable_ops()[producer.index()];
      if (const auto* inner = std::get_if<ScaleAttrs>(&source.attrs))
        AbsorbScale(op, source, Product(inner->factor, factor), producer);
      else if (auto* embed = std::get_if<EmbedAttrs>(&source.attrs))
        AbsorbIntoEmbed(index, *embed, Product(embed->scale, factor));
    }
    if (!removed_[index] && factor == 1.0F)
      Bypass(index);
  }

  void AbsorbScale(Op& op, const Op& inner, std::optional<float> product, OpId producer) {
    if (!product)
      return;
    std::get<ScaleAttrs>(op.attrs).factor = *product;
    op.inputs[0] = inner.inputs[0];
    Remove(producer);
  }

  void AbsorbIntoEmbed(size_t index, EmbedAttrs& embed, std::optional<float> product) {
    if (!product)
      return;
    embed.scale = *product;
    Bypass(index);
  }

  // Lets the users read the input instead. A graph output must be an op's result, not an input.
  void Bypass(size_t index) {
    const Op& op = graph_.ops()[index];
    const bool input_is_temporary = graph_.value(op.inputs[0]).producer.valid();
    if (!input_is_temporary && UseMap(graph_).IsGraphOutput(op.outputs[0]))
      return;
    ReplaceUses(graph_, op.outputs[0], op.inputs[0]);
    Remove(OpId(static_cast<uint32_t>(index)));
  }

  // Marked now, taken out at the end; without inputs it counts as nobody's user.
  void Remove(OpId id) {
    removed_[id.index()] = true;
    graph_.mutable_ops()[id.index()].inputs.clear();
  }

  // The scores are linear in q, rotated or not, and attention scales them before the cap. Returns
  // whether something was folded.
  bool FoldIntoAttention(Op& attention) {
    auto& attrs = std::get<AttentionAttrs>(attention.attrs);
    const UseMap uses(graph_);
    ValueId* reader = &attention.inputs[0];  // the input that reads the scale's result
    if (ProducedBy<RopeAttrs>(graph_, *reader) != nullptr && uses.OnlyUser(*reader).valid())
      reader = &graph_.mutable_ops()[graph_.value(*reader).producer.index()].inputs[0];
    const auto* scale = ProducedBy<ScaleAttrs>(graph_, *reader);
    if (scale == nullptr || !uses.OnlyUser(*reader).valid())
      return false;
    const std::optional<float> product = Product(attrs.scale, scale->factor);
    if (!product)
      return false;
    attrs.scale = *product;
    const OpId producer = graph_.value(*reader).producer;
    *reader = graph_.op(producer).inputs[0];
    Remove(producer);
    return true;
  }

  Graph& graph_;
  std::vector<bool> removed_;
};

}  // namespace

Status FoldScales(Graph& graph, const PassOptions&) {
  ScaleFolder(graph).Run();
  return {};
}

}  // namespace tenon
