// ConstraintStore: the constraints that requests ask for, made once and kept for the next that ask
// for the same: their masks stay warm. One store serves one model; its tree of tokens is made at
// the first use.
//
// Threading: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "engine/constrain/constraint.h"
#include "engine/constrain/json_grammar.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {

class ConstraintStore {
 public:
  using Builder = std::function<Result<Grammar::Term>(JsonGrammar& json)>;

  // `key` tells apart what `build` builds. `vocab_size` is that of the logits. Fails as `build` and
  // Constraint::Create do.
  Result<std::shared_ptr<Constraint>> Get(const Tokenizer& tokenizer, int32_t vocab_size,
                                          const std::string& key, const Builder& build);

 private:
  struct Made;
  std::shared_ptr<const TokenTrie> TrieOf(const Tokenizer& tokenizer, int32_t vocab_size);
  std::shared_ptr<Constraint> Find(const std::string& key);
  void DropOld();

  std::mutex mutex_;  // guards all below
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> made_;  // latest use first
};

}  // namespace tenon
