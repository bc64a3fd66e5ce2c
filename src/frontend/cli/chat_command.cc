// `tenon chat`: a conversation in the terminal.
#include <fmt/format.h>
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontend/cli/command.h"
#include "frontend/cli/line_reader.h"
#include "frontend/cli/model_flags.h"
#include "frontend/cli/sampling_flags.h"
#include "frontend/session/chat_prompt.h"
#include "frontend/session/generation.h"

namespace tenon {
namespace {

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};

// Ctrl-C came while an answer was being written. A signal handler can reach nothing but a global.
volatile std::sig_atomic_t interrupted = 0;

// While it lives, the first Ctrl-C asks for the answer's end; a second one ends the process, as one
// at the prompt does.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() {
    sigaction(SIGINT, &before_, nullptr);
    interrupted = 0;
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ = {};
};

// Messages so far; the cache of earlier turns is found again by their tokens.
class Conversation {
 public:
  Conversation(Model& model, const ChatFlags& flags, SamplingParams params)
      : model_(model), flags_(flags), params_(std::move(params)) {
    Clear();
  }

  void Clear() {
    messages_ = nlohmann::ordered_json::array();
    if (!flags_.system.empty())
      messages_.push_back({{"role", "system"}, {"content", flags_.system}});
  }

  // Streams the answer to stdout. A turn that fails leaves the conversation as it was; an answer
  // that was stopped stays as far as it came.
  Status Ask(const std::string& text) {
    const bool has_turns = messages_.size() > (flags_.system.empty() ? 0U : 1U);
    messages_.push_back({{"role", "user"}, {"content", text}});
    auto result = Answer();
    if (!result.ok()) {
      messages_.erase(messages_.size() - 1);
      Error error = std::move(result).error();
      if (has_turns && error.where == "prompt")  // it does not fit behind the turns before it
        error.message += "; /clear starts anew";
      return error;
    }
    messages_.push_back({{"role", "assistant"}, {"content", result->text}});
    const bool is_stopped = result->finish_reason == FinishReason::kCancelled;
    fmt::print(stderr, "\n[{} of {} prompt tokens from the cache, {} generated{}, {:.1f} tok/s]\n",
               result->cached_tokens, result->prompt_tokens, result->token_ids.size(),
               is_stopped ? " and stopped" : "", result->tokens_per_s);
    return {};
  }

 private:
  Result<GenerationResult> Answer() {
    GenerationRequest request;
    TENON_ASSIGN_OR_RETURN(request.prompt, EncodeChat(model_, messages_, {}));
    request.sampling = params_;
    request.stop = flags_.sampling.stop;
    request.max_tokens = flags_.sampling.max_tokens;
    return Generate(model_, request, [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      return std::fflush(stdout) == 0 && interrupted == 0;
    });
  }

  Model& model_;
  const ChatFlags& flags_;
  SamplingParams params_;
  nlohmann::ordered_json messages_;
};

// From a pipe, a turn that failed makes the whole command fail in the end.
Status TalkLoop(Conversation& conversation) {
  LineReader reader;
  Status failed;
  fmt::print(stderr, "/clear starts anew, /exit ends.\n");
  while (auto line = reader.Read("> ")) {
    if (*line == "/exit")
      break;
    if (*line == "/clear") {
      conversation.Clear();
      continue;
    }
    if (line->starts_with('/')) {
      fmt::print(stderr, "{}: known are /clear and /exit\n", *line);
      continue;
    }
    if (line->empty())
      continue;
    std::optional<InterruptScope> scope;
    if (reader.interactive())
      scope.emplace();
    Status status = conversation.Ask(*line);
    scope.reset();
    fmt::print("\n");
    if (!status.ok())
      fmt::print(stderr, "tenon: {}\n", status.error().ToString());
    if (!status.ok() && !reader.interactive())
      failed = std::move(status);
  }
  return failed;
}

Status Chat(const ChatFlags& flags) {
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  if (!model->has_chat_template())
    return Unsupported("the model has no chat template; `tenon run --raw` continues plain text");
  TENON_ASSIGN_OR_RETURN(SamplingParams params, flags.sampling.ToParams());
  TENON_RETURN_IF_ERROR(
      ValidateSamplingParams(params, static_cast<int32_t>(model->source().config.vocab_size)));
  TENON_ASSIGN_OR_RETURN(LoadOptions options, flags.model.ToLoadOptions());
  options.sequences = 1;
  options.weight_cache_options.pages = WeightPages::kCopied;
  TENON_RETURN_IF_ERROR(model->Load(options));
  Conversation conversation(*model, flags, std::move(params));
  return TalkLoop(conversation);
}

}  // namespace

CommandBody DefineChat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  flags->model.AddAll(app);
  flags->sampling.Add(app);
  app.add_option("--system", flags->system, "System message (-sys)");
  return [flags] { return Chat(*flags); };
}

}  // namespace tenon
