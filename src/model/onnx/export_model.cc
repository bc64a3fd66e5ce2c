#include "model/onnx/export_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "model/fused_tensors.h"
#include "model/hf/hf_config.h"
#include "model/hf/hf_tensors.h"
#include "model/hf/hf_text_files.h"
#include "model/onnx/onnx_file.h"
#include "model/safetensors/safetensors_shards.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// What optimum calls its files, and where they may be.
constexpr std::array<const char*, 6> kGraphs = {
    "model.onnx",      "decoder_model_merged.onnx",      "decoder_with_past_model.onnx",
    "onnx/model.onnx", "onnx/decoder_model_merged.onnx", "onnx/decoder_with_past_model.onnx"};

std::optional<SafetensorsType> FloatType(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return SafetensorsType::kF32;
    case ElementType::kF16:
      return SafetensorsType::kF16;
    case ElementType::kBF16:
      return SafetensorsType::kBF16;
    default:
      return std::nullopt;
  }
}

// A constant of the graph in its place.
struct Weight {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  const OnnxTensor* tensor = nullptr;
};

// How matrices of linear modules lie.
enum class Order : uint8_t { kUnknown, kColumnsFirst, kRowsFirst };

class Collector {
 public:
  Collector(const OnnxFile& file, const HfConfig& config) : file_(file), config_(config) {}

  Status Run();
  const std::vector<Weight>& weights() const { return weights_; }
  Order order() const { return order_; }

 private:
  using Constants = std::unordered_map<std::string, const OnnxTensor*>;

  Status Graph(const OnnxGraph& graph, Constants constants);
  // What nodes make constants: exporters write equal ones once and name them by Identity.
  static void FollowConstant(const OnnxNode& node, Constants& constants);
  Status Node(const OnnxNode& node, const Constants& constants);
  Status CheckCounts(const OnnxGraph& graph) const;
  Status Place(const OnnxNode& node, const std::string& input, std::string_view kind,
               const Constants& constants);
  Status SetOrder(const OnnxNode& node, Order order);
  // The module of a node "/model/layers.0/mlp/up_proj/MatMul", or of one with such a scope, as the
  // family calls it; empty when it has none of that name.
  std::string ModuleOf(const OnnxNode& node) const;
  Error NotSupported(const OnnxNode& node, std::string_view message) const {
    return Unsupported(std::string(message),
                       fmt::format("{}: node '{}' ({})", file_.name(), node.name, node.op));
  }

  const OnnxFile& file_;
  const HfConfig& config_;
  std::vector<Weight> weights_;
  std::map<std::string, const OnnxTensor*> placed_;
  Order order_ = Order::kUnknown;
};

std::string Collector::ModuleOf(const OnnxNode& node) const {
  std::string path = node.scope;
  if (path.empty()) {
    const size_t last = node.name.rfind('/');
    if (last == std::string::npos || last == 0 || node.name[0] != '/')
      return {};
    path = node.name.substr(1, last - 1);
    std::ranges::replace(path, '/', '.');
  }
  const HfFamily& family = *config_.family;
  // A wrapper around the model adds names in front.
  const std::string dotted = "." + path;
  const std::string layers = fmt::format(".{}", family.layer_prefix);
  if (const size_t at = dotted.find(layers); at != std::string::npos)
    return fmt::format("{}{}", family.root, dotted.substr(at + 1));
  for (const HfName& name : family.top_names) {
    if (dotted.ends_with(fmt::format(".{}", name.hf)))
      return name.gguf == "output" ? std::string(name.hf)
                                   : fmt::format("{}{}", family.root, name.hf);
  }
  return {};
}

Status Collector::SetOrder(const OnnxNode& node, Order order) {
  if (order_ != Order::kUnknown && order_ != order)
    return NotSupported(node, "matrices lie in both orders");
  order_ = order;
  return {};
}

Status Collector::Place(const OnnxNode& node, const std::string& input, std::string_view kind,
                        const Constants& constants) {
  const auto constant = constants.find(input);
  if (constant == constants.end() || constant->second->dims.empty())
    return {};
  const std::string module = ModuleOf(node);
  const bool product = node.op == "MatMul" || node.op == "Gemm";
  if (module.empty() && product)
    return NotSupported(node, "the name does not tell which module's weights it has");
  // Of arithmetic inside a module of several nodes, only norms have vectors of their own.
  const size_t dimensions = constant->second->dims.size();
  const bool vector = node.op == "Mul" || node.op == "Add" || kind == "bias" ||
                      node.op == "RMSNormalization" || node.op == "LayerNormalization";
  if (module.empty() || dimensions != (vector ? 1 : 2))
    return {};
  const std::string name = fmt::format("{}.{}", module, kind);
  const auto [found, is_new] = placed_.emplace(name, constant->second);
  if (!is_new && found->second != constant->second)
    return NotSupported(node, fmt::format("a second '{}'", name));
  if (is_new)
    weights_.push_back({name, constant->second});
  return {};
}

Status Collector::Node(const OnnxNode& node, const Constants& constants) {
  if (!node.domain.empty())
    return NotSupported(node, "an operator that no export of torch has");
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ""; };
  if (node.op == "MatMul" || node.op == "Gemm") {
    bool transposed = false;
    for (const OnnxAttribute& attribute : node.attributes)
      transposed = transposed || (attribute.name == "transB" && attribute.i != 0);
    if (constants.contains(input(1)))
      TENON_RETURN_IF_ERROR(SetOrder(node, transposed ? Order::kRowsFirst : Order::kColumnsFirst));
    TENON_RETURN_IF_ERROR(Place(node, input(1), "weight", constants));
    return node.op == "Gemm" ? Place(node, input(2), "bias", constants) : Status();
  }
  if (node.op == "Gather")
    return Place(node, input(0), "weight", constants);
  if (node.op == "RMSNormalization")
    return Place(node, input(1), "weight", constants);
  if (node.op == "LayerNormalization") {
    TENON_RETURN_IF_ERROR(Place(node, input(1), "weight", constants));
    return Place(node, input(2), "bias", constants);
  }
  if (node.op != "Mul" && node.op != "Add")
    return {};
  for (const std::string& name : node.inputs)
    TENON_RETURN_IF_ERROR(Place(node, name, node.op == "Mul" ? "weight" : "bias", constants));
  return {};
}

// What the activation is written as: in parts, of which one is its own, or as one operator.
std::pair<std::string_view, std::string_view> ActivationOps(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return {"Sigmoid", "Swish"};
    case Activation::kGelu:
      return {"Tanh", "Gelu(tanh)"};
    case Activation::kGeluErf:
      return {"Erf", "Gelu"};
    case Activation::kRelu:
      break;
  }
  return {"Relu", ""};
}

// The operator, and which of the two forms of Gelu.
std::string KindOf(const OnnxNode& node) {
  for (const OnnxAttribute& attribute : node.attributes) {
    if (node.op == "Gelu" && attribute.name == "approximate" && attribute.s == "tanh")
      return "Gelu(tanh)";
  }
  return node.op;
}

// One attention a layer, and one activation of the family's kind.
Status Collector::CheckCounts(const OnnxGraph& graph) const {
  std::map<std::string, int64_t> counts;
  for (const OnnxNode& node : graph.nodes)
    ++counts[KindOf(node)];
  const int64_t layers = config_.model.layer_count;
  // From operator set 23 on attention may be one operator.
  const int64_t attentions = counts["Softmax"] + counts["Attention"];
  if (attentions == 0)
    return {};
  const auto [part, whole] = ActivationOps(config_.model.activation);
  const int64_t activations = counts[std::string(part)] + counts[std::string(whole)];
  if (attentions != layers || activations != layers)
    return Unsupported(
        fmt::format("{} Softmax or Attention and {} {} nodes; {} of both are what "
                    "{} with {} layers has",
                    attentions, activations, part, layers, config_.family->architecture, layers),
        file_.name());
  return {};
}

void Collector::FollowConstant(const OnnxNode& node, Constants& constants) {
  if (node.outputs.empty())
    return;
  if (node.op == "Identity" && !node.inputs.empty()) {
    const auto found = constants.find(node.inputs[0]);
    const OnnxTensor* tensor = found == constants.end() ? nullptr : found->second;
    if (tensor != nullptr)
      constants[node.outputs[0]] = tensor;
  }
  for (const OnnxAttribute& attribute : node.attributes) {
    if (node.op == "Constant" && attribute.tensor != nullptr)
      constants[node.outputs[0]] = attribute.tensor.get();
  }
}

Status Collector::Graph(const OnnxGraph& graph, Constants constants) {
  for (const OnnxTensor& tensor : graph.initializers)
    constants[tensor.name] = &tensor;
  TENON_RETURN_IF_ERROR(CheckCounts(graph));
  for (const OnnxNode& node : graph.nodes) {
    FollowConstant(node, constants);
    TENON_RETURN_IF_ERROR(Node(node, constants));
    // A merged decoder has the whole twice: with and without past.
    for (const OnnxAttribute& attribute : node.attributes) {
      if (attribute.graph != nullptr)
        TENON_RETURN_IF_ERROR(Graph(*attribute.graph, constants));
    }
  }
  return {};
}

Status Collector::Run() {
  const HfFamily& family = *config_.family;
  const bool known =
      (family.matrices == HfMatrices::kAsTheyAre || family.matrices == HfMatrices::kFusedGpt2) &&
      family.expert_names.empty() && !family.norms_from_one;
  if (!known)
    return Unsupported(fmt::format("ONNX exports of {}", family.architecture), file_.name());
  return Graph(file_.model().graph, {});
}

// The weights as if they lay in safetensors files.
Result<SafetensorsShards> AsShards(OnnxFile file, const std::vector<Weight>& weights) {
  SafetensorsShards shards;
  shards.parsed.resize(1);
  std::vector<std::pair<uint32_t, SafetensorsTensor>> tensors;
  for (const Weight& weight : weights) {
    TENON_ASSIGN_OR_RETURN(const OnnxTensorData data, file.Data(*weight.tensor));
    const auto type = FloatType(data.type);
    if (!type || data.file == OnnxTensorData::kMemory)
      return Unsupported(fmt::format("'{}' as {}, or in a list of numbers", weight.tensor->name,
                                     ElementTypeName(data.type)),
                         file.name());
    tensors.push_back(
        {data.file,
         {weight.name, *type, data.shape, data.offset, static_cast<uint64_t>(data.bytes.size())}});
  }
  shards.files = std::move(file).TakeFiles();
  shards.parsed.resize(shards.files.size());
  for (auto& [index, tensor] : tensors)
    shards.parsed[index].tensors.push_back(std::move(tensor));
  return shards;
}

Status CheckVocabulary(const HfConfig& config, const ModelSource& source) {
  const TensorInfo* embedding = source.Find("token_embd.weight");
  if (embedding == nullptr)
    return Corrupt("the graph has no table of embeddings");
  if (embedding->rows() != config.model.vocab_size ||
      embedding->columns() != config.model.hidden_size)
    return Corrupt(fmt::format("embeddings of {} x {}, config.json says {} x {}", embedding->rows(),
                               embedding->columns(), config.model.vocab_size,
                               config.model.hidden_size));
  return {};
}

}  // namespace

std::optional<OnnxExport> FindOnnxExport(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const bool has_weights = fs::exists(path / "model.safetensors", error) ||
                             fs::exists(path / "model.safetensors.index.json", error);
    for (const char* name : kGraphs) {
      if (!has_weights && fs::exists(path / "config.json", error) && fs::exists(path / name, error))
        return OnnxExport{path, path / name};
    }
    return std::nullopt;
  }
  if (path.extension() != ".onnx" || !fs::is_regular_file(path, error))
    return std::nullopt;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const fs::path& candidate : {directory, directory / ".."}) {
    if (fs::exists(candidate / "config.json", error))
      return OnnxExport{candidate, path};
  }
  return std::nullopt;
}

Result<ModelSource> OpenOnnxExport(const OnnxExport& found) {
  TENON_ASSIGN_OR_RETURN(const JsonDocument document,
                         ReadJsonFile(found.directory / "config.json"));
  TENON_ASSIGN_OR_RETURN(HfConfig config, ReadHfConfig(document.root()));
  TENON_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Open(found.graph));
  Collector collector(file, config);
  TENON_RETURN_IF_ERROR(collector.Run());
  // A tied head is a matrix of its own here, in another order; the table serves.
  ModelSource source;
  source.format = "onnx";
  source.config = config.model;
  std::error_code error;
  source.config.name = fs::canonical(found.directory, error).filename().string();
  const std::string producer = file.model().producer;
  TENON_ASSIGN_OR_RETURN(SafetensorsShards shards, AsShards(std::move(file), collector.weights()));
  const bool transposed = collector.order() == Order::kColumnsFirst;
  const bool by_family = config.family->matrices == HfMatrices::kFusedGpt2;
  if (by_family && !transposed)
    return Unsupported("matrices in an order that GPT-2 does not have", found.graph.string());
  TENON_RETURN_IF_ERROR(TakeHfTensors(std::move(shards), config, {}, source));
  if (transposed && !by_family)
    TENON_RETURN_IF_ERROR(TransposeLayers(source));
  if (transposed)
    TENON_RETURN_IF_ERROR(TransposeMatrix("output.weight", source));
  TENON_RETURN_IF_ERROR(CheckVocabulary(config, source));
  TENON_RETURN_IF_ERROR(ReadHfTextFiles(found.directory, document.root(), source));
  source.metadata.emplace_back("onnx.producer", producer);
  return source;
}

}  // namespace tenon
