// Runtime: the budget, the arena and the makers of values that one rendering shares.
// Threading: one rendering, one thread.
#pragma once

#include <ctime>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat/arena.h"
#include "model/chat/budget.h"
#include "model/chat/builtin.h"
#include "model/chat/dict.h"
#include "model/chat/value.h"

namespace tenon::chat {

class Runtime {
 public:
  Runtime(int64_t steps, int64_t bytes) : budget_(steps, bytes), arena_(budget_) {}

  Budget& budget() { return budget_; }
  Arena& arena() { return arena_; }

  // A text that outlives the rendering or lies in the arena: only pointed to.
  Value View(std::string_view text);
  // A copy of the text; its bytes are charged.
  Value Text(std::string_view text);
  // A text whose bytes were charged while it was built (TextBuilder).
  Value Adopt(std::string text) { return View(arena_.Adopt(std::move(text))); }
  Value Markup(const Value& text);

  Value List(std::span<const Value> items) { return Sequence(Kind::kList, items); }
  Value Tuple(std::span<const Value> items) { return Sequence(Kind::kTuple, items); }
  Value Pair(const Value& first, const Value& second);
  // A list or tuple over items that already lie in the arena.
  Value Sequence(Kind kind, const Value* items, size_t size);
  Dict* NewDict() { return arena_.New<Dict>(); }
  Value Wrap(const Dict* dict);
  Value Wrap(IteratorObject* iterator);
  Value Wrap(const Builtin* function);

  // Arguments that live as long as the rendering.
  const Arguments& Keep(Arguments arguments);

  Value Undefined(std::string_view hint);  // `hint` is copied
  Value UndefinedName(std::string_view name);
  Value UndefinedItem(const Value& owner, const Value& name);

  // The local time strftime_now sees; the system clock's where empty.
  std::optional<std::tm> local_time;
  int line = 0;   // of the node being evaluated
  int depth = 0;  // of nested evaluations: see DepthGuard

 private:
  Value Sequence(Kind kind, std::span<const Value> items);

  Budget budget_;
  Arena arena_;
  std::deque<Arguments> kept_;
};

// Counts one level of nesting for its lifetime, so that a deep one is an error, not a stack
// overflow. 1000 levels take below 1 MiB of stack in a release build.
class DepthGuard {
 public:
  static constexpr int kMaxDepth = 1000;

  explicit DepthGuard(Runtime& rt) : rt_(rt) {
    if (++rt_.depth > kMaxDepth) {
      --rt_.depth;
      Fail("maximum recursion depth exceeded");
    }
  }
  ~DepthGuard() { --rt_.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& rt_;
};

// Builds a text under the budget.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& rt) : rt_(rt) {}

  TextBuilder& Append(std::string_view text) {
    rt_.budget().Bytes(text.size());
    text_.append(text);
    return *this;
  }
  TextBuilder& Append(char c) { return Append(std::string_view(&c, 1)); }
  // `count` times the text; none for a negative count.
  TextBuilder& Repeat(int64_t count, std::string_view text);
  Value Finish() { return rt_.Adopt(std::move(text_)); }
  std::string Take() { return std::move(text_); }
  std::string_view text() const { return text_; }

 private:
  Runtime& rt_;
  std::string text_;
};

}  // namespace tenon::chat
