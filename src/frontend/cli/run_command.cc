// `tenon run`: one prompt, one answer.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "frontend/cli/module_flags.h"
#include "frontend/cli/sampling_flags.h"
#include "frontend/cli/size_flag.h"
#include "frontend/session/chat_prompt.h"
#include "frontend/session/generation.h"
#include "frontend/session/weight_file_cache.h"
#include "hal/topology.h"

namespace tenon {
namespace {

// Tokens that `run` makes room for when neither -n nor -c says how many.
constexpr int64_t kDefaultAnswerTokens = 1024;

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ModuleFlags modules;
  std::string max_memory;
  std::string prompt;
  std::string prompt_file;
  std::string system;
  bool raw = false;
  bool json = false;
  bool quiet = false;
};

Result<std::string> ReadPrompt(const RunFlags& flags) {
  if (!flags.prompt.empty() && !flags.prompt_file.empty())
    return InvalidArgument("both --prompt and --file are given", "--file");
  if (!flags.prompt_file.empty()) {
    TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(flags.prompt_file));
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  }
  if (!flags.prompt.empty())
    return flags.prompt;
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<std::vector<int32_t>> EncodePrompt(const Model& model, const RunFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadPrompt(flags));
  if (text.empty())
    return InvalidArgument("the prompt is empty", "--prompt");
  if (flags.raw || !model.has_chat_template())
    return model.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!flags.system.empty())
    messages.push_back({{"role", "system"}, {"content", flags.system}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return EncodeChat(model, messages, nlohmann::ordered_json::object());
}

// Without -c the context is what this request can use, so that no memory is reserved in vain.
LoadOptions FitContext(LoadOptions options, const Model& model, const RunFlags& flags,
                       int64_t prompt_tokens) {
  if (options.context_tokens > 0)
    return options;
  const int64_t answer =
      flags.sampling.max_tokens >= 0 ? flags.sampling.max_tokens : kDefaultAnswerTokens;
  options.context_tokens =
      std::min(prompt_tokens + std::max<int64_t>(answer, 1), model.source().config.context_length);
  return options;
}

// What a process takes beside all that is counted: stacks, the allocator's, code that is read in.
constexpr int64_t kUncountedBytes = int64_t{12} << 20;

// On the disk: temporary directories often are memory.
Result<std::filesystem::path> SpillDirectory(const LoadOptions& options) {
  std::filesystem::path directory = options.weight_cache;
  if (directory.empty())
    directory = DefaultWeightCacheDirectory();
  if (directory.empty())
    return InvalidArgument("no directory for weights that don't fit: HOME and TENON_HOME are unset",
                           "--max-memory");
  TENON_RETURN_IF_ERROR(CreateDirectories(directory));
  return directory;
}

// Before weights are read: what --max-memory does not allow is refused, or weights are left in a
// file from which each step reads them.
Status FitMemory(Model& model, const RunFlags& flags, const ModuleConfig& config,
                 LoadOptions& options) {
  if (flags.max_memory.empty())
    return {};
  TENON_ASSIGN_OR_RETURN(const int64_t limit, ParseSize(flags.max_memory, "--max-memory"));
  TENON_RETURN_IF_ERROR(model.Prepare(options));
  const int threads = options.threads > 0 ? options.threads : DefaultThreadCount(ReadTopology());
  const MemoryNeeds needs = model.runner().Needs(threads);
  const int64_t taken = ResidentBytes();
  if (taken + needs.total() <= limit)
    return {};
  WeightSpill spill;
  TENON_ASSIGN_OR_RETURN(spill.directory, SpillDirectory(options));
  const MemoryNeeds least = model.runner().NeedsWith(threads, spill);
  const int64_t room = limit - taken - least.total() - kUncountedBytes;
  // Modules may load models of their own.
  const bool may_spill = config.modules.empty();
  if (room >= 0 && may_spill) {
    spill.resident_bytes = room;
    options.weight_spill = std::move(spill);
    Log(LogLevel::kWarning,
        "{} MB of weights do not fit in --max-memory: {} MB stay in memory, the others are read "
        "from a file in each step, which is slower",
        needs.weights >> 20, room >> 20);
    return {};
  }
  return MakeError(
      ErrorCode::kResourceExhausted,
      fmt::format("{} bytes are needed ({} weights, {} KV cache, {} workspace, {} are taken "
                  "already), or {} with weights that are read from a file in each step{}; {} are "
                  "allowed; a smaller context (-c), batch (-b), cache type (-ctk) or a quantized "
                  "model (tenon quantize) needs less",
                  taken + needs.total(), needs.weights, needs.kv, needs.workspace, taken,
                  limit - room, may_spill ? "" : ", which goes without acceleration modules only",
                  limit),
      "--max-memory");
}

// Working memory for steps of this one request: memory that is reserved is also cleared.
void FitSteps(LoadOptions& options, int64_t prompt_tokens) {
  options.batch_tokens = std::min(options.batch_tokens, std::max<int64_t>(prompt_tokens, 1));
  options.batch_outputs = 1;
}

nlohmann::ordered_json ToJson(const GenerationResult& result) {
  nlohmann::ordered_json json;
  json["text"] = result.text;
  json["token_ids"] = result.token_ids;
  json["prompt_tokens"] = result.prompt_tokens;
  json["completion_tokens"] = result.token_ids.size();
  json["finish_reason"] = FinishReasonName(result.finish_reason);
  json["first_token_s"] = result.first_token_s;
  json["tokens_per_s"] = result.tokens_per_s;
  for (const SampledToken& sampled : result.sampled) {
    nlohmann::ordered_json top = nlohmann::ordered_json::array();
    for (const TokenLogprob& entry : sampled.top)
      top.push_back({{"id", entry.token}, {"logprob", entry.logprob}});
    nlohmann::ordered_json entry = {
        {"id", sampled.token}, {"logprob", sampled.logprob}, {"top", std::move(top)}};
    if (!sampled.decided_by.empty())
      entry["routing"] = {{"model", sampled.decided_by}, {"confidence", sampled.confidence}};
    json["logprobs"].push_back(std::move(entry));
  }
  return json;
}

bool WriteText(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0;
}

Status Run(const RunFlags& flags) {
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  GenerationRequest request;
  TENON_ASSIGN_OR_RETURN(request.sampling, flags.sampling.ToParams());
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(
      request.sampling, static_cast<int32_t>(model->source().config.vocab_size)));
  TENON_ASSIGN_OR_RETURN(request.prompt, EncodePrompt(*model, flags));
  request.stop = flags.sampling.stop;
  request.end_tokens = flags.sampling.ignore_eos ? EndTokens::kIgnore : EndTokens::kStop;
  request.max_tokens = flags.sampling.max_tokens;
  TENON_ASSIGN_OR_RETURN(const ModuleConfig config, flags.modules.ToConfig());
  TENON_ASSIGN_OR_RETURN(LoadOptions options, flags.model.ToLoadOptions());
  TENON_RETURN_IF_ERROR(ApplyToLoad(config, options));
  options.sequences = 1;
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (config.modules.empty())
    FitSteps(options, prompt_tokens);
  options = FitContext(options, *model, flags, prompt_tokens);
  TENON_RETURN_IF_ERROR(FitMemory(*model, flags, config, options));
  TENON_RETURN_IF_ERROR(model->Load(options));
  TENON_ASSIGN_OR_RETURN(const auto modules, MakeModules(*model, config));
  if (modules != nullptr)
    request.steps = &modules->steps();
  TENON_ASSIGN_OR_RETURN(const GenerationResult result,
                         Generate(*model, request, flags.json ? TextCallback() : WriteText));
  if (flags.json) {
    nlohmann::ordered_json json = ToJson(result);
    if (modules != nullptr)
      json["modules"] = ModulesJson(modules->chain());
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  WriteText("\n");
  if (!flags.quiet) {
    fmt::print(stderr, "[{} prompt tokens, {} generated, {:.1f} tok/s, first after {:.2f} s, {}]\n",
               result.prompt_tokens, result.token_ids.size(), result.tokens_per_s,
               result.first_token_s, FinishReasonName(result.finish_reason));
    if (modules != nullptr)
      PrintModules(modules->chain());
  }
  return {};
}

}  // namespace

CommandBody DefineRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  flags->model.AddAll(app);
  flags->sampling.Add(app);
  flags->modules.Add(app);
  app.add_option("-p,--prompt", flags->prompt, "The prompt (default: standard input)");
  app.add_option("-f,--file", flags->prompt_file, "Read the prompt from a file");
  app.add_option(
      "--max-memory", flags->max_memory,
      "Most memory of the process, such as 2GB: weights beyond it are read from a file in "
      "each step; refused when that is not enough");
  app.add_option("--system", flags->system, "System message (-sys)");
  app.add_flag("--raw", flags->raw, "Continue the text as it stands, without the chat template");
  app.add_flag("--json", flags->json, "One JSON object instead of streamed text");
  app.add_flag("-q,--quiet", flags->quiet, "No statistics on standard error");
  return [flags] { return Run(*flags); };
}

}  // namespace tenon
