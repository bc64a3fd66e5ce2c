// TextNormalizer: runs a pipeline's normalizers over a text.
//
// Borrows the steps. Threading: const; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/tokenizer/nfc.h"
#include "model/tokenizer/tokenizer_pipeline.h"
#include "model/tokenizer/unicode_classes.h"

namespace tenon {

class TextNormalizer {
 public:
  TextNormalizer(std::span<const Normalizer> steps, const UnicodeClasses& classes)
      : steps_(steps), classes_(classes) {}

  bool empty() const { return steps_.empty(); }
  // Bytes that are not UTF-8 pass through.
  std::string Normalize(std::string_view text) const;

 private:
  std::string Apply(const normalizer::Form& step, std::string text) const;
  std::string Apply(const normalizer::Lowercase& step, std::string text) const;
  std::string Apply(const normalizer::StripAccents& step, std::string text) const;
  std::string Apply(const normalizer::Strip& step, std::string text) const;
  std::string Apply(const normalizer::Prepend& step, std::string text) const;
  std::string Apply(const normalizer::Replace& step, std::string text) const;
  std::string Apply(const normalizer::Bert& step, std::string text) const;
  std::string Apply(const normalizer::ByteLevel& step, std::string text) const;
  std::string Apply(const normalizer::Nmt& step, std::string text) const;
  std::string Apply(const normalizer::Precompiled& step, std::string text) const;

  std::span<const Normalizer> steps_;
  const UnicodeClasses& classes_;
  Nfc forms_;
};

}  // namespace tenon
