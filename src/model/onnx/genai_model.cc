#include "model/onnx/genai_model.h"

#include <fmt/format.h>

#include <cstring>
#include <system_error>

#include "model/hf/hf_text_files.h"
#include "model/onnx/decoder_parts.h"
#include "model/onnx/genai_rope.h"
#include "model/onnx/nbits_weights.h"
#include "model/onnx/onnx_file.h"
#include "model/safetensors/value_decoder.h"
#include "quant/half.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Sizes below 2^31 make every product of two of them fit 62 bits.
constexpr int64_t kLargestSize = INT32_MAX;
constexpr int64_t kMostLayers = 10000;  // real models have up to 126

struct GenaiConfig {
  std::string type;
  std::string filename;
  std::string input_ids = "input_ids";
  std::string logits = "logits";
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;
};

Status NeedSize(const JsonValue& object, std::string_view key, int64_t& out) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, object.At(key));
  TENON_ASSIGN_OR_RETURN(out, field.Integer());
  if (out < 1 || out > kLargestSize)
    return field.Wrong(fmt::format("{} found, 1 to 2^31-1 expected", out));
  return {};
}

Status ReadNames(const JsonValue& decoder, GenaiConfig& config) {
  if (const auto inputs = decoder.Find("inputs")) {
    TENON_ASSIGN_OR_RETURN(config.input_ids, inputs->StringOr("input_ids", "input_ids"));
  }
  if (const auto outputs = decoder.Find("outputs")) {
    TENON_ASSIGN_OR_RETURN(config.logits, outputs->StringOr("logits", "logits"));
  }
  TENON_ASSIGN_OR_RETURN(const JsonValue file, decoder.At("filename"));
  TENON_ASSIGN_OR_RETURN(const std::string_view name, file.String());
  if (name.empty() || name.find('/') != std::string_view::npos || name == "..")
    return file.Wrong(fmt::format("'{}' is no name of a file in this directory", name));
  config.filename = name;
  return {};
}

Result<GenaiConfig> ReadConfig(const JsonValue& model) {
  GenaiConfig config;
  TENON_ASSIGN_OR_RETURN(config.type, model.StringOr("type", ""));
  TENON_RETURN_IF_ERROR(NeedSize(model, "vocab_size", config.vocabulary));
  TENON_RETURN_IF_ERROR(NeedSize(model, "context_length", config.context));
  TENON_ASSIGN_OR_RETURN(const JsonValue decoder, model.At("decoder"));
  TENON_RETURN_IF_ERROR(ReadNames(decoder, config));
  TENON_RETURN_IF_ERROR(NeedSize(decoder, "num_attention_heads", config.heads));
  TENON_RETURN_IF_ERROR(NeedSize(decoder, "num_key_value_heads", config.kv_heads));
  TENON_RETURN_IF_ERROR(NeedSize(decoder, "head_size", config.head_dim));
  TENON_RETURN_IF_ERROR(NeedSize(decoder, "hidden_size", config.hidden));
  TENON_RETURN_IF_ERROR(NeedSize(decoder, "num_hidden_layers", config.layers));
  if (config.heads % config.kv_heads != 0 || config.layers > kMostLayers)
    return decoder.Wrong(fmt::format("{} heads, {} key-value heads, {} layers", config.heads,
                                     config.kv_heads, config.layers));
  return config;
}

// Values of a float tensor as F32.
Result<std::vector<float>> Floats(const OnnxTensorData& data) {
  TENON_ASSIGN_OR_RETURN(const int64_t count, CountElements(data.shape));
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits = 0;
    switch (data.type) {
      case ElementType::kF32:
        std::memcpy(&out[i], data.bytes.data() + i * 4, 4);
        break;
      case ElementType::kF16:
        std::memcpy(&bits, data.bytes.data() + i * 2, 2);
        out[i] = F16ToF32(bits);
        break;
      case ElementType::kBF16:
        std::memcpy(&bits, data.bytes.data() + i * 2, 2);
        out[i] = BF16ToF32(bits);
        break;
      default:
        return Unsupported(fmt::format("weights of type {}", ElementTypeName(data.type)));
    }
  }
  return out;
}

class GenaiReader {
 public:
  GenaiReader(OnnxFile& file, const GenaiConfig& config, ModelSource& source)
      : file_(file), index_(file.model().graph), config_(config), source_(source) {}

  Status Read();

 private:
  Result<OnnxTensorData> Data(std::string_view name);
  Status ReadSizes(const DecoderParts& parts);
  Status ReadRope(const DecoderParts& parts);
  Status PutEmbedding(const OnnxNode& node);
  Status PutLayer(int64_t layer, const DecoderLayerParts& parts);
  Status PutVector(const std::string& name, std::string_view tensor, int64_t begin, int64_t count);
  // Rows `begin` on of the layer, `count` of them, as "<name>.weight" and "<name>.bias".
  Status PutLinear(const std::string& name, const LinearRef& linear, int64_t begin, int64_t count);
  // The matrix of a linear layer in memory, converted once.
  Result<TensorInfo> Matrix(const OnnxNode& node);
  Result<TensorInfo> NbitsTensor(const OnnxNode& node);
  Result<TensorInfo> TransposedTensor(const OnnxNode& node);
  TensorInfo Keep(DType dtype, int64_t rows, int64_t columns, Buffer buffer);
  void Put(TensorInfo info);

  OnnxFile& file_;
  NodeIndex index_;
  const GenaiConfig& config_;
  ModelSource& source_;
  std::unordered_map<std::string, TensorInfo> matrices_;  // by the weight's name
};

Result<OnnxTensorData> GenaiReader::Data(std::string_view name) {
  const OnnxTensor* tensor = index_.Initializer(name);
  if (tensor == nullptr)
    return Corrupt(fmt::format("no initializer is called '{}'", name), file_.name());
  return file_.Data(*tensor);
}

void GenaiReader::Put(TensorInfo info) {
  source_.by_name.emplace(info.name, source_.tensors.size());
  source_.tensors.push_back(std::move(info));
}

TensorInfo GenaiReader::Keep(DType dtype, int64_t rows, int64_t columns, Buffer buffer) {
  TensorInfo info;
  info.dtype = dtype;
  info.shape = {rows, columns};
  info.file = static_cast<uint32_t>(source_.buffers.size());
  info.bytes = buffer.size();
  info.storage = TensorInfo::Storage::kBuffer;
  source_.buffers.push_back(std::move(buffer));
  return info;
}

Status GenaiReader::PutVector(const std::string& name, std::string_view tensor, int64_t begin,
                              int64_t count) {
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData data, Data(tensor));
  TENON_ASSIGN_OR_RETURN(const std::vector<float> values, Floats(data));
  if (begin + count > static_cast<int64_t>(values.size()))
    return Corrupt(
        fmt::format("'{}' has {} values, {} expected", tensor, values.size(), begin + count),
        file_.name());
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(bytes));
  std::memcpy(buffer.data(), values.data() + begin, bytes);
  TensorInfo info = Keep(DType::kF32, 1, count, std::move(buffer));
  info.shape = {count};
  info.name = name;
  Put(std::move(info));
  return {};
}

Result<TensorInfo> GenaiReader::NbitsTensor(const OnnxNode& node) {
  NbitsMatrix matrix;
  matrix.rows = IntegerOr(node, "N", 0);
  matrix.columns = IntegerOr(node, "K", 0);
  matrix.bits = IntegerOr(node, "bits", 4);
  matrix.block = IntegerOr(node, "block_size", 0);
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData values, Data(InputOf(node, 1)));
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData scales, Data(InputOf(node, 2)));
  matrix.values = values.bytes;
  matrix.scales = scales.bytes;
  matrix.scale_type = scales.type;
  if (!InputOf(node, 3).empty()) {
    TENON_ASSIGN_OR_RETURN(const OnnxTensorData zeros, Data(InputOf(node, 3)));
    matrix.zeros = zeros.bytes;
    matrix.zero_type = zeros.type;
  }
  if (auto checked = CheckNbits(matrix); !checked.ok()) {
    checked.error().where = fmt::format("{}: node '{}'", file_.name(), node.name);
    return std::move(checked).error();
  }
  const DType dtype = NbitsDType(matrix);
  TENON_ASSIGN_OR_RETURN(Buffer buffer, ConvertNbits(matrix, dtype));
  return Keep(dtype, matrix.rows, matrix.columns, std::move(buffer));
}

// MatMul's weight is [K, N].
Result<TensorInfo> GenaiReader::TransposedTensor(const OnnxNode& node) {
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData data, Data(InputOf(node, 1)));
  if (data.shape.size() != 2 || data.shape[0] < 1 || data.shape[1] < 1)
    return Corrupt("a weight with two dimensions expected",
                   fmt::format("{}: node '{}'", file_.name(), node.name));
  const int64_t size = ElementBytes(data.type);
  DType dtype = DType::kF32;
  if (data.type == ElementType::kF16)
    dtype = DType::kF16;
  else if (data.type == ElementType::kBF16)
    dtype = DType::kBF16;
  else if (data.type != ElementType::kF32)
    return Unsupported(fmt::format("weights of type {}", ElementTypeName(data.type)),
                       fmt::format("{}: node '{}'", file_.name(), node.name));
  const int64_t columns = data.shape[0];
  const int64_t rows = data.shape[1];
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(data.bytes.size()));
  for (int64_t k = 0; k < columns; ++k) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(buffer.data() + (r * columns + k) * size,
                  data.bytes.data() + (k * rows + r) * size, static_cast<size_t>(size));
  }
  return Keep(dtype, rows, columns, std::move(buffer));
}

Result<TensorInfo> GenaiReader::Matrix(const OnnxNode& node) {
  const std::string weight(InputOf(node, 1));
  if (const auto found = matrices_.find(weight); found != matrices_.end())
    return found->second;
  TENON_ASSIGN_OR_RETURN(TensorInfo info,
                         node.op == "MatMulNBits" ? NbitsTensor(node) : TransposedTensor(node));
  matrices_.emplace(weight, info);
  return info;
}

Status GenaiReader::PutLinear(const std::string& name, const LinearRef& linear, int64_t begin,
                              int64_t count) {
  TENON_ASSIGN_OR_RETURN(TensorInfo info, Matrix(*linear.node));
  if (begin + count > info.rows())
    return Corrupt(fmt::format("{} rows, {} expected", info.rows(), begin + count),
                   fmt::format("{}: node '{}'", file_.name(), linear.node->name));
  const auto row_bytes = static_cast<uint64_t>(DTypeRowBytes(info.dtype, info.columns()));
  info.name = name + ".weight";
  info.shape[0] = count;
  info.offset = static_cast<uint64_t>(begin) * row_bytes;
  info.bytes = static_cast<uint64_t>(count) * row_bytes;
  Put(std::move(info));
  return linear.bias.empty() ? Status() : PutVector(name + ".bias", linear.bias, begin, count);
}

// The table itself, or the output head's matrix where both are one (GatherBlockQuantized).
Status GenaiReader::PutEmbedding(const OnnxNode& node) {
  TensorInfo info;
  if (node.op == "Gather") {
    TENON_ASSIGN_OR_RETURN(const OnnxTensorData data, Data(InputOf(node, 0)));
    TENON_ASSIGN_OR_RETURN(const std::vector<float> values, Floats(data));
    if (data.shape.size() != 2 || data.shape[1] != config_.hidden)
      return Corrupt("an embedding table of other width than hidden_size", file_.name());
    TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(values.size() * sizeof(float)));
    std::memcpy(buffer.data(), values.data(), values.size() * sizeof(float));
    info = Keep(DType::kF32, data.shape[0], data.shape[1], std::move(buffer));
  } else {
    std::string_view table = InputOf(node, 0);
    if (const OnnxNode* reshape = index_.Producer(table); reshape && reshape->op == "Reshape")
      table = InputOf(*reshape, 0);
    OnnxNode as_linear;
    as_linear.name = node.name;
    as_linear.op = "MatMulNBits";
    as_linear.inputs = {"", std::string(table), std::string(InputOf(node, 2)),
                        std::string(InputOf(node, 3))};
    for (const auto& [name, value] : {std::pair{"N", config_.vocabulary},
                                      {"K", config_.hidden},
                                      {"bits", IntegerOr(node, "bits", 4)},
                                      {"block_size", IntegerOr(node, "block_size", 128)}}) {
      as_linear.attributes.emplace_back().name = name;
      as_linear.attributes.back().i = value;
    }
    TENON_ASSIGN_OR_RETURN(info, Matrix(as_linear));
  }
  info.name = "token_embd.weight";
  Put(std::move(info));
  return {};
}

Status GenaiReader::ReadRope(const DecoderParts& parts) {
  if (parts.cos_cache.empty())
    return Unsupported("a decoder without rotary embedding", file_.name());
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData cos, Data(parts.cos_cache));
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData sin, Data(parts.sin_cache));
  TENON_ASSIGN_OR_RETURN(const std::vector<float> cosines, Floats(cos));
  TENON_ASSIGN_OR_RETURN(const std::vector<float> sines, Floats(sin));
  const int64_t pairs = cos.shape.size() == 2 ? cos.shape[1] : 0;
  TENON_ASSIGN_OR_RETURN(const TableRope rope, RopeFromTables(cosines, sines, pairs));
  RopeConfig& config = source_.config.rope;
  config.base = rope.base;
  config.rotary_dim = pairs * 2;
  config.interleaved = parts.rotary_interleaved;
  if (config.rotary_dim > config_.head_dim)
    return Corrupt("rotary caches wider than a head", file_.name());
  if (rope.factors.empty())
    return {};
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(rope.factors.size() * sizeof(float)));
  std::memcpy(buffer.data(), rope.factors.data(), buffer.size());
  TensorInfo info = Keep(DType::kF32, 1, pairs, std::move(buffer));
  info.shape = {pairs};
  info.name = "rope_freqs.weight";
  Put(std::move(info));
  return {};
}

Status GenaiReader::ReadSizes(const DecoderParts& parts) {
  ModelConfig& config = source_.config;
  config.architecture = parts.layers[0].q_norm.empty() ? "llama" : "qwen3";
  config.vocab_size = config_.vocabulary;
  config.hidden_size = config_.hidden;
  config.layer_count = config_.layers;
  config.head_count = config_.heads;
  config.kv_head_count = config_.kv_heads;
  config.head_dim = config_.head_dim;
  config.context_length = config_.context;
  config.norm_eps = parts.norm_eps;
  if (static_cast<int64_t>(parts.layers.size()) != config_.layers)
    return Corrupt(fmt::format("{} attentions, but num_hidden_layers is {}", parts.layers.size(),
                               config_.layers),
                   file_.name());
  for (const DecoderLayerParts& layer : parts.layers) {
    const OnnxNode& node = *layer.attention;
    if (IntegerOr(node, "num_heads", 0) != config_.heads ||
        IntegerOr(node, "kv_num_heads", 0) != config_.kv_heads)
      return Corrupt("other numbers of heads than genai_config.json has",
                     fmt::format("{}: node '{}'", file_.name(), node.name));
    config.layer_windows.push_back(std::max<int64_t>(IntegerOr(node, "local_window_size", -1), 0));
    config.attention_scale = FloatOr(node, "scale", 0.0F);
    config.attention_softcap = FloatOr(node, "softcap", 0.0F);
  }
  TENON_ASSIGN_OR_RETURN(const TensorInfo gate, Matrix(*parts.layers[0].gate.node));
  config.ffn_size = gate.rows();
  return {};
}

Status GenaiReader::PutLayer(int64_t layer, const DecoderLayerParts& parts) {
  const std::string blk = fmt::format("blk.{}.", layer);
  const int64_t q = config_.heads * config_.head_dim;
  const int64_t kv = config_.kv_heads * config_.head_dim;
  const int64_t ffn = source_.config.ffn_size;
  const bool packed = parts.k.node == nullptr;
  const LinearRef& k = packed ? parts.q : parts.k;
  const LinearRef& v = packed ? parts.q : parts.v;
  TENON_RETURN_IF_ERROR(PutVector(blk + "attn_norm.weight", parts.norm, 0, config_.hidden));
  TENON_RETURN_IF_ERROR(PutLinear(blk + "attn_q", parts.q, 0, q));
  TENON_RETURN_IF_ERROR(PutLinear(blk + "attn_k", k, packed ? q : 0, kv));
  TENON_RETURN_IF_ERROR(PutLinear(blk + "attn_v", v, packed ? q + kv : 0, kv));
  if (!parts.q_norm.empty()) {
    const int64_t d = config_.head_dim;
    TENON_RETURN_IF_ERROR(PutVector(blk + "attn_q_norm.weight", parts.q_norm, 0, d));
    TENON_RETURN_IF_ERROR(PutVector(blk + "attn_k_norm.weight", parts.k_norm, 0, d));
  }
  TENON_RETURN_IF_ERROR(PutLinear(blk + "attn_output", parts.out, 0, config_.hidden));
  TENON_RETURN_IF_ERROR(PutVector(blk + "ffn_norm.weight", parts.ffn_norm, 0, config_.hidden));
  TENON_RETURN_IF_ERROR(PutLinear(blk + "ffn_gate", parts.gate, 0, ffn));
  TENON_RETURN_IF_ERROR(PutLinear(blk + "ffn_up", parts.up, 0, ffn));
  return PutLinear(blk + "ffn_down", parts.down, 0, config_.hidden);
}

Status GenaiReader::Read() {
  TENON_ASSIGN_OR_RETURN(
      const DecoderParts parts,
      RecogniseDecoder(file_.model().graph, index_, config_.input_ids, config_.logits));
  TENON_RETURN_IF_ERROR(ReadSizes(parts));
  TENON_RETURN_IF_ERROR(ReadRope(parts));
  TENON_RETURN_IF_ERROR(PutEmbedding(*parts.embedding));
  for (size_t i = 0; i < parts.layers.size(); ++i)
    TENON_RETURN_IF_ERROR(PutLayer(static_cast<int64_t>(i), parts.layers[i]));
  TENON_RETURN_IF_ERROR(PutVector("output_norm.weight", parts.final_norm, 0, config_.hidden));
  TENON_ASSIGN_OR_RETURN(const TensorInfo head, Matrix(*parts.head.node));
  const TensorInfo* embedding = source_.Find("token_embd.weight");
  // The same matrix: the graph takes the embedding table for the head.
  if (head.file == embedding->file && parts.head.bias.empty())
    return {};
  return PutLinear("output", parts.head, 0, config_.vocabulary);
}

}  // namespace

fs::path FindGenaiDirectory(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return fs::exists(path / "genai_config.json", error) ? path : fs::path();
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool inside = path.extension() == ".onnx" && fs::is_regular_file(path, error) &&
                      fs::exists(directory / "genai_config.json", error);
  return inside ? directory : fs::path();
}

Result<ModelSource> OpenGenaiModel(const fs::path& directory) {
  TENON_ASSIGN_OR_RETURN(const JsonDocument document,
                         ReadJsonFile(directory / "genai_config.json"));
  TENON_ASSIGN_OR_RETURN(const JsonValue model, document.root().At("model"));
  TENON_ASSIGN_OR_RETURN(const GenaiConfig config, ReadConfig(model));
  TENON_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Open(directory / config.filename));
  ModelSource source;
  source.format = "onnx";
  std::error_code error;
  source.config.name = fs::canonical(directory, error).filename().string();
  TENON_RETURN_IF_ERROR(GenaiReader(file, config, source).Read());
  TENON_RETURN_IF_ERROR(ReadHfTextFiles(directory, model, source));
  source.metadata.emplace_back("onnx.producer", file.model().producer);
  source.metadata.emplace_back("genai.type", config.type);
  for (const auto& [domain, version] : file.model().opsets)
    source.metadata.emplace_back(fmt::format("onnx.opset.{}", domain.empty() ? "ai.onnx" : domain),
                                 std::to_string(version));
  return source;
}

}  // namespace tenon
