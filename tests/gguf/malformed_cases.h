// Malformed GGUF files, each with a part of the error that it must give.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_writer.h"

namespace tenon::testing {

struct MalformedCase {
  std::string name;
  Bytes bytes;
  std::string expected;  // part of Error::ToString()
};

std::vector<MalformedCase> MalformedContainers();  // the container format itself
std::vector<MalformedCase> MalformedModels();      // its metadata as a model's description

}  // namespace tenon::testing
