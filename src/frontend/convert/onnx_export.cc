#include "frontend/convert/onnx_export.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <set>
#include <system_error>

#include "frontend/convert/onnx_graph.h"
#include "frontend/convert/weight_file.h"
#include "model/arch/architecture.h"
#include "model/onnx/onnx_file.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOpset = 17;

// Of ONNX's operators that exported decoders have, those that the parser of TensorRT 10 takes
// (its operators.md).
constexpr std::array<std::string_view, 31> kTensorRtOperators = {
    "Add",           "And",    "Cast",      "Concat",    "Cos",         "DequantizeLinear",
    "Div",           "Gather", "Greater",   "Less",      "LessOrEqual", "MatMul",
    "Mul",           "Pow",    "Range",     "Reshape",   "Shape",       "Sigmoid",
    "Sin",           "Slice",  "Softmax",   "Split",     "Sqrt",        "Sub",
    "Tanh",          "Erf",    "Transpose", "Unsqueeze", "Where",       "ReduceMean",
    "QuantizeLinear"};

// Values of the model's frequency factors; none for most models.
Result<std::vector<float>> FrequencyFactors(const ModelSource& source) {
  const TensorInfo* tensor = source.Find("rope_freqs.weight");
  std::vector<float> factors;
  if (tensor == nullptr)
    return factors;
  if (tensor->dtype != DType::kF32)
    return Unsupported("frequency factors that are not F32", tensor->name);
  factors.resize(static_cast<size_t>(tensor->columns()));
  TENON_RETURN_IF_ERROR(source.ReadAt(*tensor, 0, std::as_writable_bytes(std::span(factors))));
  return factors;
}

Status Publish(const fs::path& from, const fs::path& to) {
  return RenameDurably(from, to);
}

}  // namespace

Status ExportOnnx(const ModelSource& source, OnnxWeights weights, const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const Graph graph, BuildGraph(source));
  TENON_ASSIGN_OR_RETURN(std::vector<float> factors, FrequencyFactors(source));
  const fs::path data = path.string() + ".data";
  const fs::path partial = data.string() + ".partial";
  TENON_ASSIGN_OR_RETURN(WeightFile file, WeightFile::Create(partial, source));
  OnnxBuilder builder;
  OnnxGraphWriter writer(graph, weights, std::move(factors), file, builder);
  Status done = [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const std::string logits, writer.Write());
    builder.Node("Identity", {logits}, {}, "logits");
    builder.Output("logits", ElementType::kF32, {"batch", "sequence", source.config.vocab_size});
    TENON_RETURN_IF_ERROR(file.Close());
    TENON_RETURN_IF_ERROR(Publish(partial, data));
    return WriteFileAtomic(path, builder.Serialize(kOpset, data.filename().string()));
  }();
  if (!done.ok()) {
    std::error_code ignored;
    fs::remove(partial, ignored);
  }
  return done;
}

std::vector<std::string> TensorRtGaps(const fs::path& path) {
  const auto file = OnnxFile::Open(path);
  if (!file.ok())
    return {file.error().ToString()};
  std::set<std::string> gaps;
  for (const OnnxNode& node : file->model().graph.nodes) {
    const bool known = std::find(kTensorRtOperators.begin(), kTensorRtOperators.end(), node.op) !=
                           kTensorRtOperators.end() ||
                       node.op == "Identity";
    if (!known || !node.domain.empty())
      gaps.insert(node.domain.empty() ? node.op : node.domain + "." + node.op);
  }
  return {gaps.begin(), gaps.end()};
}

}  // namespace tenon
