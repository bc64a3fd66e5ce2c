// `tenon convert`: a model in another format.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "frontend/cli/command.h"
#include "frontend/cli/size_flag.h"
#include "frontend/convert/gguf_export.h"
#include "frontend/convert/hf_export.h"
#include "frontend/convert/onnx_export.h"
#include "frontend/session/model.h"
#include "frontend/store/store.h"
#include "model/column_order.h"
#include "model/model_source.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct ConvertFlags {
  std::string input;
  std::string output;
  std::string to;
  bool int8 = false;
  bool int4 = false;
  std::string dtype;
  std::string shard_size;
  std::string max_memory;
  std::string pre_tokenizer;
};

// The first `name` in $PATH; empty when there is none.
fs::path FindProgram(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, end)) / name;
    std::error_code error;
    if (fs::is_regular_file(candidate, error))
      return candidate;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return {};
}

// In single quotes for a shell.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Builds an engine from the ONNX form with TensorRT's own builder, where it is installed.
Status BuildTensorRt(const fs::path& onnx, const fs::path& engine) {
  const std::vector<std::string> gaps = TensorRtGaps(onnx);
  for (const std::string& op : gaps)
    fmt::print(stderr, "TensorRT does not take the operator {}\n", op);
  if (gaps.empty())
    fmt::print(stderr, "TensorRT takes every operator of the graph\n");
  const fs::path builder = FindProgram("trtexec");
  if (builder.empty())
    return Unsupported(
        fmt::format("the engine was not built: TensorRT's builder (trtexec) is not in "
                    "PATH; {} is what it builds from",
                    onnx.string()));
  const std::string command = fmt::format("{} --onnx={} --saveEngine={}", Quoted(builder.string()),
                                          Quoted(onnx.string()), Quoted(engine.string()));
  fmt::print(stderr, "{}\n", command);
  if (std::system(command.c_str()) != 0)
    return MakeError(ErrorCode::kInternal, "trtexec failed", onnx.string());
  return {};
}

std::optional<SafetensorsType> FloatType(const std::string& name) {
  if (name.empty())
    return std::nullopt;
  if (name == "f32")
    return SafetensorsType::kF32;
  return name == "f16" ? SafetensorsType::kF16 : SafetensorsType::kBF16;
}

// Writers hold pieces of tensors: this much, and a vocabulary.
constexpr int64_t kWriterBytes = int64_t{16} << 20;

// What is held in memory by now stays; what is read from files comes in pieces.
Status CheckMemory(const ConvertFlags& flags, const ModelSource& source) {
  if (flags.max_memory.empty())
    return {};
  TENON_ASSIGN_OR_RETURN(const int64_t limit, ParseSize(flags.max_memory, "--max-memory"));
  int64_t converted = 0;
  for (const Buffer& buffer : source.buffers)
    converted += static_cast<int64_t>(buffer.bytes().size());
  const int64_t needed = ResidentBytes() + kWriterBytes;
  if (needed <= limit)
    return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("about {} MB are needed, {} MB of them for tensors that had to be "
                               "converted when they were read; {} MB may be used",
                               needed >> 20, converted >> 20, limit >> 20),
                   "--max-memory");
}

Result<uint64_t> ShardBytes(const ConvertFlags& flags) {
  if (flags.shard_size.empty())
    return uint64_t{0};
  TENON_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(flags.shard_size, "--shard-size"));
  return static_cast<uint64_t>(bytes);
}

Status ConvertToGguf(const ModelSource& source, const ConvertFlags& flags) {
  GgufExportOptions options;
  options.pre_tokenizer = flags.pre_tokenizer;
  TENON_ASSIGN_OR_RETURN(options.shard_bytes, ShardBytes(flags));
  return ExportGguf(source, options, flags.output);
}

Status ConvertToHf(const ModelSource& source, const ConvertFlags& flags) {
  HfExportOptions options;
  options.floats = FloatType(flags.dtype);
  TENON_ASSIGN_OR_RETURN(options.shard_bytes, ShardBytes(flags));
  if (!flags.int8 && !flags.int4)
    return ExportHf(source, options, flags.output);
  options.packed = PackedWeights::kCompressedTensors;
  RoundingSupply supply(source, flags.int4 ? DType::kQ4_0 : DType::kQ8_0);
  return ExportHf(source, supply, options, flags.output);
}

// The output is renamed into its place, which would replace a device or a link by a file.
Status CheckOutput(const fs::path& input, const fs::path& output) {
  std::error_code error;
  if (fs::equivalent(input, output, error))
    return InvalidArgument("the output is the input", output.string());
  const fs::file_status status = fs::symlink_status(output, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    return InvalidArgument("found a link or a device, a new file or an ordinary one expected",
                           output.string());
  return {};
}

enum class Form : uint8_t { kOnnx, kTensorRt, kSafetensors, kGguf, kUnknown };

Form FormOf(const ConvertFlags& flags) {
  const fs::path extension = fs::path(flags.output).extension();
  if (flags.to == "tensorrt")
    return Form::kTensorRt;
  if (flags.to == "onnx" || (flags.to.empty() && extension == ".onnx"))
    return Form::kOnnx;
  if (flags.to == "safetensors")
    return Form::kSafetensors;
  if (flags.to == "gguf" || (flags.to.empty() && extension == ".gguf"))
    return Form::kGguf;
  return Form::kUnknown;
}

// Flags that the form has no use for.
Status CheckFlags(const ConvertFlags& flags, Form form) {
  if (form == Form::kGguf && (flags.int8 || flags.int4))
    return InvalidArgument(
        "not for GGUF, whose tensors keep their types; `tenon quantize` makes "
        "files of fewer bits",
        flags.int8 ? "--int8" : "--int4");
  if (form != Form::kSafetensors && flags.int4)
    return InvalidArgument("only for --to safetensors", "--int4");
  if (form != Form::kSafetensors && !flags.dtype.empty())
    return InvalidArgument("only for --to safetensors", "--dtype");
  return {};
}

Status Convert(const ConvertFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const fs::path path, ResolveModel(flags.input));
  const Form form = FormOf(flags);
  TENON_RETURN_IF_ERROR(CheckOutput(path, flags.output));
  TENON_RETURN_IF_ERROR(CheckFlags(flags, form));
  TENON_ASSIGN_OR_RETURN(ModelSource source, OpenModel(path));
  TENON_RETURN_IF_ERROR(RestoreColumnOrder(source));
  TENON_RETURN_IF_ERROR(CheckMemory(flags, source));
  const fs::path output(flags.output);
  const OnnxWeights weights = flags.int8 ? OnnxWeights::kI8 : OnnxWeights::kF32;
  if (form == Form::kTensorRt) {
    fs::path onnx = output;
    onnx.replace_extension(".onnx");
    TENON_RETURN_IF_ERROR(ExportOnnx(source, weights, onnx));
    return BuildTensorRt(onnx, output);
  }
  if (form == Form::kOnnx)
    return ExportOnnx(source, weights, output);
  if (form == Form::kSafetensors)
    return ConvertToHf(source, flags);
  if (form == Form::kGguf)
    return ConvertToGguf(source, flags);
  return Unsupported(fmt::format("'{}' names no format that is written; .onnx or .gguf, or --to "
                                 "expected",
                                 flags.output),
                     "output");
}

}  // namespace

CommandBody DefineConvert(CLI::App& app) {
  auto flags = std::make_shared<ConvertFlags>();
  app.add_option("input", flags->input, "File, directory or name from `tenon list`")->required();
  app.add_option("output", flags->output, "File to write, such as model.onnx")->required();
  app.add_option("--to", flags->to,
                 "Format (default: by the output's name): onnx, gguf, safetensors (a Hugging Face "
                 "directory) or tensorrt")
      ->check(CLI::IsMember({"onnx", "gguf", "safetensors", "tensorrt"}));
  app.add_option("--pre", flags->pre_tokenizer,
                 "GGUF's name of the pre-tokenizer, where tokenizer.json does not tell");
  app.add_flag("--int8", flags->int8,
               "Weights as int8: in ONNX with a scale for each row (DequantizeLinear), in "
               "safetensors in groups of 32");
  app.add_flag("--int4", flags->int4, "safetensors: weights as int4 in groups of 32")
      ->excludes("--int8");
  app.add_option("--dtype", flags->dtype,
                 "safetensors: type of all floats (default: as they are; f16 for quantized values)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  app.add_option("--shard-size", flags->shard_size, "Most bytes of tensors in a file, such as 2GB");
  app.add_option("--max-memory", flags->max_memory,
                 "Fail before writing when more would be needed, such as 300MB");
  return [flags] { return Convert(*flags); };
}

}  // namespace tenon
