#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace tenon {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0)
    return InvalidArgument("odd", "value");
  return value / 2;
}

Result<int> Quarter(int value) {
  TENON_ASSIGN_OR_RETURN(const int half, Half(value));
  TENON_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int value) {
  TENON_RETURN_IF_ERROR(Half(value));
  return {};
}

TEST(ResultTest, HoldsAValueOrAnError) {
  Result<int> good = Half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 4);
  *good = 5;
  EXPECT_EQ(good.value(), 5);
  const Result<int> bad = Half(3);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.error().ToString(), "value: odd");
}

TEST(ResultTest, MacrosPassErrorsOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_FALSE(Quarter(6).ok());
  EXPECT_FALSE(Quarter(5).ok());
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(1).error().message, "odd");
}

TEST(ResultTest, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, AValueMayBeOfTheErrorsKind) {
  // Result<bool> must not read a false value as a failure.
  const Result<bool> result = false;
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(*result);
}

TEST(ErrorTest, TextWithAndWithoutAPlace) {
  EXPECT_EQ(MakeError(ErrorCode::kIo, "gone").ToString(), "gone");
  EXPECT_EQ(Corrupt("bad", "f: offset 3").ToString(), "f: offset 3: bad");
  EXPECT_EQ(NotFound("x").code, ErrorCode::kNotFound);
  EXPECT_EQ(Unsupported("x").code, ErrorCode::kUnsupported);
}

TEST(ErrorTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    names.insert(ErrorCodeName(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), 8u);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace tenon
