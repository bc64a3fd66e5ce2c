// The `tenon` program: finds the command, runs it, reports what went wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "frontend/cli/arguments.h"
#include "frontend/cli/command.h"

namespace tenon {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// Warnings and errors of the library, one line each.
class StderrSink final : public LogSink {
 public:
  void Write(LogLevel level, std::string_view message) override {
    fmt::print(stderr, "tenon: {}: {}\n", LogLevelName(level), message);
  }
};

int Report(const Error& error) {
  fmt::print(stderr, "tenon: {}: {}\n", ErrorCodeName(error.code), error.ToString());
  return error.code == ErrorCode::kInvalidArgument ? kWrongUsage : kFailed;
}

// A result that could not be written is no result.
int FlushOutput() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good())
    return 0;
  return Report(MakeError(ErrorCode::kIo, "can't write to standard output"));
}

int Main(int argc, const char* const* argv) {
  CLI::App app("Tenon: large language models on the hardware you have", "tenon");
  app.set_version_flag("--version", "tenon 0.1.0");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, CommandBody>> bodies;
  for (const Command& command : Commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    bodies.emplace_back(sub, command.define(*sub));
  }
  std::vector<std::string> arguments = NormalizeArguments(argc, argv);
  std::reverse(arguments.begin(), arguments.end());  // the order that the parser takes
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? FlushOutput() : kWrongUsage;
  }
  for (const auto& [sub, body] : bodies) {
    if (!sub->parsed())
      continue;
    const Status status = body();
    return status.ok() ? FlushOutput() : Report(status.error());
  }
  return kWrongUsage;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::StderrSink sink;
  tenon::SetLogSink(&sink, tenon::LogLevel::kWarning);
  try {
    return tenon::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tenon: internal: {}\n", error.what());
    return 1;
  }
}
