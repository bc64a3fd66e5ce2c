#include "frontend/session/export_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/log.h"
#include "engine/program/op_table.h"
#include "frontend/session/program_session.h"
#include "graph/program/passes/patterns.h"
#include "hal/kernel_registry.h"
#include "model/onnx/onnx_import.h"

namespace tenon {
namespace {

// Of constants that are folded here: scalars and shapes. Weights stay as they are.
constexpr int64_t kMostFolded = int64_t{1} << 20;

// What decoders of a family differ in, as the hyperparameters say.
struct Expected {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  double scale = 0.0;
  bool rotated = false;
};

Expected ExpectedOf(const ModelSource& source) {
  const ModelConfig& config = source.config;
  Expected expected;
  expected.layers = config.layer_count;
  expected.heads = config.head_count;
  expected.kv_heads = config.kv_head_count;
  expected.scale = config.attention_scale != 0.0F
                       ? static_cast<double>(config.attention_scale)
                       : 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  expected.rotated = source.Find("position_embd.weight") == nullptr;
  return expected;
}

Error Different(const ProgramNode& node, std::string message) {
  return Unsupported(std::move(message), fmt::format("attention '{}' of the export", node.name));
}

Status CheckFused(const Program& program, const ProgramNode& node, const Expected& expected) {
  const auto scale = static_cast<double>(node.Float("scale", 0.0F));
  if (!IsNear(scale, expected.scale))
    return Different(node,
                     fmt::format("scale {:.6g}, config.json says {:.6g}", scale, expected.scale));
  if (!node.Input(3).valid())
    return Different(node, "no mask: every token sees those behind it");
  const auto heads = [&](size_t input, const char* rows_first) {
    return KnownExtent(program, node.Input(input), node.Integer(rows_first, 0) != 0 ? 2 : 1);
  };
  const int64_t queries = heads(0, "q_rows_first");
  const int64_t keys = heads(1, "k_rows_first");
  const bool repeated = keys == expected.heads;  // where the repetition was not taken away
  if ((queries >= 0 && queries != expected.heads) ||
      (keys >= 0 && keys != expected.kv_heads && !repeated))
    return Different(node,
                     fmt::format("{} heads of queries and {} of keys, config.json says {} and "
                                 "{}",
                                 queries, keys, expected.heads, expected.kv_heads));
  return {};
}

// Of operator set 23 and later.
Status CheckOwn(const ProgramNode& node, const Expected& expected) {
  if (!node.Input(3).valid() && node.Integer("is_causal", 0) == 0)
    return Different(node, "no mask: every token sees those behind it");
  if (node.Find("scale") == nullptr)
    return {};  // one over the root of the heads' width
  const auto scale = static_cast<double>(node.Float("scale", 0.0F));
  if (IsNear(scale, expected.scale))
    return {};
  return Different(node,
                   fmt::format("scale {:.6g}, config.json says {:.6g}", scale, expected.scale));
}

Status CheckProgram(const Program& program, const Expected& expected, const std::string& file) {
  int64_t attention = 0;
  int64_t rotations = 0;
  for (const ProgramNode& node : program.nodes) {
    const bool fused = node.domain == "tenon" && node.op == "Attention";
    attention += fused || node.Is("Attention") ? 1 : 0;
    rotations +=
        (node.domain == "tenon" && node.op == "Rotary") || node.Is("RotaryEmbedding") ? 1 : 0;
    if (fused)
      TENON_RETURN_IF_ERROR(CheckFused(program, node, expected));
    else if (node.Is("Attention"))
      TENON_RETURN_IF_ERROR(CheckOwn(node, expected));
  }
  if (attention > expected.layers || (!expected.rotated && rotations > 0))
    return Unsupported(
        fmt::format("{} attentions and {} rotations; {} layers{} expected", attention, rotations,
                    expected.layers, expected.rotated ? "" : " without rotations"),
        file);
  // Queries and keys of each layer.
  const int64_t wanted = expected.rotated ? 2 * expected.layers : 0;
  if (attention < expected.layers || rotations != wanted)
    Log(LogLevel::kWarning,
        "{}: {} of {} attentions and {} of {} rotations were recognised; the others are taken to "
        "be "
        "what config.json says",
        file, attention, expected.layers, rotations, wanted);
  return {};
}

// What a branch reads of the graph around has the shapes that are declared there.
void DeclareInputs(const Program& outer, const ProgramNode& node, size_t first, Program& body) {
  for (size_t i = 0; i < body.inputs.size() && first + i < node.inputs.size(); ++i) {
    const ProgramValue& given = outer.value(node.inputs[first + i]);
    ProgramValue& value = body.value(body.inputs[i]);
    value.type = given.type;
    value.shape = given.shape;
  }
}

}  // namespace

Status CheckExportedAttention(const std::filesystem::path& export_graph,
                              const ModelSource& source) {
  TENON_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Open(export_graph));
  TENON_ASSIGN_OR_RETURN(Program program, ImportOnnx(std::move(file)));
  const OpTable table;
  TENON_ASSIGN_OR_RETURN(const auto pool, ThreadPool::Create(1));
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  ProgramPassContext context = MakePassContext(table, *pool, kernels, kMostFolded);
  // These copy weights.
  context.disabled = {"merge_linears", "fuse_linears"};
  const Expected expected = ExpectedOf(source);
  bool merged = false;
  for (ProgramNode& node : program.nodes) {
    size_t first = 1;  // the condition
    for (auto& [name, value] : node.attributes) {
      auto* body = std::get_if<std::unique_ptr<Program>>(&value);
      if (!node.Is("If") || body == nullptr || *body == nullptr)
        continue;
      merged = true;
      DeclareInputs(program, node, first, **body);
      first += (*body)->inputs.size();
      TENON_RETURN_IF_ERROR(OptimizeProgram(**body, context));
      TENON_RETURN_IF_ERROR(CheckProgram(**body, expected, export_graph.string()));
    }
  }
  if (merged)
    return {};
  TENON_RETURN_IF_ERROR(OptimizeProgram(program, context));
  return CheckProgram(program, expected, export_graph.string());
}

}  // namespace tenon
