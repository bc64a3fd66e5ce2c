// The parsed template: statements and expressions, with every name resolved to a slot.
//
// Built by the parser, completed by ResolveScopes, then read only: one template may be rendered by
// many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/builtin.h"
#include "model/chat/value.h"

namespace tenon::chat {

// A variable: `slot` of the activation `hops` functions out.
struct Ref {
  int hops = 0;
  int slot = -1;
};

enum class ExprKind : uint8_t {
  kConst,
  kName,          // text; a variable read, or an assignment's target
  kNamespaceRef,  // text.attribute as an assignment's target
  kTuple,         // children: items
  kList,          // children: items
  kDict,          // children: key, value, key, value, ...
  kNot,           // children: operand
  kNegate,        // children: operand
  kPlus,          // children: operand
  kAnd,           // children: left, right
  kOr,            // children: left, right
  kArithmetic,    // operators[0]; children: left, right
  kConcat,        // children: operands
  kCompare,       // operators; children: first and one operand each
  kConditional,   // children: test, value, alternative (may be null)
  kAttribute,     // children: object; constant: the name
  kItem,          // children: object, index
  kSlice,         // children: object, start, stop, step (the last three may be null)
  kCall,          // children: callee, arguments
  kFilter,        // children: input (null in a filter block), arguments; text: the name
  kTest,          // children: input, arguments; text: the name
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct KeywordArgument {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 0;
  int height = 1;  // of the tree below: bounds every recursion over it
  std::string text;
  std::string attribute;  // kNamespaceRef
  Value constant;         // may point to `literal`
  StringObject literal;
  Ref ref;                           // kName, kNamespaceRef
  const Builtin* builtin = nullptr;  // kFilter, kTest; null: unknown, an error when it is used
  std::vector<Operator> operators;
  std::vector<ExprPtr> children;
  std::vector<KeywordArgument> keywords;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

// How a scope fills a slot when it is entered.
enum class LoadAction : uint8_t {
  kParameter,  // by its owner: loop targets, macro arguments
  kUnset,
  kResolve,  // from the variables of the rendering and the globals
  kAlias,    // from a variable of an outer scope
};

struct SlotLoad {
  int slot = 0;
  LoadAction action = LoadAction::kUnset;
  Ref source;     // kAlias
  int name = -1;  // kResolve: the number of the name among Template::names
};

struct Scope {
  std::vector<SlotLoad> loads;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  int line = 0;
  int slot = -1;
  ExprPtr default_value;  // may be null
};

// A macro, or the body of a call or generation block.
struct MacroNode {
  std::string name;
  int line = 0;
  std::vector<Parameter> parameters;
  Body body;
  Scope scope;
  int slot_count = 0;
  // The slots of the implicit variables, -1 where the body does not use them.
  int caller_slot = -1;
  int kwargs_slot = -1;
  int varargs_slot = -1;
};

enum class StatementKind : uint8_t {
  kText,         // text
  kOutput,       // expressions
  kIf,           // branches
  kFor,          // target, value, test, branches[0]: body, branches[1]: else
  kSet,          // target, value
  kSetBlock,     // target, value: a filter or null, branches[0]
  kMacro,        // macro, target: the name
  kCallBlock,    // macro, value: the call
  kGeneration,   // macro
  kFilterBlock,  // value: the filters, branches[0]
  kWith,         // targets and expressions, branches[0]
  kBreak,
  kContinue,
};

struct Branch {
  ExprPtr test;  // null: else, or not a condition
  Body body;
  Scope scope;
};

// What a `for` needs beyond its body.
struct LoopNode {
  ExprPtr test;  // the filter; may be null
  Scope test_scope;
  int test_slot_count = 0;  // the filter runs in an activation of its own
  ExprPtr test_target;      // the targets as the filter's activation sees them
  int loop_slot = -1;
  bool recursive = false;
  int slot_count = 0;  // of a recursive loop, which is a function
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;
  ExprPtr target;
  ExprPtr value;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> expressions;
  std::vector<Branch> branches;
  std::unique_ptr<MacroNode> macro;
  std::unique_ptr<LoopNode> loop;
};

struct Template {
  Body body;
  Scope scope;
  int slot_count = 0;
  std::vector<std::string> names;  // the variables it takes from outside
};

}  // namespace tenon::chat
