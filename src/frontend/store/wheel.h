// Takes one member out of a wheel (a zip archive), a piece at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace tenon {

struct WheelMember {
  std::string name;    // path inside the archive
  uint64_t bytes = 0;  // its exact unpacked length: a member that claims or yields another fails
};

// Hands the member's bytes to `sink` in order. The archive's checksum is verified at the end, so
// what came is to be trusted only when this returns ok. Memory: one piece of 256 KiB.
Status ExtractMember(const std::filesystem::path& archive, const WheelMember& member,
                     const std::function<Status(std::span<const std::byte>)>& sink);

}  // namespace tenon
