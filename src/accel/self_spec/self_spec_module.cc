#include "accel/self_spec/self_spec_module.h"

#include <fmt/format.h>

#include <array>

#include "accel/self_spec/byte_model.h"
#include "accel/self_spec/self_spec_source.h"
#include "accel/speculation/speculation_module.h"

namespace tenon {
namespace {

constexpr std::array<std::string_view, 2> kWeightNames = {"as_stored", "int4"};
// A packed KV cache takes back up to 32 tokens; a draft of this many behind a few pending ones
// stays within that.
constexpr int64_t kMaxGuesses = 16;
// Where the gauges tell the break-even: 4,096 tokens of context.
constexpr int64_t kGaugeContext = 4096;

// The speculation module, with what the bytes promise among its gauges.
class SelfSpecModule : public SpeculationModule {
 public:
  SelfSpecModule(const std::string& name, std::unique_ptr<SelfSpecSource> source,
                 const SpeculationOptions& options, const ByteModel& bytes)
      : SpeculationModule(name, std::move(source), options),
        bytes_(bytes),
        max_guesses_(options.max_guesses) {}

  std::vector<Gauge> gauges() const override {
    std::vector<Gauge> gauges = SpeculationModule::gauges();
    gauges.push_back({"break_even_acceptance_4k", bytes_.BreakEven(max_guesses_, kGaugeContext)});
    gauges.push_back({"draft_bytes_4k", bytes_.draft.At(kGaugeContext)});
    gauges.push_back({"verify_bytes_4k", bytes_.verify.At(kGaugeContext)});
    return gauges;
  }

 private:
  ByteModel bytes_;
  int64_t max_guesses_;
};

ByteModel BytesOf(ModelRunner& target, const AuxiliaryModel* draft, int levels) {
  const KvPool& pool = target.kv();
  const auto block = static_cast<int64_t>(pool.layout().block_stride) * pool.config().layers;
  const int64_t token = block / kKvBlockTokens;
  ByteModel model;
  model.plain = {target.weight_bytes(), token};
  model.verify = model.plain;
  const int64_t weights = draft != nullptr ? draft->bytes() : target.weight_bytes();
  model.draft = {weights, levels > 1 ? token / 2 : token};
  return model;
}

}  // namespace

Result<std::unique_ptr<Module>> CreateSelfSpecModule(const ModuleContext& context) {
  SelfSpecSource::Options options;
  SpeculationOptions speculation;
  speculation.max_guesses = 4;  // QuantSpec's, with 4 to 6 about equal
  speculation.prior = 0.9;
  size_t weights = 1;
  OptionReader reader(context.name, context.options);
  reader.Choice("weights", weights, kWeightNames);
  reader.Share("max_acceptance_rate", options.level.max_acceptance_rate);
  reader.Share("min_acceptance_rate", options.level.min_acceptance_rate);
  ReadSpeculationOptions(reader, speculation);
  ReadAcceptance(reader, options.acceptance);
  TENON_RETURN_IF_ERROR(reader.Finish());
  const DraftLevelOptions& level = options.level;
  if (level.min_acceptance_rate > level.max_acceptance_rate) {
    return InvalidArgument(fmt::format("found {}, above max_acceptance_rate, which is {}",
                                       level.min_acceptance_rate, level.max_acceptance_rate),
                           "modules." + context.name + ".min_acceptance_rate");
  }
  if (speculation.max_guesses > kMaxGuesses) {
    return InvalidArgument(
        fmt::format("found {}, expected 1 to {}", speculation.max_guesses, kMaxGuesses),
        "modules." + context.name + ".max_guesses");
  }
  const bool has_halves = context.target->kv_config().type == KvType::kHier;
  options.level.levels = has_halves ? 2 : 1;
  std::unique_ptr<AuxiliaryModel> draft;
  if (static_cast<DraftWeights>(weights) == DraftWeights::kInt4) {
    if (context.models == nullptr)
      return Unsupported("no second copy of the model can be made here",
                         "modules." + context.name + ".weights");
    ModelRequest request;
    request.weights = DraftWeights::kInt4;
    request.kv = DraftKv::kOfTarget;
    TENON_ASSIGN_OR_RETURN(draft, context.models->Open(request));
  }
  const ByteModel bytes = BytesOf(*context.target, draft.get(), options.level.levels);
  auto source = std::make_unique<SelfSpecSource>(*context.target, std::move(draft), options);
  return std::unique_ptr<Module>(
      std::make_unique<SelfSpecModule>(context.name, std::move(source), speculation, bytes));
}

}  // namespace tenon
