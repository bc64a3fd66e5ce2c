// Small questions that fusions ask about values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/program/passes/program_index.h"

namespace tenon {

// The other input of a node of two, when one of them is `id`; invalid otherwise.
ProgramValueId OtherInput(const ProgramNode& node, ProgramValueId id);

// A node `op` of two inputs, one of which is a scalar constant: that number and the other input.
struct WithScalar {
  double scalar = 0.0;
  ProgramValueId value;
};
std::optional<WithScalar> MatchScalar(ProgramIndex& index, ProgramValueId id, std::string_view op);

// The factors of a product of up to eight: inner products that only this one reads are taken apart.
std::vector<ProgramValueId> Factors(ProgramIndex& index, const ProgramNode& product);

bool IsNear(double a, double b);

// The number of a declared dimension, counted from the end when negative; -1 when not known.
int64_t KnownExtent(const Program& program, ProgramValueId id, int64_t dimension);
// Both are known, by number or name, and equal.
bool SameDims(const ProgramDim& a, const ProgramDim& b);
// Both shapes are declared and equal, dimension by dimension, by number or name.
bool SameShape(const Program& program, ProgramValueId a, ProgramValueId b);
// -1 when not declared.
int64_t KnownRank(const Program& program, ProgramValueId id);
bool IsF32(const Program& program, ProgramValueId id);

}  // namespace tenon
