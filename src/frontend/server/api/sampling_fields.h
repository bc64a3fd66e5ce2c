// Fields that say how tokens are chosen, as OpenAI's, llama-server's and vLLM's clients spell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/server/api/field_reader.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

// Reads temperature, top_p, top_k, min_p, typical_p, the penalties, dry_*, xtc_*, mirostat*,
// logit_bias, seed, stop, ignore_eos, cache_prompt, n and modules into `request`, and refuses those
// that have no counterpart here. Seed: absent, null or negative is a new one each time.
void ReadSamplingFields(FieldReader& fields, const Tokenizer& tokenizer, ServingRequest& request);

// The parts that other APIs spell the same way.
void ReadSeed(FieldReader& fields, SamplingParams& sampling);
// top_k: -1 and 0 are off.
void ReadTopK(FieldReader& fields, SamplingParams& sampling);
uint64_t NewSeed();
// Refuses values out of their ranges by the names that the client gave them.
void CheckSampling(FieldReader& fields, const Tokenizer& tokenizer, const SamplingParams& sampling);

// A token budget: -1 stays "no limit".
void ReadMaxTokens(FieldReader& fields, std::string_view name, int64_t& value);

}  // namespace tenon
