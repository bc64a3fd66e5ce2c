#include "store/stub_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "frontend/store/sha256.h"

namespace tenon {

namespace fs = std::filesystem;
using nlohmann::json;

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "tenon_store_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    std::abort();
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::unique_ptr<StubServer> StubServer::Start(const fs::path& directory, const json& routes) {
  const fs::path script = "tests/store/stub_server.py";
  const fs::path routes_path = directory / "routes.json";
  std::unique_ptr<StubServer> server(new StubServer());
  server->log_ = directory / "requests.jsonl";
  WriteBytes(routes_path, routes.dump());
  int input[2];
  int output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
    return nullptr;
  server->process_ = ::fork();
  if (server->process_ == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    // -I -S: no site packages, a quick start. The system's python3 first: others may be wrappers.
    for (const char* python : {"/usr/bin/python3", "python3"})
      ::execlp(python, "python3", "-I", "-S", script.c_str(), routes_path.c_str(),
               server->log_.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(input[0]);
  ::close(output[1]);
  server->input_ = input[1];
  std::FILE* ports = ::fdopen(output[0], "r");
  const int found = std::fscanf(ports, "%d %d", &server->port_, &server->other_port_);
  std::fclose(ports);
  return found == 2 ? std::move(server) : nullptr;
}

StubServer::~StubServer() {
  ::close(input_);
  // A handler may be in the middle of a stall: the end must not wait for it.
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::string StubServer::Url(std::string_view path) const {
  return fmt::format("http://127.0.0.1:{}{}", port_, path);
}

std::vector<json> StubServer::Requests() const {
  std::vector<json> requests;
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);)
    requests.push_back(json::parse(line));
  return requests;
}

std::vector<json> StubServer::Requests(std::string_view path) const {
  std::vector<json> requests;
  for (json& request : Requests()) {
    if (request["path"] == path)
      requests.push_back(std::move(request));
  }
  return requests;
}

void WriteBytes(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string ReadBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string FakeModel(size_t bytes, uint32_t seed) {
  std::string model = "GGUF";
  std::mt19937 random(seed);
  while (model.size() < bytes)
    model += static_cast<char>(random() & 0xFF);
  return model;
}

std::string Sha256Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(bytes)));
  return hash.Finish();
}

void WriteWheel(const fs::path& path, std::string_view member, std::string_view content) {
  const std::pair<std::string, std::string_view> files[] = {{"pkg/__init__.py", "# nothing\n"},
                                                            {std::string(member), content}};
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& [name, text] : files)
    zip_file_add(archive, name.c_str(), zip_source_buffer(archive, text.data(), text.size(), 0), 0);
  if (zip_close(archive) != 0)
    std::abort();
}

StoreSettings TestSettings(const fs::path& home) {
  StoreSettings settings;
  settings.home = home;
  settings.pip.index_urls.clear();
  settings.http.connect_timeout = std::chrono::seconds(5);
  settings.http.stall_timeout = std::chrono::seconds(1);
  settings.http.max_tries = 3;
  settings.http.first_retry_delay = std::chrono::milliseconds(1);
  settings.http.last_retry_delay = std::chrono::milliseconds(4);
  return settings;
}

std::vector<std::string> VisibleFiles(const fs::path& models) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(models, error)) {
    if (entry.path().filename() != ".partial")
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tenon
