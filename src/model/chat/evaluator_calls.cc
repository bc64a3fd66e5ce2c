// Loops, macros and calls.
#include <fmt/format.h>

#include <algorithm>

#include "model/chat/evaluator.h"
#include "model/chat/operators.h"

namespace tenon::chat {

// The elements of a loop that its `if` lets pass, tested as they are asked for.
class LoopFilterIterator final : public IteratorObject {
 public:
  LoopFilterIterator(Evaluator* evaluator, const Statement* statement, const Iteration& source,
                     Activation* closure)
      : IteratorObject("generator"),
        evaluator_(evaluator),
        statement_(statement),
        source_(source),
        closure_(closure) {}

  bool Next(Runtime& rt, Value& out) override {
    while (source_.Next(rt, out)) {
      if (evaluator_->PassesLoopTest(*statement_, out, *closure_))
        return true;
    }
    return false;
  }

 private:
  Evaluator* evaluator_;
  const Statement* statement_;
  Iteration source_;
  Activation* closure_;
};

// The filter of a loop is a function of its own: its variables are not the body's.
bool Evaluator::PassesLoopTest(const Statement& statement, Value& item, Activation& closure) {
  const LoopNode& loop = *statement.loop;
  Activation* activation = Activate(loop.test_slot_count, &closure);
  EnterScope(loop.test_scope, *activation);
  Assign(*loop.test_target, item, *activation);
  if (!Truth(Evaluate(*loop.test, *activation)))
    return false;
  item = ReadTarget(*loop.test_target, *activation);
  return true;
}

// What the targets hold; several of them make a tuple, whatever they were taken from.
Value Evaluator::ReadTarget(const Expr& target, Activation& activation) {
  if (target.kind != ExprKind::kTuple)
    return Slot(target.ref, activation);
  std::vector<Value> items;
  for (const ExprPtr& item : target.children)
    items.push_back(ReadTarget(*item, activation));
  return rt_.Tuple(items);
}

// The loop over a value, through the loop's filter if it has one.
LoopObject* Evaluator::MakeLoop(const Statement& statement, const Value& iterable,
                                Activation& closure) {
  auto* loop = rt_.arena().New<LoopObject>();
  loop->iterable = iterable;
  if (statement.loop->test)
    loop->iterable = rt_.Wrap(
        rt_.arena().New<LoopFilterIterator>(this, &statement, Iteration(rt_, iterable), &closure));
  loop->iteration = Iteration(rt_, loop->iterable);
  return loop;
}

Evaluator::Flow Evaluator::RunFor(const Statement& statement, Activation& activation,
                                  TextBuilder& out) {
  const Value iterable = Evaluate(*statement.value, activation);
  if (!statement.loop->recursive)
    return RunLoop(statement, *MakeLoop(statement, iterable, activation), activation, out);
  out.Append(RunRecursiveLoop(statement, iterable, activation, 0).text());
  return Flow::kNext;
}

// One level of a recursive loop, as text.
Value Evaluator::RunRecursiveLoop(const Statement& statement, const Value& iterable,
                                  Activation& closure, int depth0) {
  LoopObject* loop = MakeLoop(statement, iterable, closure);
  loop->depth0 = depth0;
  loop->statement = &statement;
  loop->closure = &closure;
  Activation* own = Activate(statement.loop->slot_count, &closure);
  TextBuilder out(rt_);
  RunLoop(statement, *loop, *own, out);
  return out.Finish();
}

Evaluator::Flow Evaluator::RunLoop(const Statement& statement, LoopObject& loop,
                                   Activation& activation, TextBuilder& out) {
  const Branch& body = statement.branches[0];
  const Branch& otherwise = statement.branches[1];
  bool completed = false;  // a round that reached its end; only that keeps `else` away
  while (AdvanceLoop(rt_, loop)) {
    Assign(*statement.target, loop.current, activation);
    Value& variable = activation.slots[statement.loop->loop_slot];
    variable.kind = Kind::kLoop;
    variable.loop = &loop;
    EnterScope(body.scope, activation);
    const Flow flow = RunBody(body.body, activation, out);
    if (flow == Flow::kBreak)
      break;
    completed = completed || flow == Flow::kNext;
  }
  LeaveScope(body.scope, activation);
  if (completed || otherwise.body.empty())
    return Flow::kNext;
  EnterScope(otherwise.scope, activation);
  const Flow flow = RunBody(otherwise.body, activation, out);
  LeaveScope(otherwise.scope, activation);
  return flow;
}

// A macro sees the variables of the place where it is defined, as they are when it runs.
Value Evaluator::MakeMacro(const MacroNode& node, Activation& closure) {
  Value value;
  value.kind = Kind::kMacro;
  value.macro = rt_.arena().New<MacroObject>(&node, &closure);
  return value;
}

// The text a macro writes.
Value Evaluator::CallMacro(const MacroObject& macro, const Arguments& arguments) {
  const DepthGuard guard(rt_);
  const MacroNode& node = *macro.node;
  Activation* activation = Activate(node.slot_count, macro.closure);
  EnterScope(node.scope, *activation);
  BindMacro(node, arguments, *activation);
  for (const Parameter& parameter : node.parameters) {
    Value& slot = activation->slots[parameter.slot];
    if (!slot.Is(Kind::kMissing))
      continue;
    slot = parameter.default_value
               ? Evaluate(*parameter.default_value, *activation)
               : rt_.Undefined(fmt::format("parameter '{}' was not provided", parameter.name));
  }
  TextBuilder out(rt_);
  RunBody(node.body, *activation, out);
  return out.Finish();
}

// As jinja2 does: arguments by position, then by name, then the implicit ones.
void Evaluator::BindMacro(const MacroNode& node, const Arguments& arguments,
                          Activation& activation) {
  std::vector<std::pair<std::string_view, Value>> named = arguments.keywords;
  const auto take = [this, &named](std::string_view name, Value& slot) {
    rt_.budget().Step(static_cast<int64_t>(named.size() / 16 + 1));
    const auto found = std::find_if(named.begin(), named.end(),
                                    [name](const auto& entry) { return entry.first == name; });
    if (found == named.end())
      return false;
    slot = found->second;
    named.erase(found);
    return true;
  };
  const size_t positional = std::min(arguments.positional.size(), node.parameters.size());
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    Value& slot = activation.slots[node.parameters[i].slot];
    if (i < positional)
      slot = arguments.positional[i];
    else
      take(node.parameters[i].name, slot);
  }
  if (node.caller_slot >= 0) {
    Value& slot = activation.slots[node.caller_slot];
    if (!take("caller", slot) || slot.Is(Kind::kNone))
      slot = rt_.Undefined("No caller defined");
  }
  if (node.kwargs_slot >= 0) {
    Dict* rest = rt_.NewDict();
    for (const auto& [name, value] : named)
      rest->Set(rt_, rt_.View(name), value);
    activation.slots[node.kwargs_slot] = rt_.Wrap(rest);
  } else if (!named.empty()) {
    const auto caller = std::find_if(named.begin(), named.end(),
                                     [](const auto& entry) { return entry.first == "caller"; });
    if (caller != named.end())
      Fail(
          fmt::format("macro '{}' was invoked with two values for the special caller argument. "
                      "This is most likely a bug.",
                      node.name));
    Fail(fmt::format("macro '{}' takes no keyword argument '{}'", node.name, named[0].first));
  }
  if (node.varargs_slot >= 0)
    activation.slots[node.varargs_slot] =
        rt_.Tuple(std::span(arguments.positional).subspan(positional));
  else if (arguments.positional.size() > node.parameters.size())
    Fail(fmt::format("macro '{}' takes not more than {} argument(s)", node.name,
                     node.parameters.size()));
}

// Calls whatever can be called; everything a template can reach is in this list.
Value Evaluator::Call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind) {
    case Kind::kUndefined:
      FailUndefined(rt_, callee);
    case Kind::kFunction:
      return CallBuiltin(rt_, *callee.function, Value{}, arguments);
    case Kind::kMethod:
      return CallBuiltin(rt_, *callee.method->method, callee.method->receiver, arguments);
    case Kind::kMacro:
      return CallMacro(*callee.macro, arguments);
    case Kind::kJoiner:
      if (callee.joiner->used)
        return callee.joiner->separator;
      callee.joiner->used = true;
      return rt_.View({});
    case Kind::kLoop: {
      const LoopObject& loop = *callee.loop;
      if (loop.statement == nullptr)
        Fail("The loop must have the 'recursive' marker to be called recursively.");
      if (arguments.positional.size() != 1 || !arguments.keywords.empty())
        Fail("loop() takes one argument: what to loop over");
      return RunRecursiveLoop(*loop.statement, arguments.positional[0], *loop.closure,
                              loop.depth0 + 1);
    }
    default:
      Fail(fmt::format("'{}' object is not callable", TypeName(callee)));
  }
}

Arguments Evaluator::EvaluateArguments(const Expr& call, Activation& activation) {
  Arguments arguments;
  for (size_t i = 1; i < call.children.size(); ++i)
    arguments.positional.push_back(Evaluate(*call.children[i], activation));
  for (const KeywordArgument& keyword : call.keywords)
    arguments.keywords.emplace_back(keyword.name, Evaluate(*keyword.value, activation));
  if (call.star || call.double_star)
    SpreadArguments(call, activation, arguments);
  return arguments;
}

// *sequence and **mapping.
void Evaluator::SpreadArguments(const Expr& call, Activation& activation, Arguments& arguments) {
  if (call.star) {
    for (const Value& item : Collect(rt_, Evaluate(*call.star, activation)))
      arguments.positional.push_back(item);
  }
  if (!call.double_star)
    return;
  const Value mapping = Evaluate(*call.double_star, activation);
  if (!mapping.Is(Kind::kDict))
    Fail(fmt::format("argument after ** must be a mapping, not {}", TypeName(mapping)));
  for (size_t i = 0; i < mapping.dict->size; ++i) {
    const DictEntry& entry = mapping.dict->entries[i];
    if (!IsString(entry.key))
      Fail("keywords must be strings");
    const auto same = [&entry](const auto& other) { return other.first == entry.key.text(); };
    if (std::any_of(arguments.keywords.begin(), arguments.keywords.end(), same))
      Fail(fmt::format("got multiple values for keyword argument '{}'", entry.key.text()));
    rt_.budget().Step(static_cast<int64_t>(arguments.keywords.size() / 16 + 1));
    arguments.keywords.emplace_back(entry.key.text(), entry.value);
  }
}

}  // namespace tenon::chat
