// The parts of a tokenizer.json that only a SentencePiece vocabulary from GGUF needs.
//
// SentencePiece's BPE joins the pair whose piece has the highest score; tokenizer.json lists pairs,
// best first. Every way to put a piece together from two others is such a pair, in the order of the
// pieces' scores. Threading: free functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/tokenizer/tokenizer_spec.h"

namespace tenon {

// Whether it is one with scores for all of its pieces.
bool IsSentencePiece(const TokenizerSpec& spec);

// "model", but for its vocabulary: merges, the unknown token, bytes for what has no piece.
nlohmann::ordered_json SentencePieceModel(const TokenizerSpec& spec);
nlohmann::ordered_json SentencePieceNormalizer(const TokenizerSpec& spec);
nlohmann::ordered_json SentencePieceDecoder(const TokenizerSpec& spec);

}  // namespace tenon
