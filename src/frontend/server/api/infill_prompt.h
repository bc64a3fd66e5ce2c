// The prompt of a model that fills in what stands between two texts (/infill): code editors' use.
// Threading: functions from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/server/api/field_reader.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {

struct InfillText {
  struct Extra {
    std::string filename;
    std::string text;
  };
  std::string prefix;
  std::string suffix;
  std::string prompt;         // begins the text in between
  std::vector<Extra> extras;  // other files
};

// input_prefix, input_suffix, prompt, input_extra.
Status ReadInfillText(FieldReader& fields, InfillText& text);

// Whether the vocabulary has the marks that it takes.
bool CanInfill(const Tokenizer& tokenizer);

// Prefix, suffix and the beginning of the middle, each behind its mark. Fails with kUnsupported
// where the vocabulary has no such marks.
Result<std::vector<int32_t>> InfillTokens(const Tokenizer& tokenizer, const InfillText& text);

}  // namespace tenon
