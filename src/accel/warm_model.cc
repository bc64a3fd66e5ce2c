#include "accel/warm_model.h"

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {

Status WarmModel(ModelRunner& runner) {
  Sequence sequence(runner.kv(), CacheScope{}, PrefixCache::kOff);
  TENON_ASSIGN_OR_RETURN(const Reservation reserved, sequence.Reserve(1));
  if (reserved != Reservation::kReady)
    return {};
  constexpr int32_t kToken[] = {0};
  BatchBuilder builder;
  builder.AddTokens(builder.AddSequence(sequence.block_table()), kToken, 0,
                    BatchBuilder::Outputs::kLast);
  const auto logits = runner.Step(builder.batch());
  return logits.ok() ? Status() : Status(logits.error());
}

}  // namespace tenon
