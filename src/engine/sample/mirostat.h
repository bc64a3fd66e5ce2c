// Mirostat version 2 (Basu, Ramachandran, Keskar, Varshney, "Mirostat: a neural text decoding
// algorithm that directly controls perplexity", ICLR 2021, arXiv 2007.14966; version 2 is that of
// the authors' published code, without the estimate of Zipf's exponent).
//
// Owns the running bound `mu` on a token's surprise. Threading: one thread at a time.
#pragma once

#include "engine/sample/candidate.h"

namespace tenon {

class Mirostat {
 public:
  // tau: the surprise to hold, in bits; eta: the learning rate. mu starts at 2 tau.
  Mirostat(float tau, float eta) : tau_(tau), eta_(eta), mu_(2.0F * tau) {}

  // Keeps the candidates with a surprise -log2 p of at most mu, at least the best one, and sets
  // p to the probabilities among them.
  void Truncate(Candidates& candidates) const;

  // Moves mu by the error of a drawn token, whose probability among the kept ones was p > 0.
  void Observe(float p);

  float mu() const { return mu_; }

 private:
  float tau_;
  float eta_;
  float mu_;
};

}  // namespace tenon
