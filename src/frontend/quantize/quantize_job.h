// QuantizeModel: from a model file to its quantized form, piece after piece.
//
// Each piece is calibrated on what the pieces before it, already quantized, give. Memory holds one
// piece's weights and sums, and the calibration tokens' states. Threading: one call, one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/quantize/quantize_options.h"
#include "frontend/quantize/segment_quantizer.h"
#include "frontend/quantize/segment_store.h"

namespace tenon {

struct QuantizeRequest {
  std::filesystem::path input;
  std::filesystem::path output;  // a .gguf file, or a directory of safetensors
  QuantizeOptions options;
  ResumeMode resume = ResumeMode::kFresh;
  std::filesystem::path evaluation;  // text that quality will be measured on; may be empty
};

struct QuantizeReport {
  std::string type;                   // of most tensors
  std::vector<LinearReport> linears;  // in the model's order
  std::vector<std::string> warnings;
  int64_t calibration_texts = 0;
  int64_t calibration_tokens = 0;
  int64_t resumed_segments = 0;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
  std::filesystem::path output;  // what opens as the model: of several files the first
  double seconds = 0.0;
};

struct QuantizeHooks {
  // Units of work done and in all, and what is being done.
  std::function<void(std::string_view label, uint64_t done, uint64_t total)> progress;
  std::function<void(std::string_view)> warn;
};

// Fails before anything is written for bad options, an output that is the input, and a piece that
// does not fit options.max_memory. An interrupted run leaves its finished pieces beside the output.
Result<QuantizeReport> QuantizeModel(const QuantizeRequest& request, const QuantizeHooks& hooks);

}  // namespace tenon
