#include "engine/constrain/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

// A schema of a few hundred kilobytes stays far below; 40 bytes each.
constexpr size_t kMaxNodes = 1'000'000;
// Nesting of terms: they are compiled by recursion.
constexpr int32_t kMaxNesting = 2000;

using Nodes = std::vector<Automaton::Node>;

// Calls `each` with the nodes that a node's value is made from.
template <class Each>
void ForInputs(const Automaton::Node& node, const Nodes& nodes, std::span<const int32_t> targets,
               const Each& each) {
  using Kind = Automaton::Kind;
  if (node.kind == Kind::kSplit) {
    for (int32_t i = node.a; i < node.b; ++i)
      each(targets[static_cast<size_t>(i)]);
    return;
  }
  if (node.kind == Kind::kEnter) {
    each(nodes[static_cast<size_t>(node.a)].a);
    each(nodes[static_cast<size_t>(node.a)].next);
    return;
  }
  if (node.kind == Kind::kCall)
    each(node.a);
  if (node.kind != Kind::kReturn)
    each(node.next);
}

// Calls `update` for every node, and again for those whose inputs have changed (it returns true
// when the node did), until nothing changes.
template <class Update>
void UntilStable(const Nodes& nodes, std::span<const int32_t> targets, const Update& update) {
  std::vector<std::vector<int32_t>> readers(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    ForInputs(nodes[i], nodes, targets, [&](int32_t input) {
      readers[static_cast<size_t>(input)].push_back(static_cast<int32_t>(i));
    });
  }
  std::vector<int32_t> open;
  for (size_t i = nodes.size(); i > 0; --i)
    open.push_back(static_cast<int32_t>(i - 1));
  while (!open.empty()) {
    const auto node = static_cast<size_t>(open.back());
    open.pop_back();
    if (update(node))
      open.insert(open.end(), readers[node].begin(), readers[node].end());
  }
}

}  // namespace

class AutomatonCompiler {
 public:
  explicit AutomatonCompiler(const Grammar& grammar) : grammar_(grammar) {}

  Result<Automaton> Compile(Grammar::Term root) {
    end_ = AddNode({});  // the only kReturn
    rules_.assign(grammar_.rules().size(), kUnknown);
    out_.start_ = Emit(root, end_);
    // Rules are compiled when they are first called; their bodies may call others.
    while (!open_.empty() && status_.ok()) {
      const auto [rule, call] = open_.back();
      open_.pop_back();
      out_.nodes_[static_cast<size_t>(call)].a = EntryOf(rule);
    }
    TENON_RETURN_IF_ERROR(status_);
    out_.FindNeeds();
    if (out_.need(out_.start_) > Automaton::kMaxDepth)
      return InvalidArgument("no text of limited depth can match");
    TENON_RETURN_IF_ERROR(CheckSilentCycles());
    out_.FindClasses();
    return std::move(out_);
  }

 private:
  using Node = Automaton::Node;
  using Kind = Automaton::Kind;
  static constexpr int32_t kUnknown = -1;

  int32_t AddNode(const Node& node) {
    if (out_.nodes_.size() >= kMaxNodes) {
      status_ = InvalidArgument(fmt::format("needs more than {} states", kMaxNodes));
      return end_;
    }
    out_.nodes_.push_back(node);
    return static_cast<int32_t>(out_.nodes_.size() - 1);
  }

  int32_t EntryOf(Grammar::Rule rule) {
    int32_t& entry = rules_[static_cast<size_t>(rule)];
    if (entry == kUnknown)
      entry = Emit(grammar_.rules()[static_cast<size_t>(rule)], end_);
    return rules_[static_cast<size_t>(rule)];
  }

  // The node at which `term`, then `next`, begins.
  int32_t Emit(Grammar::Term term, int32_t next) {
    if (!status_.ok() || ++nesting_ > kMaxNesting) {
      if (status_.ok())
        status_ = InvalidArgument(fmt::format("is nested deeper than {} terms", kMaxNesting));
      --nesting_;
      return end_;
    }
    const int32_t entry = EmitNode(grammar_.node(term), next);
    --nesting_;
    return entry;
  }

  int32_t EmitNode(const Grammar::Node& node, int32_t next) {
    switch (node.kind) {
      case Grammar::Kind::kBytes:
        return AddNode({Kind::kBytes, node.is_string, SetOf(node.bytes), 0, next, 0, 0});
      case Grammar::Kind::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part)
          next = Emit(*part, next);
        return next;
      case Grammar::Kind::kEither: {
        std::vector<int32_t> targets;
        for (const Grammar::Term part : node.parts)
          targets.push_back(Emit(part, next));
        return AddSplit(targets);
      }
      case Grammar::Kind::kRepeat:
        return EmitRepeat(node, next);
      case Grammar::Kind::kRule: {
        const int32_t call = AddNode({Kind::kCall, false, 0, 0, next, 0, 0});
        open_.emplace_back(node.rule, call);
        return call;
      }
    }
    return end_;
  }

  int32_t EmitRepeat(const Grammar::Node& node, int32_t next) {
    const Grammar::Term part = node.parts.front();
    if (node.max == 0)
      return next;
    if (!node.is_string) {
      if (node.min == 1 && node.max == 1)
        return Emit(part, next);
      if (node.min == 0 && node.max == 1)
        return AddSplit({Emit(part, next), next});
      if (node.min == 0 && node.max == Grammar::kNoLimit)
        return EmitStar(part, next);
    }
    const int32_t body = Emit(part, end_);
    const int32_t loop = AddNode({Kind::kLoop, node.is_string, body, 0, next, 0, 0});
    return AddNode({Kind::kEnter, false, loop, 0, 0, node.min, node.max});
  }

  int32_t EmitStar(Grammar::Term part, int32_t next) {
    const int32_t again = AddSplit({end_, next});
    const auto first = static_cast<size_t>(out_.nodes_[static_cast<size_t>(again)].a);
    const int32_t body = Emit(part, again);
    out_.targets_[first] = body;
    return again;
  }

  int32_t AddSplit(const std::vector<int32_t>& targets) {
    const auto first = static_cast<int32_t>(out_.targets_.size());
    out_.targets_.insert(out_.targets_.end(), targets.begin(), targets.end());
    return AddNode(
        {Kind::kSplit, false, first, static_cast<int32_t>(out_.targets_.size()), 0, 0, 0});
  }

  int32_t SetOf(const ByteSet& set) {
    const auto [found, is_new] = set_index_.emplace(set, static_cast<int32_t>(out_.sets_.size()));
    if (is_new)
      out_.sets_.push_back(set);
    return found->second;
  }

  // Whether the node can be passed without reading a byte, by the nodes that are known to be so.
  bool IsPassable(const Node& node, const std::vector<char>& passable) const {
    const auto at = [&](int32_t index) { return passable[static_cast<size_t>(index)] != 0; };
    switch (node.kind) {
      case Kind::kBytes:
        return false;
      case Kind::kSplit:
        return std::ranges::any_of(out_.targets(node), at);
      case Kind::kCall:
        return at(node.a) && at(node.next);
      case Kind::kEnter: {
        const Node& loop = out_.node(node.a);
        return (node.min == 0 || at(loop.a)) && at(loop.next);
      }
      case Kind::kLoop:
        return at(node.next);
      case Kind::kReturn:
        return true;
    }
    return false;
  }

  std::vector<char> Passable() const {
    std::vector<char> passable(out_.nodes_.size(), 0);
    UntilStable(out_.nodes_, out_.targets_, [&](size_t i) {
      const bool changes = passable[i] == 0 && IsPassable(out_.nodes_[i], passable);
      passable[i] = changes ? 1 : passable[i];
      return changes;
    });
    return passable;
  }

  // Nodes of the same rule that are reached from `index` without reading anything; the rule that is
  // called there goes to `called`.
  void AddSilentSteps(int32_t index, const std::vector<char>& passable, std::vector<int32_t>& out,
                      std::vector<int32_t>& called) const {
    const Node& node = out_.node(index);
    if (node.kind == Kind::kSplit) {
      const auto targets = out_.targets(node);
      out.insert(out.end(), targets.begin(), targets.end());
    } else if (node.kind == Kind::kCall) {
      called.push_back(node.a);
      if (passable[static_cast<size_t>(node.a)] != 0)
        out.push_back(node.next);
    } else if (node.kind == Kind::kEnter) {
      out.push_back(out_.node(node.a).a);
      if (node.min == 0)
        out.push_back(out_.node(node.a).next);
    }
  }

  // Entries of the rules that the one at `entry` may call before it reads anything. No two rules
  // share nodes that lead on, so all of them have one list of seen nodes.
  std::vector<int32_t> FirstCalls(int32_t entry, const std::vector<char>& passable,
                                  std::vector<char>& seen) const {
    std::vector<int32_t> calls;
    std::vector<int32_t> open = {entry};
    while (!open.empty()) {
      const int32_t index = open.back();
      open.pop_back();
      if (std::exchange(seen[static_cast<size_t>(index)], char{1}) == 0)
        AddSilentSteps(index, passable, open, calls);
    }
    return calls;
  }

  // Whether a rule calls itself before it reads anything, which would put frames on the stack
  // without end: rules that nobody calls first are taken away until only cycles are left.
  bool HasLeftRecursion(const std::vector<char>& passable) const {
    std::unordered_map<int32_t, std::vector<int32_t>> calls;  // by entry
    std::unordered_map<int32_t, int64_t> callers;
    std::vector<char> seen(out_.nodes_.size(), 0);
    for (const int32_t entry : rules_) {
      if (entry == kUnknown || calls.contains(entry))
        continue;
      for (const int32_t called : calls[entry] = FirstCalls(entry, passable, seen))
        ++callers[called];
    }
    std::vector<int32_t> open;
    for (const auto& [entry, list] : calls) {
      if (!callers.contains(entry))
        open.push_back(entry);
    }
    size_t taken = 0;
    for (; !open.empty(); ++taken) {
      const int32_t entry = open.back();
      open.pop_back();
      for (const int32_t called : calls[entry]) {
        if (--callers[called] == 0)
          open.push_back(called);
      }
    }
    return taken < calls.size();
  }

  Status CheckSilentCycles() const {
    const std::vector<char> passable = Passable();
    for (const Node& node : out_.nodes_) {
      if (node.kind == Kind::kEnter && passable[static_cast<size_t>(out_.node(node.a).a)] != 0)
        return InvalidArgument("a counted repetition of something that may be empty");
    }
    if (HasLeftRecursion(passable))
      return InvalidArgument("a rule begins with itself (left recursion)");
    return {};
  }

  const Grammar& grammar_;
  Automaton out_;
  Status status_;
  int32_t end_ = 0;
  int32_t nesting_ = 0;
  std::vector<int32_t> rules_;                           // entry of each rule
  std::vector<std::pair<Grammar::Rule, int32_t>> open_;  // kCall nodes without their entry
  std::unordered_map<ByteSet, int32_t> set_index_;
};

Result<Automaton> Automaton::Compile(const Grammar& grammar, Grammar::Term root) {
  return AutomatonCompiler(grammar).Compile(root);
}

int32_t Automaton::NeedOf(const Node& node) const {
  // What is too deep is out of reach, however deep: so a need is lowered a few times only.
  const auto bounded = [](int32_t need) { return need > kMaxDepth ? kImpossible : need; };
  switch (node.kind) {
    case Kind::kBytes:
      return sets_[static_cast<size_t>(node.a)].none() ? kImpossible : need(node.next);
    case Kind::kSplit: {
      int32_t least = kImpossible;
      for (const int32_t target : targets(node))
        least = std::min(least, need(target));
      return least;
    }
    case Kind::kCall:
      // A call at the end of a rule leaves no frame.
      if (this->node(node.next).kind == Kind::kReturn)
        return need(node.a);
      return bounded(std::max(1 + need(node.a), need(node.next)));
    case Kind::kEnter: {
      const Node& loop = this->node(node.a);
      return node.min == 0 ? need(loop.next) : bounded(std::max(1 + need(loop.a), need(loop.next)));
    }
    case Kind::kLoop:
      return need(node.next);
    case Kind::kReturn:
      return 0;
  }
  return kImpossible;
}

// Greatest first: every change is a decrease.
void Automaton::FindNeeds() {
  need_.assign(nodes_.size(), kImpossible);
  UntilStable(nodes_, targets_, [&](size_t i) {
    const int32_t need = NeedOf(nodes_[i]);
    return std::exchange(need_[i], need) != need;
  });
}

void Automaton::FindClasses() {
  std::map<std::vector<bool>, uint8_t> known;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<bool> members;
    for (const ByteSet& set : sets_)
      members.push_back(set.test(byte));
    const auto [found, is_new] = known.emplace(members, static_cast<uint8_t>(known.size()));
    class_of_[byte] = found->second;
    if (is_new)
      examples_.push_back(static_cast<uint8_t>(byte));
  }
  class_count_ = static_cast<int32_t>(known.size());
}

}  // namespace tenon
