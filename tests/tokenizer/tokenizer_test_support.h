// What the tokenizer tests share: small vocabularies, golden lines, random bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon::testing {

using Ids = std::vector<int32_t>;

inline std::unique_ptr<Tokenizer> MakeTokenizer(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

inline std::string CreateError(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  return tokenizer.ok() ? "" : tokenizer.error().ToString();
}

inline Ids EncodePlain(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, SpecialText::kPlain, AddSpecial::kNone);
}

// A byte-level vocabulary: the letters a to h, "Ġ" (space), then the results of the merges.
inline TokenizerSpec SmallBpe(const std::vector<std::pair<std::string, std::string>>& merges) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (char letter = 'a'; letter <= 'h'; ++letter)
    spec.tokens.emplace_back(1, letter);
  spec.tokens.emplace_back("Ġ");
  for (const auto& [left, right] : merges) {
    spec.tokens.push_back(left + right);
    spec.merges.push_back(left + " " + right);
  }
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  return spec;
}

inline int32_t AddToken(TokenizerSpec& spec, const std::string& text, TokenType type,
                        float score = 0) {
  spec.tokens.push_back(text);
  spec.types.push_back(type);
  if (spec.model == "llama")
    spec.scores.push_back(score);
  return static_cast<int32_t>(spec.tokens.size()) - 1;
}

inline std::string RandomBytes(std::mt19937& random, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i)
    bytes += static_cast<char>(random() & 0xFF);
  return bytes;
}

// The JSON values of a golden file under tests/data, one a line.
inline std::vector<nlohmann::json> ReadGolden(const std::string& name) {
  std::ifstream file("tests/data/" + name);
  EXPECT_TRUE(file.good()) << "tests/data/" << name << " is missing";
  std::vector<nlohmann::json> values;
  for (std::string line; std::getline(file, line);)
    values.push_back(nlohmann::json::parse(line));
  return values;
}

// Where the development model `name` is; empty when it is missing.
inline std::filesystem::path ModelPath(const std::string& name) {
  const char* home = std::getenv("TENON_HOME");
  if (home == nullptr)
    return {};
  const auto path = std::filesystem::path(home) / "models" / (name + ".gguf");
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace tenon::testing
