// Evaluator: one rendering of a parsed template.
//
// Walks the tree; every node is a step of the budget and every level counts against DepthGuard.
// Throws TemplateFailure. Threading: one rendering, one thread; the template is only read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/chat/ast.h"
#include "model/chat/builtin.h"
#include "model/chat/loop_object.h"
#include "model/chat/runtime.h"

namespace tenon::chat {

class Evaluator {
 public:
  Evaluator(const Template& tmpl, Runtime& rt, const nlohmann::ordered_json& variables);

  std::string Run();

 private:
  friend class LoopFilterIterator;
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Scopes (evaluator.cc).
  Value& Slot(const Ref& ref, Activation& activation) const;
  Activation* Activate(int slot_count, Activation* parent);
  void EnterScope(const Scope& scope, Activation& activation);
  void LeaveScope(const Scope& scope, Activation& activation) const;
  Value ContextValue(int name);

  // Statements (evaluator.cc).
  Flow RunBody(const Body& body, Activation& activation, TextBuilder& out);
  Flow RunStatement(const Statement& statement, Activation& activation, TextBuilder& out);
  void RunOutput(const Statement& statement, Activation& activation, TextBuilder& out);
  Flow RunIf(const Statement& statement, Activation& activation, TextBuilder& out);
  void RunSet(const Statement& statement, Activation& activation);
  Flow RunCapture(const Statement& statement, Activation& activation, TextBuilder& out);
  Flow RunWith(const Statement& statement, Activation& activation, TextBuilder& out);
  void RunCallBlock(const Statement& statement, Activation& activation, TextBuilder& out);
  void CheckNamespaces(const Expr& target, Activation& activation);
  void Assign(const Expr& target, const Value& value, Activation& activation);
  void Unpack(const Expr& target, const Value& value, Activation& activation);

  // Loops and macros (evaluator_calls.cc).
  Flow RunFor(const Statement& statement, Activation& activation, TextBuilder& out);
  Flow RunLoop(const Statement& statement, LoopObject& loop, Activation& activation,
               TextBuilder& out);
  Value RunRecursiveLoop(const Statement& statement, const Value& iterable, Activation& closure,
                         int depth0);
  LoopObject* MakeLoop(const Statement& statement, const Value& iterable, Activation& closure);
  bool PassesLoopTest(const Statement& statement, Value& item, Activation& closure);
  Value ReadTarget(const Expr& target, Activation& activation);
  Value CallMacro(const MacroObject& macro, const Arguments& arguments);
  void BindMacro(const MacroNode& macro, const Arguments& arguments, Activation& activation);
  Value MakeMacro(const MacroNode& node, Activation& closure);
  Value Call(const Value& callee, const Arguments& arguments);
  Arguments EvaluateArguments(const Expr& call, Activation& activation);
  void SpreadArguments(const Expr& call, Activation& activation, Arguments& arguments);

  // Expressions (evaluator_expressions.cc).
  Value Evaluate(const Expr& expr, Activation& activation);
  Value EvaluateInner(const Expr& expr, Activation& activation);
  Value EvaluateName(const Expr& expr, Activation& activation);
  Value EvaluateItems(const Expr& expr, Activation& activation);
  Value EvaluateDict(const Expr& expr, Activation& activation);
  Value EvaluateConcat(const Expr& expr, Activation& activation);
  Value EvaluateCompare(const Expr& expr, Activation& activation);
  Value EvaluateConditional(const Expr& expr, Activation& activation);
  Value EvaluateSlice(const Expr& expr, Activation& activation);
  Value EvaluateFilter(const Expr& expr, Activation& activation, const Value& block_text);
  Value EvaluateTest(const Expr& expr, Activation& activation);

  const Template& template_;
  Runtime& rt_;
  const nlohmann::ordered_json& variables_;
  std::vector<Value> context_;  // by name; kMissing: not there
  std::vector<bool> resolved_;
};

}  // namespace tenon::chat
