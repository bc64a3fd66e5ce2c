// Whether the attention that a plain ONNX export computes is that of the family's graph, which runs
// in its place (model/onnx/export_model.h).
//
// The export is optimised as a program, which makes one operator of each decomposed attention; its
// scale, heads, mask and rotation are then compared with the hyperparameters. Threading: free
// function.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// kUnsupported, naming the node and what is different. Attention that is not recognised in the form
// that the exporter chose is no error, but a warning in the log. `source` was opened from the
// export.
Status CheckExportedAttention(const std::filesystem::path& export_graph, const ModelSource& source);

}  // namespace tenon
