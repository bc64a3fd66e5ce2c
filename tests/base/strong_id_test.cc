#include "base/strong_id.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace tenon {
namespace {

using ValueId = StrongId<struct ValueTag>;
using NodeId = StrongId<struct NodeTag>;

static_assert(!std::is_convertible_v<ValueId, NodeId>);
static_assert(!std::is_constructible_v<NodeId, ValueId>);
static_assert(!std::is_convertible_v<uint32_t, ValueId>);

TEST(StrongIdTest, DefaultIsInvalid) {
  EXPECT_FALSE(ValueId().valid());
  EXPECT_TRUE(ValueId(0).valid());
  EXPECT_EQ(ValueId(7).index(), 7u);
}

TEST(StrongIdTest, ComparesByIndex) {
  EXPECT_EQ(ValueId(3), ValueId(3));
  EXPECT_NE(ValueId(3), ValueId(4));
  EXPECT_LT(ValueId(3), ValueId(4));
  EXPECT_LT(ValueId(4), ValueId());
}

TEST(StrongIdTest, IsAKeyOfHashedSets) {
  std::unordered_set<ValueId> ids = {ValueId(1), ValueId(2), ValueId(1)};
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_TRUE(ids.contains(ValueId(2)));
}

}  // namespace
}  // namespace tenon
