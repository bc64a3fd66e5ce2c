#include "accel/draft_model/draft_model_module.h"

#include <fmt/format.h>

#include <array>

#include "accel/draft_model/draft_model_source.h"
#include "accel/speculation/speculation_module.h"

namespace tenon {
namespace {

constexpr std::array<std::string_view, 2> kWeightNames = {"as_stored", "int4"};

}  // namespace

Result<std::unique_ptr<Module>> CreateDraftModelModule(const ModuleContext& context) {
  ModelRequest request;
  SpeculationOptions speculation;
  GuessAcceptance acceptance = GuessAcceptance::kSameDraw;
  size_t weights = 0;
  OptionReader reader(context.name, context.options);
  reader.Text("model", request.model);
  reader.Int("context", request.context_tokens, {0, 1 << 24});
  reader.Choice("weights", weights, kWeightNames);
  ReadSpeculationOptions(reader, speculation);
  ReadAcceptance(reader, acceptance);
  TENON_RETURN_IF_ERROR(reader.Finish());
  request.weights = static_cast<DraftWeights>(weights);
  const std::string where = fmt::format("modules.{}.model", context.name);
  if (request.model.empty())
    return InvalidArgument("expected the draft model: a file, a directory or a name", where);
  if (context.models == nullptr)
    return Unsupported("no other models can be loaded here", where);
  TENON_ASSIGN_OR_RETURN(auto model, context.models->OpenNamed(request, where));
  TENON_RETURN_IF_ERROR(CheckSameTokenizer(*context.tokenizer, model->tokenizer()));
  if (model->runner().vocab_size() < context.target->vocab_size()) {
    return Unsupported(fmt::format("the draft gives {} logits, the target {}",
                                   model->runner().vocab_size(), context.target->vocab_size()),
                       where);
  }
  return std::unique_ptr<Module>(std::make_unique<SpeculationModule>(
      context.name,
      std::make_unique<DraftModelSource>(std::move(model), acceptance,
                                         context.target->vocab_size()),
      speculation));
}

}  // namespace tenon
