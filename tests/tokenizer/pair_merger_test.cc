#include "model/tokenizer/pair_merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "model/tokenizer/pair_table.h"

namespace tenon {
namespace {

using Ids = std::vector<int32_t>;
using Merges = std::map<std::pair<int32_t, int32_t>, MergeResult>;

// The definition: while some pair merges, merge the best one, the leftmost among equals.
Ids MergeByDefinition(Ids row, const Merges& merges) {
  while (true) {
    size_t best = row.size();
    MergeResult result;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      auto found = merges.find({row[i], row[i + 1]});
      if (found != merges.end() && (best == row.size() || found->second.priority < result.priority))
        best = i, result = found->second;
    }
    if (best == row.size())
      return row;
    row[best] = result.id;
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

Ids MergeWithHeap(const Ids& row, const PairTable& table) {
  PairMerger merger;
  for (size_t i = 0; i < row.size(); ++i)
    merger.Append(static_cast<uint32_t>(i), 1, row[i]);
  merger.Merge([&](const MergeSymbol& left, const MergeSymbol& right) {
    return table.Find(left.id, right.id);
  });
  Ids out;
  for (const MergeSymbol& symbol : merger.symbols()) {
    if (symbol.length > 0)
      out.push_back(symbol.id);
  }
  return out;
}

TEST(PairMerger, MergesAsDefined) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Merges merges;
    PairTable table(40);
    for (int32_t id = 3; id < 43; ++id) {  // letters 0 to 2, then merged tokens, in rank order
      const auto left = static_cast<int32_t>(random() % static_cast<uint32_t>(id));
      const auto right = static_cast<int32_t>(random() % static_cast<uint32_t>(id));
      const MergeResult result{static_cast<uint32_t>(random() % 20), id};  // ties are common
      if (merges.try_emplace({left, right}, result).second)
        table.Add(left, right, result);
    }
    Ids row;
    for (size_t i = random() % 40; i > 0; --i)
      row.push_back(static_cast<int32_t>(random() % 3));
    EXPECT_EQ(MergeWithHeap(row, table), MergeByDefinition(row, merges)) << "round " << round;
  }
}

TEST(PairTable, FirstOfEqualPairsStays) {
  PairTable table(2);
  table.Add(1, 2, {5, 10});
  table.Add(1, 2, {6, 11});
  ASSERT_TRUE(table.Find(1, 2).has_value());
  EXPECT_EQ(table.Find(1, 2)->id, 10);
  EXPECT_FALSE(table.Find(2, 1).has_value());
}

}  // namespace
}  // namespace tenon
