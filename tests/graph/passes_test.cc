// Each pass on the graphs of tests/graph/passes/: text before, text after.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/pass_cases.h"
#include "graph/passes/optimize.h"
#include "graph/text.h"

namespace tenon {
namespace {

Status Run(Graph& graph, const std::string& pass, const PassOptions& options) {
  if (pass == "all") {
    TENON_RETURN_IF_ERROR(Optimize(graph, options));
    return {};
  }
  TENON_RETURN_IF_ERROR(RunPass(graph, pass, options));
  return {};
}

void CheckCase(const std::string& pass, const PassCase& test) {
  SCOPED_TRACE(pass + ": " + test.name);
  Result<Graph> input = ParseGraph(test.input);
  ASSERT_TRUE(input.ok()) << "input, " << input.error().ToString();
  const Result<Graph> expected = ParseGraph(test.expected);
  ASSERT_TRUE(expected.ok()) << "expected, " << expected.error().ToString();
  PassOptions options;
  options.activations =
      test.activations == "float" ? ActivationMode::kFloat : ActivationMode::kInt8;
  const Status status = Run(*input, pass, options);
  ASSERT_TRUE(status.ok()) << status.error().ToString();
  EXPECT_EQ(PrintGraph(*input), PrintGraph(*expected));
}

std::vector<std::string> FileNames() {
  std::vector<std::string> names = {"all"};
  for (const Pass& pass : OptimizePasses())
    names.emplace_back(pass.name);
  return names;
}

class PassTest : public testing::TestWithParam<std::string> {};

TEST_P(PassTest, BeforeAndAfter) {
  const auto cases = ReadPassCases("tests/graph/passes/" + GetParam() + ".txt");
  ASSERT_FALSE(cases.empty());
  for (const PassCase& test : cases)
    CheckCase(GetParam(), test);
}

INSTANTIATE_TEST_SUITE_P(Files, PassTest, testing::ValuesIn(FileNames()),
                         [](const auto& file) { return file.param; });

}  // namespace
}  // namespace tenon
