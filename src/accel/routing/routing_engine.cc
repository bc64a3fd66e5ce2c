#include "accel/routing/routing_engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "accel/routing/confidence.h"

namespace tenon {
namespace {

// Below every threshold.
constexpr double kLooping = -1.0;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

RoutingEngine::RoutingEngine(ModelRunner& small, ThreadPool& pool, const RouterScorer* scorer,
                             const RoutingOptions& options)
    : small_(small),
      pool_(pool),
      scorer_(scorer),
      options_(options),
      cache_(static_cast<size_t>(options.max_cache_length)),
      replay_(small.kv(), options.rules.threshold) {}

void RoutingEngine::Attach(StepEngine& next, ModuleMask bit) {
  next_ = &next;
  bit_ = bit;
}

void RoutingEngine::Clear() {
  routes_.clear();
  replay_.Clear();
}

void RoutingEngine::Forget(SequenceKey key) {
  const auto found = routes_.find(key);
  if (found != routes_.end()) {
    needs_.ObserveNeed(found->second->kind, 0, found->second->state.switches() > 0 ? 1.0 : 0.0);
    routes_.erase(found);
  }
  if (next_ != nullptr)
    next_->Forget(key);
}

StepCapacity RoutingEngine::capacity() const {
  const StepCapacity next = next_->capacity();
  const PlanOptions& plan = small_.options().plan;
  return {std::min(next.tokens, plan.max_tokens), std::min(next.output_rows, plan.max_outputs)};
}

RoutingEngine::Route& RoutingEngine::RouteFor(const SequenceTask& task) {
  const auto found = routes_.find(task.key);
  if (found != routes_.end())
    return *found->second;
  Sequence small(small_.kv(), task.sequence->scope(), task.sequence->prefix_cache());
  small.MatchPrefix(task.tokens);
  auto route = std::make_unique<Route>(std::move(small));
  route->kind = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(task.prompt_tokens)));
  needs_.ObserveArrival(route->kind, Clock::now());
  return *routes_.emplace(task.key, std::move(route)).first->second;
}

std::span<const RouteRecord> RoutingEngine::Audit(SequenceKey key) const {
  const auto found = routes_.find(key);
  return found == routes_.end() ? std::span<const RouteRecord>() : found->second->audit;
}

void RoutingEngine::HashKnown(Route& route, const SequenceTask& task) const {
  if (route.prefix.length() > task.known())  // a step was taken back
    route.prefix = PrefixHash();
  route.prefix.Extend(task.tokens.subspan(static_cast<size_t>(route.prefix.length())));
}

// Whether the small model leads. Where its confidence behind the known tokens is remembered and
// asks for the large one, it need not be run.
bool RoutingEngine::IsLed(Route& route, const SequenceTask& task) {
  if (route.small.length() >= task.known())
    route.small.Truncate(std::min<int64_t>(route.small.length(), task.known() - 1));
  if (route.state.side() == RouteSide::kLarge)
    return false;
  if (route.state.low_streak() + 1 < options_.rules.hysteresis)
    return true;
  HashKnown(route, task);
  const std::optional<double> known = cache_.Find(route.prefix.value());
  if (!known.has_value() || *known >= options_.rules.threshold)
    return true;
  route.state.Offer(options_.rules, *known, Clock::now());
  ++counters_.switches;
  ++counters_.skipped;
  return false;
}

PendingWork RoutingEngine::Pending(SequenceTask& task) {
  if (!IsMine(task))
    return next_->Pending(task);
  Route& route = RouteFor(task);
  if (!IsLed(route, task))
    return next_->Pending(task);
  return {task.known() - route.small.length(), 0};
}

Status RoutingEngine::Advance(std::span<SequenceTask> tasks) {
  const auto start = Clock::now();
  builder_.Clear();
  parts_.clear();
  forwarded_.clear();
  places_.clear();
  preloads_.clear();
  rows_ = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    SequenceTask& task = tasks[i];
    if (IsMine(task)) {
      Route& route = RouteFor(task);
      const int64_t pending = task.known() - route.small.length();
      if (route.state.side() == RouteSide::kSmall && task.compute <= pending) {
        task.ClearResults();
        if (!AddSmall(task, route))
          route.state.GoLarge(start);
        else
          Preload(task, route);
        continue;
      }
      CountLag(task, route);
      PrepareLarge(task, route);
    }
    places_.push_back(i);
  }
  TENON_RETURN_IF_ERROR(RunSmall());
  counters_.seconds += SecondsSince(start);
  return RunNext(tasks);
}

// ---- The small model ----

// False when the small model has no room.
bool RoutingEngine::AddSmall(SequenceTask& task, Route& route) {
  const auto reserved = route.small.Reserve(task.compute);
  if (!reserved.ok() || *reserved == Reservation::kWait) {
    ++counters_.small_kv_full;
    return false;
  }
  const int64_t first = route.small.length();
  const bool decides = first + task.compute == task.known() && !task.samplers.empty();
  builder_.AddTokens(
      builder_.AddSequence(route.small.block_table()),
      task.tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(task.compute)), first,
      decides ? BatchBuilder::Outputs::kLast : BatchBuilder::Outputs::kNone);
  counters_.caught_up += static_cast<uint64_t>(decides ? task.compute - 1 : task.compute);
  parts_.push_back({&task, &route, decides ? rows_++ : -1, 0.0, false});
  return true;
}

Status RoutingEngine::RunSmall() {
  if (parts_.empty())
    return {};
  const PlanOptions& plan = small_.options().plan;
  const int64_t room = plan.max_tokens - static_cast<int64_t>(builder_.tokens());
  std::optional<int64_t> replay_row;
  if (rows_ < plan.max_outputs)
    replay_row = replay_.AddPiece(builder_, std::min(room, DecisionReplay::kPiece), rows_);
  const auto start = Clock::now();
  TENON_ASSIGN_OR_RETURN(const auto logits, small_.Step(builder_.batch()));
  const auto stepped = Clock::now();
  for (const SmallPart& part : parts_) {
    SequenceTask& task = *part.task;
    const auto first = static_cast<size_t>(part.route->small.length());
    part.route->small.Append(task.tokens.subspan(first, static_cast<size_t>(task.compute)));
    part.route->small.Commit();
    task.computed = task.compute;
  }
  replay_.PieceDone();
  counters_.small_steps += parts_.size();
  ScoreSmall(logits);
  if (replay_row.has_value()) {
    const auto vocab = static_cast<size_t>(small_.vocab_size());
    double confidence = 0.0;
    if (scorer_ != nullptr) {
      const auto hidden = static_cast<size_t>(small_.hidden_size());
      scorer_->Score(small_.hidden().subspan(static_cast<size_t>(*replay_row) * hidden, hidden),
                     {&confidence, 1});
    } else {
      confidence = ConfidenceOf(logits.subspan(static_cast<size_t>(*replay_row) * vocab, vocab));
    }
    ++counters_.replays;
    counters_.replay_failures += replay_.Finish(confidence) ? 0 : 1;
  }
  const auto now = Clock::now();
  for (SmallPart& part : parts_) {
    if (part.row >= 0)
      DecideSmall(part, logits, now);
  }
  counters_.overhead_s +=
      SecondsSince(start) - std::chrono::duration<double>(stepped - start).count();
  return {};
}

double RoutingEngine::ConfidenceOf(std::span<const float> logits) const {
  const RowConfidence row = MeasureConfidence(logits);
  switch (options_.score) {
    case RouteScore::kTop1:
      return row.top1;
    case RouteScore::kMargin:
      return row.margin;
    case RouteScore::kEntropy:
    case RouteScore::kTrained:
      break;
  }
  return row.entropy;
}

void RoutingEngine::ScoreSmall(std::span<const float> logits) {
  for (SmallPart& part : parts_) {
    if (part.row < 0)
      continue;
    HashKnown(*part.route, *part.task);
    const std::optional<double> known = cache_.Find(part.route->prefix.value());
    part.is_known = known.has_value();
    part.confidence = known.value_or(0.0);
  }
  const auto vocab = static_cast<size_t>(small_.vocab_size());
  const auto width = static_cast<size_t>(small_.hidden_size());
  pool_.ParallelFor(static_cast<int64_t>(parts_.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      SmallPart& part = parts_[static_cast<size_t>(i)];
      if (part.row < 0 || part.is_known)
        continue;
      const auto row = static_cast<size_t>(part.row);
      if (scorer_ != nullptr)
        scorer_->Score(small_.hidden().subspan(row * width, width), {&part.confidence, 1});
      else
        part.confidence = ConfidenceOf(logits.subspan(row * vocab, vocab));
    }
  });
  for (const SmallPart& part : parts_) {
    if (part.row >= 0 && !part.is_known)
      cache_.Put(part.route->prefix.value(), part.confidence);
  }
}

void RoutingEngine::DecideSmall(SmallPart& part, std::span<const float> logits,
                                Clock::time_point now) {
  SequenceTask& task = *part.task;
  Route& route = *part.route;
  ++counters_.offered;
  SampleReplay(part);
  const bool loops = EndsInLoop(task.tokens, options_.rules.loop_tokens);
  const double confidence = loops ? kLooping : part.confidence;
  if (route.state.Offer(options_.rules, confidence, now) == RouteState::Verdict::kSwitch) {
    ++counters_.switches;
    return;
  }
  const auto vocab = static_cast<size_t>(small_.vocab_size());
  const Status status = DrawAll(task, logits.subspan(static_cast<size_t>(part.row) * vocab, vocab));
  if (!status.ok()) {
    task.failure = status.error();
    return;
  }
  ++counters_.small_tokens;
  for (SampledToken& sampled : task.decided) {
    sampled.decided_by = "small";
    sampled.confidence = static_cast<float>(part.confidence);
  }
  route.audit.push_back({RouteSide::kSmall, part.confidence});
}

Status RoutingEngine::DrawAll(SequenceTask& task, std::span<const float> row) const {
  for (size_t i = 0; i < task.samplers.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(SampledToken sampled, task.samplers[i]->Sample(row));
    task.samplers[i]->Accept(sampled.token);
    (i == 0 ? task.decided : task.forks).push_back(std::move(sampled));
  }
  return {};
}

void RoutingEngine::SampleReplay(const SmallPart& part) {
  if (options_.verify_every > 0 &&
      counters_.offered % static_cast<uint64_t>(options_.verify_every) == 0)
    replay_.Offer(part.task->tokens, part.confidence);
}

// Outside of steps, with batches of its own.
Status RoutingEngine::FinishReplays() {
  while (replay_.is_active()) {
    builder_.Clear();
    const PlanOptions& plan = small_.options().plan;
    const std::optional<int64_t> row = replay_.AddPiece(builder_, plan.max_tokens, 0);
    if (builder_.tokens() == 0)
      break;
    TENON_ASSIGN_OR_RETURN(const auto logits, small_.Step(builder_.batch()));
    replay_.PieceDone();
    if (!row.has_value())
      continue;
    double confidence = 0.0;
    if (scorer_ != nullptr)
      scorer_->Score(small_.hidden(), {&confidence, 1});
    else
      confidence = ConfidenceOf(logits);
    ++counters_.replays;
    counters_.replay_failures += replay_.Finish(confidence) ? 0 : 1;
  }
  return {};
}

// ---- The large model ----

// The large model's confidence is wanted for the way back. Only for a token of its own: rows for
// all that it catches up with would cost an output head each.
void RoutingEngine::PrepareLarge(SequenceTask& task, Route& route) {
  route.large_confidence = 0.0;
  if (!task.Decides() || task.compute != 1 || task.samplers.size() != 1 ||
      route.state.side() != RouteSide::kLarge || task.rows != RowKind::kNone ||
      task.known() - route.large_known != 1)
    return;
  task.rows = RowKind::kLogits;
  task.on_rows = [&route](std::span<const float> row) {
    route.large_confidence = MeasureConfidence(row).top1;
  };
}

// A piece of what the large model has not seen, when it is likely to be asked for. Never the last
// known token: should the large model be called now, it has to have one left to compute.
void RoutingEngine::Preload(SequenceTask& task, const Route& route) {
  if (route.state.switches() == 0 && needs_.NeedOf(route.kind, 0) < options_.preload_need)
    return;
  if (options_.preload_need > 1.0 || task.known() - task.sequence->length() <= kPreloadPiece)
    return;
  const auto reserved = task.sequence->Reserve(kPreloadPiece);
  if (!reserved.ok() || *reserved == Reservation::kWait)
    return;
  SequenceTask piece;
  piece.key = task.key;
  piece.modules = task.modules;
  piece.sequence = task.sequence;
  piece.tokens = task.tokens;
  piece.prompt_tokens = task.prompt_tokens;
  piece.compute = kPreloadPiece;
  preloads_.push_back(std::move(piece));
}

void RoutingEngine::CountLag(const SequenceTask& task, const Route& route) {
  const auto lag = static_cast<uint64_t>(task.known() - task.sequence->length());
  if (route.state.side() == RouteSide::kLarge && task.Decides())
    counters_.largest_lag = std::max(counters_.largest_lag, lag);
}

Status RoutingEngine::RunNext(std::span<SequenceTask> tasks) {
  if (places_.empty() && preloads_.empty())
    return {};
  if (places_.size() == tasks.size()) {
    TENON_RETURN_IF_ERROR(next_->Advance(tasks));
  } else {
    int64_t left = next_->capacity().tokens;
    for (const size_t place : places_) {
      left -= tasks[place].compute;
      forwarded_.push_back(std::move(tasks[place]));
    }
    for (SequenceTask& piece : preloads_) {
      if (left < piece.compute)
        break;
      left -= piece.compute;
      counters_.preloaded += static_cast<uint64_t>(piece.compute);
      forwarded_.push_back(std::move(piece));
    }
    const Status status = next_->Advance(forwarded_);
    for (size_t i = 0; i < places_.size(); ++i)
      tasks[places_[i]] = std::move(forwarded_[i]);
    TENON_RETURN_IF_ERROR(status);
  }
  const auto now = Clock::now();
  for (const size_t place : places_) {
    if (IsMine(tasks[place]))
      TakeLarge(tasks[place], RouteFor(tasks[place]), now);
  }
  return {};
}

void RoutingEngine::TakeLarge(SequenceTask& task, Route& route, Clock::time_point now) {
  const bool is_measured = task.rows == RowKind::kLogits;
  task.rows = RowKind::kNone;
  task.on_rows = nullptr;
  if (task.computed > 1)
    counters_.caught_up += static_cast<uint64_t>(task.computed - 1);
  if (task.decided.empty())
    return;
  counters_.large_tokens += task.decided.size();
  route.large_known = task.known();
  for (SampledToken& sampled : task.decided) {
    sampled.decided_by = "large";
    sampled.confidence = static_cast<float>(route.large_confidence);
    route.audit.push_back({RouteSide::kLarge, route.large_confidence});
  }
  if (!is_measured || route.state.side() != RouteSide::kLarge)
    return;
  route.state.LargeDecided(options_.rules, route.large_confidence, now);
  if (route.state.side() == RouteSide::kSmall)
    ++counters_.switches;
}

}  // namespace tenon
