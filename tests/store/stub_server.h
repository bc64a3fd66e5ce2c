// StubServer: tests/store/stub_server.py in a process of its own, and what the tests of the store
// share: a temporary directory, models' bytes, wheels.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/store/store.h"

namespace tenon {

// A directory of its own that goes with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class StubServer {
 public:
  // nullptr if there is no python3.
  static std::unique_ptr<StubServer> Start(const std::filesystem::path& directory,
                                           const nlohmann::json& routes);
  ~StubServer();
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  std::string Url(std::string_view path) const;
  int port() const { return port_; }
  int other_port() const { return other_port_; }

  // What has been asked so far, in order.
  std::vector<nlohmann::json> Requests() const;
  // The requests for one path.
  std::vector<nlohmann::json> Requests(std::string_view path) const;

 private:
  StubServer() = default;

  std::filesystem::path log_;
  pid_t process_ = -1;
  int input_ = -1;  // closing it ends the server
  int port_ = 0;
  int other_port_ = 0;
};

void WriteBytes(const std::filesystem::path& path, std::string_view bytes);
std::string ReadBytes(const std::filesystem::path& path);

// "GGUF" and then pseudo-random bytes, the same ones for the same seed.
std::string FakeModel(size_t bytes, uint32_t seed);

std::string Sha256Of(std::string_view bytes);

// A wheel with this member, deflated, and another file before it.
void WriteWheel(const std::filesystem::path& path, std::string_view member,
                std::string_view content);

// No index, no certificates, short waits.
StoreSettings TestSettings(const std::filesystem::path& home);

// Names of the files below a directory that are visible to List: everything but .partial.
std::vector<std::string> VisibleFiles(const std::filesystem::path& models);

}  // namespace tenon
