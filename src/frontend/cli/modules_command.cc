// `tenon modules`: the acceleration modules of a running server: shows them, switches them on and
// off, changes their options and the limits by which they are judged.
#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/store/environment.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// A report of sixteen modules and the kept decisions is far smaller.
constexpr size_t kMaxAnswer = size_t{4} << 20;

struct ModulesFlags {
  std::string url = "http://127.0.0.1:8080";
  std::string api_key;
  std::string on;
  std::string off;
  std::string module;
  std::string options;
  std::string monitoring;
  bool json = false;
};

struct Answer {
  std::string text;
  bool is_too_long = false;
};

size_t TakeBody(char* bytes, size_t size, size_t count, void* context) {
  auto* answer = static_cast<Answer*>(context);
  answer->is_too_long = answer->text.size() + size * count > kMaxAnswer;
  if (answer->is_too_long)
    return 0;
  answer->text.append(bytes, size * count);
  return size * count;
}

using Curl = std::unique_ptr<CURL, void (*)(CURL*)>;
using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

std::string MessageOf(const Answer& answer) {
  const Json json = Json::parse(answer.text, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_object())
    return json["error"].value("message", answer.text);
  return answer.text;
}

// GET without a body, else POST.
Result<Json> Call(const ModulesFlags& flags, const std::string& body) {
  const Curl curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr)
    return MakeError(ErrorCode::kInternal, "libcurl did not start");
  const std::string url = flags.url + "/v1/modules";
  std::string key = flags.api_key;
  if (key.empty())
    key = ProcessEnvironment()("TENON_API_KEY");
  Headers headers(curl_slist_append(nullptr, "Content-Type: application/json"),
                  curl_slist_free_all);
  if (!key.empty())
    headers.reset(curl_slist_append(headers.release(), ("Authorization: Bearer " + key).c_str()));
  Answer answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 10L);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, TakeBody);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  if (!body.empty())
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.c_str());
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK)
    return MakeError(ErrorCode::kIo, curl_easy_strerror(code), url);
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200)
    return MakeError(ErrorCode::kIo, fmt::format("status {}: {}", status, MessageOf(answer)), url);
  Json json = Json::parse(answer.text, nullptr, false);
  if (!json.is_object())
    return MakeError(ErrorCode::kIo, "the answer is no JSON object", url);
  return json;
}

Status AddObject(const std::string& text, const char* field, const char* flag, Json& body) {
  if (text.empty())
    return {};
  body[field] = Json::parse(text, nullptr, false);
  if (!body[field].is_object())
    return InvalidArgument("expected a JSON object", flag);
  return {};
}

Result<std::string> BodyOf(const ModulesFlags& flags) {
  Json body = Json::object();
  if (!flags.on.empty() && !flags.off.empty())
    return InvalidArgument("one module at a time", "--off");
  if (!flags.on.empty() || !flags.off.empty()) {
    body["module"] = flags.on.empty() ? flags.off : flags.on;
    body["state"] = flags.on.empty() ? "off" : "on";
  }
  if (!flags.module.empty())
    body["module"] = flags.module;
  TENON_RETURN_IF_ERROR(AddObject(flags.options, "options", "--options", body));
  TENON_RETURN_IF_ERROR(AddObject(flags.monitoring, "monitoring", "--monitoring", body));
  return body.empty() ? std::string() : body.dump();
}

void Print(const Json& report) {
  fmt::print("{:<16} {:<12} {:<8} {:>8} {:>10} {:>9} {:>8}\n", "module", "stage", "state", "saving",
             "integrity", "memory", "offered");
  for (const Json& module : report["modules"]) {
    const Json& saving = module["latency_saving"];
    const Json& integrity = module["integrity"];
    fmt::print("{:<16} {:<12} {:<8} {:>8} {:>10} {:>6.0f} MB {:>8}\n",
               module["name"].get<std::string>(), module["stage"].get<std::string>(),
               module["state"].get<std::string>(),
               saving.is_null() ? "?" : fmt::format("{:.1f}%", 100 * saving.get<double>()),
               fmt::format("{}/{}", integrity["failures"].dump(), integrity["checks"].dump()),
               module["memory_bytes"].get<double>() / 1e6, module["stats"]["proposed"].dump());
  }
  for (const Json& decision : report["decisions"]) {
    fmt::print("{:>7.0f} s ago: {} {} ({}): {}\n", decision["seconds_ago"].get<double>(),
               decision["module"].get<std::string>(), decision["action"].get<std::string>(),
               decision["rule"].get<std::string>(), decision["reason"].get<std::string>());
  }
}

Status Modules(const ModulesFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::string body, BodyOf(flags));
  TENON_ASSIGN_OR_RETURN(const Json report, Call(flags, body));
  if (flags.json) {
    fmt::print("{}\n", report.dump());
    return {};
  }
  try {
    Print(report);
  } catch (const Json::exception& error) {
    return MakeError(ErrorCode::kIo, fmt::format("not a report of modules: {}", error.what()),
                     flags.url);
  }
  return {};
}

}  // namespace

CommandBody DefineModules(CLI::App& app) {
  auto flags = std::make_shared<ModulesFlags>();
  app.add_option("--url", flags->url, "The server (default: http://127.0.0.1:8080)");
  app.add_option("--api-key", flags->api_key, "Its key (also TENON_API_KEY)");
  app.add_option("--on", flags->on, "Switch a module on");
  app.add_option("--off", flags->off, "Switch a module off");
  app.add_option("--module", flags->module, "The module of --options");
  app.add_option("--options", flags->options, "Its new options, a JSON object");
  app.add_option("--monitoring", flags->monitoring,
                 "New limits, such as {\"min_latency_saving\": 0.1}");
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Modules(*flags); };
}

}  // namespace tenon
