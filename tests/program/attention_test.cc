// fuse_attention and fuse_rotary on every form that exporters write, in random combinations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "run_program.h"
#include "text_program.h"

namespace tenon {
namespace {

enum class Scale : uint64_t { kNone, kTimes, kDivided, kBothRoots, kQueryOnly };
enum class Mask : uint64_t { kNone, kAdded, kRow, kChosen, kLowest };

// One attention of 4 query heads over 3 queries and 5 keys of width 4.
struct Form {
  Scale scale = Scale::kNone;
  Mask mask = Mask::kNone;
  bool rows_first = false;  // q, k and v are [batch, rows, heads, width]
  bool repeated = false;    // 2 heads of keys and values, repeated
  bool guarded = false;     // 0 where softmax gives no number
  bool rotated = false;     // rotary embedding of q
  bool merged = false;      // the result is [batch, rows, heads * width]
  bool read_twice = false;  // the scaled query is an output too
};

class Writer {
 public:
  explicit Writer(const Form& form) : form_(form) {}

  std::string Run() {
    Declare();
    const std::string q = Query();
    const std::string scores = Masked(Scaled(q, Heads("k")));
    const std::string out = Emit("MatMul(" + Probabilities(scores) + ", " + Heads("v") + ")");
    std::string result = out;
    if (form_.merged)
      result = Emit("Reshape(" + Emit("Transpose(" + out + ") perm=[0, 2, 1, 3]") + ", %flat)");
    text_ += fmt::format("output {}\n", result);
    if (form_.read_twice)
      text_ += fmt::format("output {}\n", q);
    return text_;
  }

 private:
  std::string Emit(const std::string& right) {
    text_ += fmt::format("%t{} = {}\n", count_, right);
    return fmt::format("%t{}", count_++);
  }

  void Declare() {
    const int64_t kv = form_.repeated ? 2 : 4;
    const auto input = [&](const char* name, int64_t heads, int64_t rows) {
      text_ += form_.rows_first ? fmt::format("input %{} f32 [b, {}, {}, 4]\n", name, rows, heads)
                                : fmt::format("input %{} f32 [b, {}, {}, 4]\n", name, heads, rows);
    };
    input("q", 4, 3);
    input("k", kv, 5);
    input("v", kv, 5);
    text_ +=
        "input %m f32 [b, 1, 3, 5]\ninput %r f32 [5]\ninput %c f32 [b, 1, 3, 4]\ninput %s f32 [b, "
        "1, 3, 4]\nconst %half f32 [] = 0.5\nconst %root f32 [] = 0.7071068\nconst %two f32 [] = "
        "2\nconst %zero f32 [] = 0\nconst %low f32 [] = -3e38\nconst %rows i64 [1, 1, 3, 1] = 2 3 "
        "4\nconst %columns i64 [1, 1, 1, 5] = 0 1 2 3 4\nconst %flat i64 [3] = 0 0 16\nconst %ax "
        "i64 [1] = 2\nconst %five i64 [5] = 1 2 2 5 4\nconst %four i64 [4] = 0 4 5 4\nconst %begin "
        "i64 [1] = 0\nconst %middle i64 [1] = 2\nconst %end i64 [1] = 1000\nconst %last i64 [1] = "
        "3\n";
  }

  // [batch, 4 heads, rows, width].
  std::string Heads(const std::string& name) {
    std::string x = "%" + name;
    if (form_.rows_first)
      x = Emit("Transpose(" + x + ") perm=[0, 2, 1, 3]");
    if (!form_.repeated || name == "q")
      return x;
    const std::string wide = Emit("Expand(" + Emit("Unsqueeze(" + x + ", %ax)") + ", %five)");
    return Emit("Reshape(" + wide + ", %four)");
  }

  std::string Query() {
    const std::string q = Heads("q");
    if (!form_.rotated)
      return q;
    const std::string low = Emit("Slice(" + q + ", %begin, %middle, %last)");
    const std::string high = Emit("Slice(" + q + ", %middle, %end, %last)");
    const std::string turned =
        Emit("Concat(" + Emit("Neg(" + high + ")") + ", " + low + ") axis=-1");
    return Emit("Add(" + Emit("Mul(" + q + ", %c)") + ", " + Emit("Mul(" + turned + ", %s)") + ")");
  }

  std::string Scaled(std::string q, const std::string& k) {
    std::string turned = Emit("Transpose(" + k + ") perm=[0, 1, 3, 2]");
    if (form_.scale == Scale::kBothRoots) {
      q = Emit("Mul(" + q + ", %root)");
      turned = Emit("Mul(%root, " + turned + ")");
    }
    if (form_.scale == Scale::kQueryOnly)
      q = Emit("Div(" + q + ", %two)");
    const std::string scores = Emit("MatMul(" + q + ", " + turned + ")");
    if (form_.scale == Scale::kTimes)
      return Emit("Mul(" + scores + ", %half)");
    return form_.scale == Scale::kDivided ? Emit("Div(" + scores + ", %two)") : scores;
  }

  std::string Masked(const std::string& scores) {
    const auto seen = [&] { return Emit("LessOrEqual(%columns, %rows)"); };
    switch (form_.mask) {
      case Mask::kNone:
        return scores;
      case Mask::kAdded:
        return Emit("Add(" + scores + ", %m)");
      case Mask::kRow:
        return Emit("Add(%r, " + scores + ")");
      case Mask::kChosen:
        return Emit("Add(" + scores + ", " + Emit("Where(" + seen() + ", %zero, %low)") + ")");
      case Mask::kLowest:
        return Emit("Where(" + seen() + ", " + scores + ", %low)");
    }
    return scores;
  }

  std::string Probabilities(const std::string& scores) {
    const std::string p = Emit("Softmax(" + scores + ") axis=-1");
    return form_.guarded ? Emit("Where(" + Emit("IsNaN(" + p + ")") + ", %zero, " + p + ")") : p;
  }

  const Form& form_;
  std::string text_;
  int count_ = 0;
};

Form RandomForm(uint64_t seed) {
  const auto next = [&](uint64_t limit) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % limit;
  };
  Form form;
  form.scale = static_cast<Scale>(next(5));
  form.mask = static_cast<Mask>(next(5));
  for (bool* flag : {&form.rows_first, &form.repeated, &form.guarded, &form.rotated, &form.merged,
                     &form.read_twice})
    *flag = next(2) == 0;
  return form;
}

int64_t CountOf(const Program& program, std::string_view op) {
  return std::ranges::count_if(program.nodes,
                               [&](const ProgramNode& node) { return node.op == op; });
}

TEST(ProgramAttentionTest, EveryFormKeepsItsNumbersAndIsOneOperator) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Form form = RandomForm(seed);
    const std::string text = Writer(form).Run();
    auto program = ParseProgram(text);
    ASSERT_TRUE(program.ok()) << program.error().ToString() << "\n" << text;
    ExpectPassesKeepNumbers(text, 1e-5);
    ASSERT_TRUE(OptimizeProgram(*program, Context()).ok()) << text;
    EXPECT_EQ(CountOf(*program, "Attention"), 1) << text;
    EXPECT_EQ(CountOf(*program, "MatMul") + CountOf(*program, "Softmax"), 0) << text;
    EXPECT_EQ(CountOf(*program, "Rotary"), form.rotated ? 1 : 0) << text;
    EXPECT_EQ(CountOf(*program, "Expand"), 0) << text;
  }
}

// Keys that the mask takes out are not multiplied: of 3 queries over 5 keys, 3 + 4 + 5 are left.
TEST(ProgramAttentionTest, MaskedKeysCostNothing) {
  Form form;
  form.mask = Mask::kChosen;
  const std::string text = Writer(form).Run();
  Machine& m = TheMachine();
  double flops[2] = {};
  for (const bool optimized : {false, true}) {
    Program program = std::move(*ParseProgram(text));
    if (optimized) {
      ASSERT_TRUE(OptimizeProgram(program, Context()).ok());
    }
    auto runner = ProgramRunner::Create(std::move(program), {}, m.table, *m.pool, m.kernels);
    ASSERT_TRUE(runner.ok()) << runner.error().ToString();
    std::vector<std::vector<float>> values;
    std::vector<TensorView> inputs;
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{1, 4, 3, 4},
                                                                               {1, 4, 5, 4},
                                                                               {1, 4, 5, 4},
                                                                               {1, 1, 3, 5},
                                                                               {5},
                                                                               {1, 1, 3, 4},
                                                                               {1, 1, 3, 4}}) {
      TensorView view{ElementType::kF32, shape, nullptr};
      values.emplace_back(static_cast<size_t>(view.count()), 0.5F);
      view.data = reinterpret_cast<std::byte*>(values.back().data());
      inputs.push_back(view);
    }
    ASSERT_TRUE((*runner)->Run(inputs).ok());
    flops[optimized ? 1 : 0] = (*runner)->stats().flops;
  }
  const double pair =
      4 * 2.0 * (4 + 4);  // heads, and a multiplication and an addition of q k and p v
  EXPECT_EQ(flops[0], 15 * pair);
  EXPECT_EQ(flops[1], 12 * pair);
}

// What looks like attention and is none stays as it is.
TEST(ProgramAttentionTest, OthersAreLeftAlone) {
  const std::string good = Writer({.guarded = true}).Run();
  const std::pair<const char*, const char*> changes[] = {
      {"axis=-1", "axis=2"},                       // softmax over the queries
      {"perm=[0, 1, 3, 2]", "perm=[1, 0, 3, 2]"},  // other batches
      {"%zero, %t2", "%half, %t2"},                // a guard that adds something
  };
  for (const auto& [from, to] : changes) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in\n" << text;
    text.replace(at, std::string_view(from).size(), to);
    auto program = ParseProgram(text);
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    ASSERT_TRUE(OptimizeProgram(*program, Context()).ok());
    EXPECT_EQ(CountOf(*program, "Attention"), 0) << text;
  }
}

}  // namespace
}  // namespace tenon
