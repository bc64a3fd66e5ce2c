#include "frontend/cli/arguments.h"

#include <array>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kSpellings = {{
    {"-ub", "--ubatch-size"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-np", "--parallel"},
    {"-tb", "--threads-batch"},
    {"-sys", "--system"},
    {"-ngl", "--gpu-layers"},
    {"-fa", "--flash-attn"},
    {"-hf", "--model"},
    {"-mu", "--model"},
}};

}  // namespace

std::vector<std::string> NormalizeArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    for (const auto& [from, to] : kSpellings) {
      if (argument == from || argument.starts_with(std::string(from) + "="))
        argument = std::string(to) + argument.substr(from.size());
    }
    arguments.push_back(std::move(argument));
  }
  // `bench modules` is a command of its own; a file of that name is ./modules.
  if (arguments.size() >= 2 && arguments[0] == "bench" && arguments[1] == "modules") {
    arguments.erase(arguments.begin());
    arguments.front() = "bench-modules";
  }
  return arguments;
}

}  // namespace tenon
