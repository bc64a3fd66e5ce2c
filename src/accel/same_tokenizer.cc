#include <fmt/format.h>

#include "accel/module_context.h"

namespace tenon {

Status CheckSameTokenizer(const Tokenizer& target, const Tokenizer& other) {
  const auto differ = [](std::string what) {
    return Unsupported(fmt::format("the models have different tokenizers: {}", what), "tokenizer");
  };
  if (target.vocab_size() != other.vocab_size())
    return differ(fmt::format("{} and {} tokens", target.vocab_size(), other.vocab_size()));
  for (int32_t id = 0; id < target.vocab_size(); ++id) {
    if (target.TokenText(id) != other.TokenText(id)) {
      return differ(fmt::format("token {} is \"{}\" and \"{}\"", id, target.TokenText(id),
                                other.TokenText(id)));
    }
  }
  if (target.bos_id() != other.bos_id() || target.eos_id() != other.eos_id())
    return differ(fmt::format("they begin with {} and {}, end with {} and {}", target.bos_id(),
                              other.bos_id(), target.eos_id(), other.eos_id()));
  return {};
}

}  // namespace tenon
