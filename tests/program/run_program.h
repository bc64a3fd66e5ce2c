// Programs of tests run on made-up inputs, with and without passes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/program/op_table.h"
#include "engine/program/program_runner.h"
#include "graph/program/passes/program_pass.h"
#include "hal/kernel_registry.h"

namespace tenon {

struct Machine {
  OpTable table;
  KernelSet kernels = *ResolveKernelSet("ref");
  std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(1);
};
Machine& TheMachine();

// All elements of all outputs. Every dimension that is not a number is 3.
std::vector<double> Numbers(Program program);

// Folds constants with the machine's operators.
ProgramPassContext Context();

// Each pass alone, and all of them, leave the numbers of the program (ParseProgram's text) as they
// are, to `tolerance` relative to 1 + |number|.
void ExpectPassesKeepNumbers(const std::string& text, double tolerance);

}  // namespace tenon
