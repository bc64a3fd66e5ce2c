#include "frontend/convert/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

Status SetSizes(const ModelConfig& c, GgufMetadataBuilder& metadata) {
  const std::string& arch = c.architecture;
  // The others need keys or joined matrices that are not written here.
  constexpr std::string_view kKnown[] = {"llama", "qwen2", "qwen3"};
  if (std::find(std::begin(kKnown), std::end(kKnown), arch) == std::end(kKnown))
    return Unsupported(
        fmt::format("GGUF of the architecture '{}' from another format; llama, qwen2 "
                    "and qwen3 are supported",
                    arch));
  metadata.SetString("general.architecture", arch);
  metadata.SetString("general.name", c.name);
  SetSize(metadata, arch + ".block_count", c.layer_count);
  SetSize(metadata, arch + ".context_length", c.context_length);
  SetSize(metadata, arch + ".embedding_length", c.hidden_size);
  SetSize(metadata, arch + ".feed_forward_length", c.ffn_size);
  SetSize(metadata, arch + ".attention.head_count", c.head_count);
  SetSize(metadata, arch + ".attention.head_count_kv", c.kv_head_count);
  SetSize(metadata, arch + ".attention.key_length", c.head_dim);
  SetSize(metadata, arch + ".attention.value_length", c.head_dim);
  SetSize(metadata, arch + ".vocab_size", c.vocab_size);
  metadata.SetFloat32(arch + ".attention.layer_norm_rms_epsilon", c.norm_eps);
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
  return rotated && source.config.architecture == "llama" && !source.config.rope.interleaved &&
         !source.format.starts_with("gguf");
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

// Tensors are read and written in pieces of about this size.
constexpr uint64_t kPieceBytes = 1 << 20;

Status WriteTensor(const ModelSource& source, const TensorInfo& tensor, GgufWriter& writer) {
  const bool interleaved = IsInterleaved(source, tensor.name);
  const int64_t columns = tensor.shape.size() > 1 ? tensor.columns() : 1;
  const auto row_bytes = static_cast<uint64_t>(DTypeRowBytes(tensor.dtype, columns));
  const auto head_rows = static_cast<uint64_t>(source.config.head_dim);
  const uint64_t unit = interleaved ? row_bytes * head_rows : kPieceBytes;
  const uint64_t step = std::max<uint64_t>(1, kPieceBytes / unit) * unit;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < tensor.bytes; at += piece.size()) {
    piece.resize(std::min(step, tensor.bytes - at));
    TENON_RETURN_IF_ERROR(source.ReadAt(tensor, at, piece));
    if (interleaved)
      Interleave(head_rows, row_bytes, piece);
    TENON_RETURN_IF_ERROR(writer.WritePart(piece));
  }
  source.Release(tensor, 0, tensor.bytes);
  return {};
}

using Shard = std::vector<const TensorInfo*>;

// In the order of the file, each shard as full as it may be.
std::vector<Shard> Divide(const std::vector<TensorInfo>& tensors, uint64_t shard_bytes) {
  std::vector<Shard> shards(1);
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) {
    const bool full = bytes > 0 && shard_bytes > 0 && bytes + tensor.bytes > shard_bytes;
    if (full) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes;
    shards.back().push_back(&tensor);
  }
  return shards;
}

Status WriteFile(const ModelSource& source, const Shard& shard, const GgufMetadataBuilder& metadata,
                 const std::filesystem::path& path) {
  std::vector<GgufTensorPlan> plans;
  for (const TensorInfo* tensor : shard)
    plans.push_back({tensor->name, tensor->dtype, tensor->shape});
  TENON_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create(path, metadata, std::move(plans)));
  for (const TensorInfo* tensor : shard)
    TENON_RETURN_IF_ERROR(WriteTensor(source, *tensor, writer));
  return writer.Close();
}

}  // namespace

Status ExportGguf(const ModelSource& source, const GgufExportOptions& options,
                  const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(GgufMetadataBuilder metadata, Metadata(source, options.pre_tokenizer));
  const std::vector<Shard> shards = Divide(source.tensors, options.shard_bytes);
  if (shards.size() == 1)
    return WriteFile(source, shards.front(), metadata, path);
  if (shards.size() > UINT16_MAX)
    return InvalidArgument(fmt::format("{} shards, at most 65535 are possible", shards.size()),
                           "--shard-size");
  for (size_t i = 0; i < shards.size(); ++i) {
    metadata.SetUint16("split.no", static_cast<uint16_t>(i));
    metadata.SetUint16("split.count", static_cast<uint16_t>(shards.size()));
    metadata.SetInt32("split.tensors.count", static_cast<int32_t>(source.tensors.size()));
    std::filesystem::path name = path;
    name.replace_extension();
    name += fmt::format("-{:05}-of-{:05}.gguf", i + 1, shards.size());
    TENON_RETURN_IF_ERROR(WriteFile(source, shards[i], metadata, name));
    // The others have the keys of the split only.
    metadata = GgufMetadataBuilder();
  }
  return {};
}

}  // namespace tenon
