#include "frontend/session/module_set.h"

#include <utility>

#include "accel/module_list.h"
#include "frontend/session/fingerprint.h"
#include "frontend/store/store.h"

namespace tenon {
namespace {

class SessionModel final : public AuxiliaryModel {
 public:
  SessionModel(std::unique_ptr<Model> model, std::string fingerprint)
      : model_(std::move(model)), fingerprint_(std::move(fingerprint)) {}

  ModelRunner& runner() override { return model_->runner(); }
  ThreadPool& pool() override { return model_->pool(); }
  const Tokenizer& tokenizer() const override { return model_->tokenizer(); }
  const std::string& fingerprint() const override { return fingerprint_; }
  int64_t bytes() const override {
    const MemoryNeeds needs = model_->runner().Needs(model_->pool().threads());
    return needs.weights + needs.kv + needs.workspace;
  }

 private:
  std::unique_ptr<Model> model_;
  std::string fingerprint_;
};

// Models from files and the store, on the target's threads.
class SessionModels final : public ModelProvider {
 public:
  explicit SessionModels(Model& target) : target_(target) {}

  Result<std::unique_ptr<AuxiliaryModel>> Open(const ModelRequest& request) override {
    std::filesystem::path path = target_.path();
    if (!request.model.empty()) {
      TENON_ASSIGN_OR_RETURN(path, ResolveModel(request.model));
    }
    TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
    TENON_ASSIGN_OR_RETURN(std::string fingerprint, ModelFingerprint(model->source()));
    TENON_RETURN_IF_ERROR(model->Load(OptionsFor(request)));
    return std::unique_ptr<AuxiliaryModel>(
        std::make_unique<SessionModel>(std::move(model), std::move(fingerprint)));
  }

 private:
  LoadOptions OptionsFor(const ModelRequest& request) {
    LoadOptions options = target_.load_options();
    options.shared_pool = &target_.pool();
    options.context_tokens = target_.context_tokens();
    if (request.kv == DraftKv::kOfTarget) {
      options.shared_kv = &target_.runner().kv();
    } else {
      // A packed cache may not suit another model's heads; the draft's is small anyway.
      options.kv_type.reset();
      if (request.context_tokens > 0)
        options.context_tokens = request.context_tokens;
    }
    options.weight_rounding =
        request.weights == DraftWeights::kInt4 ? WeightRounding::kInt4 : WeightRounding::kNone;
    return options;
  }

  Model& target_;
};

}  // namespace

ModuleSet::ModuleSet(Model& model, std::string fingerprint, std::unique_ptr<ModelProvider> models)
    : model_(model),
      fingerprint_(std::move(fingerprint)),
      models_(std::move(models)),
      plain_(model.runner(), model.pool()),
      chain_(plain_, model.runner().vocab_size()) {}

Result<std::unique_ptr<ModuleSet>> ModuleSet::Create(Model& model, const ModuleConfig& config) {
  TENON_ASSIGN_OR_RETURN(std::string fingerprint, ModelFingerprint(model.source()));
  std::unique_ptr<ModuleSet> set(
      new ModuleSet(model, std::move(fingerprint), std::make_unique<SessionModels>(model)));
  for (const ModuleConfig::Entry& entry : config.modules) {
    TENON_ASSIGN_OR_RETURN(auto module, set->Make(entry, 0));
    TENON_RETURN_IF_ERROR(set->chain_.Add(std::move(module)));
  }
  return set;
}

Result<std::unique_ptr<Module>> ModuleSet::Make(const ModuleConfig::Entry& entry,
                                                int64_t quota_bytes) {
  ModuleContext context;
  context.name = entry.name;
  context.options = entry.options;
  context.target = &model_.runner();
  context.pool = &model_.pool();
  context.tokenizer = &model_.tokenizer();
  context.target_fingerprint = fingerprint_;
  context.models = models_.get();
  context.quota_bytes = quota_bytes;
  auto module = CreateModule(context);
  if (!module.ok())
    return Placed(module.error(), entry.where);
  return module;
}

}  // namespace tenon
