// Vocabulary: the checked tables that both tokenizer kinds share.
//
// Owns the spec. Threading: const after Create; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/special_matcher.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace tenon {

class Vocabulary {
 public:
  // Checks the sizes of the tables and that every id is inside them.
  static Result<Vocabulary> Create(TokenizerSpec spec);

  int32_t size() const { return static_cast<int32_t>(spec_.tokens.size()); }
  bool Contains(int32_t id) const { return id >= 0 && id < size(); }
  const TokenizerSpec& spec() const { return spec_; }

  // REQUIRES: Contains(id).
  const std::string& Text(int32_t id) const { return spec_.tokens[static_cast<size_t>(id)]; }
  TokenType Type(int32_t id) const {
    return spec_.types.empty() ? TokenType::kNormal : spec_.types[static_cast<size_t>(id)];
  }

  // Control and unknown tokens: never made from ordinary text, and without bytes in it.
  bool IsControl(int32_t id) const {
    return Type(id) == TokenType::kControl || Type(id) == TokenType::kUnknown;
  }
  // Tokens that are matched in the raw text.
  bool IsSpecial(int32_t id) const { return IsControl(id) || Type(id) == TokenType::kUserDefined; }

  const SpecialMatcher& Matcher(SpecialText special) const {
    return special == SpecialText::kParse ? all_special_ : user_defined_;
  }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }

 private:
  explicit Vocabulary(TokenizerSpec spec);
  void CollectStopIds();

  TokenizerSpec spec_;
  SpecialMatcher user_defined_;
  SpecialMatcher all_special_;
  std::vector<int32_t> stop_ids_;
};

}  // namespace tenon
