// LineReader: lines from a person (editable, with history) or from a pipe.
//
// One per process: the editing library keeps its state globally. One thread.
#pragma once

#include <optional>
#include <string>

namespace tenon {

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // A person types, as opposed to a pipe.
  bool interactive() const { return interactive_; }

  // The next line without its end; nothing at the end of the input.
  std::optional<std::string> Read(const char* prompt);

 private:
  bool interactive_;
};

}  // namespace tenon
