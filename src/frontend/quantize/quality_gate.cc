#include "frontend/quantize/quality_gate.h"

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "frontend/session/model.h"

namespace tenon {
namespace {

// Rows of logits in one step: 25 MB for a vocabulary of 49,152.
constexpr int64_t kScoredRows = 128;

Result<std::unique_ptr<Model>> Load(const std::filesystem::path& path, Precision precision,
                                    int threads) {
  TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
  LoadOptions options;
  options.threads = threads;
  options.context_tokens = kGateContext;
  options.batch_outputs = kScoredRows;
  options.precision = precision;
  TENON_RETURN_IF_ERROR(model->Load(options));
  return model;
}

}  // namespace

Result<PerplexityResult> CompareModels(const std::filesystem::path& original,
                                       const std::filesystem::path& quantized,
                                       const GateOptions& options,
                                       const PerplexityProgress& progress) {
  TENON_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(options.text));
  TENON_ASSIGN_OR_RETURN(auto base, Load(original, Precision::kReference, options.threads));
  TENON_ASSIGN_OR_RETURN(auto model, Load(quantized, Precision::kFast, options.threads));
  PerplexityOptions measure;
  measure.context = kGateContext;
  measure.max_chunks = options.chunks;
  measure.base = base.get();
  const std::string_view bytes(reinterpret_cast<const char*>(text.bytes().data()), text.size());
  return MeasurePerplexity(*model, bytes, measure, progress);
}

Status CheckDelta(const PerplexityResult& result, double max_delta_ppl) {
  if (DeltaPerplexity(result) <= max_delta_ppl)
    return {};
  return MakeError(
      ErrorCode::kInternal,
      fmt::format("perplexity rose by {:.4f} ({:.4f} to {:.4f}); at most {} is allowed",
                  DeltaPerplexity(result), result.divergence->base_ppl, result.ppl, max_delta_ppl),
      "--max-delta-ppl");
}

}  // namespace tenon
