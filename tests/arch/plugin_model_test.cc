// Operators of plug-ins in a model's graph, run by the engine's executor: the example plug-in,
// built here with nothing but its header, against the built-in op that computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "engine/program/plugin_library.h"
#include "frontend/session/source_weights.h"
#include "graph/text.h"
#include "plugin/clipped_llama.h"
#include "tiny_model.h"
#include "tiny_run.h"

namespace tenon {
namespace {

using ::tenon::testing::FindTinyCase;
using ::tenon::testing::LoadTiny;
using ::tenon::testing::LoadTinyGraph;
using ::tenon::testing::RunTokens;
using ::tenon::testing::TempFolder;
using ::tenon::testing::TinyCase;

std::string ReadText(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const std::filesystem::path kRoot = TENON_ROOT;

// Fails on a token that it does not like.
int NoThirteenShape(const TenonHost* host, TenonCall* call, TenonOutput* outputs) {
  TenonTensor x;
  if (host->input(call, 0, &x) != 0)
    return host->fail(call, "x is missing");
  outputs[0] = {x.type, 2, {x.shape[0], x.shape[1]}};
  return 0;
}

int NoThirteenRun(const TenonHost* host, TenonCall* call, const TenonTensor* outputs) {
  TenonTensor x;
  TenonTensor ids;
  if (host->input(call, 0, &x) != 0 || host->input(call, 1, &ids) != 0 || ids.type != TENON_I32)
    return host->fail(call, "x or ids are missing");
  for (int64_t i = 0; i < ids.shape[0]; ++i) {
    if (static_cast<const int32_t*>(ids.data)[i] == 13)
      return host->fail(call, "13 brings bad luck");
  }
  const auto* values = static_cast<const float*>(x.data);
  std::copy_n(values, x.shape[0] * x.shape[1], static_cast<float*>(outputs[0].data));
  return 0;
}

constexpr TenonOperator kNoThirteen = {"test",          "NoThirteen", 1, 1, 2, 2, 1,
                                       NoThirteenShape, NoThirteenRun};

class PluginModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tiny_ = FindTinyCase("llama");
    auto source = OpenModel(folder_.Write("tiny.gguf", TinyGguf(tiny_, TinyTensors(tiny_))));
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    source_ = std::move(*source);
    source_.plugins = &operators_;
    weights_ = std::make_unique<SourceWeights>(source_);
  }

  // The example from its own folder: no file of Tenon but the header.
  void AddSoftClip() {
    const auto code = ReadText(kRoot / "examples/plugin/softclip.c");
    const auto* bytes = reinterpret_cast<const std::byte*>(code.data());
    const auto file = folder_.Write("softclip.c", {bytes, bytes + code.size()});
    const auto library = file.parent_path() / "libsoftclip.so";
    const std::string command = fmt::format(
        "\"{}\" -x c -shared -fPIC -O2 -I \"{}\" \"{}\" -o \"{}\" -lm", TENON_CXX_COMPILER,
        (kRoot / "include").string(), file.string(), library.string());
    if (std::system(command.c_str()) != 0)
      GTEST_SKIP() << "no C compiler at " << TENON_CXX_COMPILER;
    auto plugin = PluginLibrary::Open(library);
    ASSERT_TRUE(plugin.ok()) << plugin.error().ToString();
    ASSERT_TRUE(plugin->AddTo(operators_).ok());
    EXPECT_THAT(plugin->AddTo(operators_).error().ToString(),
                ::testing::HasSubstr("another plugin has com.example.SoftClip already"));
  }

  std::vector<float> Logits(const Graph& graph, OptimizeLevel level, ActivationMode mode,
                            size_t prompt) {
    auto run = LoadTinyGraph(graph, *weights_, level, mode);
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().ToString());
    return run.ok() ? RunTokens(*run->runner, tiny_.tokens, prompt) : std::vector<float>();
  }

  const TempFolder folder_;
  TinyCase tiny_;
  ModelSource source_;
  PluginOperators operators_;
  std::unique_ptr<SourceWeights> weights_;
};

Graph WithSoftcap(Graph graph) {
  for (Op& op : graph.mutable_ops()) {
    if (std::holds_alternative<PluginAttrs>(op.attrs))
      op.attrs = SoftcapAttrs{0.5F};
  }
  return graph;
}

TEST_F(PluginModelTest, ComputesWhatTheBuiltInOpDoes) {
  AddSoftClip();
  if (IsSkipped() || HasFatalFailure())
    return;
  auto graph = example::BuildClippedLlama(source_);
  ASSERT_TRUE(graph.ok()) << graph.error().ToString();
  const auto read = ParseGraph(PrintGraph(*graph), &operators_);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(PrintGraph(*read), PrintGraph(*graph));
  const Graph built_in = WithSoftcap(*graph);
  const size_t all = tiny_.tokens.size();
  for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInt8}) {
    const auto expected = Logits(built_in, OptimizeLevel::kO0, mode, all);
    ASSERT_EQ(expected.size(), all * static_cast<size_t>(tiny_.Int("vocab")));
    for (const OptimizeLevel level : {OptimizeLevel::kO0, OptimizeLevel::kO3}) {
      for (const size_t prompt : {all, size_t{1}, size_t{11}})
        EXPECT_EQ(Logits(*graph, level, mode, prompt), expected) << "in " << prompt;
    }
  }
  // The clip is no identity here.
  auto plain = LoadTiny(source_, *weights_, OptimizeLevel::kO0);
  ASSERT_TRUE(plain.ok());
  EXPECT_NE(RunTokens(*plain->runner, tiny_.tokens, all),
            Logits(built_in, OptimizeLevel::kO0, ActivationMode::kFloat, all));
}

TEST_F(PluginModelTest, WithoutThePluginTheModelIsRefused) {
  EXPECT_EQ(example::BuildClippedLlama(source_).error().message,
            "no plugin has the operator com.example.SoftClip");
  source_.plugins = nullptr;
  EXPECT_EQ(example::BuildClippedLlama(source_).error().message,
            "no plugin has the operator com.example.SoftClip");
}

// Of a graph: tokens, and the plug-in's op over their embeddings.
TEST_F(PluginModelTest, AFailingRunFailsItsStepOnly) {
  ASSERT_TRUE(operators_.Add(kNoThirteen).ok());
  const auto graph = ParseGraph(
      fmt::format("%0: i32[N] = input  # tokens\n%1: i32[R] = input  # output_rows\n"
                  "@token_embd.weight: f32[{0},{1}]\n"
                  "%2: f32[N,{1}] = embed(%0, @token_embd.weight)  # embedding\n"
                  "%3: f32[N,{1}] = plugin(%2, %0) {{domain=test, operator=NoThirteen}}  # luck\n"
                  "%4: f32[R,{1}] = select_rows(%3, %1)  # rows\nreturn %4\n",
                  tiny_.Int("vocab"), tiny_.Int("hidden")),
      &operators_);
  ASSERT_TRUE(graph.ok()) << graph.error().ToString();
  auto run = LoadTinyGraph(*graph, *weights_, OptimizeLevel::kO3, ActivationMode::kInt8);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  const auto step = [&](int32_t token) -> Result<std::span<const float>> {
    Sequence sequence(run->runner->kv(), CacheScope{}, PrefixCache::kOff);
    TENON_RETURN_IF_ERROR(ReserveNow(sequence, 1));
    BatchBuilder builder;
    builder.AddToken(builder.AddSequence(sequence.block_table()), token, 0, Logits::kYes);
    return run->runner->Step(builder.batch());
  };
  const auto twelve = step(12);
  ASSERT_TRUE(twelve.ok()) << twelve.error().ToString();
  const std::vector<float> before(twelve->begin(), twelve->end());
  const auto thirteen = step(13);
  ASSERT_FALSE(thirteen.ok());
  EXPECT_EQ(thirteen.error().ToString(),
            "luck (plugin test.NoThirteen): the plugin failed: 13 brings bad luck");
  const auto again = step(12);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(std::vector<float>(again->begin(), again->end()), before);
}

TEST_F(PluginModelTest, DocumentedLinesAreTheExamples) {
  const std::string page = ReadText(kRoot / "docs/add-op.md");
  const std::string code = ReadText(kRoot / "examples/plugin/clipped_llama.cc");
  const size_t begin = page.find("    ValueId clipped = ");
  ASSERT_NE(begin, std::string::npos);
  const std::string block = page.substr(begin, page.find("\n\n", begin) - begin);
  EXPECT_NE(code.find(block), std::string::npos) << block;
}

}  // namespace
}  // namespace tenon
