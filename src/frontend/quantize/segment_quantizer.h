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
#include "frontend/quantize/fold_plan.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/quantize/quantize_options.h"
#include "frontend/quantize/segment_runner.h"
#include "graph/graph.h"
#include "quant/input_statistics.h"
#include "quant/matrix_engine.h"

namespace tenon {

// A tensor as the output holds it.
struct EncodedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first
  std::vector<std::byte> bytes;
};

// One row of the table of errors.
struct LinearReport {
  std::string name;
  std::string type;
  int64_t rows = 0;
  int64_t columns = 0;
  double relative_error = 0.0;  // ||X (W' - W)^T|| / ||X W^T|| on the sample; 0 without calibration
  double exponent = 0.0;        // of smoothing; 0: none
  double damping = 0.0;         // share of mean(diag H) that was added; 0: not compensated
};

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

  // Rows of an input of linears, in the order of SegmentRunner::observed.
  void Observe(size_t index, const MatrixView& rows);

  // REQUIRES: all rows were observed.
  Result<SegmentResult> Quantize();

 private:
  struct Group {
    InputGroup plan;
    std::unique_ptr<InputStatistics> statistics;  // null without calibration
    std::vector<float> scales;                    // of smoothing; empty: none
    float exponent = 0.0F;
  };

  bool MaySmooth(const Group& group) const;
  std::vector<float> ChooseScales(Group& group) const;
  Result<Matrix> LoadVector(const std::string& name);
  Status Smooth(Group& group);
  Status QuantizeGroup(Group& group, SegmentResult& result);
  struct Prepared;  // what the matrices of a group share
  Prepared PrepareGroup(const Group& group) const;
  Status QuantizeMatrix(const std::string& name, const Prepared& shared, SegmentResult& result);

  Environment environment_;
  std::vector<Group> groups_;
  std::map<std::string, Matrix> matrices_;
  std::map<std::string, Matrix> vectors_;  // that smoothing changed
};

// One matrix on its own, without calibration: embeddings and heads.
EncodedTensor EncodeMatrix(const TensorInfo& tensor, const Matrix& weights, const GridSpec& grid,
                           MatrixEngine& engine);

}  // namespace tenon
