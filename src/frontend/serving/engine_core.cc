#include "frontend/serving/engine_core.h"

#include <algorithm>

#include "base/check.h"

namespace tenon {

EngineCore::EngineCore(Model& model, StepEngine& steps, const ServingOptions& options,
                       ServingObserver* observer)
    : model_(model),
      runner_(model.runner()),
      steps_(steps),
      options_(options),
      observer_(observer),
      step_times_(options.max_batch),
      slots_(options.max_batch) {}

Status EngineCore::WarmUp() {
  if (options_.preemption != Preemption::kRecompute) {
    TENON_ASSIGN_OR_RETURN(checkpoints_,
                           LayerCheckpoints::Create(runner_, options_.checkpoint_interval));
  }
  constexpr int64_t kPromptTokens = 64;
  // No further than the model was trained for: learned positions end there.
  const int64_t capacity = std::min(int64_t{runner_.kv_config().blocks} * kKvBlockTokens,
                                    std::max<int64_t>(model_.source().config.context_length, 1));
  const int64_t decodes = std::min(options_.warmup_steps, capacity - 1);
  const int64_t prompt = std::min({kPromptTokens, options_.token_budget, capacity - decodes});
  Sequence sequence(runner_.kv(), CacheScope{}, PrefixCache::kOff);
  TENON_RETURN_IF_ERROR(ReserveNow(sequence, prompt + decodes));
  for (int64_t position = 0; position < prompt + decodes;) {
    const int64_t count = position == 0 ? prompt : 1;
    const std::vector<int32_t> tokens(static_cast<size_t>(count), 0);
    builder_.Clear();
    builder_.AddTokens(builder_.AddSequence(sequence.block_table()), tokens, position,
                       BatchBuilder::Outputs::kLast);
    const auto start = Clock::now();
    const auto logits = runner_.Step(builder_.batch());
    if (!logits.ok())
      return logits.error();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    step_times_.Observe(position == 0 ? 0 : 1, position == 0 ? count : 0, seconds);
    position += count;
  }
  return {};
}

void EngineCore::Accept(std::unique_ptr<ActiveRequest> request) {
  ActiveRequest& owner = *request;
  Sequence sequence(runner_.kv(), owner.spec.scope, owner.spec.prefix_cache);
  if (owner.spec.modules.has_value()) {
    owner.modules = kNoModules;
    for (const std::string& name : *owner.spec.modules)
      owner.modules |= steps_.MaskOf(name);
  }
  auto choice = std::make_unique<Choice>(owner, ++last_key_, std::move(sequence), owner.prompt);
  if (!owner.voices.empty()) {
    choice->voice.emplace(std::move(owner.voices.back()));
    owner.voices.pop_back();
  }
  owner.choices_begun = 1;
  owner.choices_left = 1 + static_cast<int32_t>(owner.voices.size());
  requests_.emplace(owner.id, std::move(request));
  waiting_.push_back(std::move(choice));
}

void EngineCore::End(RequestId id, const Error& error) {
  const auto found = requests_.find(id);
  if (found == requests_.end())
    return;
  found->second->failure = error;
  RemoveOver();
}

void EngineCore::EndAll(const Error& error) {
  for (const auto& [id, request] : requests_)
    request->failure = error;
  RemoveOver();
}

SchedTime EngineCore::RunOnce() {
  const SchedTime now = Clock::now();
  EndPassedDeadlines(now);
  const SchedTime next = AdmitWaiting(now);
  if (running_.empty())
    return next;
  RebuildSome();
  RunStep(PlanStep());
  RemoveOver();
  return running_.empty() && waiting_.empty() ? SchedTime::max() : SchedTime::min();
}

SequenceLoad EngineCore::LoadOf(Choice& choice) {
  if (choice.rebuild_to > 0 || IsHeld(choice))
    return {LoadKind::kHeld, choice.pending()};
  if (runner_.is_encoder())
    return {LoadKind::kWhole, choice.pending()};
  Part part;
  SequenceTask task = TaskOf(choice, part);
  choice.work = steps_.Pending(task);
  const int64_t pending = choice.work.tokens;
  if (choice.request->NeedsScores())
    return {LoadKind::kScore, pending};
  return {pending == 1 ? LoadKind::kDecode : LoadKind::kPrefill, pending};
}

StepPlan EngineCore::PlanStep() {
  std::vector<SequenceLoad> loads;
  int64_t decodes = 0;
  int64_t prompts = 0;
  for (const ChoicePtr& choice : running_) {
    if (choice->leader != 0 && !IsHeld(*choice))
      TakeOverPrefix(*choice);
    loads.push_back(LoadOf(*choice));
    decodes += loads.back().kind == LoadKind::kDecode ? 1 : 0;
    prompts += loads.back().kind == LoadKind::kPrefill ? 1 : 0;
  }
  StepLimits limits;
  limits.tokens = options_.token_budget;
  limits.output_rows = runner_.options().plan.max_outputs;
  if (decodes > 0)
    limits.prefill_beside_decodes = step_times_.ChunkBeside(decodes, std::max<int64_t>(prompts, 1));
  return FillStep(loads, limits);
}

bool EngineCore::ReserveOne(Choice& choice, int64_t tokens) {
  const Result<Reservation> reservation = choice.sequence.Reserve(tokens);
  if (!reservation.ok())
    choice.request->failure = reservation.error();
  return reservation.ok() && *reservation == Reservation::kReady;
}

// Makes room for the planned tokens, preempting where the pool has none. Returns the choices of the
// plan's entries, null for one that is out of the step.
std::vector<Choice*> EngineCore::ReserveFor(const StepPlan& plan) {
  std::vector<Choice*> choices;
  for (const StepPlan::Entry& entry : plan.entries)
    choices.push_back(running_[entry.sequence].get());
  for (size_t i = 0; i < choices.size(); ++i) {
    while (choices[i] != nullptr && choices[i]->work.target_slots > 0 &&
           !ReserveOne(*choices[i], plan.entries[i].tokens)) {
      if (choices[i]->request->failure.has_value()) {
        choices[i] = nullptr;
        break;
      }
      std::vector<RunningRequest> views;
      for (const ChoicePtr& choice : running_)
        views.push_back({choice->request->id, choice->request->spec.priority, choice->index});
      const size_t victim = NextToPreempt(views);
      std::replace(choices.begin(), choices.end(), running_[victim].get(),
                   static_cast<Choice*>(nullptr));
      Preempt(victim);
    }
  }
  return choices;
}

// All of the task but how much of it is to be computed.
SequenceTask EngineCore::TaskOf(Choice& choice, Part& part) {
  ActiveRequest& request = *choice.request;
  part.choice = &choice;
  part.is_scored = request.NeedsScores();
  if (choice.voice.has_value() && !choice.voice->answer.IsEmpty()) {
    part.samplers.push_back(&choice.voice->sampler);
    // The other choices begin with a token from the same row; the last voice is the next choice's.
    const bool has_forks = choice.index == 0;
    for (auto voice = request.voices.rbegin(); has_forks && voice != request.voices.rend(); ++voice)
      part.samplers.push_back(&voice->sampler);
  }
  SequenceTask task;
  task.key = choice.key;
  task.modules = request.modules;
  task.sequence = &choice.sequence;
  task.tokens = choice.tokens;
  task.prompt_tokens = request.prompt_tokens();
  task.samplers = part.samplers;
  task.most = choice.voice.has_value() ? std::max<int64_t>(choice.voice->answer.remaining(), 1) : 1;
  if (part.is_scored)
    task.rows = request.is_embedding() ? RowKind::kHidden : RowKind::kLogits;
  return task;
}

void EngineCore::AddPart(Choice& choice, int64_t tokens) {
  Part part;
  SequenceTask task = TaskOf(choice, part);
  task.compute = tokens;
  if (part.is_scored) {
    task.on_rows = [this, &choice, tokens](std::span<const float> rows) {
      TakeRows(*choice.request, tokens, rows);
    };
  }
  parts_.push_back(std::move(part));  // moves the samplers' storage, not the samplers
  tasks_.push_back(std::move(task));
}

void EngineCore::TellBegun(SchedTime now) {
  for (const Part& part : parts_) {
    if (!part.choice->request->started.has_value()) {
      part.choice->request->started = now;
      TellStarted(*part.choice->request);
    }
  }
}

void EngineCore::RunStep(const StepPlan& plan) {
  parts_.clear();
  tasks_.clear();
  const std::vector<Choice*> choices = ReserveFor(plan);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] != nullptr)
      AddPart(*choices[i], plan.entries[i].tokens);
  }
  if (parts_.empty())
    return;
  const auto start = Clock::now();
  TellBegun(start);
  WatchStates();
  const Status status = steps_.Advance(tasks_);
  if (!status.ok()) {
    FailStep(status.error());
    return;
  }
  CountStep(plan, std::chrono::duration<double>(Clock::now() - start).count());
  TrimStates();
  TakeResults();
}

void EngineCore::FailStep(const Error& error) {
  for (const Part& part : parts_)
    part.choice->request->failure = error;
}

void EngineCore::CountStep(const StepPlan& plan, double seconds) {
  int64_t tokens = 0;   // computed, guesses included
  int64_t planned = 0;  // of them, those of the plan
  for (const SequenceTask& task : tasks_) {
    tokens += task.computed;
    planned += task.compute;
  }
  const auto sequences = static_cast<int64_t>(parts_.size());
  counters_.busy_s += seconds;
  ++counters_.steps;
  counters_.step_tokens += static_cast<uint64_t>(tokens);
  counters_.step_sequences += static_cast<uint64_t>(sequences);
  // A preemption took parts out of the plan: what it would have cost is not known.
  if (planned == plan.tokens)
    step_times_.Observe(plan.decodes, planned - plan.decodes, seconds);
  if (observer_ != nullptr)
    observer_->OnStep(seconds, tokens, sequences);
}

ServingStats EngineCore::stats() const {
  ServingStats stats = counters_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = waiting();
  for (const auto* choices : {&waiting_, &running_}) {
    for (const ChoicePtr& choice : *choices)
      stats.checkpoint_bytes += choice->states.bytes();
  }
  stats.kv = runner_.kv().stats();
  return stats;
}

}  // namespace tenon
