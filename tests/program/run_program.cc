#include "run_program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/program/number_convert.h"
#include "text_program.h"

namespace tenon {

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

std::vector<double> Numbers(Program program) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> inputs;
  int64_t seed = 1;
  for (const ProgramValueId id : program.inputs) {
    TensorView view{program.value(id).type, {}, nullptr};
    for (const ProgramDim& dim : *program.value(id).shape)
      view.shape.push_back(dim.value >= 0 ? dim.value : 3);
    bytes.emplace_back(static_cast<size_t>(view.bytes()));
    view.data = bytes.back().data();
    for (int64_t i = 0; i < view.count(); ++i) {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      const double value = static_cast<double>(seed) / 1073741824.0 - 1.0;
      StoreDoubles(view.type, &value, 1, view.data + i * ElementBytes(view.type));
    }
    inputs.push_back(view);
  }
  Machine& m = TheMachine();
  auto runner = ProgramRunner::Create(std::move(program), {}, m.table, *m.pool, m.kernels);
  EXPECT_TRUE(runner.ok()) << runner.error().ToString();
  if (!runner.ok())
    return {};
  auto outputs = (*runner)->Run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().ToString();
  std::vector<double> all;
  for (const TensorView& view : outputs.ok() ? *outputs : std::vector<TensorView>()) {
    std::vector<double> numbers(static_cast<size_t>(view.count()));
    LoadDoubles(view.type, view.data, view.count(), numbers.data());
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

ProgramPassContext Context() {
  ProgramPassContext context;
  context.evaluate = [](Program part, Program& target) -> Result<std::vector<ProgramValueId>> {
    Machine& m = TheMachine();
    TENON_ASSIGN_OR_RETURN(const auto runner,
                           ProgramRunner::Create(std::move(part), {}, m.table, *m.pool, m.kernels));
    TENON_ASSIGN_OR_RETURN(const auto outputs, runner->Run({}));
    std::vector<ProgramValueId> ids;
    for (const TensorView& view : outputs)
      ids.push_back(target.AddConstant("folded", view.type, view.shape,
                                       {view.data, static_cast<size_t>(view.bytes())}));
    return ids;
  };
  return context;
}

namespace {

void ExpectNear(const std::vector<double>& before, const std::vector<double>& after,
                double tolerance, const std::string& what) {
  ASSERT_EQ(before.size(), after.size()) << what;
  for (size_t i = 0; i < before.size(); ++i) {
    if (std::isfinite(before[i])) {
      ASSERT_NEAR(before[i], after[i], tolerance * (1.0 + std::fabs(before[i]))) << what;
    }
  }
}

}  // namespace

void ExpectPassesKeepNumbers(const std::string& text, double tolerance) {
  const std::vector<double> before = Numbers(std::move(*ParseProgram(text)));
  for (const ProgramPass& pass : ProgramPasses()) {
    Program program = std::move(*ParseProgram(text));
    // Fusions ask for the shapes that this one finds.
    ASSERT_TRUE(RunProgramPass(program, "fold_shapes", Context()).ok()) << text;
    if (pass.name != "fold_shapes") {
      ASSERT_TRUE(RunProgramPass(program, pass.name, Context()).ok()) << text;
    }
    ExpectNear(before, Numbers(std::move(program)), tolerance,
               std::string(pass.name) + "\n" + text);
  }
  Program program = std::move(*ParseProgram(text));
  ASSERT_TRUE(OptimizeProgram(program, Context()).ok()) << text;
  ExpectNear(before, Numbers(std::move(program)), tolerance, "all\n" + text);
}

}  // namespace tenon
