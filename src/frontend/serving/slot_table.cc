#include "frontend/serving/slot_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "engine/kv/sequence.h"

namespace tenon {
namespace {

// The registered blocks of `tokens`, with a reference each.
std::vector<BlockIndex> CachedBlocks(KvPool& pool, const CacheScope& scope,
                                     std::span<const int32_t> tokens) {
  std::vector<BlockIndex> blocks;
  pool.RetainPrefix(scope, tokens, blocks);
  return blocks;
}

int64_t FileBytes(const std::filesystem::path& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  return code ? 0 : static_cast<int64_t>(size);
}

}  // namespace

void SlotTable::Remember(int32_t slot, std::span<const int32_t> tokens, const CacheScope& scope) {
  auto chosen = slots_.begin() + std::max(slot, 0);
  if (slot < 0) {
    chosen = std::min_element(slots_.begin(), slots_.end(),
                              [](const Slot& a, const Slot& b) { return a.last_use < b.last_use; });
  }
  chosen->tokens.assign(tokens.begin(), tokens.end());
  chosen->scope = scope;
  chosen->last_use = ++uses_;
}

Result<SlotResult> SlotTable::Run(const SlotOrder& order, KvPool& pool) {
  if (order.slot < 0 || order.slot >= size())
    return InvalidArgument(fmt::format("found {}, expected 0 to {}", order.slot, size() - 1),
                           "id_slot");
  const auto start = std::chrono::steady_clock::now();
  auto result = order.action == SlotAction::kSave      ? Save(order, pool)
                : order.action == SlotAction::kRestore ? Restore(order, pool)
                                                       : Erase(order, pool);
  if (result.ok()) {
    result->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return result;
}

Result<SlotResult> SlotTable::Save(const SlotOrder& order, KvPool& pool) {
  const Slot& slot = slots_[static_cast<size_t>(order.slot)];
  Sequence sequence(pool, order.scope);
  if (slot.scope == order.scope && !slot.tokens.empty()) {
    // One token more, as a match always leaves one to compute.
    std::vector<int32_t> tokens = slot.tokens;
    tokens.push_back(0);
    sequence.MatchPrefix(tokens);
  }
  if (sequence.length() == 0) {
    return NotFound(fmt::format("slot {} holds no conversation of {} tokens or more whose KV is "
                                "still cached",
                                order.slot, kKvBlockTokens),
                    "id_slot");
  }
  TENON_RETURN_IF_ERROR(SaveSequence(order.path, pool, sequence, order.identity));
  return SlotResult{sequence.length(), FileBytes(order.path), 0.0};
}

Result<SlotResult> SlotTable::Restore(const SlotOrder& order, KvPool& pool) {
  TENON_ASSIGN_OR_RETURN(const Sequence sequence,
                         RestoreSequence(order.path, pool, order.scope, order.identity));
  Remember(order.slot, sequence.tokens(), order.scope);
  return SlotResult{sequence.length(), FileBytes(order.path), 0.0};
}

// Blocks that others use, or that are the beginning of another conversation, stay.
Result<SlotResult> SlotTable::Erase(const SlotOrder& order, KvPool& pool) {
  Slot& slot = slots_[static_cast<size_t>(order.slot)];
  if (slot.scope != order.scope || slot.tokens.empty())
    return SlotResult{};
  const auto tokens = static_cast<int64_t>(slot.tokens.size());
  auto blocks = CachedBlocks(pool, slot.scope, slot.tokens);
  for (; !blocks.empty(); blocks.pop_back()) {
    // Private blocks leave the prefix index, so that nothing of them is found any more.
    if (!pool.NeedsCopy(blocks.back()))
      pool.Release(pool.MakePrivate(blocks.back()));
    else
      pool.Release(blocks.back());
  }
  slot = Slot();
  return SlotResult{tokens, 0, 0.0};
}

}  // namespace tenon
