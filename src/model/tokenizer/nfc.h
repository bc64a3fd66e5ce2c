// Nfc: Unicode's normal forms (UAX #15), which some tokenizers apply before splitting: the composed
// one, and the others by name.
//
// Owns its maps. Threading: const after construction; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

class Nfc {
 public:
  Nfc();

  // Bytes that are not UTF-8 stay as they are. Linear in the text, apart from sorting each run of
  // combining marks.
  std::string Normalize(std::string_view text, NormalForm form = NormalForm::kNfc) const;

 private:
  void DecomposeText(std::string_view text, NormalForm form, std::u32string& out) const;
  // The compatibility mapping, of utf8proc's Unicode version.
  static void DecomposeCompatibly(char32_t code, std::u32string& out);
  void Decompose(char32_t code, std::u32string& out) const;
  void Compose(std::u32string& codes) const;
  void SortMarks(std::u32string& codes) const;
  char32_t Composite(char32_t first, char32_t second) const;  // 0: none
  uint8_t CombiningClass(char32_t code) const;

  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> decompositions_;
  std::unordered_map<uint64_t, char32_t> composites_;  // key: first << 32 | second
  std::vector<uint32_t> combining_runs_;
};

}  // namespace tenon
