#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/gguf_writer.h"
#include "model/model_source.h"

namespace tenon {
namespace {

using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::TinyLlama;

// Shard `index` of 3 of TinyLlama, which has one tensor in each; all metadata is in the first.
GgufWriter Shard(uint16_t index) {
  const GgufWriter whole = TinyLlama();
  GgufWriter shard;
  if (index == 0) {
    shard = whole;
    shard.tensors.clear();
  }
  shard.Add(whole.tensors[index]);
  shard.Set("split.no", index).Set("split.count", uint16_t{3});
  shard.Set("split.tensors.count", int32_t{3});
  return shard;
}

std::string Name(int index) {
  return "tiny-0000" + std::to_string(index + 1) + "-of-00003.gguf";
}

std::filesystem::path WriteAll(const TempFolder& folder) {
  for (uint16_t i = 0; i < 3; ++i)
    folder.Write(Name(i), Shard(i).Build());
  return folder.Write(Name(0), Shard(0).Build()).parent_path();
}

std::string ErrorOf(const std::filesystem::path& path) {
  const auto source = OpenModel(path);
  return source.ok() ? "no error" : source.error().ToString();
}

TEST(GgufShards, AnyShardFindsItsSiblings) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  for (int i = 0; i < 3; ++i) {
    const auto source = OpenModel(path / Name(i));
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    EXPECT_EQ(source->files.size(), 3U);
    EXPECT_EQ(source->config.architecture, "llama");
    const TensorInfo* tensor = source->Find("blk.1.attn_q.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->file, 2U);
    EXPECT_EQ(source->Bytes(*tensor).size(), 576U);
    EXPECT_EQ(source->Bytes(*tensor)[5], std::byte{5});
  }
}

TEST(GgufShards, MissingOneIsNamed) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  std::filesystem::remove(path / Name(1));
  EXPECT_THAT(ErrorOf(path / Name(2)), HasSubstr(Name(1) + ": shard 2 of 3 is missing"));
  EXPECT_EQ(OpenModel(path / Name(0)).error().code, ErrorCode::kNotFound);
}

TEST(GgufShards, TruncatedOneIsNamed) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  std::filesystem::resize_file(path / Name(1), 200);
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr(Name(1)));
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("truncated"));
}

TEST(GgufShards, JoinedOnesAreRefused) {
  const TempFolder folder;
  testing::Bytes joined;
  for (uint16_t i = 0; i < 3; ++i) {
    const testing::Bytes shard = Shard(i).Build();
    testing::PutRaw(joined, shard.data(), shard.size());
  }
  EXPECT_THAT(ErrorOf(folder.Write("tiny.gguf", joined)),
              HasSubstr("shards of a split model were"));
}

TEST(GgufShards, RenamedOneIsRefused) {
  const TempFolder folder;
  const auto path = folder.Write("tiny.gguf", Shard(0).Build());
  EXPECT_THAT(ErrorOf(path), HasSubstr("its name must end in '-00001-of-00003.gguf'"));
}

TEST(GgufShards, SwappedOnesAreRefused) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  folder.Write(Name(1), Shard(2).Build());
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("says that it is shard 3 of 3"));
}

TEST(GgufShards, SameTensorInTwo) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  GgufWriter twice = Shard(2);
  twice.tensors[0].name = "token_embd.weight";
  folder.Write(Name(2), twice.Build());
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("'token_embd.weight' is in an earlier shard"));
}

TEST(GgufShards, CountsAreChecked) {
  const TempFolder folder;
  const auto path = WriteAll(folder);
  folder.Write(Name(0), Shard(0).Set("split.tensors.count", int32_t{4}).Build());
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("4 found, but the shards have 3 tensors"));
  folder.Write(Name(0), Shard(0).Set("split.no", uint16_t{3}).Build());
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("split.no: 3 found, 0 to 2 expected"));
  folder.Write(Name(0), Shard(0).Set("split.count", uint64_t{1} << 40).Build());
  EXPECT_THAT(ErrorOf(path / Name(0)), HasSubstr("split.count: 1099511627776 found"));
}

TEST(GgufShards, OneOfOneIsAWholeModel) {
  const TempFolder folder;
  const auto path = folder.Write("whole.gguf", TinyLlama().Set("split.count", uint16_t{0}).Build());
  EXPECT_EQ(ErrorOf(path), "no error");
}

}  // namespace
}  // namespace tenon
