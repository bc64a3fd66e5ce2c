#include "frontend/cli/inspect_onnx.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/program/number_convert.h"
#include "frontend/session/program_session.h"
#include "graph/program/passes/program_pass.h"
#include "model/onnx/genai_model.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::map<std::string, int64_t>;

// Tokens of a sequence where --dim does not say: enough that work outweighs overhead.
constexpr int64_t kSequence = 64;

Result<Sizes> ReadDims(const std::vector<std::string>& dims) {
  Sizes sizes;
  for (const std::string& text : dims) {
    const size_t equals = text.find('=');
    int64_t number = -1;
    if (equals != std::string::npos)
      std::from_chars(text.data() + equals + 1, text.data() + text.size(), number);
    if (number < 0 || number > INT32_MAX)
      return InvalidArgument(fmt::format("'{}'; NAME=NUMBER expected", text), "--dim");
    sizes[text.substr(0, equals)] = number;
  }
  return sizes;
}

// The size of a named dimension: as asked, else by what such names mean in exports.
int64_t SizeOf(const std::string& name, const Sizes& sizes) {
  if (const auto found = sizes.find(name); found != sizes.end())
    return found->second;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("batch"))
    return 1;
  if (has("past"))
    return 0;
  if (has("total")) {
    int64_t total = sizes.contains("sequence") ? sizes.at("sequence") : kSequence;
    for (const auto& [other, size] : sizes)
      total += other.find("past") != std::string::npos ? size : 0;
    return total;
  }
  return kSequence;
}

// Inputs with made-up values that any model takes: masks of ones, positions, small ids.
struct MadeInputs {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
};

// The dimension's name; of a mask's columns, which exporters call by names of their own, "total".
std::string MeaningOf(const ProgramValue& value, const ProgramDim& dim) {
  const bool columns = &dim == &value.shape->back() && value.shape->size() == 2;
  const bool named =
      dim.name.find("sequence") != std::string::npos || dim.name.find("total") != std::string::npos;
  return columns && !named && value.name.find("mask") != std::string::npos ? "total" : dim.name;
}

double MadeNumber(const std::string& name, bool is_float, int64_t i, int64_t row) {
  if (name.find("mask") != std::string::npos)
    return 1.0;
  if (name.find("position") != std::string::npos)
    return static_cast<double>(i % std::max<int64_t>(row, 1));
  // A fixed sequence without structure.
  const auto mixed = static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15U >> 40;
  const double unit = static_cast<double>(mixed) / 16777216.0;
  return is_float ? 2.0 * unit - 1.0 : std::floor(unit * 2.0);
}

MadeInputs MakeInputs(const Program& program, const Sizes& sizes) {
  MadeInputs made;
  for (const ProgramValueId id : program.inputs) {
    const ProgramValue& value = program.value(id);
    TensorView view;
    view.type = value.type == ElementType::kUndefined ? ElementType::kF32 : value.type;
    if (value.shape) {
      for (const ProgramDim& dim : *value.shape)
        view.shape.push_back(dim.value >= 0 ? dim.value : SizeOf(MeaningOf(value, dim), sizes));
    }
    const int64_t row = view.shape.empty() ? 1 : view.shape.back();
    made.bytes.emplace_back(static_cast<size_t>(std::max<int64_t>(view.bytes(), 8)));
    view.data = made.bytes.back().data();
    for (int64_t i = 0; i < view.count(); ++i) {
      const double number = MadeNumber(value.name, IsFloat(view.type), i, row);
      StoreDoubles(view.type, &number, 1, view.data + i * ElementBytes(view.type));
    }
    made.views.push_back(std::move(view));
  }
  return made;
}

struct Measured {
  ProgramStats stats;
  size_t nodes = 0;
  std::vector<std::vector<double>> outputs;
  std::vector<ProgramPassStats> passes;
};

Result<Measured> Measure(const std::filesystem::path& path, const ProgramSessionOptions& options,
                         const Sizes& sizes) {
  TENON_ASSIGN_OR_RETURN(const auto session, ProgramSession::Open(path, options));
  const MadeInputs inputs = MakeInputs(session->program(), sizes);
  TENON_ASSIGN_OR_RETURN(const auto outputs, session->runner().Run(inputs.views));
  Measured measured;
  measured.stats = session->runner().stats();
  measured.nodes = session->program().nodes.size();
  measured.passes = session->passes();
  for (const TensorView& view : outputs) {
    auto& numbers = measured.outputs.emplace_back(static_cast<size_t>(view.count()));
    LoadDoubles(view.type, view.data, view.count(), numbers.data());
  }
  return measured;
}

Result<double> LargestDifference(const Measured& a, const Measured& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (i >= b.outputs.size() || a.outputs[i].size() != b.outputs[i].size())
      return MakeError(ErrorCode::kInternal, "the optimised graph has other outputs");
    for (size_t j = 0; j < a.outputs[i].size(); ++j)
      largest = std::fmax(largest, std::fabs(a.outputs[i][j] - b.outputs[i][j]) /
                                       (1.0 + std::fabs(a.outputs[i][j])));
  }
  return largest;
}

// One run after each pass: all up to it, those behind it left out.
Result<std::vector<Measured>> MeasurePasses(const std::filesystem::path& path,
                                            ProgramSessionOptions options, const Sizes& sizes) {
  std::vector<Measured> all;
  const auto passes = ProgramPasses();
  for (size_t done = 0; done < passes.size(); ++done) {
    options.disabled_passes.clear();
    for (size_t i = done; i < passes.size(); ++i)
      options.disabled_passes.emplace_back(passes[i].name);
    TENON_ASSIGN_OR_RETURN(Measured measured, Measure(path, options, sizes));
    measured.outputs.clear();
    all.push_back(std::move(measured));
  }
  return all;
}

Json Row(const Measured& measured) {
  return {{"nodes", measured.nodes},
          {"kernel_launches", measured.stats.launches},
          {"flops", measured.stats.flops},
          {"peak_activation_bytes", measured.stats.peak_bytes},
          {"output_bytes", measured.stats.output_bytes}};
}

ProgramSessionOptions OptionsOf(const InspectOnnxFlags& flags) {
  ProgramSessionOptions options;
  options.plugins.assign(flags.plugins.begin(), flags.plugins.end());
  options.last_rows = flags.last_rows;
  return options;
}

Result<Json> Compare(const std::filesystem::path& path, const InspectOnnxFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const Sizes sizes, ReadDims(flags.dims));
  ProgramSessionOptions options = OptionsOf(flags);
  TENON_ASSIGN_OR_RETURN(const Measured optimized, Measure(path, options, sizes));
  options.level = 0;
  TENON_ASSIGN_OR_RETURN(const Measured plain, Measure(path, options, sizes));
  options.reuse = MemoryReuse::kCountedAsNew;
  TENON_ASSIGN_OR_RETURN(const Measured unshared, Measure(path, options, sizes));
  Json report;
  report["O0"] = Row(plain);
  report["O0"]["bytes_without_reuse"] = unshared.stats.peak_bytes;
  report["O3"] = Row(optimized);
  TENON_ASSIGN_OR_RETURN(report["largest_relative_difference"],
                         LargestDifference(plain, optimized));
  options.level = 3;
  options.reuse = MemoryReuse::kByLifetime;
  TENON_ASSIGN_OR_RETURN(auto steps, MeasurePasses(path, options, sizes));
  // What sharing memory brings by itself, before any pass.
  report["shared_memory"] = Row(steps.front());
  steps.push_back(optimized);
  report["passes"] = Json::array();
  for (size_t i = 0; i < optimized.passes.size(); ++i) {
    const ProgramPassStats& pass = optimized.passes[i];
    report["passes"].push_back({{"pass", pass.name},
                                {"milliseconds", pass.milliseconds},
                                {"before", Row(steps[i])},
                                {"after", Row(steps[i + 1])}});
  }
  return report;
}

double Percent(const Json& report, const char* key) {
  const double before = report["O0"][key].get<double>();
  return before == 0.0 ? 0.0 : 100.0 * (report["O3"][key].get<double>() / before - 1.0);
}

void PrintChange(const std::string& what, const Json& before, const Json& after,
                 double milliseconds) {
  const auto change = [&](const char* key) {
    return after[key].get<double>() - before[key].get<double>();
  };
  fmt::print("{:<24} {:>+8.0f} {:>+9.0f} {:>+14.0f} {:>+14.0f} {:>9.2f}\n", what, change("nodes"),
             change("kernel_launches"), change("flops"), change("peak_activation_bytes"),
             milliseconds);
}

void PrintComparison(const Json& report) {
  fmt::print("{:<24} {:>16} {:>16} {:>8}\n", "", "-O0", "-O3", "");
  for (const char* key : {"nodes", "kernel_launches", "flops", "peak_activation_bytes"})
    fmt::print("{:<24} {:>16} {:>16} {:>+7.1f}%\n", key, report["O0"][key].dump(),
               report["O3"][key].dump(), Percent(report, key));
  fmt::print("{:<24} {:>16}\n", "without any reuse", report["O0"]["bytes_without_reuse"].dump());
  fmt::print("{:<24} {:>16.1e}\n", "largest difference",
             report["largest_relative_difference"].get<double>());
  fmt::print("\n{:<24} {:>8} {:>9} {:>14} {:>14} {:>9}\n", "takes away", "nodes", "launches",
             "FLOPs", "peak bytes", "ms");
  PrintChange("sharing of memory", report["O0"], report["shared_memory"], 0.0);
  for (const Json& pass : report["passes"])
    PrintChange(pass["pass"].get<std::string>(), pass["before"], pass["after"],
                pass["milliseconds"].get<double>());
}

}  // namespace

void InspectOnnxFlags::Add(CLI::App& app) {
  app.add_option("--dim", dims, "Size of a named dimension of an ONNX graph, such as sequence=128");
  app.add_option("--last-row", last_rows,
                 "Output of an ONNX graph of which only the last row is wanted, such as logits");
  app.add_option("--plugin", plugins, "Shared library with operators of an ONNX graph");
}

bool IsGeneralOnnx(const std::filesystem::path& path) {
  return path.extension() == ".onnx" && FindGenaiDirectory(path).empty();
}

Status InspectOnnx(const std::filesystem::path& path, const InspectOnnxFlags& flags,
                   const std::string& stage, InspectForm form) {
  if (!stage.empty() && form == InspectForm::kTable) {
    ProgramSessionOptions options = OptionsOf(flags);
    options.level = stage == "optimized" || stage == "plan" ? 3 : 0;
    TENON_ASSIGN_OR_RETURN(const auto session, ProgramSession::Open(path, options));
    fmt::print("{}", PrintProgram(session->program()));
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const Json report, Compare(path, flags));
  if (form == InspectForm::kJson)
    fmt::print("{}\n", report.dump());
  else
    PrintComparison(report);
  return {};
}

}  // namespace tenon
