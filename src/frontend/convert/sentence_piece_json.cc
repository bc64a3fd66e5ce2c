#include "frontend/convert/sentence_piece_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpace = "\u2581";

TokenType TypeOf(const TokenizerSpec& spec, size_t id) {
  return id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
}

bool IsPiece(const TokenizerSpec& spec, size_t id) {
  const TokenType type = TypeOf(spec, id);
  return type != TokenType::kByte && type != TokenType::kControl && type != TokenType::kUnknown;
}

struct Merge {
  size_t left;
  size_t right;
};

class MergeList {
 public:
  explicit MergeList(const TokenizerSpec& spec) : spec_(spec) {
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (IsPiece(spec, id) && pieces_.emplace(spec.tokens[id], id).second)
        ordered_.push_back(id);
    }
    std::ranges::stable_sort(ordered_,
                             [&](size_t a, size_t b) { return spec_.scores[a] > spec_.scores[b]; });
  }

  Json Run() const {
    Json merges = Json::array();
    for (const size_t id : ordered_) {
      for (const Merge& merge : WaysTo(spec_.tokens[id]))
        merges.push_back(Json::array({spec_.tokens[merge.left], spec_.tokens[merge.right]}));
    }
    return merges;
  }

 private:
  // Pairs of pieces that are the text, the earlier pieces first.
  std::vector<Merge> WaysTo(std::string_view text) const {
    std::vector<Merge> ways;
    for (size_t at = 0; at < text.size();) {
      at += DecodeUtf8(text, at).length;
      const auto left = pieces_.find(text.substr(0, at));
      const auto right = pieces_.find(text.substr(at));
      if (at < text.size() && left != pieces_.end() && right != pieces_.end())
        ways.push_back({left->second, right->second});
    }
    std::ranges::sort(ways, [](const Merge& a, const Merge& b) {
      return a.left != b.left ? a.left < b.left : a.right < b.right;
    });
    return ways;
  }

  const TokenizerSpec& spec_;
  std::unordered_map<std::string_view, size_t> pieces_;  // of equal texts the first
  std::vector<size_t> ordered_;                          // by falling score
};

Json Replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

bool IsSentencePiece(const TokenizerSpec& spec) {
  return spec.model == "llama" && spec.scores.size() == spec.tokens.size() &&
         std::ranges::none_of(spec.scores, [](float score) { return std::isnan(score); });
}

Json SentencePieceModel(const TokenizerSpec& spec) {
  bool has_bytes = false;
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    has_bytes = has_bytes || TypeOf(spec, id) == TokenType::kByte;
  const auto unknown = static_cast<size_t>(spec.unknown_id);
  const bool has_unknown = spec.unknown_id >= 0 && unknown < spec.tokens.size();
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", has_unknown ? Json(spec.tokens[unknown]) : Json()},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", has_bytes},
          {"ignore_merges", false},
          {"vocab", nullptr},
          {"merges", MergeList(spec).Run()}};
}

Json SentencePieceNormalizer(const TokenizerSpec& spec) {
  if (!spec.add_space_prefix)
    return Replace(" ", kSpace);
  const Json prefix = {{"type", "Prepend"}, {"prepend", kSpace}};
  return {{"type", "Sequence"}, {"normalizers", Json::array({prefix, Replace(" ", kSpace)})}};
}

Json SentencePieceDecoder(const TokenizerSpec& spec) {
  Json steps = Json::array({Replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (spec.add_space_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace tenon
