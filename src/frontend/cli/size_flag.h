// Sizes on the command line.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tenon {

// "2GB", "512MB", "4096": bytes. KB is 1024.
Result<int64_t> ParseSize(const std::string& text, const std::string& flag);

}  // namespace tenon
