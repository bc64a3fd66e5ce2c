// A plug-in: guesses that the answer goes round in a circle of `period` tokens.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tenon/guess_plugin.h"

namespace {

struct Cycle {
  int64_t period = 1;
};

void* Create(const char* options, char* error, size_t error_size) {
  auto* cycle = new Cycle;
  if (const char* found = std::strstr(options, "\"period\":"))
    cycle->period = std::atoll(found + 9);
  if (cycle->period >= 1)
    return cycle;
  std::snprintf(error, error_size, "a period of %lld tokens",
                static_cast<long long>(cycle->period));
  delete cycle;
  return nullptr;
}

void Destroy(void* plugin) {
  delete static_cast<Cycle*>(plugin);
}

int32_t Propose(void* plugin, uint64_t, const int32_t* tokens, int64_t token_count,
                int32_t* guesses, int32_t most) {
  const int64_t period = static_cast<Cycle*>(plugin)->period;
  if (token_count < period)
    return 0;
  for (int32_t i = 0; i < most; ++i)
    guesses[i] = tokens[token_count - period + i % period];
  return most;
}

void Forget(void*, uint64_t) {}

constexpr tenon_guess_plugin_table kTable = {TENON_GUESS_PLUGIN_VERSION, Create, Destroy, Propose,
                                             Forget};

}  // namespace

const tenon_guess_plugin_table* tenon_guess_plugin(void) {
  return &kTable;
}
