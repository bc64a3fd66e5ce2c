#include <fmt/format.h>

#include "model/chat/attributes.h"
#include "model/chat/evaluator.h"
#include "model/chat/operators.h"
#include "model/chat/text_of.h"

namespace tenon::chat {

// Leaves come first: they need no depth guard.
Value Evaluator::Evaluate(const Expr& expr, Activation& activation) {
  rt_.budget().Step();
  if (expr.kind == ExprKind::kConst)
    return expr.constant;
  if (expr.kind == ExprKind::kName)
    return EvaluateName(expr, activation);
  const DepthGuard guard(rt_);
  rt_.line = expr.line;
  return EvaluateInner(expr, activation);
}

Value Evaluator::EvaluateName(const Expr& expr, Activation& activation) {
  const Value& value = Slot(expr.ref, activation);
  return value.Is(Kind::kMissing) ? rt_.UndefinedName(expr.text) : value;
}

Value Evaluator::EvaluateInner(const Expr& expr, Activation& activation) {
  const auto child = [&](size_t i) { return Evaluate(*expr.children[i], activation); };
  switch (expr.kind) {
    case ExprKind::kTuple:
    case ExprKind::kList:
      return EvaluateItems(expr, activation);
    case ExprKind::kDict:
      return EvaluateDict(expr, activation);
    case ExprKind::kNot:
      return Value::Bool(!Truth(child(0)));
    case ExprKind::kNegate:
      return Negate(rt_, child(0));
    case ExprKind::kPlus:
      return Plus(rt_, child(0));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const Value left = child(0);
      return Truth(left) == (expr.kind == ExprKind::kAnd) ? child(1) : left;
    }
    case ExprKind::kArithmetic: {
      const Value left = child(0);
      return Arithmetic(rt_, expr.operators[0], left, child(1));
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr, activation);
    case ExprKind::kCompare:
      return EvaluateCompare(expr, activation);
    case ExprKind::kConditional:
      return EvaluateConditional(expr, activation);
    case ExprKind::kAttribute:
      return GetAttribute(rt_, child(0), expr.constant);
    case ExprKind::kItem: {
      const Value object = child(0);
      return GetItem(rt_, object, child(1));
    }
    case ExprKind::kSlice:
      return EvaluateSlice(expr, activation);
    case ExprKind::kCall: {
      const Value callee = child(0);
      return Call(callee, EvaluateArguments(expr, activation));
    }
    case ExprKind::kFilter:
      return EvaluateFilter(expr, activation, Value{});
    case ExprKind::kTest:
      return EvaluateTest(expr, activation);
    default:
      return expr.constant;
  }
}

// A list or tuple display.
Value Evaluator::EvaluateItems(const Expr& expr, Activation& activation) {
  const size_t size = expr.children.size();
  Value* items = rt_.arena().NewArray<Value>(size);
  for (size_t i = 0; i < size; ++i)
    items[i] = Evaluate(*expr.children[i], activation);
  return rt_.Sequence(expr.kind == ExprKind::kList ? Kind::kList : Kind::kTuple, items, size);
}

Value Evaluator::EvaluateDict(const Expr& expr, Activation& activation) {
  Dict* dict = rt_.NewDict();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = Evaluate(*expr.children[i], activation);
    dict->Set(rt_, key, Evaluate(*expr.children[i + 1], activation));
  }
  return rt_.Wrap(dict);
}

// a ~ b: everything as text.
Value Evaluator::EvaluateConcat(const Expr& expr, Activation& activation) {
  TextBuilder out(rt_);
  for (const ExprPtr& operand : expr.children)
    WriteText(rt_, out, Evaluate(*operand, activation));
  return out.Finish();
}

// A chain stops at the first comparison that fails.
Value Evaluator::EvaluateCompare(const Expr& expr, Activation& activation) {
  Value left = Evaluate(*expr.children[0], activation);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    const Value right = Evaluate(*expr.children[i + 1], activation);
    if (!Compare(rt_, expr.operators[i], left, right))
      return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

// The test comes first, and only one of the values is evaluated.
Value Evaluator::EvaluateConditional(const Expr& expr, Activation& activation) {
  if (Truth(Evaluate(*expr.children[0], activation)))
    return Evaluate(*expr.children[1], activation);
  if (expr.children[2])
    return Evaluate(*expr.children[2], activation);
  return rt_.Undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      expr.line));
}

Value Evaluator::EvaluateSlice(const Expr& expr, Activation& activation) {
  const Value object = Evaluate(*expr.children[0], activation);
  const auto bound = [&](size_t i) {
    return expr.children[i] ? Evaluate(*expr.children[i], activation) : Value::None();
  };
  const Value start = bound(1);
  const Value stop = bound(2);
  return GetSlice(rt_, object, {start, stop, bound(3)});
}

// `block_text`: the input of the innermost filter of a filter block; elsewhere kMissing.
Value Evaluator::EvaluateFilter(const Expr& expr, Activation& activation, const Value& block_text) {
  Value input = block_text;
  if (expr.children[0] && expr.children[0]->kind == ExprKind::kFilter)
    input = EvaluateFilter(*expr.children[0], activation, block_text);
  else if (expr.children[0])
    input = Evaluate(*expr.children[0], activation);
  const Arguments arguments = EvaluateArguments(expr, activation);
  if (expr.builtin == nullptr)
    Fail(fmt::format("No filter named '{}' found.", expr.text));
  return CallBuiltin(rt_, *expr.builtin, input, arguments);
}

Value Evaluator::EvaluateTest(const Expr& expr, Activation& activation) {
  const Value input = Evaluate(*expr.children[0], activation);
  const Arguments arguments = EvaluateArguments(expr, activation);
  if (expr.builtin == nullptr)
    Fail(fmt::format("No test named '{}' found.", expr.text));
  return Value::Bool(Truth(CallBuiltin(rt_, *expr.builtin, input, arguments)));
}

}  // namespace tenon::chat
