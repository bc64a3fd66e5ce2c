// Recognises a decoder in a graph that ONNX Runtime GenAI's model builder writes: RMS norms
// (Simplified and SkipSimplifiedLayerNormalization), GroupQueryAttention, gated feed-forward.
//
// The walk goes from each attention to its neighbours, by values, not by names. A graph that has
// anything else is refused with the node's name. Borrows the graph. Threading: free function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/onnx/node_index.h"

namespace tenon {

// y = x W^T (+ bias): a MatMulNBits or a MatMul with a weight, and the Add that may follow.
struct LinearRef {
  const OnnxNode* node = nullptr;
  std::string_view input;  // x
  std::string_view bias;   // an initializer; empty: none
};

struct DecoderLayerParts {
  const OnnxNode* attention = nullptr;
  std::string_view norm;  // weights of the norm before attention
  LinearRef q;            // q, k and v in one when k has no node
  LinearRef k;
  LinearRef v;
  std::string_view q_norm;  // of each head; empty: none
  std::string_view k_norm;
  LinearRef out;
  std::string_view ffn_norm;
  LinearRef gate;
  LinearRef up;
  LinearRef down;
};

struct DecoderParts {
  const OnnxNode* embedding = nullptr;  // Gather or GatherBlockQuantized
  std::vector<DecoderLayerParts> layers;
  std::string_view final_norm;
  LinearRef head;
  std::string_view cos_cache;  // [positions, pairs]
  std::string_view sin_cache;
  bool rotary_interleaved = false;
  float norm_eps = 0.0F;
};

// `input_ids` and `logits` are the names of the graph's input and output.
Result<DecoderParts> RecogniseDecoder(const OnnxGraph& graph, const NodeIndex& index,
                                      std::string_view input_ids, std::string_view logits);

}  // namespace tenon
