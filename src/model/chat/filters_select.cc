// map, select, reject, selectattr and rejectattr: lazy, as Python's generators are.
#include <fmt/format.h>

#include "model/chat/attributes.h"
#include "model/chat/filters.h"
#include "model/chat/iteration.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"

namespace tenon::chat {
namespace {

// The arguments after the first `count`.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

class MapIterator final : public IteratorObject {
 public:
  MapIterator(const Value& input, const Arguments* arguments)
      : IteratorObject("generator"), input_(input), arguments_(arguments) {}

  bool Next(Runtime& rt, Value& out) override {
    if (!started_)
      Start(rt);
    started_ = true;
    Value item;
    if (empty_ || !iteration_.Next(rt, item))
      return false;
    out = path_ != nullptr ? Attribute(rt, item) : CallFilterByName(rt, name_, item, *rest_);
    return true;
  }

 private:
  void Start(Runtime& rt) {
    empty_ = !Truth(input_);
    if (empty_)
      return;
    for (const auto& [name, value] : arguments_->keywords) {
      if (arguments_->positional.empty() && name == "attribute")
        path_ = rt.List(AttributePath(rt, value)).sequence;
    }
    if (path_ != nullptr)
      TakeDefault();
    else if (arguments_->positional.empty())
      Fail("map requires a filter argument");
    if (path_ == nullptr) {
      name_ = arguments_->positional[0];
      rest_ = &rt.Keep(Rest(*arguments_, 1));
    }
    iteration_ = Iteration(rt, input_);
  }

  void TakeDefault() {
    for (const auto& [name, value] : arguments_->keywords) {
      if (name == "default")
        default_ = value;
      else if (name != "attribute")
        Fail(fmt::format("Unexpected keyword argument '{}'", name));
    }
  }

  Value Attribute(Runtime& rt, Value item) const {
    for (size_t i = 0; i < path_->size; ++i) {
      item = GetItem(rt, item, path_->items[i]);
      if (IsUndefined(item) && !default_.Is(Kind::kMissing) && !default_.Is(Kind::kNone))
        item = default_;
    }
    return item;
  }

  Value input_;
  const Arguments* arguments_;
  bool started_ = false;
  bool empty_ = false;
  Iteration iteration_;
  const SequenceObject* path_ = nullptr;  // attribute=, or null
  Value default_;
  Value name_;
  const Arguments* rest_ = nullptr;
};

enum class Wanted : uint8_t { kPassing, kFailing };
enum class Subject : uint8_t { kItem, kAttribute };

class SelectIterator final : public IteratorObject {
 public:
  SelectIterator(const Value& input, const Arguments* arguments, Wanted wanted, Subject subject)
      : IteratorObject("generator"),
        input_(input),
        arguments_(arguments),
        wanted_(wanted),
        subject_(subject) {}

  bool Next(Runtime& rt, Value& out) override {
    if (!started_)
      Start(rt);
    started_ = true;
    while (!empty_ && iteration_.Next(rt, out)) {
      if (Passes(rt, out) == (wanted_ == Wanted::kPassing))
        return true;
    }
    return false;
  }

 private:
  void Start(Runtime& rt) {
    empty_ = !Truth(input_);
    if (empty_)
      return;
    size_t used = 0;
    if (subject_ == Subject::kAttribute) {
      if (arguments_->positional.empty())
        Fail("Missing parameter for attribute name");
      path_ = rt.List(AttributePath(rt, arguments_->positional[0])).sequence;
      used = 1;
    }
    if (arguments_->positional.size() > used) {
      test_ = arguments_->positional[used];
      rest_ = &rt.Keep(Rest(*arguments_, used + 1));
    }
    iteration_ = Iteration(rt, input_);
  }

  bool Passes(Runtime& rt, const Value& item) const {
    const Value subject =
        path_ == nullptr ? item : FollowPath(rt, item, {path_->items, path_->size});
    return rest_ == nullptr ? Truth(subject) : CallTestByName(rt, test_, subject, *rest_);
  }

  Value input_;
  const Arguments* arguments_;
  Wanted wanted_;
  Subject subject_;
  bool started_ = false;
  bool empty_ = false;
  Iteration iteration_;
  const SequenceObject* path_ = nullptr;
  Value test_;
  const Arguments* rest_ = nullptr;  // null: the truth of the subject decides
};

Value Map(Runtime& rt, const Value& self, const BoundArguments& args) {
  return rt.Wrap(rt.arena().New<MapIterator>(self, &rt.Keep(args.raw())));
}

template <Wanted kWanted, Subject kSubject>
Value Select(Runtime& rt, const Value& self, const BoundArguments& args) {
  return rt.Wrap(rt.arena().New<SelectIterator>(self, &rt.Keep(args.raw()), kWanted, kSubject));
}

constexpr Builtin kFilters[] = {
    {"map", "*", 0, Map},
    {"reject", "*", 0, Select<Wanted::kFailing, Subject::kItem>},
    {"rejectattr", "*", 0, Select<Wanted::kFailing, Subject::kAttribute>},
    {"select", "*", 0, Select<Wanted::kPassing, Subject::kItem>},
    {"selectattr", "*", 0, Select<Wanted::kPassing, Subject::kAttribute>},
};

}  // namespace

std::span<const Builtin> SelectFilters() {
  return kFilters;
}

}  // namespace tenon::chat
