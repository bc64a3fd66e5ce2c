// Model: one model as the frontends use it: its file, tokenizer, chat template and, once loaded,
// its runner and threads. The composition root of the layers below.
//
// Open reads the file's tables and is quick; Load packs the weights and reserves all memory.
// Threading: const members after Load from any thread; the runner from one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/exec/model_runner.h"
#include "frontend/session/source_weights.h"
#include "frontend/session/weight_file_cache.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"
#include "model/chat/chat_template.h"
#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {

enum class Precision : uint8_t {
  kFast,       // weights as packed, int8 activations, 16-bit KV cache
  kReference,  // everything in float
};

struct LoadOptions {
  int threads = 0;             // 0: as many as the machine gives (hal/topology.h)
  int64_t context_tokens = 0;  // KV capacity over all sequences; 0: the model's, at most 4096
  int64_t batch_tokens = 512;  // tokens in one step at most
  int64_t batch_outputs = 32;  // rows of logits in one step at most
  int64_t sequences = 32;      // in the cache at a time at most; counts for packed KV types only
  Precision precision = Precision::kFast;
  // With kReference only: what 8-bit activations with one scale a token would give.
  ActivationRounding activation_rounding = ActivationRounding::kNone;
  std::optional<KvType> kv_type;  // default: by precision, f16 or f32
  OptimizeLevel level = OptimizeLevel::kO3;
  std::vector<std::string> disabled_passes;
  WeightRounding weight_rounding = WeightRounding::kNone;
  // For a model beside another one: that one's threads, for steps but not for loading, so that it
  // may be at work meanwhile; and its KV cache (RunnerOptions). Null: its own. Both outlive it.
  ThreadPool* shared_pool = nullptr;
  KvPool* shared_kv = nullptr;
  std::string kernel_set;  // empty: TENON_CPU, or the best of this machine
  // Directory of packed weights that processes leave for later ones (weight_file_cache.h); empty:
  // every load packs. Not used with kReference, whose floats are many times the model's size.
  std::filesystem::path weight_cache;
  WeightCacheOptions weight_cache_options;
  // With a directory: for weights that don't all fit in memory. Then the cache is not used.
  WeightSpill weight_spill;
};

class Model {
 public:
  // source() is without its tokenizer's specification afterwards: tokenizer() has it.
  static Result<std::unique_ptr<Model>> Open(const std::filesystem::path& path);
  // To make another file of it: with the columns of all matrices in the model's order
  // (model/column_order.h), and the whole source.
  static Result<std::unique_ptr<Model>> OpenInOrder(const std::filesystem::path& path);

  // Decides the plan without reading weights, so that needs can be told. Replaces an earlier one.
  Status Prepare(const LoadOptions& options);
  // Prepare, then everything that running needs.
  Status Load(const LoadOptions& options);

  const std::filesystem::path& path() const { return path_; }
  const ModelSource& source() const { return source_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return !source_.chat_template.empty(); }

  // Text of a conversation as the model's template renders it. `variables` may override or add
  // template variables; messages is a JSON array.
  Result<std::string> RenderChat(const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& variables) const;

  // REQUIRES: prepared (runner), loaded (pool).
  ModelRunner& runner() { return *runner_; }
  ThreadPool& pool() { return shared_pool_ != nullptr ? *shared_pool_ : *pool_; }
  const LoadOptions& load_options() const { return load_options_; }
  std::string_view kernel_set_name() const { return kernels_.name; }
  int64_t context_tokens() const { return context_tokens_; }

 private:
  // What becomes of source().tokenizer: only writers need a copy of the vocabulary.
  enum class SpecAfterwards : uint8_t { kMoved, kKept };

  explicit Model(ModelSource source) : source_(std::move(source)), weights_(source_) {}
  static Result<std::unique_ptr<Model>> Create(const std::filesystem::path& path,
                                               SpecAfterwards afterwards);
  Status ChooseKernels(const LoadOptions& options);
  RunnerOptions ToRunnerOptions(const LoadOptions& options) const;

  std::filesystem::path path_;
  ModelSource source_;
  SourceWeights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  KernelSet kernels_ = {};
  LoadOptions load_options_;  // of the latest Prepare
  std::unique_ptr<ThreadPool> pool_;
  ThreadPool* shared_pool_ = nullptr;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<WeightCache> weight_cache_;  // after the runner: it may still write its weights
  int64_t context_tokens_ = 0;
};

// Bytes of memory that this process may still take: the smaller of the system's and the cgroup's.
// 0: unknown.
int64_t AvailableMemoryBytes();

// This process's resident memory now, and its peak.
int64_t ResidentBytes();
int64_t PeakResidentBytes();

}  // namespace tenon
