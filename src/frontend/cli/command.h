// Commands of the `tenon` program: one file each, listed in command.cc.
//
// A command adds its flags to the parser and returns what to do; results go to stdout, talk to
// stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace tenon {

// Runs a parsed command.
using CommandBody = std::function<Status()>;

struct Command {
  std::string_view name;
  std::string_view summary;
  // Adds flags to `app`. Flag values live as long as the returned body.
  CommandBody (*define)(CLI::App& app);
};

std::span<const Command> Commands();

CommandBody DefineRun(CLI::App& app);
CommandBody DefineChat(CLI::App& app);
CommandBody DefineGateway(CLI::App& app);
CommandBody DefineServe(CLI::App& app);
CommandBody DefinePull(CLI::App& app);
CommandBody DefineList(CLI::App& app);
CommandBody DefineRemove(CLI::App& app);
CommandBody DefineInspect(CLI::App& app);
CommandBody DefineConvert(CLI::App& app);
CommandBody DefineTokenize(CLI::App& app);
CommandBody DefinePerplexity(CLI::App& app);
CommandBody DefineQuantize(CLI::App& app);
CommandBody DefineBench(CLI::App& app);
CommandBody DefineBenchModules(CLI::App& app);
CommandBody DefinePlan(CLI::App& app);
CommandBody DefineDoctor(CLI::App& app);
CommandBody DefineTrainRouter(CLI::App& app);
CommandBody DefineModules(CLI::App& app);

}  // namespace tenon
