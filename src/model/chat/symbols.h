// Symbols: the names one scope reads and writes, and where each comes from.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/chat/ast.h"

namespace tenon::chat {

// What all scopes of one template share: numbers for names, and the work done so far.
class Analysis {
 public:
  int NameId(const std::string& name);
  std::vector<std::string> TakeNames() { return std::move(names_); }
  // Counts the entries copied at branches; fails beyond a bound no sane template reaches.
  void Charge(size_t entries);

 private:
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> names_;
  size_t charged_ = 0;
};

struct Symbol {
  int name = 0;
  LoadAction action = LoadAction::kUnset;
  int source_level = 0;  // kAlias
  bool stored = false;
};

class Symbols {
 public:
  Symbols(Analysis& analysis, int level, const Symbols* parent)
      : analysis_(&analysis), level_(level), parent_(parent) {}

  int level() const { return level_; }
  const std::vector<Symbol>& table() const { return table_; }
  // The level of the scope whose variable the name is. A name nobody has read yet becomes one.
  int LevelOf(int name);

  void DeclareParameter(const std::string& name);
  // Every name of a target as a parameter.
  void AnalyzeParameters(const Expr& target);
  // What the statements read and write in this scope; scopes inside are not entered.
  void AnalyzeBody(const Body& body);
  void AnalyzeExpr(const Expr* expr);
  void AnalyzeMacro(const MacroNode& macro);

 private:
  int FindLevel(int name) const;  // -1 if no scope knows it
  const Symbol* Find(int name) const;
  Symbol& Put(const Symbol& symbol);  // adds it or takes the place of the one with its name
  void Load(const std::string& name);
  void Store(const std::string& name);
  void AnalyzeStatement(const Statement& statement);
  void AnalyzeIf(const Statement& statement);
  void AnalyzeTarget(const Expr* target);
  std::vector<Symbols> Branches(size_t count) const;
  void Merge(const std::vector<Symbols>& branches);

  Analysis* analysis_;
  int level_;
  const Symbols* parent_;
  std::vector<Symbol> table_;  // by name: flat, as every branch copies it
};

// The names among `names` that the body reads before it assigns to them.
std::vector<std::string> FindUndeclared(Analysis& analysis, const Body& body,
                                        std::vector<std::string> names);

}  // namespace tenon::chat
