#include "frontend/session/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "frontend/session/logit_file.h"

namespace tenon {
namespace {

// What one scored position contributes.
struct Score {
  double nll = 0.0;
  double base_nll = 0.0;
  double kl = 0.0;
  bool same_top = false;
};

double LogSumExpOf(std::span<const float> logits) {
  const float max = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (float logit : logits)
    sum += std::exp(static_cast<double>(logit - max));
  return static_cast<double>(max) + std::log(sum);
}

int64_t ArgMax(std::span<const float> values) {
  return std::ranges::max_element(values) - values.begin();
}

// logits becomes log-probabilities.
void LogSoftmax(std::span<float> logits) {
  const double normalizer = LogSumExpOf(logits);
  for (float& logit : logits)
    logit = static_cast<float>(static_cast<double>(logit) - normalizer);
}

void CompareWithBase(std::span<const float> base, std::span<const float> model, int32_t target,
                     Score& score) {
  double kl = 0.0;
  for (size_t i = 0; i < base.size(); ++i)
    kl += std::exp(static_cast<double>(base[i])) *
          (static_cast<double>(base[i]) - static_cast<double>(model[i]));
  score.kl = kl;
  score.base_nll = -static_cast<double>(base[static_cast<size_t>(target)]);
  score.same_top = ArgMax(base) == ArgMax(model);
}

struct MeanAndError {
  double mean = 0.0;
  double standard_error = 0.0;
};

template <class F>
MeanAndError MeanOf(const std::vector<Score>& scores, F&& value) {
  const auto count = static_cast<double>(scores.size());
  double sum = 0.0;
  for (const Score& score : scores)
    sum += value(score);
  const double mean = sum / count;
  double squares = 0.0;
  for (const Score& score : scores)
    squares += (value(score) - mean) * (value(score) - mean);
  return {mean, std::sqrt(squares / std::max(count - 1.0, 1.0) / count)};
}

DivergenceResult Summarize(const std::vector<Score>& scores) {
  DivergenceResult result;
  result.kl_mean = MeanOf(scores, [](const Score& s) { return s.kl; }).mean;
  result.top1 = MeanOf(scores, [](const Score& s) { return s.same_top ? 1.0 : 0.0; }).mean;
  const auto delta = MeanOf(scores, [](const Score& s) { return s.nll - s.base_nll; });
  result.delta_nll = delta.mean;
  result.base_ppl = std::exp(MeanOf(scores, [](const Score& s) { return s.base_nll; }).mean);
  // 1.96: the 97.5% quantile of the normal distribution.
  result.delta_nll_low = delta.mean - 1.96 * delta.standard_error;
  result.delta_nll_high = delta.mean + 1.96 * delta.standard_error;
  std::vector<double> divergences;
  for (const Score& score : scores)
    divergences.push_back(score.kl);
  const auto p99 =
      divergences.begin() + static_cast<int64_t>(0.99 * static_cast<double>(scores.size() - 1));
  std::ranges::nth_element(divergences, p99);
  result.kl_p99 = *p99;
  return result;
}

// Runs the chunks and collects scores.
class Scorer {
 public:
  Scorer(Model& model, const PerplexityOptions& options) : model_(model), options_(options) {}

  Status Prepare(std::string_view text);
  int64_t chunks() const { return chunks_; }
  Status RunChunk(int64_t chunk);
  Status Finish() { return writer_.has_value() ? writer_->Close() : Status(); }
  const std::vector<Score>& scores() const { return scores_; }

 private:
  std::vector<int32_t> ChunkTokens(int64_t chunk) const;
  // Tokens [first, last) of the chunk through a model; the logits of all of them, or none.
  Result<std::span<const float>> RunPiece(Model& model, const Sequence& sequence,
                                          std::span<const int32_t> chunk, int64_t first,
                                          int64_t last);
  // `logits` [n, vocabulary] become log-probabilities, in parallel.
  void LogSoftmaxRows(std::span<float> logits);
  Status ScoreRows(std::span<const float> logits, std::span<const int32_t> targets);
  Status OpenFiles();

  Model& model_;
  const PerplexityOptions& options_;
  std::vector<int32_t> tokens_;
  int64_t chunks_ = 0;
  std::vector<Score> scores_;
  std::vector<float> log_probabilities_;
  std::vector<float> base_;
  std::optional<LogitWriter> writer_;
  std::optional<LogitReader> reader_;
  BatchBuilder builder_;
};

Status Scorer::Prepare(std::string_view text) {
  if (model_.runner().is_encoder())
    return Unsupported("the model makes vectors of texts; it has no next token's probability");
  tokens_ = model_.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
  const int64_t available = static_cast<int64_t>(tokens_.size()) / options_.context;
  chunks_ = options_.max_chunks < 0 ? available : std::min(available, options_.max_chunks);
  if (chunks_ < 1) {
    return InvalidArgument(
        fmt::format("the text has {} tokens; one chunk needs {}", tokens_.size(), options_.context),
        "the text");
  }
  return OpenFiles();
}

Status Scorer::OpenFiles() {
  if (options_.base != nullptr &&
      options_.base->runner().vocab_size() != model_.runner().vocab_size()) {
    return InvalidArgument(
        fmt::format("vocabularies of {} and {} tokens", model_.runner().vocab_size(),
                    options_.base->runner().vocab_size()),
        "the base model");
  }
  LogitHeader header;
  header.vocabulary = static_cast<uint32_t>(model_.runner().vocab_size());
  header.context = static_cast<uint32_t>(options_.context);
  header.chunks = static_cast<uint32_t>(chunks_);
  header.token_hash =
      HashTokens(std::span(tokens_).first(static_cast<size_t>(chunks_ * options_.context)));
  if (!options_.save_base.empty()) {
    TENON_ASSIGN_OR_RETURN(writer_, LogitWriter::Create(options_.save_base, header));
  }
  if (!options_.kl_base.empty()) {
    TENON_ASSIGN_OR_RETURN(reader_, LogitReader::Open(options_.kl_base, header));
    base_.resize(header.vocabulary);
  }
  return {};
}

std::vector<int32_t> Scorer::ChunkTokens(int64_t chunk) const {
  const auto begin = tokens_.begin() + chunk * options_.context;
  std::vector<int32_t> tokens(begin, begin + options_.context);
  if (model_.tokenizer().add_bos())
    tokens.front() = model_.tokenizer().bos_id();
  return tokens;
}

Status Scorer::RunChunk(int64_t chunk) {
  const std::vector<int32_t> tokens = ChunkTokens(chunk);
  Sequence sequence(model_.runner().kv(), CacheScope{}, PrefixCache::kOff);
  TENON_RETURN_IF_ERROR(ReserveNow(sequence, options_.context));
  std::optional<Sequence> base_sequence;
  if (options_.base != nullptr) {
    base_sequence.emplace(options_.base->runner().kv(), CacheScope{}, PrefixCache::kOff);
    TENON_RETURN_IF_ERROR(ReserveNow(*base_sequence, options_.context));
  }
  const RunnerOptions& limits = model_.runner().options();
  // Scored are the predictions after token context/2, up to the last one that has a successor.
  const int64_t first_scored = options_.context / 2;
  const int64_t last = options_.context - 1;
  for (int64_t begin = 0; begin < last;) {
    const bool scored = begin >= first_scored;
    const int64_t end = scored ? std::min(last, begin + limits.plan.max_outputs)
                               : std::min(first_scored, begin + limits.plan.max_tokens);
    if (base_sequence.has_value()) {
      TENON_ASSIGN_OR_RETURN(const auto base,
                             RunPiece(*options_.base, *base_sequence, tokens, begin, end));
      base_.assign(base.begin(), base.end());
      LogSoftmaxRows(base_);
    }
    TENON_ASSIGN_OR_RETURN(const auto logits, RunPiece(model_, sequence, tokens, begin, end));
    if (scored) {
      TENON_RETURN_IF_ERROR(
          ScoreRows(logits, std::span(tokens).subspan(static_cast<size_t>(begin) + 1,
                                                      static_cast<size_t>(end - begin))));
    }
    begin = end;
  }
  return {};
}

Result<std::span<const float>> Scorer::RunPiece(Model& model, const Sequence& sequence,
                                                std::span<const int32_t> chunk, int64_t first,
                                                int64_t last) {
  const bool scored = first >= options_.context / 2;
  const auto count = static_cast<size_t>(last - first);
  builder_.Clear();
  const int32_t index = builder_.AddSequence(sequence.block_table());
  builder_.AddTokens(index, chunk.subspan(static_cast<size_t>(first), count), first,
                     scored ? BatchBuilder::Outputs::kAll : BatchBuilder::Outputs::kNone);
  return model.runner().Step(builder_.batch());
}

void Scorer::LogSoftmaxRows(std::span<float> logits) {
  const auto vocabulary = static_cast<size_t>(model_.runner().vocab_size());
  model_.pool().ParallelFor(
      static_cast<int64_t>(logits.size() / vocabulary), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          LogSoftmax(logits.subspan(static_cast<size_t>(row) * vocabulary, vocabulary));
        }
      });
}

Status Scorer::ScoreRows(std::span<const float> logits, std::span<const int32_t> targets) {
  const auto vocabulary = static_cast<size_t>(model_.runner().vocab_size());
  log_probabilities_.assign(logits.begin(), logits.end());
  LogSoftmaxRows(log_probabilities_);
  for (size_t row = 0; row < targets.size(); ++row) {
    const auto model_row = std::span(log_probabilities_).subspan(row * vocabulary, vocabulary);
    Score score;
    score.nll = -static_cast<double>(model_row[static_cast<size_t>(targets[row])]);
    if (std::isnan(score.nll))
      return Corrupt(
          fmt::format("the log-probability of scored token {} is not a number", scores_.size()),
          "the model's logits");
    if (writer_.has_value())
      TENON_RETURN_IF_ERROR(writer_->Write(model_row));
    if (reader_.has_value()) {
      TENON_RETURN_IF_ERROR(reader_->Read(base_));
      CompareWithBase(base_, model_row, targets[row], score);
    } else if (options_.base != nullptr) {
      CompareWithBase(std::span(base_).subspan(row * vocabulary, vocabulary), model_row,
                      targets[row], score);
    }
    scores_.push_back(score);
  }
  return {};
}

}  // namespace

Result<PerplexityResult> MeasurePerplexity(Model& model, std::string_view text,
                                           const PerplexityOptions& options,
                                           const PerplexityProgress& progress) {
  Scorer scorer(model, options);
  TENON_RETURN_IF_ERROR(scorer.Prepare(text));
  const auto nll = [](const Score& score) { return score.nll; };
  for (int64_t chunk = 0; chunk < scorer.chunks(); ++chunk) {
    TENON_RETURN_IF_ERROR(scorer.RunChunk(chunk));
    if (progress)
      progress(chunk + 1, scorer.chunks(), std::exp(MeanOf(scorer.scores(), nll).mean));
  }
  TENON_RETURN_IF_ERROR(scorer.Finish());
  const MeanAndError all = MeanOf(scorer.scores(), nll);
  PerplexityResult result;
  result.nll = all.mean;
  result.nll_stderr = all.standard_error;
  result.ppl = std::exp(all.mean);
  result.tokens = static_cast<int64_t>(scorer.scores().size());
  result.chunks = scorer.chunks();
  if (!options.kl_base.empty() || options.base != nullptr)
    result.divergence = Summarize(scorer.scores());
  return result;
}

}  // namespace tenon
