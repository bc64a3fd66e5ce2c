// The real models and data that the spine's tests run on, and small steps over them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "frontend/session/model.h"
#include "frontend/store/store.h"

namespace tenon {

inline constexpr const char* kSmolLm = "smollm2-135m-instruct";
inline constexpr const char* kGemma = "gemma-3-270m";
// SmolLM2 as a Hugging Face directory in the store: the GGUF file's values in fp32.
inline constexpr const char* kSmolLmDirectory = "smollm2-hf";

// SmolLM2 with eight experts a layer, a Hugging Face directory of F16 weights.
inline constexpr const char* kSmolMoe = "smolmoe-8x135m";

// Null when the model is not in the store.
inline std::unique_ptr<Model> LoadTestModel(const std::string& name, const LoadOptions& options) {
  auto path = ResolveModel(name);
  if (!path.ok())
    return nullptr;
  auto model = Model::Open(*path);
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  const Status loaded = (*model)->Load(options);
  EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
  return std::move(*model);
}

inline std::filesystem::path TestDataFile(const std::string& name) {
  const char* folder = std::getenv("TENON_TEST_DATA");
  return std::filesystem::path(folder != nullptr ? folder : "../shared/data") / name;
}

// Skips the test, naming what is missing, when the store lacks the model.
#define TENON_LOAD_OR_SKIP(variable, name, options) \
  auto variable = LoadTestModel(name, options);     \
  if (variable == nullptr)                          \
  GTEST_SKIP() << "the model " << (name) << " is not in the store; `tenon pull " << (name) << "`"

// Checking every access for races makes a model some hundred times slower, and what threads do with
// each other does not depend on how much there is: such a build takes the smaller size.
template <typename T>
constexpr T UnlessTraced([[maybe_unused]] T usual, [[maybe_unused]] T traced) {
#ifdef __SANITIZE_THREAD__
  return traced;
#else
  return usual;
#endif
}

// A prompt of `count` ids that looks like nothing in particular, the same for the same seed.
inline std::vector<int32_t> MadeUpTokens(int64_t count, uint32_t seed) {
  std::vector<int32_t> tokens;
  uint32_t state = seed * 2654435761U + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens.push_back(static_cast<int32_t>(state >> 8) % 40000 + 100);
  }
  return tokens;
}

// Runs one builder's step; the logits' copy.
inline std::vector<float> RunStep(Model& model, const BatchBuilder& builder) {
  auto logits = model.runner().Step(builder.batch());
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().ToString());
  return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
}

}  // namespace tenon
