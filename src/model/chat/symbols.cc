#include "model/chat/symbols.h"

#include <algorithm>
#include <set>

#include "model/chat/template_failure.h"

namespace tenon::chat {
namespace {

// Of symbol table entries: a tenth of a second of work. Published templates stay below 100000.
constexpr size_t kMaxCharged = 2'000'000;

// Calls visit(expr) for the expression and all below it.
template <class Visit>
void Walk(const Expr* expr, const Visit& visit) {
  if (expr == nullptr)
    return;
  visit(*expr);
  for (const ExprPtr& child : expr->children)
    Walk(child.get(), visit);
  for (const KeywordArgument& keyword : expr->keywords)
    Walk(keyword.value.get(), visit);
  Walk(expr->star.get(), visit);
  Walk(expr->double_star.get(), visit);
}

// Collects reads of `names` that no assignment precedes, through all scopes.
class UndeclaredFinder {
 public:
  explicit UndeclaredFinder(std::vector<std::string> names) : names_(names.begin(), names.end()) {}

  void VisitBody(const Body& body) {
    for (const auto& statement : body)
      VisitStatement(*statement);
  }

  size_t visits() const { return visits_; }
  std::vector<std::string> Take() const { return {found_.begin(), found_.end()}; }

 private:
  void Read(const Expr* expr) {
    Walk(expr, [this](const Expr& node) {
      ++visits_;
      if (node.kind == ExprKind::kName && names_.count(node.text) > 0)
        found_.insert(node.text);
    });
  }
  void Write(const Expr* target) {
    Walk(target, [this](const Expr& node) {
      if (node.kind == ExprKind::kName)
        names_.erase(node.text);
    });
  }

  void VisitStatement(const Statement& statement) {
    ++visits_;
    const bool is_call = statement.kind == StatementKind::kCallBlock;
    if (is_call)
      Read(statement.value.get());
    if (statement.macro) {
      for (const Parameter& parameter : statement.macro->parameters)
        names_.erase(parameter.name);
      for (const Parameter& parameter : statement.macro->parameters)
        Read(parameter.default_value.get());
      VisitBody(statement.macro->body);
      return;
    }
    Write(statement.target.get());
    for (const ExprPtr& target : statement.targets)
      Write(target.get());
    Read(statement.value.get());
    for (const ExprPtr& expression : statement.expressions)
      Read(expression.get());
    for (const Branch& branch : statement.branches) {
      Read(branch.test.get());
      VisitBody(branch.body);
    }
    if (statement.loop)
      Read(statement.loop->test.get());
  }

  std::set<std::string> names_;
  std::set<std::string> found_;
  size_t visits_ = 0;
};

}  // namespace

int Analysis::NameId(const std::string& name) {
  const auto [found, added] = ids_.try_emplace(name, static_cast<int>(names_.size()));
  if (added)
    names_.push_back(name);
  return found->second;
}

void Analysis::Charge(size_t entries) {
  charged_ += entries;
  if (charged_ > kMaxCharged)
    Fail("the template has too many names and branches");
}

const Symbol* Symbols::Find(int name) const {
  const auto found =
      std::lower_bound(table_.begin(), table_.end(), name,
                       [](const Symbol& symbol, int key) { return symbol.name < key; });
  return found != table_.end() && found->name == name ? &*found : nullptr;
}

Symbol& Symbols::Put(const Symbol& symbol) {
  const auto place =
      std::lower_bound(table_.begin(), table_.end(), symbol.name,
                       [](const Symbol& other, int key) { return other.name < key; });
  if (place == table_.end() || place->name != symbol.name)
    return *table_.insert(place, symbol);
  *place = symbol;
  return *place;
}

// The innermost scope that knows the name.
int Symbols::FindLevel(int name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
    if (scope->Find(name) != nullptr)
      return scope->level_;
  }
  return -1;
}

int Symbols::LevelOf(int name) {
  const int level = FindLevel(name);
  if (level >= 0)
    return level;
  Put({name, LoadAction::kResolve, 0, false});
  return level_;
}

void Symbols::DeclareParameter(const std::string& name) {
  Put({analysis_->NameId(name), LoadAction::kParameter, 0, true});
}

void Symbols::Load(const std::string& name) {
  LevelOf(analysis_->NameId(name));
}

// A first assignment in this scope starts from the outer variable of the name, if there is one.
void Symbols::Store(const std::string& name) {
  const int id = analysis_->NameId(name);
  if (const Symbol* found = Find(id)) {
    Symbol stored = *found;
    stored.stored = true;
    Put(stored);
    return;
  }
  const int outer = parent_ != nullptr ? parent_->FindLevel(id) : -1;
  Put({id, outer >= 0 ? LoadAction::kAlias : LoadAction::kUnset, outer, true});
}

// Copies of this scope, one for each way through an `if`.
std::vector<Symbols> Symbols::Branches(size_t count) const {
  analysis_->Charge(count * (table_.size() + 1));
  return std::vector<Symbols>(count, *this);
}

// After an `if`: a name stored in some branch only keeps its outer value in the others.
void Symbols::Merge(const std::vector<Symbols>& branches) {
  std::vector<int> stored;
  for (const Symbols& branch : branches) {
    for (const Symbol& symbol : branch.table_) {
      const Symbol* own = Find(symbol.name);
      if (symbol.stored && (own == nullptr || !own->stored))
        stored.push_back(symbol.name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const Symbol& symbol : branch.table_) {
      const Symbol* own = Find(symbol.name);
      const bool was_stored = own != nullptr && own->stored;
      Put(symbol).stored |= was_stored;
    }
  }
  for (const int name : stored) {
    const int outer = parent_ != nullptr ? parent_->FindLevel(name) : -1;
    Put({name, outer >= 0 ? LoadAction::kAlias : LoadAction::kResolve, outer, true});
  }
}

void Symbols::AnalyzeParameters(const Expr& target) {
  Walk(&target, [this](const Expr& node) {
    if (node.kind == ExprKind::kName)
      DeclareParameter(node.text);
  });
}

void Symbols::AnalyzeExpr(const Expr* expr) {
  Walk(expr, [this](const Expr& node) {
    if (node.kind == ExprKind::kName)
      Load(node.text);
  });
}

void Symbols::AnalyzeTarget(const Expr* target) {
  Walk(target, [this](const Expr& node) {
    if (node.kind == ExprKind::kName)
      Store(node.text);
    else if (node.kind == ExprKind::kNamespaceRef)
      Load(node.text);
  });
}

void Symbols::AnalyzeMacro(const MacroNode& macro) {
  for (const Parameter& parameter : macro.parameters)
    DeclareParameter(parameter.name);
  for (const Parameter& parameter : macro.parameters)
    AnalyzeExpr(parameter.default_value.get());
}

void Symbols::AnalyzeBody(const Body& body) {
  for (const auto& statement : body)
    AnalyzeStatement(*statement);
}

// Bodies with a scope of their own are not entered.
void Symbols::AnalyzeStatement(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kIf:
      return AnalyzeIf(statement);
    case StatementKind::kFor:
      return AnalyzeExpr(statement.value.get());
    case StatementKind::kSetBlock:
      return AnalyzeTarget(statement.target.get());
    default:
      break;
  }
  for (const ExprPtr& expression : statement.expressions)
    AnalyzeExpr(expression.get());
  AnalyzeExpr(statement.value.get());
  AnalyzeTarget(statement.target.get());
}

void Symbols::AnalyzeIf(const Statement& statement) {
  // The conditions after the first share one branch, as the list of elifs does in jinja2's tree.
  AnalyzeExpr(statement.branches[0].test.get());
  std::vector<Symbols> branches = Branches(3);
  branches[0].AnalyzeBody(statement.branches[0].body);
  for (size_t i = 1; i < statement.branches.size(); ++i) {
    const auto& branch = statement.branches[i];
    if (!branch.test) {
      branches[2].AnalyzeBody(branch.body);
      continue;
    }
    branches[1].AnalyzeExpr(branch.test.get());
    std::vector<Symbols> inner = branches[1].Branches(2);
    inner[0].AnalyzeBody(branch.body);
    branches[1].Merge(inner);
  }
  Merge(branches);
}

std::vector<std::string> FindUndeclared(Analysis& analysis, const Body& body,
                                        std::vector<std::string> names) {
  UndeclaredFinder finder(std::move(names));
  finder.VisitBody(body);
  // Nested macros are searched once for each macro around them.
  constexpr size_t kVisitsPerEntry = 16;
  analysis.Charge(finder.visits() / kVisitsPerEntry);
  return finder.Take();
}

}  // namespace tenon::chat
