// `tenon inspect FILE.onnx`: a general ONNX graph as it is and optimised, with what each pass and
// each way of sharing memory brings, measured by running both on inputs of the asked sizes.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenon {

struct InspectOnnxFlags {
  std::vector<std::string> dims;       // "sequence=128"
  std::vector<std::string> plugins;    // shared libraries with operators
  std::vector<std::string> last_rows;  // outputs of which only the last row is wanted

  void Add(CLI::App& app);
};

// Whether the path is an .onnx file that is no part of an ONNX Runtime GenAI folder.
bool IsGeneralOnnx(const std::filesystem::path& path);

enum class InspectForm : uint8_t { kTable, kJson };

// `stage`: empty for the comparison, "source" or "graph" for the graph as it is, "optimized".
Status InspectOnnx(const std::filesystem::path& path, const InspectOnnxFlags& flags,
                   const std::string& stage, InspectForm form);

}  // namespace tenon
