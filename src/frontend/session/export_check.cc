#include "frontend/session/export_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "engine/exec/rotary_tables.h"
#include "engine/program/op_table.h"
#include "frontend/session/program_session.h"
#include "graph/program/passes/patterns.h"
#include "hal/kernel_registry.h"
#include "model/arch/decoder_builder.h"
#include "model/onnx/onnx_import.h"

namespace tenon {
namespace {

// Of constants that are folded here: scalars and shapes. Weights stay as they are.
constexpr int64_t kMostFolded = int64_t{1} << 20;

// Of cosines and sines; tables may be of F16.
constexpr double kTableTolerance = 2e-3;

// What decoders of a family differ in, as the hyperparameters say.
struct Expected {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  double scale = 0.0;
  double softcap = 0.0;
  double norm_eps = 0.0;
  bool rotated = false;
  bool interleaved = false;
  std::vector<float> frequencies;  // [pairs]
  double magnitude = 1.0;          // of cosines and sines
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
  expected.softcap = static_cast<double>(config.attention_softcap);
  expected.norm_eps = static_cast<double>(config.norm_eps);
  expected.rotated = source.Find("position_embd.weight") == nullptr;
  if (expected.rotated) {
    const RopeParams rope = ToRopeParams(config.rope);
    expected.interleaved = rope.interleaved;
    expected.frequencies = RotaryFrequencies(rope, {});
    expected.magnitude = static_cast<double>(RotaryMagnitude(rope));
  }
  return expected;
}

Error Different(const ProgramNode& node, std::string message) {
  return Unsupported(std::move(message), fmt::format("{} '{}' of the export", node.op, node.name));
}

// Heads of queries and keys; below 0 where they are not known.
struct HeadCounts {
  int64_t queries = -1;
  int64_t keys = -1;
};

Status CheckHeads(const ProgramNode& node, const HeadCounts& found, const Expected& expected) {
  const bool repeated = found.keys == expected.heads;  // where the repetition was not taken away
  if ((found.queries < 0 || found.queries == expected.heads) &&
      (found.keys < 0 || found.keys == expected.kv_heads || repeated))
    return {};
  return Different(node, fmt::format("{} heads of queries and {} of keys, config.json says {} and "
                                     "{}",
                                     found.queries, found.keys, expected.heads, expected.kv_heads));
}

Status CheckNumber(const ProgramNode& node, std::string_view what, double found, double expected) {
  if (IsNear(found, expected))
    return {};
  return Different(node, fmt::format("{} {:.6g}, config.json says {:.6g}", what, found, expected));
}

Status CheckFused(const Program& program, const ProgramNode& node, const Expected& expected) {
  const auto scale = static_cast<double>(node.Float("scale", 0.0F));
  TENON_RETURN_IF_ERROR(CheckNumber(node, "scale", scale, expected.scale));
  if (!node.Input(3).valid())
    return Different(node, "no mask: every token sees those behind it");
  const auto heads = [&](size_t input, const char* rows_first) {
    return KnownExtent(program, node.Input(input), node.Integer(rows_first, 0) != 0 ? 2 : 1);
  };
  return CheckHeads(node, {heads(0, "q_rows_first"), heads(1, "k_rows_first")}, expected);
}

// ONNX's own Attention, of operator set 23 and later.
Status CheckOwn(const Program& program, const ProgramNode& node, const Expected& expected) {
  if (!node.Input(3).valid() && node.Integer("is_causal", 0) == 0)
    return Different(node, "no mask: every token sees those behind it");
  const auto softcap = static_cast<double>(node.Float("softcap", 0.0F));
  TENON_RETURN_IF_ERROR(CheckNumber(node, "softcap", softcap, expected.softcap));
  // Rows of heads side by side, or heads as a dimension.
  const auto heads = [&](size_t input, const char* count) {
    return node.Integer(count, KnownExtent(program, node.Input(input), 1));
  };
  TENON_RETURN_IF_ERROR(
      CheckHeads(node, {heads(0, "q_num_heads"), heads(1, "kv_num_heads")}, expected));
  if (node.Find("scale") == nullptr)
    return {};  // one over the root of the heads' width
  const auto scale = static_cast<double>(node.Float("scale", 0.0F));
  return CheckNumber(node, "scale", scale, expected.scale);
}

// The first rows of a table [positions, pairs]; none when it is not constant or has other columns.
std::optional<std::vector<double>> TableRows(const Program& program, ProgramValueId id,
                                             int64_t rows, size_t pairs) {
  const Constant* table = program.ConstantOf(id);
  if (table == nullptr || table->shape.size() != 2 || table->shape[0] < rows ||
      table->shape[1] != static_cast<int64_t>(pairs))
    return std::nullopt;
  Constant first = *table;
  first.shape[0] = rows;
  const auto bytes = static_cast<size_t>(rows * table->shape[1] * ElementBytes(table->type));
  first.bytes = table->bytes.first(std::min(bytes, table->bytes.size()));
  return ConstantNumbers(first);
}

// Whether the tables turn as the hyperparameters say; those that are computed in the graph are
// not looked at.
Status CheckTables(const Program& program, const ProgramNode& node, const Expected& expected) {
  constexpr int64_t kRows = 4;
  const size_t pairs = expected.frequencies.size();
  const auto cosines = TableRows(program, node.Input(1), kRows, pairs);
  const auto sines = TableRows(program, node.Input(2), kRows, pairs);
  if (program.ConstantOf(node.Input(1)) != nullptr && (!cosines || !sines))
    return Different(node, fmt::format("tables that do not have {} pairs", pairs));
  for (size_t i = 0; cosines && sines && i < kRows * pairs; ++i) {
    const size_t row = i / pairs;
    const double angle =
        static_cast<double>(expected.frequencies[i % pairs]) * static_cast<double>(row);
    const double error = std::max(std::abs(std::cos(angle) * expected.magnitude - (*cosines)[i]),
                                  std::abs(std::sin(angle) * expected.magnitude - (*sines)[i]));
    if (!(error <= kTableTolerance))
      return Different(node,
                       fmt::format("pair {} turns otherwise than config.json says", i % pairs));
  }
  return {};
}

// ONNX's own RotaryEmbedding.
Status CheckRotation(const Program& program, const ProgramNode& node, const Expected& expected) {
  if ((node.Integer("interleaved", 0) != 0) != expected.interleaved)
    return Different(node, "pairs of neighbours and halves of a head are not the same rotation");
  const auto width = static_cast<int64_t>(2 * expected.frequencies.size());
  const int64_t rotated = node.Integer("rotary_embedding_dim", 0);
  if (rotated != 0 && rotated != width)
    return Different(node, fmt::format("{} values rotated, config.json says {}", rotated, width));
  return CheckTables(program, node, expected);
}

Status CheckNorm(const ProgramNode& node, const Expected& expected) {
  constexpr float kDefault = 1e-5F;  // ONNX's
  return CheckNumber(node, "epsilon", static_cast<double>(node.Float("epsilon", kDefault)),
                     expected.norm_eps);
}

// What operators say that the family's graph takes from config.json.
Status CheckNode(const Program& program, const ProgramNode& node, const Expected& expected) {
  if (node.domain == "tenon" && node.op == "Attention")
    return CheckFused(program, node, expected);
  if (node.Is("Attention"))
    return CheckOwn(program, node, expected);
  if (node.Is("RotaryEmbedding") && expected.rotated)
    return CheckRotation(program, node, expected);
  if (node.Is("RMSNormalization") || node.Is("LayerNormalization"))
    return CheckNorm(node, expected);
  return {};
}

Status CheckProgram(const Program& program, const Expected& expected, const std::string& file) {
  int64_t attention = 0;
  int64_t rotations = 0;
  for (const ProgramNode& node : program.nodes) {
    const bool fused = node.domain == "tenon";
    attention += node.Is("Attention") || (fused && node.op == "Attention") ? 1 : 0;
    rotations += node.Is("RotaryEmbedding") || (fused && node.op == "Rotary") ? 1 : 0;
    TENON_RETURN_IF_ERROR(CheckNode(program, node, expected));
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
