#include <cmath>

#include "hf/hf_test_support.h"
#include "model/safetensors/safetensors_reader.h"
#include "model/safetensors/safetensors_shards.h"
#include "model/safetensors/value_decoder.h"

namespace tenon::testing {
namespace {

using ::testing::HasSubstr;

std::string ParseError(const std::string& file) {
  const auto parsed = ParseSafetensors(AsBytes(file), "test.safetensors");
  return parsed.ok() ? std::string() : parsed.error().ToString();
}

TEST(Safetensors, ReadsTensorsInDataOrder) {
  const json header = {{"__metadata__", {{"format", "pt"}}},
                       {"b", Entry("F16", {2, 3}, 0, 12)},
                       {"a", Entry("F32", {}, 12, 16)},
                       {"empty", Entry("I64", {0, 7}, 16, 16)}};
  const std::string text = header.dump() + "   ";
  const std::string file = Container(text, std::string(16, '\0'));
  const auto parsed = ParseSafetensors(AsBytes(file), "test");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  ASSERT_EQ(parsed->tensors.size(), 3U);
  EXPECT_EQ(parsed->tensors[0].name, "b");
  EXPECT_EQ(parsed->tensors[0].type, SafetensorsType::kF16);
  EXPECT_EQ(parsed->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parsed->tensors[0].offset, 8 + text.size());
  EXPECT_EQ(parsed->tensors[1].bytes, 4U);
  EXPECT_EQ(parsed->tensors[2].bytes, 0U);
  EXPECT_EQ(parsed->metadata.front().second, "pt");
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* expected;
};

std::vector<BadFile> BadFiles() {
  const auto of = [](const json& header, size_t data) {
    return Container(header.dump(), std::string(data, '\0'));
  };
  return {
      {"empty", "", "header length"},
      {"seven_bytes", "1234567", "header length"},
      {"length_2_63", LengthBytes(uint64_t{1} << 63) + "{}", "9223372036854775808 bytes"},
      {"length_past_end", LengthBytes(100) + "{}", "safetensors header"},
      {"length_above_100_mb", LengthBytes(100'000'001) + "{}", "at most 100000000"},
      {"not_json", Container("{\"a\":", ""), "not JSON"},
      {"array", Container("[]", ""), "does not start with '{'"},
      {"space_first", Container(" {}", ""), "does not start with '{'"},
      {"not_utf8", Container("{\"\xFF\":1}", ""), "not JSON"},
      {"overlap", of({{"a", Entry("F32", {2}, 0, 8)}, {"b", Entry("F32", {2}, 4, 12)}}, 12),
       "overlap"},
      {"same_place", of({{"a", Entry("F32", {2}, 0, 8)}, {"b", Entry("F32", {2}, 0, 8)}}, 8),
       "overlap"},
      {"hole", of({{"a", Entry("F32", {1}, 0, 4)}, {"b", Entry("F32", {1}, 8, 12)}}, 12),
       "leave a hole"},
      {"late_start", of({{"a", Entry("F32", {1}, 4, 8)}}, 8), "leave a hole"},
      {"rest", of({{"a", Entry("F32", {1}, 0, 4)}}, 5), "which has 5 bytes"},
      {"past_end", of({{"a", Entry("F32", {2}, 0, 8)}}, 7), "truncated"},
      {"descending", of({{"a", Entry("F32", {1}, 8, 4)}}, 8), "ascending"},
      {"wrong_length", of({{"a", Entry("F32", {3}, 0, 8)}}, 8), "3 values of F32 need 12"},
      {"unknown_dtype", of({{"a", Entry("F12", {2}, 0, 8)}}, 8), "'F12' is not known"},
      {"no_dtype", of({{"a", {{"shape", {1}}, {"data_offsets", {0, 4}}}}}, 4), "a.dtype: missing"},
      {"no_shape", of({{"a", {{"dtype", "F32"}, {"data_offsets", {0, 4}}}}}, 4),
       "a.shape: missing"},
      {"no_offsets", of({{"a", {{"dtype", "F32"}, {"shape", {1}}}}}, 4), "a.data_offsets: missing"},
      {"three_offsets",
       of({{"a", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4, 4}}}}}, 4),
       "two offsets"},
      {"negative_offset",
       of({{"a", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {-4, 0}}}}}, 4),
       "two offsets"},
      {"negative_extent", of({{"a", Entry("F32", {-1}, 0, 4)}}, 4), "out of range"},
      {"product_2_64", of({{"a", Entry("F32", {1 << 30, 1 << 30, 16}, 0, 4)}}, 4), "out of range"},
      {"bytes_2_64", of({{"a", Entry("F64", {int64_t{1} << 62}, 0, 4)}}, 4), "values of F64"},
      {"nine_dimensions", of({{"a", Entry("F32", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 4)}}, 4),
       "at most 8"},
      {"no_name", of({{"", Entry("F32", {1}, 0, 4)}}, 4), "tensor name"},
      {"newline_in_name", of({{"a\nb", Entry("F32", {1}, 0, 4)}}, 4), "control characters"},
      {"entry_number", of({{"a", 3}}, 0), "an object expected"},
      {"metadata_number", of({{"__metadata__", {{"x", 3}}}}, 0), "a string expected"},
      {"twice",
       Container(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                 "xy"),
       "occurs twice"},
  };
}

TEST(Safetensors, MalformedFilesAreRefusedAndNamed) {
  for (const BadFile& file : BadFiles()) {
    const std::string error = ParseError(file.bytes);
    EXPECT_THAT(error, HasSubstr(file.expected)) << file.name;
    EXPECT_THAT(error, HasSubstr("test.safetensors")) << file.name;
  }
}

// Cut anywhere, a file is refused; with any byte inverted, reading ends.
TEST(Safetensors, EveryTruncationAndInversion) {
  std::string whole = ZeroFile({{"a", {2, 2}}, {"b", {3}}});
  ASSERT_EQ(ParseError(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseSafetensors(std::as_bytes(std::span(cut)), "cut").ok()) << size;
  }
  int refused = 0;
  for (char& letter : whole) {
    letter = static_cast<char>(~letter);
    refused += ParseError(whole).empty() ? 0 : 1;
    letter = static_cast<char>(~letter);
  }
  EXPECT_GT(refused, 100);
}

// 448 is the largest E4M3, 2^-9 the smallest; E5M2 is an F16's upper half.
TEST(Safetensors, ValuesOfEightBits) {
  const std::string bits("\x7E\x01\x38\xC0\x88\x00", 6);
  std::vector<float> values(6);
  DecodeValues(SafetensorsType::kF8E4M3, AsBytes(bits), values);
  EXPECT_EQ(values, (std::vector<float>{448.0F, 0.001953125F, 1.0F, -2.0F, -0.015625F, 0.0F}));
  const std::string other = "\x3C\x7B\x01\xC4";
  values.resize(4);
  DecodeValues(SafetensorsType::kF8E5M2, AsBytes(other), values);
  EXPECT_EQ(values, (std::vector<float>{1.0F, 57344.0F, 1.52587890625e-05F, -4.0F}));
  const std::string nan = "\xFF";
  values.resize(1);
  DecodeValues(SafetensorsType::kF8E4M3, AsBytes(nan), values);
  EXPECT_TRUE(std::isnan(values[0]));
}

// -- Shards --------------------------------------------------------------------------------------

json Index(const std::vector<std::pair<std::string, std::string>>& tensors) {
  json map = json::object();
  for (const auto& [tensor, shard] : tensors)
    map[tensor] = shard;
  return {{"weight_map", map}};
}

std::string ShardsError(const Folder& folder) {
  const auto shards = OpenSafetensorsShards(folder.path());
  return shards.ok() ? std::string() : shards.error().ToString();
}

TEST(SafetensorsShards, OpensWhatTheIndexNames) {
  const Folder folder;
  folder.Write("one.safetensors", ZeroFile({{"a", {1}}}));
  folder.Write("two.safetensors", ZeroFile({{"b", {2}}, {"c", {3}}}));
  folder.Write(
      "model.safetensors.index.json",
      Index({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "two.safetensors"}}).dump());
  const auto shards = OpenSafetensorsShards(folder.path());
  ASSERT_TRUE(shards.ok()) << shards.error().ToString();
  EXPECT_EQ(shards->files.size(), 2U);
  EXPECT_EQ(shards->parsed[1].tensors.size(), 2U);
}

TEST(SafetensorsShards, MissingShardIsNamed) {
  const Folder folder;
  folder.Write("one.safetensors", ZeroFile({{"a", {1}}}));
  folder.Write("model.safetensors.index.json",
               Index({{"a", "one.safetensors"}, {"b", "two.safetensors"}}).dump());
  const std::string error = ShardsError(folder);
  EXPECT_THAT(error, HasSubstr("two.safetensors"));
  EXPECT_THAT(error, HasSubstr("shard 2 of 2"));
}

TEST(SafetensorsShards, NamesThatLeadElsewhereAreRefused) {
  for (const char* name :
       {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ".hidden", "", "a\\b"}) {
    const Folder folder;
    folder.Write("model.safetensors.index.json", Index({{"a", name}}).dump());
    EXPECT_THAT(ShardsError(folder), HasSubstr("no name of a file")) << name;
  }
}

TEST(SafetensorsShards, TensorsAreWhereTheIndexSays) {
  const Folder folder;
  folder.Write("one.safetensors", ZeroFile({{"a", {1}}, {"b", {1}}}));
  folder.Write("model.safetensors.index.json", Index({{"a", "one.safetensors"}}).dump());
  EXPECT_THAT(ShardsError(folder), HasSubstr("'b' is in one.safetensors"));
  folder.Write("one.safetensors", ZeroFile({{"a", {1}}}));
  folder.Write("model.safetensors.index.json",
               Index({{"a", "one.safetensors"}, {"b", "one.safetensors"}}).dump());
  EXPECT_THAT(ShardsError(folder), HasSubstr("2 tensors are named"));
}

TEST(SafetensorsShards, OtherIndexes) {
  const Folder folder;
  EXPECT_THAT(ShardsError(folder), HasSubstr("neither"));
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not JSON"},
           {"{}", "weight_map: missing"},
           {R"({"weight_map": []})", "an object expected"},
           {R"({"weight_map": {}})", "no tensor is named"},
           {R"({"weight_map": {"a": 3}})", "weight_map.a"}}) {
    folder.Write("model.safetensors.index.json", text);
    EXPECT_THAT(ShardsError(folder), HasSubstr(expected)) << text;
  }
}

// The Hugging Face cache: names are links to blobs outside the directory.
TEST(SafetensorsShards, LinksAreFollowed) {
  const Folder blobs;
  const Folder snapshot;
  const auto blob = blobs.Write("0123abcd", ZeroFile({{"a", {1}}}));
  std::filesystem::create_symlink(blob, snapshot.path() / "model.safetensors");
  EXPECT_EQ(ShardsError(snapshot), "");
}

}  // namespace
}  // namespace tenon::testing
