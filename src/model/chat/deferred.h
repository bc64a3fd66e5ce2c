// A generator whose items are computed as a whole when the first one is asked for, as a Python
// generator runs nothing before.
#pragma once

#include "model/chat/builtin.h"
#include "model/chat/iteration.h"
#include "model/chat/runtime.h"

namespace tenon::chat {

class DeferredIterator : public IteratorObject {
 public:
  using Compute = std::vector<Value> (*)(Runtime&, const Value& input, const BoundArguments& args);

  DeferredIterator(Compute compute, const Builtin* builtin, const Value& input,
                   const Arguments* arguments)
      : IteratorObject("generator"),
        compute_(compute),
        builtin_(builtin),
        input_(input),
        arguments_(arguments) {}

  bool Next(Runtime& rt, Value& out) override {
    if (items_ == nullptr) {
      const std::vector<Value> items = compute_(rt, input_, BoundArguments(*builtin_, *arguments_));
      items_ = rt.List(items).sequence;
    }
    if (position_ == items_->size)
      return false;
    out = items_->items[position_++];
    return true;
  }

 private:
  Compute compute_;
  const Builtin* builtin_;
  Value input_;
  const Arguments* arguments_;
  const SequenceObject* items_ = nullptr;
  size_t position_ = 0;
};

}  // namespace tenon::chat
