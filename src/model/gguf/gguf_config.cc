#include "model/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "model/arch/architecture.h"
#include "model/fused_tensors.h"
#include "model/gguf/gguf_fields.h"

namespace tenon {
namespace {

// Layer norms and biases.
bool IsPlain(std::string_view architecture) {
  return architecture == "gpt2" || architecture == "gptneox" || architecture == "bert";
}

// Null for a name that is not known as one of GGUF's.
const Architecture* FindGgufArchitecture(std::string_view name) {
  const Architecture* found = FindArchitecture(name);
  return found == nullptr || found->pairs == GgufPairs::kNoFiles ? nullptr : found;
}

// Every key is prefixed with the name.
constexpr size_t kLongestArchitecture = 64;

// Sliding layers of Gemma 3 (arXiv 2503.19786): five of six, with the rotary base of Gemma 2.
constexpr int64_t kGemma3Pattern = 6;
constexpr float kGemma3SlidingBase = 10000.0F;
// The 27B model alone scales queries by the width per head, not by the head's dimension; its layer
// count tells it apart.
constexpr int64_t kGemma3LayersOf27B = 62;

Status ReadSizes(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(fields.Mandatory("block_count", config.layer_count));
  TENON_RETURN_IF_ERROR(fields.Mandatory("context_length", config.context_length));
  TENON_RETURN_IF_ERROR(fields.Mandatory("embedding_length", config.hidden_size));
  TENON_RETURN_IF_ERROR(fields.Mandatory("feed_forward_length", config.ffn_size));
  TENON_RETURN_IF_ERROR(fields.Mandatory("attention.head_count", config.head_count));
  config.kv_head_count = config.head_count;
  TENON_RETURN_IF_ERROR(fields.Optional("attention.head_count_kv", config.kv_head_count));
  if (config.head_count % config.kv_head_count == 0)
    return {};
  return fields.Wrong("attention.head_count_kv",
                      fmt::format("{} found, a divisor of the {} heads expected",
                                  config.kv_head_count, config.head_count));
}

Status ReadHeadDim(const GgufFields& fields, ModelConfig& config) {
  if (config.hidden_size % config.head_count == 0)
    config.head_dim = config.hidden_size / config.head_count;
  TENON_RETURN_IF_ERROR(fields.Optional("attention.key_length", config.head_dim));
  if (config.head_dim == 0) {
    return fields.Wrong("attention.key_length",
                        fmt::format("missing, and {} heads don't divide the width {}",
                                    config.head_count, config.hidden_size));
  }
  int64_t value_length = config.head_dim;
  TENON_RETURN_IF_ERROR(fields.Optional("attention.value_length", value_length));
  if (value_length == config.head_dim)
    return {};
  return fields.Wrong("attention.value_length", fmt::format("{} found, the key length {} expected",
                                                            value_length, config.head_dim));
}

Status ReadNumbers(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(fields.Mandatory(IsPlain(config.architecture)
                                             ? "attention.layer_norm_epsilon"
                                             : "attention.layer_norm_rms_epsilon",
                                         config.norm_eps));
  TENON_RETURN_IF_ERROR(fields.Optional("attention.scale", config.attention_scale));
  TENON_RETURN_IF_ERROR(fields.Optional("attn_logit_softcapping", config.attention_softcap));
  return fields.Optional("final_logit_softcapping", config.final_logit_softcap);
}

Status ReadGemma3(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(fields.Optional("attention.sliding_window", config.sliding_window));
  if (config.sliding_window > 0) {
    config.sliding_window_pattern = kGemma3Pattern;
    TENON_RETURN_IF_ERROR(
        fields.Optional("attention.sliding_window_pattern", config.sliding_window_pattern));
    config.sliding_rope_base = kGemma3SlidingBase;
    TENON_RETURN_IF_ERROR(fields.Optional("rope.freq_base_swa", config.sliding_rope_base));
  }
  if (config.attention_scale == 0.0F) {
    const int64_t width = config.layer_count == kGemma3LayersOf27B
                              ? config.hidden_size / config.head_count
                              : config.head_dim;
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(width));
  }
  return {};
}

// Gemma 2 (arXiv 2408.00118): every second layer slides. Its 27B model too scales queries by the
// width per head.
constexpr int64_t kGemma2Pattern = 2;
constexpr int64_t kGemma2LayersOf27B = 46;

Status ReadGemma2(const GgufFields& fields, ModelConfig& config) {
  config.sliding_window = 4096;
  TENON_RETURN_IF_ERROR(fields.Optional("attention.sliding_window", config.sliding_window));
  config.sliding_window_pattern = kGemma2Pattern;
  if (config.attention_scale == 0.0F) {
    const int64_t width = config.layer_count == kGemma2LayersOf27B
                              ? config.hidden_size / config.head_count
                              : config.head_dim;
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(width));
  }
  return {};
}

Status ReadGranite(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(fields.Optional("embedding_scale", config.embedding_scale));
  TENON_RETURN_IF_ERROR(fields.Optional("residual_scale", config.residual_scale));
  // The file has what logits are divided by.
  float divisor = 1.0F;
  TENON_RETURN_IF_ERROR(fields.Optional("logit_scale", divisor));
  config.logit_scale = 1.0F / divisor;
  return {};
}

// Converters call OLMo 3 an olmo2 too, with layers that slide.
Status CheckOlmo2(const GgufFields& fields) {
  constexpr std::string_view kKey = "attention.sliding_window";
  int64_t window = 0;
  TENON_RETURN_IF_ERROR(fields.Optional(kKey, window));
  if (window == 0)
    return {};
  return Unsupported(fmt::format("{} found: OLMo 3's sliding layers", window),
                     fields.Wrong(kKey, {}).where);
}

Status ReadPlain(const GgufFields& fields, ModelConfig& config) {
  if (config.architecture == "bert")
    return ReadGgufBert(fields, config);
  config.activation = config.architecture == "gpt2" ? Activation::kGelu : Activation::kGeluErf;
  if (config.architecture == "gpt2")
    return {};
  TENON_ASSIGN_OR_RETURN(const auto parallel, fields.Flag("use_parallel_residual"));
  config.parallel_residual = parallel.value_or(true);
  return {};
}

// Tensors that hold several are taken apart; experts that are apart become one.
Status Rearrange(ModelSource& source) {
  const ModelConfig& config = source.config;
  TENON_RETURN_IF_ERROR(StackExperts(config, source));
  if (config.architecture == "gpt2" || config.architecture == "gptneox")
    return SliceQkvTensors(config, source);
  return config.architecture == "phi3" ? SlicePhi3Tensors(config, source) : Status();
}

// One more than the highest N of the tensors "blk.N.*".
int64_t BlocksPresent(const std::vector<TensorInfo>& tensors) {
  constexpr std::string_view kPrefix = "blk.";
  int64_t blocks = 0;
  for (const TensorInfo& tensor : tensors) {
    if (!tensor.name.starts_with(kPrefix))
      continue;
    const char* begin = tensor.name.data() + kPrefix.size();
    const char* end = tensor.name.data() + tensor.name.size();
    int32_t number = -1;
    const auto [rest, code] = std::from_chars(begin, end, number);
    if (code == std::errc() && rest != end && *rest == '.' && number >= 0)
      blocks = std::max<int64_t>(blocks, int64_t{number} + 1);
  }
  return blocks;
}

Status CheckBlocks(const GgufFields& fields, const ModelSource& source) {
  const int64_t present = BlocksPresent(source.tensors);
  if (source.config.layer_count == present)
    return {};
  return fields.Wrong("block_count", fmt::format("{} found, but the file has tensors of {} blocks",
                                                 source.config.layer_count, present));
}

// The embedding's rows, the tokenizer's tokens and the key vocab_size must agree.
Status CheckVocabulary(const GgufFields& fields, ModelSource& source) {
  constexpr std::string_view kEmbedding = "token_embd.weight";
  const TensorInfo* embedding = source.Find(kEmbedding);
  if (embedding == nullptr)
    return Corrupt(fmt::format("the tensor {} is missing", kEmbedding), fields.metadata().name());
  ModelConfig& config = source.config;
  if (embedding->columns() != config.hidden_size) {
    return fields.Wrong("embedding_length",
                        fmt::format("{} found, but {} has rows of {} values", config.hidden_size,
                                    kEmbedding, embedding->columns()));
  }
  const int64_t rows = embedding->rows();
  config.vocab_size = rows;
  TENON_RETURN_IF_ERROR(fields.Optional("vocab_size", config.vocab_size));
  if (config.vocab_size != rows) {
    return fields.Wrong("vocab_size", fmt::format("{} found, but {} has {} rows", config.vocab_size,
                                                  kEmbedding, rows));
  }
  TENON_ASSIGN_OR_RETURN(const auto tokens, GgufVocabularySize(fields.metadata()));
  if (tokens && *tokens != rows) {
    return fields.metadata().ErrorAt(
        "tokenizer.ggml.tokens",
        fmt::format("{} tokens found, but {} has {} rows", *tokens, kEmbedding, rows));
  }
  return {};
}

Status FillKnown(const GgufFields& fields, ModelSource& source) {
  ModelConfig& config = source.config;
  TENON_RETURN_IF_ERROR(ReadSizes(fields, config));
  TENON_RETURN_IF_ERROR(CheckBlocks(fields, source));
  TENON_RETURN_IF_ERROR(ReadNumbers(fields, config));
  if (config.architecture == "deepseek2") {
    TENON_RETURN_IF_ERROR(ReadGgufDeepseek(fields, config));
  } else {
    TENON_RETURN_IF_ERROR(ReadHeadDim(fields, config));
    TENON_RETURN_IF_ERROR(ReadGgufRope(fields, config));
  }
  if (config.architecture == "gemma2")
    TENON_RETURN_IF_ERROR(ReadGemma2(fields, config));
  if (config.architecture == "gemma3")
    TENON_RETURN_IF_ERROR(ReadGemma3(fields, config));
  if (config.architecture == "granite")
    TENON_RETURN_IF_ERROR(ReadGranite(fields, config));
  if (config.architecture == "smollm3")
    config.rope_free_layers = EveryNthLayer(config.layer_count, kSmolLm3RopeFree);
  if (config.architecture == "olmo2")
    TENON_RETURN_IF_ERROR(CheckOlmo2(fields));
  // Mistral 7B v0.1, which converters call llama, and Phi-3: a window in every layer.
  if (config.architecture == "llama" || config.architecture == "phi3")
    TENON_RETURN_IF_ERROR(fields.Optional("attention.sliding_window", config.sliding_window));
  TENON_RETURN_IF_ERROR(CheckVocabulary(fields, source));
  TENON_RETURN_IF_ERROR(ReadGgufExperts(fields, config));
  if (IsPlain(config.architecture))
    TENON_RETURN_IF_ERROR(ReadPlain(fields, config));
  return Rearrange(source);
}

// What an unknown architecture's metadata says under the usual names.
void FillUnknown(const GgufFields& fields, ModelSource& source) {
  ModelConfig& config = source.config;
  const std::pair<std::string_view, int64_t ModelConfig::*> sizes[] = {
      {"block_count", &ModelConfig::layer_count},
      {"context_length", &ModelConfig::context_length},
      {"embedding_length", &ModelConfig::hidden_size},
      {"feed_forward_length", &ModelConfig::ffn_size},
      {"attention.head_count", &ModelConfig::head_count},
      {"attention.head_count_kv", &ModelConfig::kv_head_count},
      {"attention.key_length", &ModelConfig::head_dim},
      {"vocab_size", &ModelConfig::vocab_size},
  };
  for (const auto& [key, field] : sizes)
    static_cast<void>(fields.Optional(key, config.*field));
}

Status FillGeneral(const GgufMetadata& metadata, ModelConfig& config) {
  TENON_ASSIGN_OR_RETURN(const auto architecture, metadata.String("general.architecture"));
  if (!architecture || architecture->empty() || architecture->size() > kLongestArchitecture) {
    return metadata.ErrorAt("general.architecture",
                            fmt::format("missing, empty or longer than {}", kLongestArchitecture));
  }
  config.architecture = *architecture;
  TENON_ASSIGN_OR_RETURN(const auto name, metadata.String("general.name"));
  config.name = name.value_or("");
  TENON_ASSIGN_OR_RETURN(const auto licence, metadata.String("general.license"));
  config.licence = licence.value_or("");
  return {};
}

}  // namespace

bool IsKnownGgufArchitecture(std::string_view architecture) {
  return FindGgufArchitecture(architecture) != nullptr;
}

Status FillGgufConfig(const GgufMetadata& metadata, ModelSource& source) {
  TENON_RETURN_IF_ERROR(FillGeneral(metadata, source.config));
  const GgufFields fields(metadata, source.config.architecture);
  const Architecture* architecture = FindGgufArchitecture(source.config.architecture);
  if (architecture == nullptr) {
    FillUnknown(fields, source);
    return {};
  }
  source.config.rope.interleaved = architecture->pairs == GgufPairs::kNeighbours;
  return FillKnown(fields, source);
}

}  // namespace tenon
