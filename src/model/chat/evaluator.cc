#include "model/chat/evaluator.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/chat/json_values.h"
#include "model/chat/operators.h"
#include "model/chat/text_of.h"

namespace tenon::chat {

Evaluator::Evaluator(const Template& tmpl, Runtime& rt, const nlohmann::ordered_json& variables)
    : template_(tmpl),
      rt_(rt),
      variables_(variables),
      context_(tmpl.names.size()),
      resolved_(tmpl.names.size(), false) {}

std::string Evaluator::Run() {
  Activation* activation = Activate(template_.slot_count, nullptr);
  EnterScope(template_.scope, *activation);
  TextBuilder out(rt_);
  RunBody(template_.body, *activation, out);
  return out.Take();
}

Value& Evaluator::Slot(const Ref& ref, Activation& activation) const {
  Activation* owner = &activation;
  for (int i = 0; i < ref.hops; ++i)
    owner = owner->parent;
  return owner->slots[ref.slot];
}

Activation* Evaluator::Activate(int slot_count, Activation* parent) {
  Value* slots = rt_.arena().NewArray<Value>(static_cast<size_t>(slot_count));
  return rt_.arena().New<Activation>(slots, parent);
}

// Variables of a scope start anew each time it is entered, once per round in a loop.
void Evaluator::EnterScope(const Scope& scope, Activation& activation) {
  rt_.budget().Step(static_cast<int64_t>(scope.loads.size() / 8));
  for (const SlotLoad& load : scope.loads) {
    Value& slot = activation.slots[load.slot];
    switch (load.action) {
      case LoadAction::kParameter:
        break;
      case LoadAction::kUnset:
        slot = Value{};
        break;
      case LoadAction::kResolve:
        slot = ContextValue(load.name);
        break;
      case LoadAction::kAlias:
        slot = Slot(load.source, activation);
        break;
    }
  }
}

// After a scope its variables are unset, for what may still refer to them.
void Evaluator::LeaveScope(const Scope& scope, Activation& activation) const {
  for (const SlotLoad& load : scope.loads)
    activation.slots[load.slot] = Value{};
}

// A variable of the caller, converted on its first use, or a global function.
Value Evaluator::ContextValue(int name) {
  const auto at = static_cast<size_t>(name);
  if (resolved_[at])
    return context_[at];
  const std::string& text = template_.names[at];
  const auto found = variables_.find(text);
  const Builtin* global = FindGlobal(text);
  if (found != variables_.end())
    context_[at] = FromJson(rt_, *found);
  else if (global != nullptr)
    context_[at] = rt_.Wrap(global);
  resolved_[at] = true;
  return context_[at];
}

// Anything but kNext means that a break or continue is on its way to its loop.
Evaluator::Flow Evaluator::RunBody(const Body& body, Activation& activation, TextBuilder& out) {
  const DepthGuard guard(rt_);
  for (const auto& statement : body) {
    rt_.line = statement->line;
    rt_.budget().Step();
    const Flow flow = RunStatement(*statement, activation, out);
    if (flow != Flow::kNext)
      return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::RunStatement(const Statement& statement, Activation& activation,
                                        TextBuilder& out) {
  switch (statement.kind) {
    case StatementKind::kText:
      out.Append(statement.text);
      return Flow::kNext;
    case StatementKind::kOutput:
      RunOutput(statement, activation, out);
      return Flow::kNext;
    case StatementKind::kIf:
      return RunIf(statement, activation, out);
    case StatementKind::kFor:
      return RunFor(statement, activation, out);
    case StatementKind::kSet:
      RunSet(statement, activation);
      return Flow::kNext;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
      return RunCapture(statement, activation, out);
    case StatementKind::kMacro:
      Assign(*statement.target, MakeMacro(*statement.macro, activation), activation);
      return Flow::kNext;
    case StatementKind::kCallBlock:
    case StatementKind::kGeneration:
      RunCallBlock(statement, activation, out);
      return Flow::kNext;
    case StatementKind::kWith:
      return RunWith(statement, activation, out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

// Undefined values print as nothing.
void Evaluator::RunOutput(const Statement& statement, Activation& activation, TextBuilder& out) {
  for (const ExprPtr& expression : statement.expressions)
    WriteText(rt_, out, Evaluate(*expression, activation));
}

Evaluator::Flow Evaluator::RunIf(const Statement& statement, Activation& activation,
                                 TextBuilder& out) {
  for (const Branch& branch : statement.branches) {
    if (!branch.test || Truth(Evaluate(*branch.test, activation)))
      return RunBody(branch.body, activation, out);
  }
  return Flow::kNext;
}

// The target is checked before the value is evaluated.
void Evaluator::RunSet(const Statement& statement, Activation& activation) {
  CheckNamespaces(*statement.target, activation);
  Assign(*statement.target, Evaluate(*statement.value, activation), activation);
}

// A set or filter block.
Evaluator::Flow Evaluator::RunCapture(const Statement& statement, Activation& activation,
                                      TextBuilder& out) {
  const Branch& branch = statement.branches[0];
  if (statement.target)
    CheckNamespaces(*statement.target, activation);
  EnterScope(branch.scope, activation);
  TextBuilder captured(rt_);
  const Flow flow = RunBody(branch.body, activation, captured);
  if (flow != Flow::kNext)
    return flow;  // the captured text is dropped with the loop's round
  rt_.line = statement.line;
  Value text = captured.Finish();
  if (statement.value)
    text = EvaluateFilter(*statement.value, activation, text);
  if (statement.target) {
    Assign(*statement.target, text, activation);
  } else {
    if (!IsString(text))
      Fail(fmt::format("sequence item 0: expected str instance, {} found", TypeName(text)));
    out.Append(text.text());
  }
  LeaveScope(branch.scope, activation);
  return Flow::kNext;
}

// The values see the outer variables, not each other.
Evaluator::Flow Evaluator::RunWith(const Statement& statement, Activation& activation,
                                   TextBuilder& out) {
  const Branch& branch = statement.branches[0];
  EnterScope(branch.scope, activation);
  for (size_t i = 0; i < statement.targets.size(); ++i)
    Assign(*statement.targets[i], Evaluate(*statement.expressions[i], activation), activation);
  const Flow flow = RunBody(branch.body, activation, out);
  LeaveScope(branch.scope, activation);
  return flow;
}

// A call or generation block.
void Evaluator::RunCallBlock(const Statement& statement, Activation& activation, TextBuilder& out) {
  const Value caller = MakeMacro(*statement.macro, activation);
  if (statement.kind == StatementKind::kGeneration) {
    out.Append(CallMacro(*caller.macro, {}).text());
    return;
  }
  const Expr& call = *statement.value;
  const Value callee = Evaluate(*call.children[0], activation);
  Arguments arguments = EvaluateArguments(call, activation);
  arguments.keywords.emplace_back("caller", caller);
  const Value result = Call(callee, arguments);
  if (!IsString(result))
    Fail(fmt::format("sequence item 0: expected str instance, {} found", TypeName(result)));
  out.Append(result.text());
}

// name.attribute can only be assigned in a namespace.
void Evaluator::CheckNamespaces(const Expr& target, Activation& activation) {
  for (const ExprPtr& item : target.children)
    CheckNamespaces(*item, activation);
  if (target.kind == ExprKind::kNamespaceRef && !Slot(target.ref, activation).Is(Kind::kNamespace))
    Fail("cannot assign attribute on non-namespace object");
}

void Evaluator::Assign(const Expr& target, const Value& value, Activation& activation) {
  if (target.kind == ExprKind::kTuple) {
    Unpack(target, value, activation);
  } else if (target.kind == ExprKind::kNamespaceRef) {
    Value& names = Slot(target.ref, activation);
    if (!names.Is(Kind::kNamespace))  // a tuple may have just replaced it
      Fail(fmt::format("'{}' object does not support item assignment", TypeName(names)));
    names.names->attributes.Set(rt_, rt_.View(target.attribute), value);
  } else {
    Slot(target.ref, activation) = value;
  }
}

// As many values as targets, from anything iterable.
void Evaluator::Unpack(const Expr& target, const Value& value, Activation& activation) {
  if (!IsIterable(value))
    Fail(fmt::format("cannot unpack non-iterable {} object", TypeName(value)));
  const size_t expected = target.children.size();
  std::vector<Value> items;
  Iteration iteration(rt_, value);
  Value item;
  while (items.size() <= expected && iteration.Next(rt_, item))
    items.push_back(item);
  if (items.size() > expected)
    Fail(fmt::format("too many values to unpack (expected {})", expected));
  if (items.size() < expected)
    Fail(fmt::format("not enough values to unpack (expected {}, got {})", expected, items.size()));
  for (size_t i = 0; i < expected; ++i)
    Assign(*target.children[i], items[i], activation);
}

}  // namespace tenon::chat
