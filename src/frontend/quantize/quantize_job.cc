#include "frontend/quantize/quantize_job.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file_io.h"
#include "frontend/quantize/calibration_set.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/quantize/model_output.h"
#include "frontend/quantize/pooled_matrix_engine.h"
#include "frontend/quantize/quality_gate.h"
#include "frontend/quantize/segment_runner.h"
#include "frontend/session/model.h"
#include "frontend/session/source_weights.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "quant/dequantize.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTextBytes = uint64_t{256} << 20;

class Job {
 public:
  Job(const QuantizeRequest& request, const QuantizeHooks& hooks)
      : request_(request), hooks_(hooks) {}

  Result<QuantizeReport> Run();

 private:
  using Clock = std::chrono::steady_clock;

  Status Open();
  Status ReadEvaluation();
  Status Calibrate();
  Status CheckMemory();
  int64_t SegmentBytes(const GraphRange& range) const;
  int64_t ExpertBytes(const ExpertLayer& layer) const;
  std::string PlanText() const;
  Status RunSegment(size_t index, SegmentStore& store);
  Status QuantizeSegment(size_t index, SegmentStore& store);
  Status Propagate(size_t index);
  Status TakeStored(size_t index, SegmentStore& store);
  void Warn(std::string text);
  void Progress(std::string_view label, uint64_t done) const;

  bool calibrates() const { return set_.has_value(); }
  // The last piece holds the head, which is not calibrated.
  bool IsHead(size_t index) const { return index + 1 == ranges_.size(); }
  SegmentRunner::Environment RunnerEnvironment() { return {*weights_, kernels_, *pool_}; }

  const QuantizeRequest& request_;
  const QuantizeHooks& hooks_;
  QuantizeReport report_;
  std::unique_ptr<Model> model_;
  std::optional<SourceWeights> source_weights_;
  std::optional<LayeredWeights> weights_;
  std::optional<TypePlan> types_;
  KernelSet kernels_ = {};
  std::unique_ptr<ThreadPool> pool_;
  std::optional<PooledMatrixEngine> engine_;
  Graph graph_;
  std::vector<GraphRange> ranges_;
  std::optional<CalibrationSet> set_;
  std::vector<int32_t> evaluation_;  // tokens of the text that the result is validated on
  Matrix states_;                    // [calibration tokens, columns] between the pieces
};

void Job::Warn(std::string text) {
  if (hooks_.warn)
    hooks_.warn(text);
  report_.warnings.push_back(std::move(text));
}

void Job::Progress(std::string_view label, uint64_t done) const {
  if (hooks_.progress)
    hooks_.progress(label, done, ranges_.size() + 1);
}

Status Job::Open() {
  std::error_code error;
  if (fs::equivalent(request_.input, request_.output, error))
    return InvalidArgument("the output is the input", request_.output.string());
  if (request_.output.has_parent_path() && !fs::is_directory(request_.output.parent_path(), error))
    return NotFound("the folder of the output does not exist", request_.output.string());
  TENON_ASSIGN_OR_RETURN(model_, Model::OpenInOrder(request_.input));
  const ModelSource& source = model_->source();
  TENON_RETURN_IF_ERROR(CheckOutput(source, request_.options, request_.output));
  TENON_ASSIGN_OR_RETURN(types_, TypePlan::Create(request_.options, source));
  TENON_ASSIGN_OR_RETURN(graph_, BuildGraph(source));
  ranges_ = NarrowRanges(graph_);
  TENON_ASSIGN_OR_RETURN(kernels_, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(pool_, ThreadPool::Create(request_.options.threads));
  engine_.emplace(kernels_, *pool_);
  source_weights_.emplace(source);
  weights_.emplace(*source_weights_);
  report_.type = types_->Name();
  for (const TensorInfo& tensor : source.tensors)
    report_.input_bytes += static_cast<int64_t>(tensor.bytes);
  for (const TensorInfo& tensor : source.tensors) {
    if (!IsQuantized(tensor.dtype))
      continue;
    Warn(fmt::format("the input is quantized already ({} is {}); its errors stay in the result",
                     tensor.name, DTypeName(tensor.dtype)));
    break;
  }
  return {};
}

// Before hours of work, not after them.
Status Job::ReadEvaluation() {
  if (request_.evaluation.empty())
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string text,
                         ReadWholeFile(request_.evaluation, kMostTextBytes));
  evaluation_ = model_->tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kNone);
  if (static_cast<int64_t>(evaluation_.size()) >= kGateContext)
    return {};
  return InvalidArgument(
      fmt::format("{} has {} tokens; one chunk needs {}", request_.evaluation.string(),
                  evaluation_.size(), kGateContext),
      "--validate");
}

Status Job::Calibrate() {
  const QuantizeOptions& options = request_.options;
  if (options.calibration.empty()) {
    if (!NeedsCalibration(options))
      return {};
    return InvalidArgument(
        fmt::format("{} needs calibration texts", QuantizeMethodName(options.method)),
        "--calib-data");
  }
  if (options.method == QuantizeMethod::kRtn)
    return {};
  TENON_ASSIGN_OR_RETURN(const auto texts, ReadCalibrationTexts(options.calibration));
  CalibrationLimits limits;
  limits.total_tokens = options.calibration_tokens;
  TENON_ASSIGN_OR_RETURN(set_, MakeCalibrationSet(texts, model_->tokenizer(), limits));
  report_.calibration_texts = set_->texts;
  report_.calibration_tokens = set_->sequences.size();
  for (std::string& warning : CalibrationWarnings(*set_, evaluation_))
    Warn(std::move(warning));
  return {};
}

// All experts as quantized and packed to run, and what one of them takes; the calibration rows.
int64_t Job::ExpertBytes(const ExpertLayer& layer) const {
  int64_t values = 0;
  int64_t widest = 0;
  for (const std::string* name : {&layer.gate, &layer.up, &layer.down}) {
    const TensorInfo* tensor = model_->source().Find(*name);
    values += tensor->rows() * tensor->columns();
    widest = std::max(widest, tensor->columns());
  }
  constexpr int64_t kShared = 3 * 4 + 1;  // bytes of a value for all experts
  constexpr int64_t kOne = 4 * 4;         // and for the one at hand
  const int64_t tokens = calibrates() ? set_->sequences.size() : 0;
  const int64_t rows = 4 * tokens * (model_->source().config.hidden_size + layer.experts);
  const int64_t products = Compensates(request_.options.method) ? 4 * widest * widest : 0;
  return kShared * values + kOne * values / layer.experts + rows + products;
}

// Floats of a piece's weights (exact, in work, as quantized, packed to run) and levels; for each
// input its products and what factorizing them takes, one input at a time.
int64_t Job::SegmentBytes(const GraphRange& range) const {
  constexpr int64_t kWeightBytes = 4 * 4 + 1;
  constexpr int64_t kFactorMatrices = 5;
  int64_t bytes = 0;
  int64_t largest = 0;
  for (const InputGroup& group : PlanFolds(graph_, range)) {
    for (const std::string& name : group.weights) {
      const TensorInfo* tensor = model_->source().Find(name);
      bytes += kWeightBytes * tensor->rows() * tensor->columns();
    }
    if (group.experts)
      bytes += ExpertBytes(*group.experts);
    const int64_t products = 4 * group.columns * group.columns;
    bytes += Compensates(request_.options.method) ? products : 0;
    largest = std::max(largest, products);
  }
  return bytes + (Compensates(request_.options.method) ? kFactorMatrices * largest : 0);
}

Status Job::CheckMemory() {
  int64_t needed = 0;
  for (size_t i = 0; i + 1 < ranges_.size(); ++i)
    needed = std::max(needed, SegmentBytes(ranges_[i]));
  const int64_t width = 4 * model_->source().config.hidden_size;
  if (calibrates())
    needed += 2 * width * set_->sequences.size();
  const int64_t limit =
      request_.options.max_memory > 0 ? request_.options.max_memory : AvailableMemoryBytes();
  if (limit == 0 || needed <= limit)
    return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("about {} MB are needed, {} MB may be used; fewer calibration "
                               "tokens need less (--calib-tokens)",
                               needed >> 20, limit >> 20),
                   "--max-memory");
}

// What a finished piece depends on.
std::string Job::PlanText() const {
  const QuantizeOptions& options = request_.options;
  nlohmann::ordered_json plan;
  std::error_code error;
  plan["input"] = fs::absolute(request_.input, error).string();
  plan["input_bytes"] = report_.input_bytes;
  plan["method"] = QuantizeMethodName(options.method);
  plan["type"] = types_->Name();
  plan["w_bits"] = options.weight_bits;
  plan["a_bits"] = options.activation_bits;
  plan["group_size"] = options.group_size;
  plan["damping"] = options.damping;
  plan["alpha"] = options.alpha;
  plan["refine"] = {options.refine_steps, options.refine_from, options.refine_to};
  plan["calibration"] = fs::absolute(options.calibration, error).string();
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a of the calibration tokens
  if (calibrates()) {
    for (const int32_t token : set_->sequences.tokens)
      hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3U;
  }
  plan["calibration_hash"] = hash;
  return plan.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The piece's weights now are what was stored.
Status Job::TakeStored(size_t index, SegmentStore& store) {
  TENON_ASSIGN_OR_RETURN(const auto reports, store.Load(index));
  report_.linears.insert(report_.linears.end(), reports.begin(), reports.end());
  for (const LinearReport& report : reports) {
    if (!report.note.empty())
      Warn(fmt::format("{}: {}", report.name, report.note));
  }
  if (!calibrates())
    return {};
  for (const std::string& name : store.Names(index)) {
    const SegmentStore::StoredTensor& tensor = *store.Find(name);
    const int64_t columns = tensor.shape.back();
    const auto row_bytes = static_cast<size_t>(DTypeRowBytes(tensor.dtype, columns));
    const auto rows = static_cast<int64_t>(tensor.bytes.size() / row_bytes);
    Matrix values(rows, columns);
    for (int64_t row = 0; row < rows; ++row) {
      DequantizeRow(tensor.dtype,
                    tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes),
                    {values.Row(row), static_cast<size_t>(columns)});
    }
    weights_->Replace(name, std::move(values));
  }
  return {};
}

// What the next piece gets: this one's results with the weights as they are now.
Status Job::Propagate(size_t index) {
  if (!calibrates() || IsHead(index))
    return {};
  TENON_ASSIGN_OR_RETURN(auto runner,
                         SegmentRunner::Create(graph_, ranges_[index], RunnerEnvironment(),
                                               SliceOutputs::kRangeFirst));
  return runner->Run(set_->sequences, states_, &states_, {});
}

Status Job::QuantizeSegment(size_t index, SegmentStore& store) {
  SegmentQuantizer quantizer(
      {graph_, model_->source(), *weights_, request_.options, *types_, *engine_}, ranges_[index]);
  TENON_RETURN_IF_ERROR(quantizer.Prepare(calibrates() ? set_->sequences.size() : 0));
  if (calibrates()) {
    TENON_ASSIGN_OR_RETURN(auto runner,
                           SegmentRunner::Create(graph_, ranges_[index], RunnerEnvironment(),
                                                 SliceOutputs::kObservedOnly));
    const auto observe = [&](size_t value, const MatrixView& rows) {
      quantizer.Observe(runner->observed()[value], rows);
    };
    TENON_RETURN_IF_ERROR(runner->Run(set_->sequences, states_, nullptr, observe));
  }
  TENON_ASSIGN_OR_RETURN(const SegmentResult result, quantizer.Quantize());
  return store.Save(index, result);
}

Status Job::RunSegment(size_t index, SegmentStore& store) {
  const bool has_linears = !PlanFolds(graph_, ranges_[index]).empty();
  if (has_linears && !IsHead(index)) {
    if (store.Has(index))
      ++report_.resumed_segments;
    else
      TENON_RETURN_IF_ERROR(QuantizeSegment(index, store));
    TENON_RETURN_IF_ERROR(TakeStored(index, store));
  }
  TENON_RETURN_IF_ERROR(Propagate(index));
  weights_->RestoreAll();
  weights_->ReleaseAll();
  return {};
}

Result<QuantizeReport> Job::Run() {
  const Clock::time_point start = Clock::now();
  TENON_RETURN_IF_ERROR(Open());
  TENON_RETURN_IF_ERROR(ReadEvaluation());
  TENON_RETURN_IF_ERROR(Calibrate());
  TENON_RETURN_IF_ERROR(CheckMemory());
  TENON_ASSIGN_OR_RETURN(SegmentStore store,
                         SegmentStore::Open(request_.output, PlanText(), request_.resume));
  for (size_t i = 0; i < ranges_.size(); ++i) {
    Progress(graph_.ops()[ranges_[i].first].name, i);
    TENON_RETURN_IF_ERROR(RunSegment(i, store));
  }
  Progress("writing", ranges_.size());
  const OutputContext output{model_->source(), *types_, store, request_.options, *engine_};
  TENON_ASSIGN_OR_RETURN(WrittenModel written, WriteModel(output, request_.output));
  report_.output_bytes = written.bytes;
  report_.output = std::move(written.path);
  TENON_RETURN_IF_ERROR(store.Remove());
  Progress("done", ranges_.size() + 1);
  report_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return std::move(report_);
}

}  // namespace

Result<QuantizeReport> QuantizeModel(const QuantizeRequest& request, const QuantizeHooks& hooks) {
  return Job(request, hooks).Run();
}

}  // namespace tenon
