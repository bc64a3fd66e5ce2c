// A graph with an operator of a plug-in: Llama's block whose feed-forward passes through
// com.example.SoftClip (softclip.c) before it is added.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "model/model_source.h"

namespace example {

// `source.plugins` has the operator.
tenon::Result<tenon::Graph> BuildClippedLlama(const tenon::ModelSource& source);

}  // namespace example
