// SegmentQuantizer: quantizes the linears of one piece of a model by any of the methods.
//
// Works on copies of the piece's weights; what changes is put in the place of the model's weights
// (LayeredWeights), so that later pieces see the quantized model. Holds references. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/quantize/experts_quantizer.h"
#include "frontend/quantize/fold_plan.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/quantize/linear_quantizer.h"
#include "frontend/quantize/quantize_options.h"
#include "frontend/quantize/segment_runner.h"
#include "graph/graph.h"
#include "quant/input_statistics.h"
#include "quant/matrix_engine.h"

namespace tenon {

struct SegmentResult {
  std::vector<EncodedTensor> tensors;  // matrices, and vectors that smoothing changed
  std::vector<LinearReport> reports;
};

class SegmentQuantizer {
 public:
  struct Environment {
    const Graph& graph;
    const ModelSource& source;
    LayeredWeights& weights;
    const QuantizeOptions& options;
    const TypePlan& types;
    MatrixEngine& engine;
  };
  SegmentQuantizer(const Environment& environment, const GraphRange& range);

  // Whether there is anything to quantize.
  bool IsEmpty() const { return groups_.empty(); }

  // Reads the weights. `expected_rows`: calibration tokens to come; 0: there is no calibration.
  Status Prepare(int64_t expected_rows);

  // Rows of a value that a run shows (SegmentRunner::observed).
  void Observe(ValueId value, const MatrixView& rows);

  // REQUIRES: all rows were observed.
  Result<SegmentResult> Quantize();

 private:
  struct Group {
    InputGroup plan;
    std::unique_ptr<InputStatistics> statistics;  // null without calibration
    std::unique_ptr<ExpertsQuantizer> experts;    // null without experts
    SmoothingFactors factors;
  };

  LinearContext Context() const { return {environment_.options, environment_.engine}; }
  bool MaySmooth(const Group& group) const;
  Status ChooseGroupFactors(Group& group) const;
  Result<Matrix> LoadVector(const std::string& name);
  Status Smooth(Group& group);
  Status QuantizeGroup(Group& group, SegmentResult& result);
  void QuantizeMatrix(const std::string& name, const InputModel& input, SegmentResult& result);

  Environment environment_;
  std::vector<Group> groups_;
  std::map<std::string, Matrix> matrices_;
  std::map<std::string, Matrix> vectors_;  // that smoothing changed
};

}  // namespace tenon
