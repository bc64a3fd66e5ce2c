/* A source of guesses from a shared library: a module of Tenon in plain C.
 *
 * The library exports `tenon_guess_plugin`, which returns a table that lives as long as the library
 * is loaded. Tenon verifies every guess with the model, so a plug-in can make an answer arrive
 * sooner or later, never change it. All functions are called on one thread. None may throw, and
 * none may keep the pointers it was given. */
#ifndef TENON_GUESS_PLUGIN_H_
#define TENON_GUESS_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when the table does; a library made for another one is refused. */
#define TENON_GUESS_PLUGIN_VERSION 1

struct tenon_guess_plugin_table {
  uint32_t version; /* TENON_GUESS_PLUGIN_VERSION */
  /* `options`: the JSON object of the module's `options`. Null on failure, with the reason in
   * `error`, ended by a zero. */
  void* (*create)(const char* options, char* error, size_t error_size);
  void (*destroy)(void* plugin);
  /* Writes up to `most` token ids that may follow `tokens` to `guesses` and returns how many; 0 for
   * none. `sequence` is the same number for one answer as long as it lasts. */
  int32_t (*propose)(void* plugin, uint64_t sequence, const int32_t* tokens, int64_t token_count,
                     int32_t* guesses, int32_t most);
  /* The answer is over; may come for sequences that were never seen. */
  void (*forget)(void* plugin, uint64_t sequence);
};

const struct tenon_guess_plugin_table* tenon_guess_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
