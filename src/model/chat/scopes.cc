#include "model/chat/scopes.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "model/chat/symbols.h"
#include "model/chat/template_failure.h"

namespace tenon::chat {
namespace {

// A Python function jinja2 would compile: the template, a macro, a recursive loop or a loop filter.
struct Function {
  int base_level = 0;  // of its outermost scope; scopes of lower levels belong to outer functions
  Function* parent = nullptr;
  std::map<std::pair<int, int>, int> slots;  // (level, name) to slot

  int SlotOf(int level, int name) {
    return slots.try_emplace({level, name}, static_cast<int>(slots.size())).first->second;
  }
  int slot_count() const { return static_cast<int>(slots.size()); }
};

// Filters and tests inside an `if` may be unknown until they are used.
enum class Lookup : uint8_t { kStrict, kLazy };

struct Frame {
  Symbols* symbols = nullptr;
  Function* function = nullptr;
  Lookup lookup = Lookup::kStrict;

  Frame Soft() const { return {symbols, function, Lookup::kLazy}; }
};

class Resolver {
 public:
  explicit Resolver(Template& tmpl) : template_(tmpl) {}

  void Run() {
    Function function;
    Symbols symbols(analysis_, 0, nullptr);
    symbols.AnalyzeBody(template_.body);
    const Frame frame{&symbols, &function};
    ResolveBody(template_.body, frame);
    template_.scope = MakeScope(frame);
    template_.slot_count = function.slot_count();
    template_.names = analysis_.TakeNames();
  }

 private:
  Ref RefTo(int level, int name, Function* function) const {
    Ref ref;
    while (function->base_level > level) {
      function = function->parent;
      ++ref.hops;
    }
    ref.slot = function->SlotOf(level, name);
    return ref;
  }

  Ref RefTo(const std::string& text, const Frame& frame) {
    const int name = analysis_.NameId(text);
    return RefTo(frame.symbols->LevelOf(name), name, frame.function);
  }

  // The loads of a scope, once all that lies in it has been resolved.
  Scope MakeScope(const Frame& frame) {
    Scope scope;
    const int level = frame.symbols->level();
    for (const Symbol& symbol : frame.symbols->table()) {
      SlotLoad load{frame.function->SlotOf(level, symbol.name), symbol.action, {}, symbol.name};
      if (symbol.action == LoadAction::kAlias)
        load.source = RefTo(symbol.source_level, symbol.name, frame.function);
      scope.loads.push_back(load);
    }
    return scope;
  }

  Symbols Inner(const Frame& frame) {
    return {analysis_, frame.symbols->level() + 1, frame.symbols};
  }

  void ResolveBody(Body& body, const Frame& frame) {
    for (auto& statement : body)
      ResolveStatement(*statement, frame);
  }

  void ResolveStatement(Statement& statement, const Frame& frame) {
    switch (statement.kind) {
      case StatementKind::kIf:
        for (Branch& branch : statement.branches) {
          ResolveExpr(branch.test.get(), frame.Soft());
          ResolveBody(branch.body, frame.Soft());
        }
        return;
      case StatementKind::kFor:
        return ResolveFor(statement, frame);
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
        return ResolveCapture(statement, frame);
      case StatementKind::kMacro:
      case StatementKind::kCallBlock:
      case StatementKind::kGeneration:
        ResolveMacro(*statement.macro, frame);
        break;
      case StatementKind::kWith:
        return ResolveWith(statement, frame);
      default:
        break;
    }
    for (ExprPtr& expression : statement.expressions)
      ResolveExpr(expression.get(), frame);
    ResolveExpr(statement.value.get(), frame);
    ResolveTarget(statement.target.get(), frame);
  }

  // `loop` belongs to the loop: inside one it cannot be assigned.
  void ResolveTarget(Expr* target, const Frame& frame) {
    if (target == nullptr)
      return;
    if (target->kind == ExprKind::kTuple) {
      for (ExprPtr& item : target->children)
        ResolveTarget(item.get(), frame);
      return;
    }
    if (target->kind == ExprKind::kName && target->text == "loop" && open_loops_ > 0)
      Fail("Can't assign to special loop variable in for-loop target", target->line);
    target->ref = RefTo(target->text, frame);
  }

  // The value is evaluated outside; body and else have a scope each.
  void ResolveFor(Statement& statement, const Frame& frame) {
    LoopNode& loop = *statement.loop;
    ResolveExpr(statement.value.get(), frame);
    ++open_loops_;
    Function own{frame.symbols->level() + 1, frame.function, {}};
    Function* function = loop.recursive ? &own : frame.function;

    Symbols symbols = Inner(frame);
    symbols.DeclareParameter("loop");
    symbols.AnalyzeParameters(*statement.target);
    symbols.AnalyzeBody(statement.branches[0].body);
    const Frame body_frame{&symbols, function};
    ResolveTarget(statement.target.get(), body_frame);
    loop.loop_slot = RefTo("loop", body_frame).slot;
    ResolveBody(statement.branches[0].body, body_frame);
    statement.branches[0].scope = MakeScope(body_frame);
    if (loop.test)
      ResolveLoopTest(statement, frame);

    Symbols else_symbols = Inner(frame);
    else_symbols.AnalyzeBody(statement.branches[1].body);
    const Frame else_frame{&else_symbols, function};
    ResolveBody(statement.branches[1].body, else_frame);
    statement.branches[1].scope = MakeScope(else_frame);
    loop.slot_count = own.slot_count();
    --open_loops_;
  }

  void ResolveLoopTest(Statement& statement, const Frame& frame) {
    LoopNode& loop = *statement.loop;
    Function function{frame.symbols->level() + 1, frame.function, {}};
    Symbols symbols = Inner(frame);
    symbols.AnalyzeParameters(*statement.target);
    symbols.AnalyzeExpr(loop.test.get());
    const Frame test_frame{&symbols, &function};
    loop.test_target = CopyTarget(*statement.target);
    ResolveTarget(loop.test_target.get(), test_frame);
    ResolveExpr(loop.test.get(), test_frame);
    loop.test_scope = MakeScope(test_frame);
    loop.test_slot_count = function.slot_count();
  }

  // The same targets, to be resolved for another function.
  static ExprPtr CopyTarget(const Expr& target) {
    auto copy = std::make_unique<Expr>();
    copy->kind = target.kind;
    copy->line = target.line;
    copy->text = target.text;
    for (const ExprPtr& item : target.children)
      copy->children.push_back(CopyTarget(*item));
    return copy;
  }

  // A set or filter block: the body has a scope of its own, its text goes through the filters.
  void ResolveCapture(Statement& statement, const Frame& frame) {
    Branch& branch = statement.branches[0];
    Symbols symbols = Inner(frame);
    symbols.AnalyzeBody(branch.body);
    symbols.AnalyzeExpr(statement.value.get());
    const Frame inner{&symbols, frame.function};
    ResolveBody(branch.body, inner);
    ResolveExpr(statement.value.get(), inner);
    branch.scope = MakeScope(inner);
    ResolveTarget(statement.target.get(), frame);
  }

  // The values are evaluated outside, the targets are the body's parameters.
  void ResolveWith(Statement& statement, const Frame& frame) {
    Branch& branch = statement.branches[0];
    Symbols symbols = Inner(frame);
    for (ExprPtr& target : statement.targets)
      symbols.AnalyzeParameters(*target);
    symbols.AnalyzeBody(branch.body);
    const Frame inner{&symbols, frame.function};
    for (ExprPtr& value : statement.expressions)
      ResolveExpr(value.get(), frame);
    for (ExprPtr& target : statement.targets)
      ResolveTarget(target.get(), inner);
    ResolveBody(branch.body, inner);
    branch.scope = MakeScope(inner);
  }

  // A function whose parameters are its first variables.
  void ResolveMacro(MacroNode& macro, const Frame& frame) {
    Function function{frame.symbols->level() + 1, frame.function, {}};
    Symbols symbols = Inner(frame);
    symbols.AnalyzeMacro(macro);
    const Frame inner{&symbols, &function};
    DeclareImplicit(macro, symbols);
    symbols.AnalyzeBody(macro.body);
    const auto slot = [&](const char* name) { return RefTo(name, inner).slot; };
    for (Parameter& parameter : macro.parameters) {
      parameter.slot = slot(parameter.name.c_str());
      ResolveExpr(parameter.default_value.get(), inner);
    }
    macro.caller_slot = macro.caller_slot < 0 ? -1 : slot("caller");
    macro.kwargs_slot = macro.kwargs_slot < 0 ? -1 : slot("kwargs");
    macro.varargs_slot = macro.varargs_slot < 0 ? -1 : slot("varargs");
    ResolveBody(macro.body, inner);
    macro.scope = MakeScope(inner);
    macro.slot_count = function.slot_count();
  }

  // Marks the implicit variables the body reads with slot 0, to be placed afterwards.
  void DeclareImplicit(MacroNode& macro, Symbols& symbols) {
    const std::vector<std::string> undeclared =
        FindUndeclared(analysis_, macro.body, {"caller", "kwargs", "varargs"});
    for (const std::string& name : undeclared) {
      const Parameter* own = nullptr;
      for (const Parameter& parameter : macro.parameters)
        own = parameter.name == name ? &parameter : own;
      if (own != nullptr && name == "caller" && !own->default_value)
        Fail(
            "When defining macros or call blocks the special \"caller\" argument must be omitted "
            "or be given a default.",
            macro.line);
      if (own != nullptr)
        continue;
      symbols.DeclareParameter(name);
      (name == "caller"   ? macro.caller_slot
       : name == "kwargs" ? macro.kwargs_slot
                          : macro.varargs_slot) = 0;
    }
  }

  void ResolveExpr(Expr* expr, const Frame& frame) {
    if (expr == nullptr)
      return;
    if (expr->kind == ExprKind::kName)
      expr->ref = RefTo(expr->text, frame);
    if (expr->kind == ExprKind::kFilter || expr->kind == ExprKind::kTest)
      FindCallee(*expr, frame);
    const Frame inner = expr->kind == ExprKind::kConditional ? frame.Soft() : frame;
    for (ExprPtr& child : expr->children)
      ResolveExpr(child.get(), inner);
    for (KeywordArgument& keyword : expr->keywords)
      ResolveExpr(keyword.value.get(), inner);
    ResolveExpr(expr->star.get(), inner);
    ResolveExpr(expr->double_star.get(), inner);
  }

  // Finds the filter or test by its name.
  static void FindCallee(Expr& expr, const Frame& frame) {
    const bool filter = expr.kind == ExprKind::kFilter;
    expr.builtin = filter ? FindFilter(expr.text) : FindTest(expr.text);
    if (expr.builtin == nullptr && frame.lookup == Lookup::kStrict)
      Fail(fmt::format("No {} named '{}'.", filter ? "filter" : "test", expr.text), expr.line);
  }

  Template& template_;
  Analysis analysis_;
  int open_loops_ = 0;
};

}  // namespace

void ResolveScopes(Template& tmpl) {
  Resolver(tmpl).Run();
}

}  // namespace tenon::chat
