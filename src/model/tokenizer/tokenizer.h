// Tokenizer: text to token ids and back.
//
// Owns its tables. Threading: const after Create; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace tenon {

// What to do with text that spells a control token, such as "<|im_end|>".
enum class SpecialText {
  kPlain,  // it is ordinary text (user content)
  kParse,  // it becomes the token (rendered chat templates)
};

enum class AddSpecial {
  kNone,
  kModelDefault,  // the beginning and end tokens that the model file asks for
};

class Tokenizer {
 public:
  // Fails, naming the field, when the tables contradict each other or the model or pre-tokenizer is
  // not known.
  static Result<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  virtual ~Tokenizer() = default;

  // Ids of `text` (any bytes; invalid UTF-8 included). USER_DEFINED tokens always match.
  virtual std::vector<int32_t> Encode(std::string_view text, SpecialText special,
                                      AddSpecial add) const = 0;

  // Encode with kParse and kNone, but control tokens that start at one of `plain_offsets`
  // (ascending) are ordinary text: rendered conversations, where users may write what they like.
  virtual std::vector<int32_t> EncodeRendered(std::string_view text,
                                              std::span<const size_t> plain_offsets) const = 0;

  // Where text that spells a control token starts, ascending.
  virtual std::vector<size_t> FindControlText(std::string_view text) const = 0;

  // The bytes of one token; control tokens are empty unless `special` is kParse. An id outside the
  // vocabulary has no bytes.
  virtual std::string TokenBytes(int32_t id, SpecialText special) const = 0;

  // The bytes of `id` as they stand in a text in which `previous` comes before it (-1: nothing).
  // Differs from TokenBytes where Encode adds a space that is not in the text: SentencePiece's, at
  // the start and after a special token.
  virtual std::string BytesAfter(int32_t previous, int32_t id, SpecialText special) const {
    (void)previous;
    return TokenBytes(id, special);
  }

  // The bytes of a sequence (the leading space of SentencePiece removed where it was added).
  virtual std::string Decode(const std::vector<int32_t>& ids, SpecialText special) const = 0;

  // The token's own spelling in the file, such as "Ġthe"; for `inspect` and logprobs.
  virtual std::string_view TokenText(int32_t id) const = 0;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t bos_id() const = 0;
  virtual int32_t eos_id() const = 0;

  // Every id that ends a generation: eos, eot, the file's list, and control tokens known by their
  // name to end a turn ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", ...).
  virtual const std::vector<int32_t>& stop_ids() const = 0;
  virtual bool add_bos() const = 0;
};

// Turns a stream of tokens into text that is valid UTF-8 at every point. Holds back at most three
// bytes; bytes that can never become a character come out as U+FFFD, one for each maximal invalid
// part (Unicode's recommended practice).
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer,
                                SpecialText special = SpecialText::kPlain);

  // Text that became certain with this token; may be empty.
  std::string Push(int32_t id);
  // What is held back, at the end of the stream.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  SpecialText special_;
  std::string held_;       // the start of a character
  int32_t previous_ = -1;  // the last token that was pushed
};

}  // namespace tenon
