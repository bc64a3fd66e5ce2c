#include "model/arch/architecture.h"

#include <fmt/format.h>

#include <array>

namespace tenon {
namespace {

constexpr std::array<Architecture, 17> kArchitectures = {{
    {"llama", BuildLlama},
    {"qwen2", BuildQwen2},
    {"qwen3", BuildQwen3},
    {"gemma2", BuildGemma2},
    {"gemma3", BuildGemma3},
    {"phi3", BuildPhi3},
    {"granite", BuildGranite},
    {"mixtral", BuildMixtral},
    {"qwen2moe", BuildQwen2Moe},
    {"qwen3moe", BuildQwen3Moe},
    {"olmoe", BuildOlmoe},
    {"deepseek2", BuildDeepseek2},
    {"gpt2", BuildGpt2},
    {"gptneox", BuildGptNeox},
    {"opt", BuildOpt},
    {"olmo2", BuildOlmo2},
    {"bert", BuildBert},
}};

}  // namespace

std::span<const Architecture> Architectures() {
  return kArchitectures;
}

Result<Graph> BuildGraph(const ModelSource& source) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == source.config.architecture)
      return architecture.build(source);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  return Unsupported(fmt::format("architecture '{}' is not supported; supported are: {}",
                                 source.config.architecture, known),
                     "general.architecture");
}

}  // namespace tenon
