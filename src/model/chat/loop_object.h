// LoopObject: the `loop` variable of a for loop.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/chat/builtin.h"
#include "model/chat/iteration.h"
#include "model/chat/value.h"

namespace tenon::chat {

struct Statement;

// The variables of one running function of the template.
struct Activation {
  Value* slots = nullptr;
  Activation* parent = nullptr;  // of the function it was defined in
};

struct LoopObject {
  Value iterable;
  Iteration iteration;
  int64_t index0 = -1;
  int64_t length = -1;  // -1: not asked for yet
  int depth0 = 0;
  Value current;
  Value before;
  Value after;  // an element that was looked at ahead of its turn
  Value last_changed;
  const Statement* statement = nullptr;  // of a recursive loop, which can be called
  Activation* closure = nullptr;
};

// Moves to the next element; false at the end.
bool AdvanceLoop(Runtime& rt, LoopObject& loop);
// loop.NAME; kMissing if there is no such attribute.
Value LoopAttribute(Runtime& rt, LoopObject& loop, std::string_view name);
std::string DescribeLoop(Runtime& rt, LoopObject& loop);
std::span<const Builtin> LoopMethods();

}  // namespace tenon::chat
