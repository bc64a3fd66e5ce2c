#include "model/tokenizer/vocabulary.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

// Control tokens that end a turn or the text, in the spelling of the models that have them.
constexpr std::string_view kStopTexts[] = {"<|im_end|>", "<|eot_id|>",    "<|eom_id|>",
                                           "<|end|>",    "<|endoftext|>", "<|eot|>",
                                           "<|eom|>",    "<|return|>",    "<|end_of_text|>",
                                           "<|call|>",   "<end_of_turn>", "<|end_of_turn|>",
                                           "<turn|>",    "<EOT>",         "<end_of_utterance>",
                                           "_<EOT>",     "[EOT]",         "<|END_OF_TURN_TOKEN|>",
                                           "[EOS]",      "</s>",          "<｜end▁of▁sentence｜>",
                                           "<eos>"};

Status CheckSize(size_t found, size_t tokens, std::string_view field) {
  if (found == 0 || found == tokens)
    return {};
  return Corrupt(fmt::format("has {} entries, expected one for each of {} tokens", found, tokens),
                 std::string(field));
}

Status CheckId(int32_t id, size_t tokens, std::string_view field) {
  if (id == -1 || (id >= 0 && static_cast<size_t>(id) < tokens))
    return {};
  return Corrupt(fmt::format("id {} is outside the vocabulary of {} tokens", id, tokens),
                 std::string(field));
}

Status CheckIds(const TokenizerSpec& spec) {
  const size_t tokens = spec.tokens.size();
  TENON_RETURN_IF_ERROR(CheckId(spec.bos_id, tokens, "tokenizer.ggml.bos_token_id"));
  TENON_RETURN_IF_ERROR(CheckId(spec.eos_id, tokens, "tokenizer.ggml.eos_token_id"));
  TENON_RETURN_IF_ERROR(CheckId(spec.eot_id, tokens, "tokenizer.ggml.eot_token_id"));
  TENON_RETURN_IF_ERROR(CheckId(spec.unknown_id, tokens, "tokenizer.ggml.unknown_token_id"));
  for (int32_t id : spec.stop_ids)
    TENON_RETURN_IF_ERROR(CheckId(id, tokens, "tokenizer.ggml.eos_token_ids"));
  if (spec.add_bos && spec.bos_id < 0)
    return Corrupt("is true, but there is no bos_token_id", "tokenizer.ggml.add_bos_token");
  if (spec.add_eos && spec.eos_id < 0)
    return Corrupt("is true, but there is no eos_token_id", "tokenizer.ggml.add_eos_token");
  return {};
}

}  // namespace

Result<Vocabulary> Vocabulary::Create(TokenizerSpec spec) {
  const size_t tokens = spec.tokens.size();
  if (tokens == 0)
    return Corrupt("has no tokens", "tokenizer.ggml.tokens");
  if (tokens > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    return Corrupt(fmt::format("has {} tokens, more than ids can count", tokens),
                   "tokenizer.ggml.tokens");
  TENON_RETURN_IF_ERROR(CheckSize(spec.types.size(), tokens, "tokenizer.ggml.token_type"));
  TENON_RETURN_IF_ERROR(CheckSize(spec.scores.size(), tokens, "tokenizer.ggml.scores"));
  TENON_RETURN_IF_ERROR(CheckIds(spec));
  return Vocabulary(std::move(spec));
}

Vocabulary::Vocabulary(TokenizerSpec spec) : spec_(std::move(spec)) {
  for (int32_t id = 0; id < size(); ++id) {
    if (IsSpecial(id))
      all_special_.Add(Text(id), id);
    if (Type(id) == TokenType::kUserDefined)
      user_defined_.Add(Text(id), id);
  }
  CollectStopIds();
}

void Vocabulary::CollectStopIds() {
  stop_ids_ = spec_.stop_ids;
  stop_ids_.push_back(spec_.eos_id);
  stop_ids_.push_back(spec_.eot_id);
  for (int32_t id = 0; id < size(); ++id) {
    // As user-defined tokens, "</s>" and the like may be ordinary text (HTML); "<|...|>" never is.
    const bool marked = Type(id) == TokenType::kUserDefined && Text(id).starts_with("<|");
    if ((Type(id) == TokenType::kControl || marked) &&
        std::find(std::begin(kStopTexts), std::end(kStopTexts), Text(id)) != std::end(kStopTexts))
      stop_ids_.push_back(id);
  }
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  std::erase_if(stop_ids_, [](int32_t id) { return id < 0; });
}

}  // namespace tenon
