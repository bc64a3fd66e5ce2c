// From an ONNX file to a Program.
//
// Checked here: names, order, the operator sets' versions, bytes of constants. Whether an operator
// is known is the kernel table's matter. Subgraphs (If, Loop, Scan), functions and sparse tensors
// are refused. Threading: free functions.
#pragma once

#include "base/result.h"
#include "graph/program/program.h"
#include "model/onnx/onnx_file.h"

namespace tenon {

// Consumes the file: the program takes its mapped files.
Result<Program> ImportOnnx(OnnxFile file);

}  // namespace tenon
