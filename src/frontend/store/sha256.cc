#include "frontend/store/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "base/file_io.h"

namespace tenon {
namespace {

constexpr size_t kDigestBytes = 32;
constexpr size_t kHexDigits = 2 * kDigestBytes;
// Large enough that the read calls cost nothing next to the hashing.
constexpr size_t kChunkBytes = 256 * 1024;

}  // namespace

void Sha256::Deleter::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  TENON_CHECK(context_ != nullptr);
  TENON_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(std::span<const std::byte> bytes) {
  TENON_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::array<unsigned char, kDigestBytes> digest = {};
  TENON_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  TENON_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (unsigned char byte : digest)
    hex += fmt::format("{:02x}", byte);
  return hex;
}

Status HashFile(const std::filesystem::path& path, Sha256& hash) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return SystemError("can't open", path);
  std::vector<char> chunk(kChunkBytes);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    hash.Update(std::as_bytes(std::span(chunk).first(static_cast<size_t>(file.gcount()))));
  }
  if (file.bad())
    return SystemError("can't read", path);
  return {};
}

bool IsSha256(std::string_view text) {
  return text.size() == kHexDigits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isxdigit(c) != 0;
         });
}

}  // namespace tenon
