#include "frontend/cli/serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/mapped_file.h"
#include "frontend/store/environment.h"

namespace tenon {
namespace {

// A request's text is parsed and tokenized on these; two, so that a long prompt holds up nobody.
constexpr int kIoThreads = 2;

void AddKey(const std::string& key, std::vector<ApiKey>& keys) {
  const bool known =
      std::ranges::any_of(keys, [&](const ApiKey& other) { return other.key == key; });
  if (!key.empty() && !known)
    keys.push_back({fmt::format("key{}", keys.size() + 1), key});
}

// One key a line; lines that are empty or begin with "#" are none.
Status AddKeysOfFile(const std::string& path, std::vector<ApiKey>& keys) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  const size_t before = keys.size();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
      line.remove_suffix(1);
    if (!line.starts_with('#'))
      AddKey(std::string(line), keys);
  }
  if (keys.size() == before)
    return InvalidArgument(fmt::format("{} holds no key", path), "--api-key-file");
  return {};
}

void AddNetwork(ServeFlags& flags, CLI::App& app) {
  app.add_option("--host", flags.host, "Address to listen on (default: 127.0.0.1)");
  app.add_option("--port", flags.port, "Port to listen on; 0: any free one (default: 8080)");
  app.add_option("--grpc-port", flags.grpc_port, "Port for gRPC; 0: none (default)");
  app.add_option("--api-key", flags.api_keys,
                 "Key that clients must send (also TENON_API_KEY, LLAMA_API_KEY, VLLM_API_KEY)");
  app.add_option("--api-key-file", flags.api_key_file, "File with one key a line");
  app.add_option("--cors-origin", flags.cors_origins, "Web origin that may call; * for any");
  app.add_option("--allowed-host", flags.allowed_hosts, "Further Host name to accept; * for any");
  app.add_option("--tls-cert", flags.tls_certificate, "Certificate, PEM (--ssl-cert-file)");
  app.add_option("--tls-key", flags.tls_key, "Its key, PEM (--ssl-key-file)");
  app.add_option("--ssl-cert-file", flags.tls_certificate)->group("");
  app.add_option("--ssl-key-file", flags.tls_key)->group("");
}

void AddScheduling(ServeFlags& flags, CLI::App& app) {
  app.add_option("--parallel", flags.parallel, "Sequences that run at once (-np; default: 32)")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("--queue-limit", flags.queue_limit,
                 "Waiting requests, more get 429 (default: 512)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--batch-window-ms", flags.batch_window_ms,
                 "Wait for company when nothing runs (default: 50)")
      ->check(CLI::Range(int64_t{0}, int64_t{10'000}));
  app.add_option("--policy", flags.policy, "continuous, or static for comparison")
      ->check(CLI::IsMember({"continuous", "static"}));
  app.add_option(
         "--preemption", flags.preemption,
         "What a sequence does that had to give its KV away: recompute, checkpoint, cheapest")
      ->check(CLI::IsMember({"recompute", "checkpoint", "cheapest"}));
  app.add_option("--checkpoint-interval", flags.checkpoint_interval,
                 "Keep the hidden states of every n-th layer for --preemption (default: 4)")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  app.add_option("--stuck-after", flags.stuck_after_s,
                 "Seconds in one step after which /health is 503 (default: 30)")
      ->check(CLI::Range(int64_t{1}, int64_t{86'400}));
  app.add_option("--request-timeout", flags.request_timeout_s,
                 "Seconds that a request may take; 0: no limit (default)")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400}));
  app.add_option("--drain-timeout", flags.drain_timeout_s,
                 "Seconds for running requests when asked to end (default: 30)")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400}));
}

// A number of the configuration's `scheduling:`.
struct ScheduledNumber {
  std::string name;
  const nlohmann::json& value;
  int64_t least;
  int64_t most;
};

Result<int64_t> NumberOf(const ScheduledNumber& number) {
  const bool is_whole = number.value.is_number_integer();
  if (!is_whole || number.value < number.least || number.value > number.most) {
    return InvalidArgument(fmt::format("found {}, expected a number from {} to {}",
                                       number.value.dump(), number.least, number.most),
                           fmt::format("scheduling.{}", number.name));
  }
  return number.value.get<int64_t>();
}

Status TakeNumber(const ScheduledNumber& number, const char* flag, std::optional<int64_t>& value) {
  TENON_ASSIGN_OR_RETURN(const int64_t given, NumberOf(number));
  if (value.value_or(given) != given) {
    return InvalidArgument(fmt::format("scheduling.{} is {} and {} is {}; both must be the same",
                                       number.name, given, flag, *value),
                           flag);
  }
  value = given;
  return {};
}

// {prefill, decode}: so many sequences that wait to begin end the wait; decodes never wait.
Result<int64_t> ThresholdOf(const nlohmann::json& value) {
  int64_t threshold = 0;
  if (!value.is_object())
    return InvalidArgument("expected prefill and decode by name", "scheduling.batch_thresholds");
  for (const auto& [name, number] : value.items()) {
    const std::string path = fmt::format("batch_thresholds.{}", name);
    if (name == "prefill") {
      TENON_ASSIGN_OR_RETURN(threshold, NumberOf({path, number, 1, 1024}));
    } else if (name == "decode") {
      TENON_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t one, NumberOf({path, number, 1, 1}));
    } else {
      return InvalidArgument("unknown; there are prefill and decode",
                             fmt::format("scheduling.{}", path));
    }
  }
  return threshold;
}

}  // namespace

void ServeFlags::Add(CLI::App& app) {
  model.AddAll(app);
  modules.Add(app);
  AddNetwork(*this, app);
  AddScheduling(*this, app);
  app.add_option("-a,--alias", aliases, "Further name of the model; * accepts every name");
  app.add_flag("--metrics-aliases", metrics_aliases, "Metrics also as vllm:... and llamacpp:...");
  app.add_option("--slot-save-path", slot_save_path, "Folder in which /slots saves KV caches")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--log-content", log_content, "Prompts and answers in the log");
  app.add_flag(
      "--client-priority", client_priority,
      "Honour the field priority (lower goes first); whoever may send it can overtake all");
  app.add_flag("-q,--quiet", quiet, "No line for each request");
  app.add_option("--ctx", model.context)->group("");
  // Always on here; accepted because llama-server's users type them.
  app.add_flag("--jinja")->group("");
  app.add_flag("--metrics")->group("");
  app.add_flag("--slots")->group("");
}

Status ServeFlags::Take(const ModuleConfig& config) {
  for (const auto& [name, value] : config.scheduling.items()) {
    if (name == "batch_window_ms") {
      TENON_RETURN_IF_ERROR(
          TakeNumber({name, value, 0, 10'000}, "--batch-window-ms", batch_window_ms));
    } else if (name == "max_batch") {
      TENON_RETURN_IF_ERROR(TakeNumber({name, value, 1, 1024}, "--parallel", parallel));
    } else if (name == "warmup_iters") {
      TENON_ASSIGN_OR_RETURN(warmup_steps, NumberOf({name, value, 1, 10'000}));
    } else if (name == "batch_thresholds") {
      TENON_ASSIGN_OR_RETURN(batch_threshold, ThresholdOf(value));
    } else {
      return InvalidArgument(
          "unknown; there are batch_window_ms, max_batch, batch_thresholds and warmup_iters",
          fmt::format("scheduling.{}", name));
    }
  }
  if (batch_threshold > max_batch())
    return InvalidArgument(
        fmt::format("found {}, and {} sequences run at once", batch_threshold, max_batch()),
        "scheduling.batch_thresholds.prefill");
  if (!config.recomputation.has_value())
    return {};
  const char* wanted = *config.recomputation ? "checkpoint" : "recompute";
  if (!preemption.empty() && preemption != wanted)
    return InvalidArgument(fmt::format("quantization.recomputation asks for {} and --preemption "
                                       "for {}",
                                       wanted, preemption),
                           "--preemption");
  preemption = wanted;
  return {};
}

Result<std::vector<ApiKey>> ServeFlags::ApiKeys() const {
  std::vector<ApiKey> keys;
  for (const std::string& key : api_keys) {
    if (key.empty())
      return InvalidArgument("is empty", "--api-key");
    AddKey(key, keys);
  }
  if (!api_key_file.empty())
    TENON_RETURN_IF_ERROR(AddKeysOfFile(api_key_file, keys));
  const Environment environment = ProcessEnvironment();
  for (const char* name : {"TENON_API_KEY", "LLAMA_API_KEY", "VLLM_API_KEY"})
    AddKey(environment(name), keys);
  return keys;
}

Result<HttpServerOptions> ServeFlags::ToHttpOptions() const {
  HttpServerOptions options;
  options.host = host;
  options.port = port;
  options.io_threads = kIoThreads;
  TENON_ASSIGN_OR_RETURN(options.api_keys, ApiKeys());
  options.allowed_hosts = allowed_hosts;
  options.cors_origins = cors_origins;
  if (tls_certificate.empty() != tls_key.empty())
    return InvalidArgument("--tls-cert and --tls-key need each other", "--tls-cert");
  options.tls_certificate_file = tls_certificate;
  options.tls_key_file = tls_key;
  return options;
}

GrpcServerOptions ServeFlags::ToGrpcOptions(const HttpServerOptions& http) const {
  GrpcServerOptions options;
  options.host = http.host;
  options.port = grpc_port;
  options.max_message_bytes = http.max_body_bytes;
  options.max_backlog_bytes = http.max_backlog_bytes;
  options.api_keys = http.api_keys;
  options.tls_certificate_file = http.tls_certificate_file;
  options.tls_key_file = http.tls_key_file;
  return options;
}

ServingOptions ServeFlags::ToServingOptions(const LoadOptions& load) const {
  ServingOptions options;
  options.max_batch = max_batch();
  options.token_budget = load.batch_tokens;
  options.queue_limit = queue_limit;
  options.batch_window = std::chrono::milliseconds(batch_window_ms.value_or(50));
  options.batch_threshold = batch_threshold;
  options.warmup_steps = warmup_steps;
  options.policy = policy == "static" ? BatchingPolicy::kStatic : BatchingPolicy::kContinuous;
  options.preemption = preemption == "checkpoint" ? Preemption::kCheckpoint
                       : preemption == "cheapest" ? Preemption::kCheapest
                                                  : Preemption::kRecompute;
  options.checkpoint_interval = checkpoint_interval;
  options.stuck_after = std::chrono::seconds(stuck_after_s);
  return options;
}

ApiOptions ServeFlags::ToApiOptions(const std::filesystem::path& model_path) const {
  ApiOptions options;
  // An alias comes first: it is the name that its user wants to see.
  for (const std::string& alias : aliases) {
    if (alias != "*")
      options.model_names.push_back(alias);
  }
  options.model_names.push_back(model_path.stem().string());
  if (std::ranges::count(aliases, "*") > 0)
    options.model_names.emplace_back("*");
  options.model_path = model_path;
  options.slot_folder = slot_save_path;
  options.content_log = log_content ? ContentLog::kOn : ContentLog::kOff;
  options.metrics_aliases = metrics_aliases ? MetricsAliases::kOn : MetricsAliases::kOff;
  options.client_priority = client_priority ? ClientPriority::kHonoured : ClientPriority::kRefused;
  options.request_timeout = std::chrono::seconds(request_timeout_s);
  return options;
}

}  // namespace tenon
