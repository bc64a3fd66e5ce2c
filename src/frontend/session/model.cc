#include "frontend/session/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "frontend/session/export_check.h"
#include "frontend/session/weight_file_cache.h"
#include "hal/kernel_registry.h"
#include "hal/self_check.h"
#include "model/arch/architecture.h"
#include "model/column_order.h"
#include "model/onnx/export_model.h"
#include "model/onnx/genai_model.h"

namespace tenon {
namespace {

// A conversation's worth of KV cache, when the user names no context: models are trained for far
// more than most machines want to reserve.
constexpr int64_t kDefaultContextTokens = 4096;

std::string TokenText(const Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? std::string() : tokenizer.TokenBytes(id, SpecialText::kParse);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Create(const std::filesystem::path& path,
                                             SpecAfterwards afterwards) {
  TENON_ASSIGN_OR_RETURN(ModelSource source, OpenModel(path));
  const bool genai = !FindGenaiDirectory(path).empty();
  if (const auto found = FindOnnxExport(path); found && !genai)
    TENON_RETURN_IF_ERROR(CheckExportedAttention(found->graph, source));
  std::unique_ptr<Model> model(new Model(std::move(source)));
  model->path_ = path;
  TokenizerSpec& spec = model->source_.tokenizer;
  TENON_ASSIGN_OR_RETURN(
      model->tokenizer_,
      Tokenizer::Create(afterwards == SpecAfterwards::kKept ? spec : std::move(spec)));
  if (model->has_chat_template()) {
    TENON_ASSIGN_OR_RETURN(model->chat_template_,
                           ChatTemplate::Parse(model->source_.chat_template));
  }
  return model;
}

Result<std::unique_ptr<Model>> Model::Open(const std::filesystem::path& path) {
  return Create(path, SpecAfterwards::kMoved);
}

Result<std::unique_ptr<Model>> Model::OpenInOrder(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(auto model, Create(path, SpecAfterwards::kKept));
  TENON_RETURN_IF_ERROR(RestoreColumnOrder(model->source_));
  return model;
}

// A set that was asked for must work; otherwise the best one that computes right on this machine.
Status Model::ChooseKernels(const LoadOptions& options) {
  const char* forced = std::getenv("TENON_CPU");
  if (!options.kernel_set.empty() || (forced != nullptr && *forced != '\0')) {
    TENON_ASSIGN_OR_RETURN(kernels_, options.kernel_set.empty()
                                         ? ResolveKernelSetFromEnvironment()
                                         : ResolveKernelSet(options.kernel_set));
    return SelfCheck(kernels_);
  }
  Status check;
  for (const KernelSet* set : RunnableKernelSets()) {
    TENON_ASSIGN_OR_RETURN(kernels_, ResolveKernelSet(set->name));
    check = SelfCheck(kernels_);
    if (check.ok())
      return check;
    Log(LogLevel::kWarning, "kernel set {} is not used: {}", set->name, check.error().ToString());
  }
  return check;
}

RunnerOptions Model::ToRunnerOptions(const LoadOptions& options) const {
  const bool reference = options.precision == Precision::kReference;
  RunnerOptions runner;
  runner.plan.max_tokens = options.batch_tokens;
  runner.plan.max_outputs = std::min(options.batch_outputs, options.batch_tokens);
  runner.plan.max_sequences = std::max<int64_t>(options.sequences, 1);
  runner.plan.kv_type = options.kv_type.value_or(reference ? KvType::kF32 : KvType::kF16);
  runner.plan.rounding = options.activation_rounding;
  runner.passes.level = options.level;
  runner.passes.disabled = options.disabled_passes;
  runner.passes.activations = reference ? ActivationMode::kFloat : ActivationMode::kInt8;
  if (!reference && source_.activations == ActivationFormat::kInt8PerToken) {
    runner.passes.activations = ActivationMode::kInt8PerToken;
    runner.plan.rounding = ActivationRounding::kPerTokenKernels;
  }
  // The graph has the file's types, from which rounded weights differ.
  if (options.weight_rounding != WeightRounding::kNone)
    runner.passes.wide_activations = WideActivations::kByLinears;
  // One scale a token is for the layers alone, and the plan tells the head from them by its rows.
  if (runner.plan.rounding != ActivationRounding::kNone)
    runner.passes.disabled.emplace_back("narrow_rows");
  runner.passes.cost_point.context = context_tokens_;
  runner.kv_tokens = context_tokens_;
  runner.rounding = options.weight_rounding;
  runner.shared_kv = options.shared_kv;
  runner.spill = options.weight_spill;
  return runner;
}

Status Model::Prepare(const LoadOptions& options) {
  if (options.activation_rounding != ActivationRounding::kNone &&
      options.precision != Precision::kReference)
    return InvalidArgument("rounded activations are for the reference mode", "precision");
  TENON_RETURN_IF_ERROR(ChooseKernels(options));
  weight_cache_.reset();
  load_options_ = options;
  context_tokens_ = options.context_tokens;
  if (context_tokens_ == 0)
    context_tokens_ = std::min(kDefaultContextTokens, source_.config.context_length);
  TENON_ASSIGN_OR_RETURN(Graph graph, BuildGraph(source_));
  TENON_ASSIGN_OR_RETURN(runner_, ModelRunner::Prepare(std::move(graph), weights_, kernels_,
                                                       ToRunnerOptions(options)));
  return {};
}

Status Model::Load(const LoadOptions& options) {
  TENON_RETURN_IF_ERROR(Prepare(options));
  if (!options.weight_cache.empty() && options.precision == Precision::kFast &&
      options.weight_spill.directory.empty())
    weight_cache_ =
        OpenWeightFileCache(options.weight_cache, source_, options.weight_cache_options);
  shared_pool_ = options.shared_pool;
  if (shared_pool_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(pool_, ThreadPool::Create(options.threads));
    return runner_->Load(*pool_, AvailableMemoryBytes(), weight_cache_.get());
  }
  // The other model may be at work: this one is loaded by threads of its own.
  TENON_ASSIGN_OR_RETURN(const auto loading, ThreadPool::Create(shared_pool_->threads()));
  TENON_RETURN_IF_ERROR(runner_->Load(*loading, AvailableMemoryBytes(), weight_cache_.get()));
  runner_->UsePool(*shared_pool_);
  return {};
}

Result<std::string> Model::RenderChat(const nlohmann::ordered_json& messages,
                                      const nlohmann::ordered_json& variables) const {
  if (!chat_template_.has_value())
    return Unsupported("the model has no chat template");
  nlohmann::ordered_json all;
  all["messages"] = messages;
  all["add_generation_prompt"] = true;
  all["bos_token"] = TokenText(*tokenizer_, tokenizer_->bos_id());
  all["eos_token"] = TokenText(*tokenizer_, tokenizer_->eos_id());
  for (const auto& [key, value] : variables.items())
    all[key] = value;
  return chat_template_->Render(all);
}

}  // namespace tenon
