#include "frontend/convert/gguf_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "frontend/convert/shard_ends.h"
#include "model/arch/architecture.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"
#include "model/tokenizer/tokenizer_pipeline.h"

namespace tenon {
namespace {

// Values that the writer copies as another file would hold them.
void SetArray(GgufMetadataBuilder& metadata, std::string_view key, GgufType element, uint64_t count,
              const std::string& bytes) {
  GgufValue value;
  value.type = GgufType::kArray;
  value.element = element;
  value.count = count;
  value.bytes = std::as_bytes(std::span(bytes.data(), bytes.size()));
  metadata.SetCopy({key, value});
}

void SetStrings(GgufMetadataBuilder& metadata, std::string_view key,
                const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const auto size = static_cast<uint64_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += text;
  }
  SetArray(metadata, key, GgufType::kString, texts.size(), bytes);
}

void SetBool(GgufMetadataBuilder& metadata, std::string_view key, bool flag) {
  const auto byte = static_cast<std::byte>(flag);
  GgufValue value;
  value.type = GgufType::kBool;
  value.bytes = std::span(&byte, 1);
  metadata.SetCopy({key, value});
}

void SetSize(GgufMetadataBuilder& metadata, const std::string& key, int64_t size) {
  metadata.SetUint32(key, static_cast<uint32_t>(size));
}

Status SetRope(const ModelConfig& c, const std::string& arch, GgufMetadataBuilder& metadata) {
  metadata.SetFloat32(arch + ".rope.freq_base", c.rope.base);
  SetSize(metadata, arch + ".rope.dimension_count", c.rope.rotary_dim);
  if (c.rope.scaling == RopeScaling::kNone)
    return {};
  if (c.rope.scaling != RopeScaling::kLinear)
    return Unsupported("a rotary scaling other than linear is not written to GGUF");
  metadata.SetString(arch + ".rope.scaling.type", "linear");
  metadata.SetFloat32(arch + ".rope.scaling.factor", c.rope.factor);
  return {};
}

// What differs between layers, as far as GGUF has words for it.
Status SetLayers(const ModelConfig& c, const std::string& arch, GgufMetadataBuilder& metadata) {
  if (!c.rope_free_layers.empty() &&
      c.rope_free_layers != EveryNthLayer(c.layer_count, kSmolLm3RopeFree))
    return Unsupported(fmt::format(
        "GGUF of {} with layers without rotary positions other than every fourth", arch));
  const int64_t window = LayerWindow(c, 0);
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    if (LayerWindow(c, layer) != window || (window > 0 && arch != "llama"))
      return Unsupported(
          fmt::format("GGUF of {} with a sliding window in layer {}; it is written "
                      "for llama only, in all layers alike",
                      arch, layer));
  }
  if (window > 0)
    SetSize(metadata, arch + ".attention.sliding_window", window);
  return {};
}

Status SetSizes(const ModelConfig& c, GgufMetadataBuilder& metadata) {
  // The others need keys or joined matrices that are not written here.
  constexpr std::string_view kKnown[] = {"llama", "qwen2", "qwen3", "mixtral", "olmo2", "smollm3"};
  if (std::find(std::begin(kKnown), std::end(kKnown), c.architecture) == std::end(kKnown))
    return Unsupported(
        fmt::format("GGUF of the architecture '{}' from another format; {} are supported",
                    c.architecture, fmt::join(kKnown, ", ")));
  // GGUF calls a llama with experts a llama.
  const std::string arch = c.experts.count > 0 ? "llama" : c.architecture;
  if (c.experts.count > 0) {
    SetSize(metadata, arch + ".expert_count", c.experts.count);
    SetSize(metadata, arch + ".expert_used_count", c.experts.used);
  }
  metadata.SetString("general.architecture", arch);
  metadata.SetString("general.name", c.name);
  SetSize(metadata, arch + ".block_count", c.layer_count);
  SetSize(metadata, arch + ".context_length", c.context_length);
  SetSize(metadata, arch + ".embedding_length", c.hidden_size);
  SetSize(metadata, arch + ".feed_forward_length",
          c.experts.count > 0 ? c.experts.ffn_size : c.ffn_size);
  SetSize(metadata, arch + ".attention.head_count", c.head_count);
  SetSize(metadata, arch + ".attention.head_count_kv", c.kv_head_count);
  SetSize(metadata, arch + ".attention.key_length", c.head_dim);
  SetSize(metadata, arch + ".attention.value_length", c.head_dim);
  SetSize(metadata, arch + ".vocab_size", c.vocab_size);
  metadata.SetFloat32(arch + ".attention.layer_norm_rms_epsilon", c.norm_eps);
  TENON_RETURN_IF_ERROR(SetLayers(c, arch, metadata));
  return SetRope(c, arch, metadata);
}

// The name of the splits that are told apart by their steps alone.
std::string PreTokenizerName(const TokenizerPipeline& pipeline) {
  const auto& steps = pipeline.pre_tokenizers;
  const auto* last = steps.empty() ? nullptr : std::get_if<pre_tokenizer::ByteLevel>(&steps.back());
  if (last == nullptr || !last->use_regex)
    return {};
  if (steps.size() == 1)
    return "gpt-2";
  const bool digits =
      steps.size() == 2 && std::holds_alternative<pre_tokenizer::SplitClasses>(steps[0]);
  return digits ? "smollm" : "";
}

std::vector<int32_t> TokenTypes(const TokenizerSpec& spec, size_t count) {
  std::vector<int32_t> types(count, static_cast<int32_t>(TokenType::kNormal));
  for (size_t id = spec.tokens.size(); id < count; ++id)
    types[id] = static_cast<int32_t>(TokenType::kUnused);
  for (const AddedToken& token : spec.pipeline->added_tokens) {
    const TokenType type = token.special ? TokenType::kControl : TokenType::kUserDefined;
    if (token.id >= 0 && static_cast<size_t>(token.id) < count)
      types[static_cast<size_t>(token.id)] = static_cast<int32_t>(type);
  }
  return types;
}

void SetIds(const TokenizerSpec& spec, GgufMetadataBuilder& metadata) {
  const std::pair<const char*, int32_t> ids[] = {
      {"tokenizer.ggml.bos_token_id", spec.bos_id},
      {"tokenizer.ggml.eos_token_id", spec.eos_id},
      {"tokenizer.ggml.unknown_token_id", spec.unknown_id},
      {"tokenizer.ggml.padding_token_id", spec.padding_id}};
  for (const auto& [key, id] : ids) {
    if (id >= 0)
      metadata.SetUint32(key, static_cast<uint32_t>(id));
  }
  const auto& prefix = spec.pipeline->prefix;
  SetBool(metadata, "tokenizer.ggml.add_bos_token", !prefix.empty() && prefix[0] == spec.bos_id);
}

Status SetTokenizer(const ModelSource& source, const std::string& pre_tokenizer,
                    GgufMetadataBuilder& metadata) {
  const TokenizerSpec& spec = source.tokenizer;
  const auto* bpe =
      spec.pipeline == nullptr ? nullptr : std::get_if<BpeOptions>(&spec.pipeline->model);
  if (bpe == nullptr || bpe->byte_fallback)
    return Unsupported("GGUF of a tokenizer that is no byte-level BPE");
  const std::string pre = pre_tokenizer.empty() ? PreTokenizerName(*spec.pipeline) : pre_tokenizer;
  if (pre.empty())
    return InvalidArgument("the name of the pre-tokenizer can't be told from tokenizer.json",
                           "--pre");
  std::vector<std::string> merges;
  for (const BpeOptions::Merge& merge : bpe->merges)
    merges.push_back(fmt::format("{} {}", spec.tokens[static_cast<size_t>(merge.left)],
                                 spec.tokens[static_cast<size_t>(merge.right)]));
  std::vector<std::string> tokens = spec.tokens;
  for (size_t id = tokens.size(); id < static_cast<size_t>(source.config.vocab_size); ++id)
    tokens.push_back(fmt::format("[PAD{}]", id));
  const std::vector<int32_t> types = TokenTypes(spec, tokens.size());
  metadata.SetString("tokenizer.ggml.model", "gpt2");
  metadata.SetString("tokenizer.ggml.pre", pre);
  SetStrings(metadata, "tokenizer.ggml.tokens", tokens);
  SetArray(metadata, "tokenizer.ggml.token_type", GgufType::kInt32, types.size(),
           {reinterpret_cast<const char*>(types.data()), types.size() * sizeof(int32_t)});
  SetStrings(metadata, "tokenizer.ggml.merges", merges);
  SetIds(spec, metadata);
  if (!source.chat_template.empty())
    metadata.SetString("tokenizer.chat_template", source.chat_template);
  return {};
}

Result<GgufMetadataBuilder> Metadata(const ModelSource& source, const std::string& pre_tokenizer) {
  GgufMetadataBuilder metadata;
  if (source.format.starts_with("gguf")) {
    TENON_ASSIGN_OR_RETURN(const GgufFile input,
                           ParseGguf(source.files.front().bytes(), "the input"));
    for (const GgufEntry& entry : input.metadata.entries()) {
      if (!entry.key.starts_with("split.") && entry.key != "general.alignment")
        metadata.SetCopy(entry);
    }
    return metadata;
  }
  TENON_RETURN_IF_ERROR(SetSizes(source.config, metadata));
  TENON_RETURN_IF_ERROR(SetTokenizer(source, pre_tokenizer, metadata));
  return metadata;
}

// GGUF's llama rotates neighbours: rows p and p + d/2 of a head lie at 2p and 2p + 1.
bool IsInterleaved(const ModelSource& source, const std::string& name) {
  const bool rotated =
      name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos;
  const std::string& arch = source.config.architecture;
  const Architecture* family = FindArchitecture(arch == "mixtral" ? "llama" : arch);
  return rotated && family != nullptr && family->pairs == GgufPairs::kNeighbours &&
         !source.config.rope.interleaved && !source.format.starts_with("gguf");
}

// `rows` are those of whole heads.
void Interleave(size_t head_rows, size_t row_bytes, std::vector<std::byte>& rows) {
  const std::vector<std::byte> from = rows;
  for (size_t r = 0; r * row_bytes < rows.size(); ++r) {
    const size_t p = r % head_rows;
    const size_t to = r - p + (p < head_rows / 2 ? 2 * p : 2 * (p - head_rows / 2) + 1);
    std::memcpy(rows.data() + to * row_bytes, from.data() + r * row_bytes, row_bytes);
  }
}

std::vector<uint64_t> SizesOf(const ModelSource& source, const TensorSupply& supply) {
  std::vector<uint64_t> sizes;
  for (const TensorInfo& tensor : source.tensors) {
    const int64_t row_bytes = DTypeRowBytes(supply.FormOf(tensor).dtype, SupplyColumns(tensor));
    sizes.push_back(static_cast<uint64_t>(row_bytes * SupplyRows(tensor)));
  }
  return sizes;
}

struct Shard {
  size_t index = 0;
  size_t count = 1;
  size_t first = 0;  // tensors
  size_t end = 0;
};

std::filesystem::path ShardPath(const std::filesystem::path& path, const Shard& shard) {
  if (shard.count == 1)
    return path;
  return path.parent_path() /
         fmt::format("{}-{:05}-of-{:05}.gguf", path.stem().string(), shard.index + 1, shard.count);
}

// All of the metadata is in the first file.
GgufMetadataBuilder ShardMetadata(const GgufMetadataBuilder& whole, const Shard& shard,
                                  size_t tensors) {
  GgufMetadataBuilder metadata = shard.index == 0 ? whole : GgufMetadataBuilder();
  if (shard.count == 1)
    return metadata;
  // The types that llama.cpp insists on.
  metadata.SetUint16("split.no", static_cast<uint16_t>(shard.index));
  metadata.SetUint16("split.count", static_cast<uint16_t>(shard.count));
  metadata.SetInt32("split.tensors.count", static_cast<int32_t>(tensors));
  return metadata;
}

// Tensors are read and written in pieces of about this size.
constexpr uint64_t kPieceBytes = 1 << 20;

Status WriteTensor(const ModelSource& source, const TensorInfo& tensor, TensorSupply& supply,
                   GgufWriter& writer) {
  const bool interleaved = IsInterleaved(source, tensor.name);
  const TensorForm form = supply.FormOf(tensor);
  const auto row_bytes = static_cast<uint64_t>(DTypeRowBytes(form.dtype, SupplyColumns(tensor)));
  const auto rows = static_cast<uint64_t>(SupplyRows(tensor));
  const auto unit = interleaved ? static_cast<uint64_t>(source.config.head_dim) : uint64_t{1};
  const uint64_t step = std::max<uint64_t>(1, kPieceBytes / (unit * row_bytes)) * unit;
  std::vector<std::byte> piece;
  for (uint64_t row = 0; row < rows; row += step) {
    piece.resize(std::min(step, rows - row) * row_bytes);
    TENON_RETURN_IF_ERROR(supply.ReadRows(tensor, static_cast<int64_t>(row), piece));
    if (interleaved)
      Interleave(unit, row_bytes, piece);
    TENON_RETURN_IF_ERROR(writer.WritePart(piece));
  }
  supply.Release(tensor);
  return {};
}

Status WriteShard(const ModelSource& source, TensorSupply& supply,
                  const GgufMetadataBuilder& metadata, const Shard& shard,
                  const std::filesystem::path& path) {
  const std::span<const TensorInfo> tensors =
      std::span(source.tensors).subspan(shard.first, shard.end - shard.first);
  std::vector<GgufTensorPlan> plans;
  for (const TensorInfo& tensor : tensors)
    plans.push_back({tensor.name, supply.FormOf(tensor).dtype, tensor.shape});
  TENON_ASSIGN_OR_RETURN(GgufWriter writer,
                         GgufWriter::Create(ShardPath(path, shard), metadata, std::move(plans)));
  for (const TensorInfo& tensor : tensors)
    TENON_RETURN_IF_ERROR(WriteTensor(source, tensor, supply, writer));
  return writer.Close();
}

}  // namespace

Result<std::filesystem::path> ExportGguf(const ModelSource& source, TensorSupply& supply,
                                         const GgufExportOptions& options,
                                         const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(GgufMetadataBuilder metadata, Metadata(source, options.pre_tokenizer));
  if (options.edit)
    options.edit(metadata);
  const std::vector<size_t> ends = ShardEnds(SizesOf(source, supply), options.shard_bytes);
  constexpr size_t kMostShards = 65535;  // that the 16 bits of split.count hold
  if (ends.size() > kMostShards)
    return InvalidArgument(fmt::format("{} files; at most {} expected", ends.size(), kMostShards),
                           "--shard-size");
  Shard shard{0, ends.size(), 0, 0};
  for (; shard.index < ends.size(); ++shard.index) {
    shard.end = ends[shard.index];
    TENON_RETURN_IF_ERROR(WriteShard(
        source, supply, ShardMetadata(metadata, shard, source.tensors.size()), shard, path));
    shard.first = shard.end;
  }
  return ShardPath(path, {0, ends.size(), 0, 0});
}

Status ExportGguf(const ModelSource& source, const GgufExportOptions& options,
                  const std::filesystem::path& path) {
  SourceSupply supply(source);
  TENON_ASSIGN_OR_RETURN(const auto written, ExportGguf(source, supply, options, path));
  static_cast<void>(written);
  return {};
}

Status CheckGgufExport(const ModelSource& source, const GgufExportOptions& options) {
  TENON_ASSIGN_OR_RETURN(const auto metadata, Metadata(source, options.pre_tokenizer));
  static_cast<void>(metadata);
  return {};
}

}  // namespace tenon
