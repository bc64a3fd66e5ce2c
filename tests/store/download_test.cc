// Download against a real server that cuts connections, stalls, changes the file and redirects.
#include "frontend/store/download.h"

#include <gtest/gtest.h>

#include <thread>

#include "store/stub_server.h"

namespace tenon {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class DownloadTest : public testing::Test {
 protected:
  // Two buffers of libcurl and a bit, so that a cut falls inside.
  const std::string content_ = FakeModel(40000, 1);
  TemporaryDirectory directory_;
  std::unique_ptr<StubServer> server_;
  DownloadJob job_;

  void SetUp() override {
    WriteBytes(directory_ / "file", content_);
    job_.path = directory_ / "out";
    job_.sha256 = Sha256Of(content_);
  }
  json FileRoute(json more = json::object()) const {
    json route = {{"file", (directory_ / "file").string()}};
    route.update(more);
    return route;
  }
  void Serve(const json& routes) {
    server_ = StubServer::Start(directory_.path(), routes);
    if (server_ == nullptr)
      GTEST_SKIP() << "python3 is missing";
    job_.request.url = server_->Url("/file");
  }
  Result<DownloadedFile> Run() {
    HttpClient client(TestSettings(directory_.path()).http, stop_.get_token());
    return Download(client, job_);
  }
  std::stop_source stop_;
};

#define SERVE(...)    \
  Serve(__VA_ARGS__); \
  if (IsSkipped())    \
  return

TEST_F(DownloadTest, LoadsAFileAndReportsProgress) {
  SERVE({{"/file", FileRoute()}});
  uint64_t last_done = 0;
  job_.on_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    EXPECT_EQ(total, content_.size());
    last_done = done;
  };
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->bytes, content_.size());
  EXPECT_EQ(result->sha256, Sha256Of(content_));
  EXPECT_EQ(ReadBytes(job_.path), content_);
  EXPECT_EQ(last_done, content_.size());
}

TEST_F(DownloadTest, ContinuesAfterACutConnection) {
  SERVE({{"/file", FileRoute({{"etag", "\"v1\""},
                              {"faults", {{{"drop_after", 20000}}, {{"drop_after", 5000}}}}})}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
  const auto requests = server_->Requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1]["headers"]["range"], "bytes=20000-");
  EXPECT_EQ(requests[1]["headers"]["if-range"], "\"v1\"");
  EXPECT_EQ(requests[2]["headers"]["range"], "bytes=25000-");
}

TEST_F(DownloadTest, ContinuesWhatAnEarlierProcessLeft) {
  WriteBytes(job_.path, content_.substr(0, 30000));
  SERVE({{"/file", FileRoute()}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
  EXPECT_EQ(server_->Requests()[0]["headers"]["range"], "bytes=30000-");
  EXPECT_EQ(server_->Requests()[0]["status"], 206);
}

TEST_F(DownloadTest, StartsAnewWhenTheFileHasChangedInBetween) {
  WriteBytes(job_.path, "old bytes");
  WriteBytes(job_.path.string() + ".etag", "\"old\"");
  job_.sha256.clear();
  SERVE({{"/file", FileRoute({{"etag", "\"new\""}})}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
  EXPECT_EQ(server_->Requests()[0]["headers"]["if-range"], "\"old\"");
  EXPECT_EQ(server_->Requests()[0]["status"], 200);
}

TEST_F(DownloadTest, DoesNotTrustALeftoverWithoutMarkAndDigest) {
  WriteBytes(job_.path, content_.substr(0, 30000));
  job_.sha256.clear();
  SERVE({{"/file", FileRoute()}});
  ASSERT_TRUE(Run().ok());
  EXPECT_FALSE(server_->Requests()[0]["headers"].contains("range"));
  EXPECT_EQ(ReadBytes(job_.path), content_);
}

TEST_F(DownloadTest, RecoversFromAWrongLeftover) {
  WriteBytes(job_.path, std::string(30000, 'x'));
  SERVE({{"/file", FileRoute()}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
  EXPECT_EQ(server_->Requests().size(), 2u);
}

TEST_F(DownloadTest, RecoversFromALeftoverThatIsTooLong) {
  WriteBytes(job_.path, content_ + "more");
  SERVE({{"/file", FileRoute()}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(server_->Requests()[0]["status"], 416);
  EXPECT_EQ(ReadBytes(job_.path), content_);
}

TEST_F(DownloadTest, TakesAServerThatIgnoresRanges) {
  SERVE({{"/file", FileRoute({{"ignore_range", true}, {"faults", {{{"drop_after", 100}}}}})}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
}

TEST_F(DownloadTest, RetriesServerErrorsAndStalls) {
  SERVE({{"/file", FileRoute({{"faults", {{{"status", 503}}, {{"stall_after", 500}}}}})}});
  Result<DownloadedFile> result = Run();
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(job_.path), content_);
  EXPECT_EQ(server_->Requests().size(), 3u);
}

TEST_F(DownloadTest, GivesUpAfterTheLastTry) {
  SERVE({{"/file", FileRoute({{"status", 503}})}});
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_NE(result.error().message.find("503"), std::string::npos);
  EXPECT_EQ(server_->Requests().size(), 3u);  // max_tries of TestSettings
}

TEST_F(DownloadTest, DoesNotRetryWhatIsNotThere) {
  SERVE(json::object());
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().where, server_->Url("/file"));
  EXPECT_EQ(server_->Requests().size(), 1u);
}

TEST_F(DownloadTest, RejectsAWrongDigestAndKeepsNothing) {
  job_.sha256 = std::string(64, 'a');
  SERVE({{"/file", FileRoute()}});
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(result.error().message.find(Sha256Of(content_)), std::string::npos);
  EXPECT_NE(result.error().message.find(job_.sha256), std::string::npos);
  EXPECT_FALSE(fs::exists(job_.path));
}

TEST_F(DownloadTest, RejectsAnotherLengthBeforeLoading) {
  job_.bytes = content_.size() + 1;
  SERVE({{"/file", FileRoute()}});
  uint64_t loaded = 0;
  job_.on_progress = [&](uint64_t done, uint64_t) { loaded = done; };
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(loaded, 0u);
}

TEST_F(DownloadTest, KeepsTheTokenFromOtherOrigins) {
  job_.request.bearer_token = "secret";
  SERVE({{"/file", {{"status", 302}, {"headers", {{"Location", "$BASE/near"}}}}},
         {"/near", {{"status", 307}, {"headers", {{"Location", "$OTHER/far?sig=1"}}}}},
         {"/far?sig=1", FileRoute()}});
  ASSERT_TRUE(Run().ok());
  const auto requests = server_->Requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0]["headers"]["authorization"], "Bearer secret");
  EXPECT_EQ(requests[1]["headers"]["authorization"], "Bearer secret");
  EXPECT_EQ(requests[2]["port"], server_->other_port());
  EXPECT_FALSE(requests[2]["headers"].contains("authorization"));
}

TEST_F(DownloadTest, EndsRedirectsInACircle) {
  SERVE({{"/file", {{"status", 302}, {"headers", {{"Location", "/file"}}}}}});
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("redirects"), std::string::npos);
  EXPECT_EQ(server_->Requests().size(), 11u);
}

TEST_F(DownloadTest, StopsOnRequestAndKeepsWhatCame) {
  SERVE({{"/file", FileRoute({{"stall_after", 16000}})}});
  job_.on_progress = [&](uint64_t, uint64_t) { stop_.request_stop(); };
  Result<DownloadedFile> result = Run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  const std::string kept = ReadBytes(job_.path);
  EXPECT_GT(kept.size(), 0u);
  EXPECT_EQ(kept, content_.substr(0, kept.size()));
}

TEST(CheckDiskSpaceTest, NamesBothNumbers) {
  TemporaryDirectory directory;
  EXPECT_TRUE(CheckDiskSpace(directory.path(), 1).ok());
  const Status status = CheckDiskSpace(directory.path(), uint64_t{1} << 60);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(status.error().message.find("1152921504606846976"), std::string::npos);
  EXPECT_NE(status.error().message.find("are free"), std::string::npos);
}

TEST(FormatBytesTest, PicksTheUnit) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(98362432), "93.8 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 40), "5.0 TiB");
}

}  // namespace
}  // namespace tenon
