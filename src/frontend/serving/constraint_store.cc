#include "frontend/serving/constraint_store.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kMaxConstraints = 64;
// Tables of one constraint that has seen many texts: it begins anew with the next request.
constexpr size_t kMaxBytesOfOne = size_t{32} << 20;
// Of all that are kept: those used longest ago go first.
constexpr size_t kMaxBytes = size_t{256} << 20;

}  // namespace

// Keeps the trie for as long as a request uses the constraint.
struct ConstraintStore::Made {
  std::shared_ptr<const TokenTrie> trie;
  std::unique_ptr<Constraint> constraint;
};

std::shared_ptr<const TokenTrie> ConstraintStore::TrieOf(const Tokenizer& tokenizer,
                                                         int32_t vocab_size) {
  const std::lock_guard lock(mutex_);
  if (trie_ == nullptr) {
    trie_ = std::make_shared<const TokenTrie>(
        vocab_size, [&](int32_t id) { return tokenizer.TokenBytes(id, SpecialText::kPlain); },
        tokenizer.stop_ids());
  }
  return trie_;
}

std::shared_ptr<Constraint> ConstraintStore::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(made_, key, [](const auto& made) { return made.first; });
  if (found == made_.end())
    return nullptr;
  if (found->second->IsExhausted() || found->second->stats().bytes > kMaxBytesOfOne) {
    made_.erase(found);
    return nullptr;
  }
  made_.splice(made_.begin(), made_, found);
  return found->second;
}

Result<std::shared_ptr<Constraint>> ConstraintStore::Get(const Tokenizer& tokenizer,
                                                         int32_t vocab_size, const std::string& key,
                                                         const Builder& build) {
  if (auto known = Find(key))
    return known;
  auto made = std::make_shared<Made>();
  made->trie = TrieOf(tokenizer, vocab_size);
  Grammar grammar;
  JsonGrammar json(grammar);
  TENON_ASSIGN_OR_RETURN(const Grammar::Term root, build(json));
  TENON_ASSIGN_OR_RETURN(made->constraint, Constraint::Create(grammar, root, *made->trie));
  std::shared_ptr<Constraint> constraint(made, made->constraint.get());
  const std::lock_guard lock(mutex_);
  made_.emplace_front(key, constraint);
  DropOld();
  return constraint;
}

void ConstraintStore::DropOld() {
  size_t bytes = 0;
  size_t kept = 0;
  for (auto each = made_.begin(); each != made_.end();) {
    bytes += each->second->stats().bytes;
    const bool fits = kept < kMaxConstraints && (kept == 0 || bytes <= kMaxBytes);
    kept += fits ? 1 : 0;
    each = fits ? std::next(each) : made_.erase(each);
  }
}

}  // namespace tenon
