// What self-speculation can gain, from the bytes that its forwards read: on every machine where
// decoding waits for memory, time goes by bytes.
//
// Plain decoding reads B_plain for a token. A round of g guesses reads g B_draft + B_verify and
// decides 1 + g a tokens, a being the share of guesses that are accepted (QuantSpec, arXiv
// 2502.10424). So it gains where (1 + g a) B_plain > g B_draft + B_verify. Pure. Threading: values.
#pragma once

#include <cstdint>

namespace tenon {

struct ForwardBytes {
  int64_t weights = 0;
  int64_t kv_token = 0;  // of one token of context, all layers
  double At(int64_t context) const {
    return static_cast<double>(weights) + static_cast<double>(kv_token * context);
  }
};

struct ByteModel {
  ForwardBytes plain;
  ForwardBytes draft;
  ForwardBytes verify;

  // Expected speed-up of rounds with `guesses` guesses at this acceptance.
  double SpeedUp(int64_t guesses, double acceptance, int64_t context) const;
  // The acceptance at which rounds cost what plain decoding does; above 1: they never pay.
  // REQUIRES: guesses >= 1.
  double BreakEven(int64_t guesses, int64_t context) const;
};

}  // namespace tenon
