// Decoders from plain ONNX exports (optimum's folders, torch.onnx): config.json, tokenizer.json and
// a graph with decomposed attention whose nodes carry the names of the modules that they came from.
//
// Hyperparameters are config.json's; the graph's constants are given their places by the names of
// the nodes that read them, and the graph is checked to have what the family computes. The result
// is a model like any other: the engine's own graph, fused attention, the paged cache.
// Threading: free functions.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

struct OnnxExport {
  std::filesystem::path directory;  // of the text files
  std::filesystem::path graph;
};

// What `path` is: a folder with config.json and an export, or an .onnx file beside one or in a
// folder below; none when it is no such thing or has safetensors too.
std::optional<OnnxExport> FindOnnxExport(const std::filesystem::path& path);

// kUnsupported, naming the node or the family, for what can't be recognised.
Result<ModelSource> OpenOnnxExport(const OnnxExport& found);

}  // namespace tenon
