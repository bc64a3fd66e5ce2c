// Each pass on small programs: the nodes before and after, and the same numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/program/passes/program_pass.h"
#include "run_program.h"
#include "text_program.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  const char* pass;
  const char* before;
  const char* after;  // NodesText
};

constexpr const char* kNorm = R"(
  input %x f32 [n, 8]
  const %w f32 [8]
  const %two f32 [] = 2
  const %eps f32 [] = 0.001
  %p = Pow(%x, %two)
  %m = ReduceMean(%p) axes=[-1]
  %a = Add(%m, %eps)
  %r = Sqrt(%a)
  %d = Div(%x, %r)
  %y = Mul(%w, %d)
  output %y
)";

constexpr const char* kAttention = R"(
  input %q f32 [b, t, 2, 4]
  input %k f32 [b, u, 2, 4]
  input %v f32 [b, u, 2, 4]
  input %m f32 [b, 1, t, u]
  const %s f32 [] = 0.5
  %qt = Transpose(%q) perm=[0, 2, 1, 3]
  %kt = Transpose(%k) perm=[0, 2, 3, 1]
  %vt = Transpose(%v) perm=[0, 2, 1, 3]
  %a = MatMul(%qt, %kt)
  %b = Mul(%a, %s)
  %c = Add(%b, %m)
  %p = Softmax(%c) axis=-1
  %o = MatMul(%p, %vt)
  %y = Transpose(%o) perm=[0, 2, 1, 3]
  output %y
)";

const Case kCases[] = {
    {"the last row of logits needs one row of the feed-forward", "narrow_rows",
     "input %x f32 [b, t, 8]\nconst %g f32 [8]\nconst %up f32 [8, 16]\nconst %down f32 [16, "
     "8]\nconst %head f32 [8, 5]\nconst %last i64 [1] = -1\n%n = LayerNormalization(%x, %g)\n%h = "
     "MatMul(%n, %up)\n%e = Gelu(%h)\n%d = MatMul(%e, %down)\n%f = Add(%x, %d)\n%l = MatMul(%f, "
     "%head)\n%y = Gather(%l, %last) axis=1\noutput %y\n",
     "1 = Gather(x, last)\n2 = LayerNormalization(1, g)\n3 = MatMul(2, up)\n4 = Gelu(3)\n5 = "
     "MatMul(4, down)\n6 = Add(1, 5)\n7 = MatMul(6, head)\noutput 7\n"},
    {"a product of flattened rows", "unflatten_linears",
     "input %x f32 [b, t, 4]\nconst %w f32 [4, 6]\nconst %c f32 [6]\nconst %flat i64 [2] = -1 "
     "4\nconst %z i64 [] = 0\nconst %o i64 [] = 1\nconst %ax i64 [1] = 0\nconst %n i64 [1] = 6\n"
     "%s = Shape(%x)\n%b = Gather(%s, %z)\n%t = Gather(%s, %o)\n%bu = Unsqueeze(%b, %ax)\n%tu = "
     "Unsqueeze(%t, %ax)\n%to = Concat(%bu, %tu, %n) axis=0\n%f = Reshape(%x, %flat)\n%g = "
     "Gemm(%f, %w, %c)\n%y = Reshape(%g, %to)\noutput %y\n",
     "1 = MatMul(x, w)\n2 = Add(1, c)\noutput 2\n"},
    {"to other dimensions it stays", "unflatten_linears",
     "input %x f32 [2, 3, 4]\nconst %w f32 [4, 6]\nconst %flat i64 [2] = -1 4\nconst %to i64 [3] = "
     "3 2 6\n%f = Reshape(%x, %flat)\n%g = Gemm(%f, %w)\n%y = Reshape(%g, %to)\noutput %y\n",
     "1 = Reshape(x, flat)\n2 = Gemm(1, w)\n3 = Reshape(2, to)\noutput 3\n"},
    {"one row by its number, as a pooler takes it", "narrow_rows",
     "input %x f32 [b, t, 4]\nconst %w f32 [4, 4]\nconst %z i64 [] = 0\n%a = MatMul(%x, %w)\n%t = "
     "Tanh(%a)\n%y = Gather(%t, %z) axis=1\noutput %y\n",
     "1 = Gather(x, row)\n2 = MatMul(1, w)\n3 = Tanh(2)\n4 = Squeeze(3, row_axis)\noutput 4\n"},
    {"a slice of rows", "narrow_rows",
     "input %x f32 [t, 4]\nconst %w f32 [4, 4]\nconst %s i64 [1] = -2\nconst %e i64 [1] = 9\nconst "
     "%ax i64 [1] = 0\n%n = Neg(%x)\n%a = MatMul(%n, %w)\n%y = Slice(%a, %s, %e, %ax)\noutput %y\n",
     "1 = Slice(x, s, e, rows_axis)\n2 = Neg(1)\n3 = MatMul(2, w)\noutput 3\n"},
    {"rows that another reader wants stay", "narrow_rows",
     "input %x f32 [t, 4]\nconst %w f32 [4, 4]\nconst %l i64 [1] = -1\n%a = MatMul(%x, %w)\n%y = "
     "Gather(%a, %l) axis=0\noutput %y\noutput %a\n",
     "1 = MatMul(x, w)\n2 = Gather(1, l)\noutput 2\noutput 1\n"},
    {"rows that depend on each other stay", "narrow_rows",
     "input %x f32 [3, 4]\nconst %w f32 [4, 4]\nconst %l i64 [1] = -1\n%a = MatMul(%x, %w)\n%b = "
     "Softmax(%a) axis=0\n%y = Gather(%b, %l) axis=0\noutput %y\n",
     "1 = MatMul(x, w)\n2 = Softmax(1)\n3 = Gather(2, l)\noutput 3\n"},
    {"dead nodes go", "dead_code",
     "input %x f32 [n, 4]\n%a = Relu(%x)\n%b = Neg(%a)\n%y = Abs(%x)\noutput %y\n",
     "1 = Abs(x)\noutput 1\n"},
    {"identities go", "remove_identities",
     "input %x f32 [n, 4]\nconst %one f32 [] = 1\n%a = Identity(%x)\n%b = Mul(%a, %one)\n%y = "
     "Relu(%b)\noutput %y\n",
     "1 = Relu(x)\noutput 1\n"},
    {"a scale of two stays", "remove_identities",
     "input %x f32 [n, 4]\nconst %two f32 [] = 2\n%y = Mul(%x, %two)\noutput %y\n",
     "1 = Mul(x, two)\noutput 1\n"},
    {"constants are folded", "fold_constants",
     "input %x f32 [n, 2]\nconst %a f32 [2]\nconst %b f32 [2]\n%c = Add(%a, %b)\n%y = Mul(%x, "
     "%c)\noutput %y\n",
     "1 = Mul(x, c)\noutput 1\n"},
    {"a shape of names becomes a list", "fold_shapes",
     "input %x f32 [n, t, 8]\nconst %z i64 [] = 0\nconst %o i64 [] = 1\nconst %ax i64 [1] = 0\n"
     "const %h i64 [1] = 2\nconst %d i64 [1] = 4\n%s = Shape(%x)\n%a = Gather(%s, %z)\n%b = "
     "Gather(%s, %o)\n%c = Unsqueeze(%a, %ax)\n%e = Unsqueeze(%b, %ax)\n%f = Concat(%c, %e, %h, "
     "%d) axis=0\n%y = Reshape(%x, %f)\noutput %y\n",
     "1 = Reshape(x, y_shape)\noutput 1\n"},
    {"equal nodes are one", "common_subexpressions",
     "input %x f32 [n, 4]\n%a = Exp(%x)\n%b = Exp(%x)\n%y = Add(%a, %b)\noutput %y\n",
     "1 = Exp(x)\n2 = Add(1, 1)\noutput 2\n"},
    {"nodes of other attributes stay", "common_subexpressions",
     "input %x f32 [3, 4]\n%a = Softmax(%x) axis=0\n%b = Softmax(%x) axis=1\n%y = Add(%a, "
     "%b)\noutput %y\n",
     "1 = Softmax(x)\n2 = Softmax(x)\n3 = Add(1, 2)\noutput 3\n"},
    {"transpositions cancel", "remove_transposes",
     "input %x f32 [n, 4, 2]\n%a = Transpose(%x) perm=[1, 2, 0]\n%b = Transpose(%a) perm=[2, 0, "
     "1]\n%y = Relu(%b)\noutput %y\n",
     "1 = Relu(x)\noutput 1\n"},
    {"transpositions join", "remove_transposes",
     "input %x f32 [n, 4, 2]\n%a = Transpose(%x) perm=[1, 2, 0]\n%y = Transpose(%a) perm=[1, 2, "
     "0]\noutput %y\n",
     "1 = Transpose(x)\noutput 1\n"},
    {"matrices of a batch are turned at once", "remove_transposes",
     "input %x f32 [3, 2, 5, 4]\nconst %i i64 [3] = -1 5 4\nconst %o i64 [4] = 3 2 4 5\n%a = "
     "Reshape(%x, %i)\n%b = Transpose(%a) perm=[0, 2, 1]\n%y = Reshape(%b, %o)\noutput %y\n",
     "1 = Transpose(x)\noutput 1\n"},
    {"to another shape they are not", "remove_transposes",
     "input %x f32 [3, 2, 5, 4]\nconst %i i64 [3] = -1 5 4\nconst %o i64 [4] = 2 3 4 5\n%a = "
     "Reshape(%x, %i)\n%b = Transpose(%a) perm=[0, 2, 1]\n%y = Reshape(%b, %o)\noutput %y\n",
     "1 = Reshape(x, i)\n2 = Transpose(1)\n3 = Reshape(2, o)\noutput 3\n"},
    {"reshapes to the same shape go", "remove_identities",
     "input %x f32 [n, 4]\nconst %s i64 [2] = 0 4\n%a = Reshape(%x, %s)\n%y = Relu(%a)\noutput "
     "%y\n",
     "1 = Relu(x)\noutput 1\n"},
    {"equal nodes of equal scalars are one", "common_subexpressions",
     "input %x f32 [n, 4]\nconst %h f32 [] = 0.5\nconst %g f32 [] = 0.5\n%a = Mul(%x, %h)\n%b = "
     "Mul(%x, %g)\n%y = Add(%a, %b)\noutput %y\n",
     "1 = Mul(x, h)\n2 = Add(1, 1)\noutput 2\n"},
    {"an RMS norm from its parts", "fuse_norms", kNorm,
     "1 = SimplifiedLayerNormalization(x, w)\noutput 1\n"},
    {"GELU from its parts", "fuse_activations",
     "input %x f32 [n, 4]\nconst %r f32 [] = 1.41421356\nconst %o f32 [] = 1\nconst %h f32 [] = "
     "0.5\n%a = Div(%x, %r)\n%b = Erf(%a)\n%c = Add(%b, %o)\n%d = Mul(%x, %c)\n%y = Mul(%d, "
     "%h)\noutput %y\n",
     "1 = Gelu(x)\noutput 1\n"},
    {"half of another function is no GELU", "fuse_activations",
     "input %x f32 [n, 4]\nconst %r f32 [] = 1.5\nconst %o f32 [] = 1\nconst %h f32 [] = 0.5\n%a = "
     "Div(%x, %r)\n%b = Erf(%a)\n%c = Add(%b, %o)\n%d = Mul(%x, %c)\n%y = Mul(%d, %h)\noutput %y\n",
     "1 = Div(x, r)\n2 = Erf(1)\n3 = Add(2, o)\n4 = Mul(x, 3)\n5 = Mul(4, h)\noutput 5\n"},
    {"SwiGLU from its parts", "fuse_activations",
     "input %x f32 [n, 4]\ninput %g f32 [n, 4]\n%a = Sigmoid(%x)\n%b = Mul(%x, %a)\n%y = Mul(%b, "
     "%g)\noutput %y\n",
     "1 = tenon.SwiGlu(x, g)\noutput 1\n"},
    {"rotary embedding from its parts", "fuse_rotary",
     "input %x f32 [n, 2, t, 4]\ninput %c f32 [n, 1, t, 4]\ninput %s f32 [n, 1, t, 4]\nconst %z "
     "i64 "
     "[1] = 0\nconst %h i64 [1] = 2\nconst %e i64 [1] = 1000\nconst %ax i64 [1] = "
     "3\n%low = Slice(%x, %z, %h, %ax)\n%high = Slice(%x, %h, %e, %ax)\n%neg = Neg(%high)\n%turned "
     "= "
     "Concat(%neg, %low) axis=-1\n%a = Mul(%x, %c)\n%b = Mul(%turned, %s)\n%y = Add(%a, "
     "%b)\noutput %y\n",
     "1 = tenon.Rotary(x, c, s)\noutput 1\n"},
    {"attention from its parts", "fuse_attention", kAttention,
     "1 = tenon.Attention(q, k, v, m)\noutput 1\n"},
    {"three products of one x", "merge_linears",
     "input %x f32 [n, 4]\nconst %q f32 [4, 3]\nconst %k f32 [4, 2]\nconst %v f32 [4, 5]\n%a = "
     "MatMul(%x, %q)\n%b = MatMul(%x, %k)\n%c = MatMul(%x, %v)\noutput %a\noutput %b\noutput %c\n",
     "1, 2, 3 = tenon.Linear(x, joined_q)\noutput 1\noutput 2\noutput 3\n"},
    {"bias, activation and residual", "fuse_linears",
     "input %x f32 [n, 4]\ninput %r f32 [n, 3]\nconst %w f32 [4, 3]\nconst %b f32 [3]\n%a = "
     "MatMul(%x, %w)\n%c = Add(%a, %b)\n%d = Relu(%c)\n%y = Add(%d, %r)\noutput %y\n",
     "1 = tenon.Linear(x, w, b, r)\noutput 1\n"},
    {"a product that is read twice keeps its sum", "fuse_linears",
     "input %x f32 [n, 4]\nconst %w f32 [4, 3]\nconst %b f32 [3]\n%a = MatMul(%x, %w)\n%y = "
     "Add(%a, "
     "%b)\noutput %a\noutput %y\n",
     "1 = tenon.Linear(x, w)\n2 = Add(1, b)\noutput 1\noutput 2\n"},
};

// The end of a decoder, attention decomposed: all rows give keys and values, the last one a query.
constexpr const char* kDecoderEnd = R"(
  input %x f32 [b, t, 8]
  input %k f32 [b, t, 2, 4]
  input %m f32 [b, 1, t, t]
  const %s f32 [] = 0.5
  const %wq f32 [8, 8]
  const %heads i64 [4] = 0 0 2 4
  const %joined i64 [3] = 0 0 8
  const %head f32 [8, 5]
  const %last i64 [1] = -1
  %ql = MatMul(%x, %wq)
  %q = Reshape(%ql, %heads)
  %qt = Transpose(%q) perm=[0, 2, 1, 3]
  %kt = Transpose(%k) perm=[0, 2, 3, 1]
  %vt = Transpose(%k) perm=[0, 2, 1, 3]
  %a = MatMul(%qt, %kt)
  %b = Mul(%a, %s)
  %c = Add(%b, %m)
  %p = Softmax(%c) axis=-1
  %o = MatMul(%p, %vt)
  %w = Transpose(%o) perm=[0, 2, 1, 3]
  %j = Reshape(%w, %joined)
  %r = Add(%x, %j)
  %l = MatMul(%r, %head)
  %y = Gather(%l, %last) axis=1
  output %y
)";

TEST(ProgramPassTest, RowsAreNarrowedThroughAttention) {
  auto program = ParseProgram(kDecoderEnd);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  for (const char* pass : {"fold_shapes", "fuse_attention", "narrow_rows"})
    ASSERT_TRUE(RunProgramPass(*program, pass, Context()).ok()) << pass;
  EXPECT_EQ(NodesText(*program),
            "1 = Gather(x, last)\n2 = MatMul(1, wq)\n3 = Reshape(2, heads)\n4 = Gather(m, last)\n"
            "5 = tenon.Attention(3, k, k, 4)\n6 = Reshape(5, joined)\n7 = Add(1, 6)\n8 = MatMul(7, "
            "head)\noutput 8\n");
  ExpectPassesKeepNumbers(kDecoderEnd, 1e-5);
}

class PassCaseTest : public testing::TestWithParam<Case> {};

TEST_P(PassCaseTest, ChangesTheNodesAndKeepsTheNumbers) {
  const Case& c = GetParam();
  auto program = ParseProgram(c.before);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  const std::vector<double> before = Numbers(std::move(*ParseProgram(c.before)));
  ASSERT_FALSE(before.empty());
  // Fusions ask for shapes, which this one finds; it changes nothing else in these programs.
  if (std::string(c.pass) != "fold_constants" && std::string(c.pass) != "fold_shapes") {
    ASSERT_TRUE(RunProgramPass(*program, "fold_shapes", Context()).ok());
  }
  const auto stats = RunProgramPass(*program, c.pass, Context());
  ASSERT_TRUE(stats.ok()) << stats.error().ToString();
  EXPECT_EQ(NodesText(*program), c.after);
  const std::vector<double> after = Numbers(std::move(*program));
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(before[i], after[i], 1e-5 * (1.0 + std::fabs(before[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(All, PassCaseTest, testing::ValuesIn(kCases), [](const auto& param) {
  std::string name = std::string(param.param.pass) + "_" + std::to_string(param.index);
  return name;
});

TEST(ProgramPassTest, EveryPassHasACase) {
  for (const ProgramPass& pass : ProgramPasses()) {
    const bool found = std::any_of(std::begin(kCases), std::end(kCases),
                                   [&](const Case& c) { return pass.name == c.pass; });
    EXPECT_TRUE(found) << pass.name;
  }
}

TEST(ProgramPassTest, AnUnknownNameIsRefused) {
  auto program = ParseProgram("input %x f32 [2]\n%y = Relu(%x)\noutput %y\n");
  ProgramPassContext context = Context();
  context.disabled = {"nothing"};
  EXPECT_FALSE(OptimizeProgram(*program, context).ok());
}

// A random program of nodes that passes look for, over [n, 8] values.
std::string RandomProgram(uint64_t seed) {
  const auto next = [&](uint64_t limit) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % limit;
  };
  std::string text =
      "input %v0 f32 [n, 8]\ninput %v1 f32 [n, 8]\nconst %w f32 [8, 8]\nconst %u f32 [8, 8]\nconst "
      "%b f32 [8]\nconst %h f32 [] = 0.5\nconst %one f32 [] = 1\nconst %two f32 [] = 2\nconst %eps "
      "f32 [] = 0.1\nconst %last i64 [1] = -1\nconst %r f32 [] = 1.41421356\n";
  int count = 2;
  const auto value = [&] { return fmt::format("%v{}", next(static_cast<uint64_t>(count))); };
  const auto emit = [&](const std::string& right) {
    text += fmt::format("%v{} = {}\n", count, right);
    return fmt::format("%v{}", count++);
  };
  for (int i = 0; i < 14; ++i) {
    const std::string x = value();
    switch (next(9)) {
      case 0:
        emit(fmt::format("MatMul({}, %{})", x, next(2) == 0 ? "w" : "u"));
        break;
      case 1:
        emit(fmt::format("Add({}, {})", emit(fmt::format("MatMul({}, %w)", x)),
                         next(2) == 0 ? "%b" : value()));
        break;
      case 2: {
        const std::string gate =
            emit(fmt::format("Add({}, %one)", emit("Erf(" + emit("Div(" + x + ", %r)") + ")")));
        emit(fmt::format("Mul({}, %h)", emit(fmt::format("Mul({}, {})", x, gate))));
        break;
      }
      case 3:
        emit(fmt::format("Mul({}, {})",
                         emit(fmt::format("Mul({}, {})", x, emit("Sigmoid(" + x + ")"))), value()));
        break;
      case 4: {
        const std::string mean = emit("ReduceMean(" + emit("Pow(" + x + ", %two)") + ") axes=[-1]");
        const std::string root = emit("Sqrt(" + emit("Add(" + mean + ", %eps)") + ")");
        emit(fmt::format("Mul({}, %b)", emit(fmt::format("Div({}, {})", x, root))));
        break;
      }
      case 5:
        emit("Transpose(" + emit("Transpose(" + x + ") perm=[1, 0]") + ") perm=[1, 0]");
        break;
      case 6:
        emit("Tanh(" + emit(fmt::format("Mul({}, %one)", x)) + ")");
        break;
      case 7:
        emit(fmt::format("Sub({}, {})", x, value()));
        break;
      default:
        emit("Reshape(" + x + ", " + emit("Shape(" + x + ")") + ")");
    }
  }
  if (next(2) == 0)
    emit(fmt::format("Gather(%v{}, %last) axis=0", count - 1));
  return text + fmt::format("output %v{}\n", count - 1);
}

// Values of other shapes may be picked: programs that don't run are left out.
bool Runs(const std::string& text) {
  Machine& m = TheMachine();
  auto probe =
      ProgramRunner::Create(std::move(*ParseProgram(text)), {}, m.table, *m.pool, m.kernels);
  EXPECT_TRUE(probe.ok()) << probe.error().ToString();
  std::vector<float> zeros(24);
  const TensorView input{ElementType::kF32, {3, 8}, reinterpret_cast<std::byte*>(zeros.data())};
  return probe.ok() && (*probe)->Run({input, input}).ok();
}

TEST(ProgramPassTest, RandomProgramsKeepTheirNumbers) {
  int ran = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = RandomProgram(seed);
    ASSERT_TRUE(ParseProgram(text).ok()) << text;
    if (!Runs(text))
      continue;
    ++ran;
    ExpectPassesKeepNumbers(text, 1e-4);
  }
  EXPECT_GE(ran, 20);
}

}  // namespace
}  // namespace tenon
