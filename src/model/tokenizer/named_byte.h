// Tokens that stand for one byte, spelled "<0xNN>": the byte fallback of SentencePiece and of
// tokenizer.json. Threading: pure functions.
#pragma once

#include <string_view>

namespace tenon {

// The byte that a token "<0xNN>" stands for; -1 for other texts.
int NamedByte(std::string_view text);

}  // namespace tenon
