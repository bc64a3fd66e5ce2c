/* A source of guesses from a shared library: a module of Tenon in plain C.
 *
 * The library exports `tenon_guess_plugin`, which returns a table that lives as long as the library
 * is loaded; null, a table of another version or one with a function missing is refused. Tenon
 * verifies every guess with the model, so a plug-in can make an answer arrive sooner or later,
 * never change it. None of its functions may throw, and none may keep the pointers it was given.
 *
 * Threading: the calls for one object never overlap, but they need not come from one thread: it may
 * be created and destroyed on others than the one that asks for guesses. Where a server gets other
 * options, `create` makes the new object while the old one is in use, so what objects share has to
 * bear that. */
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
  /* `options`: the JSON object of the module's `options`, "{}" without any. Null on failure, with
   * the reason in `error`, a text of at most `error_size` bytes, its zero included. */
  void* (*create)(const char* options, char* error, size_t error_size);
  /* Once for each object that `create` returned, when its module goes: at the end, or when one with
   * new options takes its place. There may be sequences that were not forgotten. Tenon lets go of
   * the library afterwards. */
  void (*destroy)(void* plugin);
  /* Writes up to `most` (1 or more) token ids that may follow `tokens` to `guesses`, which has room
   * for `most`, and returns how many. A count of 0 or less is none, one above `most` counts as
   * `most`. From the first id outside the model's vocabulary on guesses are dropped. `tokens`: the
   * prompt and the answer so far, `token_count` of them. `sequence` is the same number for one
   * answer as long as it lasts. */
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
