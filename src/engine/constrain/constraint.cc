#include "engine/constrain/constraint.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

// Limits that only a hostile or very ambiguous grammar meets; each keeps it from taking all time or
// memory: stacks at once; stacks looked at for one question, some 0.1 s; bytes of the tables.
constexpr size_t kMaxStacks = 16384;
constexpr size_t kMaxWork = 2'000'000;
constexpr size_t kMaxTableBytes = size_t{128} << 20;

size_t Mix(size_t hash, size_t value) {
  // The 64-bit golden ratio, as in boost::hash_combine.
  return (hash ^ value) * 0x9E3779B97F4A7C15U + (hash >> 29);
}

}  // namespace

// Low bits are used, so the high ones, which a product mixes best, are brought down.
size_t Constraint::HashOf(const Cell& cell) {
  const auto low = static_cast<size_t>(static_cast<uint32_t>(cell.below));
  const auto high = static_cast<size_t>(static_cast<uint32_t>(cell.node));
  const size_t hash =
      Mix(Mix(low << 32 | high, static_cast<size_t>(cell.min)), static_cast<size_t>(cell.max));
  return hash ^ hash >> 32;
}

size_t Constraint::StateKeyHash::operator()(const std::vector<int32_t>& key) const {
  size_t hash = key.size();
  for (const int32_t cell : key)
    hash = Mix(hash, static_cast<size_t>(cell));
  return hash;
}

Result<std::unique_ptr<Constraint>> Constraint::Create(const Grammar& grammar, Grammar::Term root,
                                                       const TokenTrie& trie) {
  TENON_ASSIGN_OR_RETURN(Automaton automaton, Automaton::Compile(grammar, root));
  return std::unique_ptr<Constraint>(new Constraint(std::move(automaton), trie));
}

Constraint::Constraint(Automaton automaton, const TokenTrie& trie)
    : automaton_(std::move(automaton)), trie_(trie) {
  const int32_t first = InternCell({-1, automaton_.start(), 0, 0});
  start_ = Close({&first, 1});
}

void Constraint::GrowSlots() {
  constexpr size_t kFirstSlots = 4096;
  cell_slots_.assign(std::max(kFirstSlots, 4 * cell_slots_.size()), -1);
  const size_t last = cell_slots_.size() - 1;
  for (size_t i = 0; i < cells_.size(); ++i) {
    size_t slot = HashOf(cells_[i]) & last;
    while (cell_slots_[slot] >= 0)
      slot = (slot + 1) & last;
    cell_slots_[slot] = static_cast<int32_t>(i);
  }
}

int32_t Constraint::InternCell(const Cell& cell) {
  if (2 * (cells_.size() + 1) > cell_slots_.size())
    GrowSlots();
  const size_t last = cell_slots_.size() - 1;
  size_t slot = HashOf(cell) & last;
  for (; cell_slots_[slot] >= 0; slot = (slot + 1) & last) {
    if (cells_[static_cast<size_t>(cell_slots_[slot])] == cell)
      return cell_slots_[slot];
  }
  const auto index = static_cast<int32_t>(cells_.size());
  cell_slots_[slot] = index;
  const int32_t depth = cell.below < 0 ? 0 : cell_info_[static_cast<size_t>(cell.below)].depth + 1;
  cells_.push_back(cell);
  cell_info_.push_back({depth, -1, 0, kUnknown});
  return index;
}

Constraint::State Constraint::InternState(StateInfo info) {
  if (info.cells.empty() && !info.is_accepting)
    return kDead;
  std::ranges::sort(info.cells);
  std::vector<int32_t> key = info.cells;
  key.push_back(info.is_accepting ? -2 : -1);  // the key ends with what no cell is
  const auto [found, is_new] =
      state_index_.emplace(std::move(key), static_cast<State>(states_.size()));
  if (is_new) {
    kept_cells_ += 2 * info.cells.size() + 1;
    states_.push_back(std::move(info));
    next_.insert(next_.end(), automaton_.classes(), kUnknown);
  }
  return found->second;
}

// What the topmost frame allows without reading: puts the stacks that follow on open_.
void Constraint::Expand(int32_t index, bool& is_accepting) {
  const Cell cell = cells_[static_cast<size_t>(index)];
  const Automaton::Node& node = automaton_.node(cell.node);
  const auto go_on = [&](int32_t below, int32_t to) {
    open_.push_back(InternCell({below, to, 0, 0}));
  };
  switch (node.kind) {
    case Automaton::Kind::kBytes:
      return;
    case Automaton::Kind::kSplit:
      for (const int32_t target : automaton_.targets(node))
        go_on(cell.below, target);
      return;
    case Automaton::Kind::kCall: {
      // A call at the end of a rule needs no frame to come back to.
      const bool is_last = automaton_.node(node.next).kind == Automaton::Kind::kReturn;
      go_on(is_last ? cell.below : InternCell({cell.below, node.next, 0, 0}), node.a);
      return;
    }
    case Automaton::Kind::kEnter:
      open_.push_back(InternCell({cell.below, node.a, node.min, node.max}));
      return;
    case Automaton::Kind::kLoop:
      if (cell.min == 0)
        go_on(cell.below, node.next);
      if (cell.max != 0) {
        const int64_t max = cell.max == Grammar::kNoLimit ? cell.max : cell.max - 1;
        go_on(InternCell({cell.below, cell.node, std::max<int64_t>(cell.min - 1, 0), max}), node.a);
      }
      return;
    case Automaton::Kind::kReturn:
      if (cell.below < 0)
        is_accepting = true;
      else
        open_.push_back(cell.below);
      return;
  }
}

size_t Constraint::TableBytes() const {
  // What a hash table adds to an entry.
  constexpr size_t kEntry = 64;
  const size_t cells = cells_.size() * (sizeof(Cell) + sizeof(CellInfo)) + 4 * cell_slots_.size();
  const size_t states =
      states_.size() * (sizeof(StateInfo) + kEntry) + next_.size() * sizeof(State);
  return cells + states + closed_.size() * kEntry + kept_cells_ * sizeof(int32_t);
}

// The state of these stacks and of all that follow from them without reading.
Constraint::State Constraint::Close(std::span<const int32_t> open) {
  open_.assign(open.begin(), open.end());
  ++round_;
  reading_.clear();
  bool is_accepting = false;
  while (!open_.empty()) {
    const int32_t index = open_.back();
    open_.pop_back();
    CellInfo& info = cell_info_[static_cast<size_t>(index)];
    const int32_t node = cells_[static_cast<size_t>(index)].node;
    if (info.visited == round_ || info.depth + automaton_.need(node) > Automaton::kMaxDepth)
      continue;
    info.visited = round_;
    if (automaton_.node(node).kind == Automaton::Kind::kBytes)
      reading_.push_back(index);
    else
      Expand(index, is_accepting);
    if (++work_ > kMaxWork || reading_.size() > kMaxStacks || open_.size() > kMaxWork)
      is_exhausted_ = true;
    if (is_exhausted_)
      return kDead;
  }
  if (TableBytes() > kMaxTableBytes)
    is_exhausted_ = true;
  return is_exhausted_ ? kDead : InternState({reading_, is_accepting, kDead, -1});
}

// Close, remembered.
Constraint::State Constraint::CloseKnown(std::span<const int32_t> open) {
  if (open.size() == 1) {
    const auto index = static_cast<size_t>(open.front());
    if (cell_info_[index].closed == kUnknown) {
      const State closed = Close(open);
      cell_info_[index].closed = closed;
    }
    return cell_info_[index].closed;
  }
  const auto [known, is_new] = closed_.emplace(std::vector(open.begin(), open.end()), kDead);
  if (is_new) {
    kept_cells_ += open.size();
    known->second = Close(open);
  }
  return known->second;
}

Constraint::State Constraint::Step(State state, size_t byte_class) {
  const uint8_t byte = automaton_.example(byte_class);
  stepped_.clear();
  for (const int32_t index : states_[static_cast<size_t>(state)].cells) {
    const Cell& cell = cells_[static_cast<size_t>(index)];
    const Automaton::Node& node = automaton_.node(cell.node);
    if (automaton_.Contains(node, byte))
      stepped_.push_back(InternCell({cell.below, node.next, 0, 0}));
  }
  work_ += states_[static_cast<size_t>(state)].cells.size() / 8;  // a look costs less than a stack
  const State next = stepped_.empty() ? kDead : CloseKnown(stepped_);
  next_[static_cast<size_t>(state) * automaton_.classes() + byte_class] = next;
  return next;
}

Constraint::State Constraint::AfterBytes(State state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  work_ = 0;
  for (const char c : bytes) {
    if (state == kDead)
      return kDead;
    state = Next(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool Constraint::IsAccepting(State state) const {
  const std::lock_guard lock(mutex_);
  return state != kDead && states_[static_cast<size_t>(state)].is_accepting;
}

bool Constraint::IsFinal(State state) const {
  if (state == kDead)
    return false;
  const std::lock_guard lock(mutex_);
  const StateInfo& info = states_[static_cast<size_t>(state)];
  return info.is_accepting && info.cells.empty();
}

// The same stack with counters that no token can exhaust made equal: a token has at most longest()
// bytes, and a repetition takes one at least.
int32_t Constraint::ClampCell(int32_t index) {
  if (index < 0)
    return index;
  const int32_t known = cell_info_[static_cast<size_t>(index)].clamped;
  if (known >= 0)
    return known;
  const auto enough = static_cast<int64_t>(trie_.longest()) + 1;
  Cell cell = cells_[static_cast<size_t>(index)];
  cell.below = ClampCell(cell.below);
  cell.min = std::min(cell.min, enough);
  if (cell.max > enough)
    cell.max = Grammar::kNoLimit;
  const int32_t clamped = InternCell(cell);
  cell_info_[static_cast<size_t>(index)].clamped = clamped;
  return clamped;
}

Constraint::State Constraint::Clamp(State state) {
  const State known = states_[static_cast<size_t>(state)].clamped;
  if (known != kDead)
    return known;
  std::vector<int32_t> cells = states_[static_cast<size_t>(state)].cells;
  for (int32_t& cell : cells)
    cell = ClampCell(cell);
  std::ranges::sort(cells);
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  const bool is_accepting = states_[static_cast<size_t>(state)].is_accepting;
  const State clamped = InternState({std::move(cells), is_accepting, kDead, -1});
  states_[static_cast<size_t>(state)].clamped = clamped;
  return clamped;
}

bool Constraint::FindStringLoop(State state, StringLoop& loop) const {
  int32_t frame = -1;
  for (const int32_t index : states_[static_cast<size_t>(state)].cells) {
    const Cell& cell = cells_[static_cast<size_t>(index)];
    if (!automaton_.node(cell.node).is_string || cell.below < 0)
      continue;
    const Cell& below = cells_[static_cast<size_t>(cell.below)];
    if (!automaton_.node(below.node).is_string)
      continue;
    // The frame counts what may follow the character that this one reads.
    const int64_t characters = below.max == Grammar::kNoLimit ? below.max : below.max + 1;
    const bool is_longer = frame < 0 || characters == Grammar::kNoLimit ||
                           (loop.characters != Grammar::kNoLimit && characters > loop.characters);
    if (is_longer) {
      frame = cell.below;
      loop.characters = characters;
    }
  }
  loop.is_alone =
      std::ranges::none_of(states_[static_cast<size_t>(state)].cells, [&](int32_t index) {
        const Cell& cell = cells_[static_cast<size_t>(index)];
        const ByteSet& set = automaton_.set(automaton_.node(cell.node));
        bool takes_safe = false;
        for (size_t byte = 0; byte < set.size() && cell.below != frame; ++byte)
          takes_safe |= set.test(byte) && IsSafeByte(static_cast<uint8_t>(byte));
        return takes_safe;
      });
  return frame >= 0;
}

void Constraint::Walk(const TokenTrie::Tree& tree, State state, std::span<uint64_t> out) {
  path_.resize(trie_.longest() + 1);
  path_[0] = state;
  const size_t count = tree.nodes.size() - 1;
  for (size_t i = 0; i < count;) {
    const TokenTrie::Node& node = tree.nodes[i];
    const State next = Next(path_[node.depth], node.byte);
    if (next == kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth + size_t{1}] = next;
    for (uint32_t t = node.first_token; t < tree.nodes[i + 1].first_token; ++t)
      AllowToken(out, tree.tokens[t]);
    ++i;
  }
}

void Constraint::MakeMask(State state, std::span<uint64_t> out) {
  std::ranges::fill(out, 0);
  StringLoop loop;
  const bool in_string = FindStringLoop(state, loop);
  const bool is_long =
      loop.characters == Grammar::kNoLimit || loop.characters >= TokenTrie::kSafeCharacters;
  if (in_string && (is_long || loop.is_alone)) {
    std::ranges::copy(trie_.Safe(is_long ? TokenTrie::kSafeCharacters : loop.characters),
                      out.begin());
    Walk(trie_.unsafe(), state, out);
  } else {
    Walk(trie_.all(), state, out);
  }
  if (states_[static_cast<size_t>(state)].is_accepting) {
    for (const int32_t token : trie_.stop_ids())
      AllowToken(out, token);
  }
}

void Constraint::Mask(State state, std::span<uint64_t> out) {
  TENON_CHECK(out.size() == trie_.mask_words());
  if (state == kDead) {
    std::ranges::fill(out, 0);
    for (const int32_t token : trie_.stop_ids())
      AllowToken(out, token);
    return;
  }
  // A mask is kept for each state up to this many bytes; beyond it they are made again.
  constexpr size_t kMaxMaskBytes = size_t{16} << 20;
  const std::lock_guard lock(mutex_);
  work_ = 0;
  ++stats_.masks;
  const State clamped = Clamp(state);
  const int32_t known = states_[static_cast<size_t>(clamped)].mask;
  if (known >= 0) {
    std::ranges::copy(masks_[static_cast<size_t>(known)], out.begin());
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  MakeMask(clamped, out);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++stats_.walks;
  stats_.walk_seconds += seconds;
  stats_.worst_seconds = std::max(stats_.worst_seconds, seconds);
  if ((masks_.size() + 1) * out.size() * sizeof(uint64_t) <= kMaxMaskBytes) {
    states_[static_cast<size_t>(clamped)].mask = static_cast<int32_t>(masks_.size());
    masks_.emplace_back(out.begin(), out.end());
  }
}

ConstraintStats Constraint::stats() const {
  const std::lock_guard lock(mutex_);
  ConstraintStats stats = stats_;
  stats.states = states_.size();
  stats.cells = cells_.size();
  stats.bytes = TableBytes() + masks_.size() * trie_.mask_words() * sizeof(uint64_t);
  return stats;
}

}  // namespace tenon
