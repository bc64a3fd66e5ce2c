// Reading ONNX files: the wire format, tensors' bytes, and external data confined to the directory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/onnx/external_data.h"
#include "model/onnx/genai_rope.h"
#include "model/onnx/nbits_weights.h"
#include "model/onnx/onnx_builder.h"
#include "model/onnx/onnx_file.h"
#include "quant/dequantize.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tenon-onnx-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void WriteText(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ExternalDataTest, FilesInsideTheDirectoryAreFound) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "m" / "w.data", "x");
  WriteText(folder.path() / "m" / "sub" / "v.data", "x");
  EXPECT_TRUE(ResolveExternalFile(folder.path() / "m", "w.data").ok());
  EXPECT_TRUE(ResolveExternalFile(folder.path() / "m", "./sub/v.data").ok());
}

TEST(ExternalDataTest, WhatLeadsOutIsRefused) {
  const TemporaryFolder folder;
  WriteText(folder.path() / "secret", "x");
  WriteText(folder.path() / "m" / "w.data", "x");
  fs::create_symlink("../secret", folder.path() / "m" / "link");
  fs::create_directory_symlink("..", folder.path() / "m" / "up");
  fs::create_hard_link(folder.path() / "secret", folder.path() / "m" / "hard");
  fs::create_directory(folder.path() / "m" / "folder");
  const std::string absolute = (folder.path() / "m" / "w.data").string();
  for (const std::string& location :
       {std::string("../secret"), std::string("sub/../../secret"), absolute, std::string("link"),
        std::string("up/secret"), std::string("hard"), std::string(""), std::string("folder"),
        std::string("a\0b", 3), std::string("missing"), std::string("..\\secret")})
    EXPECT_FALSE(ResolveExternalFile(folder.path() / "m", location).ok()) << location;
}

// As huggingface_hub lays out its cache.
TEST(ExternalDataTest, LinksIntoTheCachesBlobsAreFollowed) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "models--org--name";
  WriteText(model / "blobs" / "abc", "x");
  WriteText(folder.path() / "models--other--name" / "blobs" / "def", "x");
  fs::create_directories(model / "snapshots" / "1");
  fs::create_symlink("../../blobs/abc", model / "snapshots" / "1" / "w.data");
  fs::create_symlink("../../../models--other--name/blobs/def",
                     model / "snapshots" / "1" / "o.data");
  EXPECT_TRUE(ResolveExternalFile(model / "snapshots" / "1", "w.data").ok());
  EXPECT_FALSE(ResolveExternalFile(model / "snapshots" / "1", "o.data").ok());
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(OnnxFileTest, ReadsWhatTheBuilderWrites) {
  OnnxBuilder builder;
  builder.Input("x", ElementType::kF32, {"n", int64_t{3}});
  const std::string axes = builder.Integers({1, -1});
  builder.Node("Gelu", {"x", axes},
               {{"alpha", 0.5F}, {"mode", std::string("tanh")}, {"k", int64_t{-7}}}, "y");
  builder.Output("y", ElementType::kF32, {"n", int64_t{3}});
  const std::string bytes = builder.Serialize(17, "none");
  auto file = OnnxFile::Parse(BytesOf(bytes), "test");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  const OnnxGraph& graph = file->model().graph;
  EXPECT_EQ(file->model().Opset(""), 17);
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].op, "Gelu");
  EXPECT_EQ(graph.nodes[0].outputs, std::vector<std::string>{"y"});
  ASSERT_EQ(graph.nodes[0].attributes.size(), 3U);
  EXPECT_EQ(graph.nodes[0].attributes[0].f, 0.5F);
  EXPECT_EQ(graph.nodes[0].attributes[1].s, "tanh");
  EXPECT_EQ(graph.nodes[0].attributes[2].i, -7);
  EXPECT_EQ(graph.inputs[0].shape[0].name, "n");
  EXPECT_EQ(graph.inputs[0].shape[1].value, 3);
  ASSERT_EQ(graph.initializers.size(), 1U);
  const auto data = file->Data(graph.initializers[0]);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->shape, std::vector<int64_t>{2});
  int64_t values[2];
  std::memcpy(values, data->bytes.data(), sizeof(values));
  EXPECT_EQ(values[1], -1);
}

TEST(OnnxFileTest, EveryTruncationIsAnErrorOrAModel) {
  OnnxBuilder builder;
  builder.Node("Relu", {"x", builder.Numbers({1.0F, 2.0F})}, {}, "y");
  const std::string bytes = builder.Serialize(17, "none");
  size_t refused = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    const auto file = OnnxFile::Parse(BytesOf(part), "test");
    if (file.ok())
      continue;
    ++refused;
    EXPECT_FALSE(file.error().where.empty()) << size;
  }
  // Only an end between two fields of the outermost message can be an end of the file.
  EXPECT_GT(refused, bytes.size() - 8);
  EXPECT_TRUE(OnnxFile::Parse(BytesOf(bytes), "test").ok());
}

TEST(OnnxFileTest, ExternalDataNeedsAFile) {
  OnnxBuilder builder;
  builder.External("w", ElementType::kF32, {2}, 0, 8);
  const std::string bytes = builder.Serialize(17, "w.data");
  auto file = OnnxFile::Parse(BytesOf(bytes), "test");
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->Data(file->model().graph.initializers[0]).ok());
}

// One row of 32: scale * (q - zero) by hand.
TEST(NbitsTest, RowsHoldTheSameNumbers) {
  std::vector<std::byte> values(16);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::byte>((2 * i) % 16 | ((2 * i + 1) % 16) << 4);
  const float scale = 0.5F;
  const std::byte zero{3};
  for (const bool has_zero : {false, true}) {
    NbitsMatrix matrix;
    matrix.rows = 1;
    matrix.columns = 32;
    matrix.values = values;
    matrix.scales = std::as_bytes(std::span(&scale, 1));
    if (has_zero)
      matrix.zeros = std::span(&zero, 1);
    ASSERT_TRUE(CheckNbits(matrix).ok());
    const DType dtype = NbitsDType(matrix);
    EXPECT_EQ(dtype, has_zero ? DType::kQ4_1 : DType::kQ4_0);
    const auto buffer = ConvertNbits(matrix, dtype);
    ASSERT_TRUE(buffer.ok());
    std::vector<float> row(32);
    DequantizeRow(dtype, buffer->bytes(), row);
    for (size_t i = 0; i < row.size(); ++i)
      EXPECT_EQ(row[i], scale * (static_cast<float>(i % 16) - (has_zero ? 3.0F : 8.0F))) << i;
  }
}

TEST(NbitsTest, OtherSizesAreRefused) {
  NbitsMatrix matrix;
  matrix.rows = 1;
  matrix.columns = 32;
  EXPECT_FALSE(CheckNbits(matrix).ok());
  matrix.bits = 3;
  EXPECT_FALSE(CheckNbits(matrix).ok());
  matrix.bits = 4;
  matrix.block = 24;
  EXPECT_FALSE(CheckNbits(matrix).ok());
}

TEST(GenaiRopeTest, TablesGiveTheirBaseBack) {
  constexpr int64_t kPairs = 32;
  for (const double base : {10000.0, 100000.0, 500000.0}) {
    std::vector<float> cos;
    std::vector<float> sin;
    for (int64_t t = 0; t < 8; ++t) {
      for (int64_t p = 0; p < kPairs; ++p) {
        const double angle =
            static_cast<double>(t) * std::pow(base, -static_cast<double>(p) / kPairs);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    const auto rope = RopeFromTables(cos, sin, kPairs);
    ASSERT_TRUE(rope.ok()) << rope.error().ToString();
    EXPECT_EQ(rope->base, static_cast<float>(base));
    EXPECT_TRUE(rope->factors.empty());
    sin[kPairs] = 0.0F;
    EXPECT_FALSE(RopeFromTables(cos, sin, kPairs).ok());
  }
}

}  // namespace
}  // namespace tenon
