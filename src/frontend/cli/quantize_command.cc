// `tenon quantize`: a model with weights of fewer bits, and the proof that quality held.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "frontend/cli/command.h"
#include "frontend/cli/progress_bar.h"
#include "frontend/cli/size_flag.h"
#include "frontend/quantize/quality_gate.h"
#include "frontend/quantize/quantize_job.h"
#include "frontend/store/store.h"

namespace tenon {
namespace {

struct QuantizeFlags {
  std::string input;
  std::string output;
  std::string method = "haq";
  QuantizeRequest request;
  std::string calibration;
  bool layer_wise = false;
  std::string learning_rates = "1e-3:1e-5";
  std::string max_memory;
  std::string shard_size;
  bool resume = false;
  std::string validate;
  GateOptions gate;
  bool json = false;
};

// "1e-3:1e-5": the first and the last step size.
Status ParseRates(const std::string& text, QuantizeOptions& options) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, options.refine_from);
  const bool colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  const auto second = colon ? std::from_chars(first.ptr + 1, end, options.refine_to) : first;
  const bool whole = colon && second.ec == std::errc() && second.ptr == end;
  if (whole && options.refine_from > 0.0F && options.refine_to > 0.0F && options.refine_from < 1.0F)
    return {};
  return InvalidArgument(fmt::format("'{}'; two numbers such as 1e-3:1e-5 expected", text), "--lr");
}

// The command line's own range check lets "nan" pass.
Status CheckNumbers(const QuantizeFlags& flags) {
  const QuantizeOptions& options = flags.request.options;
  if (std::isnan(options.damping))
    return InvalidArgument("found nan, expected 0 to 10", "--damp");
  if (std::isnan(options.alpha))
    return InvalidArgument("found nan, expected 0 to 1", "--alpha");
  if (flags.gate.chunks == 0)
    return InvalidArgument("found 0, expected a number of chunks, or -1 for all",
                           "--validate-chunks");
  return {};
}

Status Resolve(QuantizeFlags& flags) {
  QuantizeRequest& request = flags.request;
  TENON_RETURN_IF_ERROR(CheckNumbers(flags));
  TENON_ASSIGN_OR_RETURN(request.input, ResolveModel(flags.input));
  request.output = flags.output;
  request.evaluation = flags.validate;
  request.resume = flags.resume ? ResumeMode::kResume : ResumeMode::kFresh;
  TENON_ASSIGN_OR_RETURN(request.options.method, ParseQuantizeMethod(flags.method));
  request.options.calibration = flags.calibration;
  // Twenty steps: with a step size that falls a hundredfold, more change nothing.
  request.options.refine_steps = flags.layer_wise ? 20 : 0;
  TENON_RETURN_IF_ERROR(ParseRates(flags.learning_rates, request.options));
  if (!flags.max_memory.empty()) {
    TENON_ASSIGN_OR_RETURN(request.options.max_memory, ParseSize(flags.max_memory, "--max-memory"));
  }
  if (!flags.shard_size.empty()) {
    TENON_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(flags.shard_size, "--shard-size"));
    request.options.shard_bytes = static_cast<uint64_t>(bytes);
  }
  flags.gate.text = flags.validate;
  flags.gate.threads = request.options.threads;
  return {};
}

nlohmann::ordered_json ToJson(const LinearReport& linear) {
  return {{"name", linear.name},
          {"type", linear.type},
          {"rows", linear.rows},
          {"columns", linear.columns},
          {"relative_error", linear.relative_error},
          {"exponent", linear.exponent},
          {"damping", linear.damping},
          {"note", linear.note}};
}

nlohmann::ordered_json ToJson(const PerplexityResult& result) {
  const DivergenceResult divergence = result.divergence.value_or(DivergenceResult{});
  return {{"ppl", result.ppl},
          {"base_ppl", divergence.base_ppl},
          {"delta_ppl", DeltaPerplexity(result)},
          {"delta_nll", divergence.delta_nll},
          {"delta_nll_ci95", {divergence.delta_nll_low, divergence.delta_nll_high}},
          {"kl_mean", divergence.kl_mean},
          {"kl_p99", divergence.kl_p99},
          {"top1", divergence.top1},
          {"tokens", result.tokens}};
}

nlohmann::ordered_json ToJson(const QuantizeFlags& flags, const QuantizeReport& report,
                              const std::optional<PerplexityResult>& quality) {
  nlohmann::ordered_json json;
  json["method"] = flags.method;
  json["type"] = report.type;
  json["activation_bits"] = flags.request.options.activation_bits;
  json["input_bytes"] = report.input_bytes;
  json["output"] = report.output.string();
  json["output_bytes"] = report.output_bytes;
  json["seconds"] = report.seconds;
  json["calibration"] = {{"texts", report.calibration_texts},
                         {"tokens", report.calibration_tokens}};
  json["resumed_segments"] = report.resumed_segments;
  json["warnings"] = report.warnings;
  json["layers"] = nlohmann::ordered_json::array();
  for (const LinearReport& linear : report.linears)
    json["layers"].push_back(ToJson(linear));
  if (quality.has_value())
    json["validation"] = ToJson(*quality);
  return json;
}

void PrintReport(const QuantizeReport& report, const std::optional<PerplexityResult>& quality) {
  fmt::print("{:<28} {:>12} {:<6} {:>10} {:>9} {:>8}\n", "matrix", "shape", "type", "error",
             "exponent", "damping");
  for (const LinearReport& linear : report.linears) {
    fmt::print("{:<28} {:>12} {:<6} {:>10.5f} {:>9.3f} {:>8.3g}\n", linear.name,
               fmt::format("{}x{}", linear.rows, linear.columns), linear.type,
               linear.relative_error, linear.exponent, linear.damping);
  }
  fmt::print("{} of {} bytes, {:.1f} s\n", report.output_bytes, report.input_bytes, report.seconds);
  if (!quality.has_value())
    return;
  const nlohmann::ordered_json json = ToJson(*quality);
  for (const auto& [key, value] : json.items())
    fmt::print("{:<16} {}\n", key, value.dump());
}

ProgressTarget StepsTarget() {
  ProgressTarget target = StderrProgressTarget();
  target.unit = ProgressUnit::kSteps;
  return target;
}

Result<QuantizeReport> RunWithBar(const QuantizeRequest& request) {
  ProgressBar bar(StepsTarget());
  QuantizeHooks hooks;
  hooks.progress = [&bar](std::string_view /*label*/, uint64_t done, uint64_t total) {
    bar.Update("quantizing", done, total);
  };
  hooks.warn = [&bar](std::string_view text) {
    bar.Finish();
    Log(LogLevel::kWarning, "{}", text);
  };
  return QuantizeModel(request, hooks);
}

Result<PerplexityResult> ValidateWithBar(const QuantizeFlags& flags,
                                         const std::filesystem::path& output) {
  ProgressBar bar(StepsTarget());
  return CompareModels(
      flags.request.input, output, flags.gate, [&bar](int64_t done, int64_t all, double /*ppl*/) {
        bar.Update("validating", static_cast<uint64_t>(done), static_cast<uint64_t>(all));
      });
}

Status Quantize(QuantizeFlags& flags) {
  TENON_RETURN_IF_ERROR(Resolve(flags));
  TENON_ASSIGN_OR_RETURN(const QuantizeReport report, RunWithBar(flags.request));
  std::optional<PerplexityResult> quality;
  if (!flags.validate.empty()) {
    TENON_ASSIGN_OR_RETURN(quality, ValidateWithBar(flags, report.output));
  }
  if (flags.json)
    fmt::print("{}\n", ToJson(flags, report, quality)
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    PrintReport(report, quality);
  return quality.has_value() ? CheckDelta(*quality, flags.gate.max_delta_ppl) : Status();
}

void AddMethodFlags(CLI::App& app, QuantizeFlags& flags) {
  QuantizeOptions& options = flags.request.options;
  app.add_option("--method", flags.method, "rtn, gptq, awq, smoothquant, haq (default) or k-quant")
      ->check(CLI::IsMember({"rtn", "gptq", "awq", "smoothquant", "haq", "k-quant"}));
  app.add_option("--w-bits", options.weight_bits, "Bits of a weight: 8 (default), 4 or 3")
      ->check(CLI::IsMember({8, 4, 3}));
  app.add_option("--a-bits", options.activation_bits, "Bits of an activation: 16 (default) or 8")
      ->check(CLI::IsMember({16, 8}));
  app.add_option("--group-size", options.group_size,
                 "Weights with one scale; 0: a row (default: 32; a row for 8-bit weights with "
                 "8-bit activations)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  app.add_option("--type", options.type,
                 "Block format or mix instead of --w-bits: q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, "
                 "q3_k, q4_k, q5_k, q6_k, q3_k_m, q4_k_m, q5_k_m")
      ->excludes("--w-bits");
  app.add_option("--damp", options.damping, "Damping, share of the mean diagonal (default: 0.01)")
      ->check(CLI::Range(0.0, 10.0));
  app.add_option("--alpha", options.alpha, "Exponent of smoothquant (default: 0.5)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--layer-wise", flags.layer_wise, "Refine scales on each layer's output error");
  app.add_option("--lr", flags.learning_rates, "Step sizes of --layer-wise, first and last");
}

void AddRunFlags(CLI::App& app, QuantizeFlags& flags) {
  QuantizeOptions& options = flags.request.options;
  app.add_option("--calib-data", flags.calibration, "Calibration texts: .json, .jsonl or plain");
  app.add_option("--calib-tokens", options.calibration_tokens,
                 "Calibration tokens at most (default: 32768)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--max-memory", flags.max_memory, "Fail when more would be needed");
  app.add_option("--shard-size", flags.shard_size,
                 "Bytes of tensors in one file of the output (default: all in one)");
  app.add_flag("--resume", flags.resume, "Go on with an interrupted run");
  app.add_option("-t,--threads", options.threads, "Compute threads")->check(CLI::Range(0, 1024));
  app.add_option("--validate", flags.validate, "Compare with the input on this text");
  app.add_option("--validate-chunks", flags.gate.chunks,
                 "Chunks of 512 tokens of it (default: 16; -1: all)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 32));
  app.add_option("--max-delta-ppl", flags.gate.max_delta_ppl,
                 "Fail when the perplexity rose by more (default: 0.5)");
  app.add_flag("--json", flags.json, "One JSON report on standard output");
}

}  // namespace

CommandBody DefineQuantize(CLI::App& app) {
  auto flags = std::make_shared<QuantizeFlags>();
  app.add_option("IN", flags->input, "Model file, directory or name")->required();
  app.add_option("OUT", flags->output, "The .gguf file, or directory of safetensors, to write")
      ->required();
  AddMethodFlags(app, *flags);
  AddRunFlags(app, *flags);
  return [flags] { return Quantize(*flags); };
}

}  // namespace tenon
