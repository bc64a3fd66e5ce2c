// Sha256: the digest of a stream of bytes. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

struct evp_md_ctx_st;

namespace tenon {

class Sha256 {
 public:
  Sha256();

  void Update(std::span<const std::byte> bytes);
  // The digest of everything so far in lower-case hexadecimal; the next Update starts anew.
  std::string Finish();

 private:
  struct Deleter {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Deleter> context_;
};

// Adds the bytes of a file to `hash`, a piece at a time.
Status HashFile(const std::filesystem::path& path, Sha256& hash);

// True for 64 hexadecimal digits.
bool IsSha256(std::string_view text);

}  // namespace tenon
