// Unigram (arXiv 1804.10959): of all ways to cut a word into tokens, the most probable one
// (Viterbi).
#include <algorithm>
#include <array>
#include <limits>

#include "model/tokenizer/named_byte.h"
#include "model/tokenizer/piece_table.h"
#include "model/tokenizer/token_model.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

// An unknown character is this much less probable than the least probable token.
constexpr double kUnknownPenalty = 10.0;

// The tokens as a tree over their bytes; children of a node lie together, by label.
class ByteTree {
 public:
  // `tokens`: text and id, ascending and without repetition.
  explicit ByteTree(const std::vector<std::pair<std::string_view, int32_t>>& tokens) {
    struct Job {
      uint32_t node;
      size_t begin;
      size_t end;
      size_t depth;
    };
    nodes_.emplace_back();
    std::vector<Job> jobs = {{0, 0, tokens.size(), 0}};
    for (size_t next = 0; next < jobs.size(); ++next) {
      const Job job = jobs[next];
      size_t at = job.begin;
      if (at < job.end && tokens[at].first.size() == job.depth)
        nodes_[job.node].id = tokens[at++].second;
      nodes_[job.node].first = static_cast<uint32_t>(nodes_.size());
      while (at < job.end) {
        const char label = tokens[at].first[job.depth];
        size_t end = at + 1;
        while (end < job.end && tokens[end].first[job.depth] == label)
          ++end;
        jobs.push_back({static_cast<uint32_t>(nodes_.size()), at, end, job.depth + 1});
        nodes_.push_back({0, 0, -1, static_cast<uint8_t>(label)});
        ++nodes_[job.node].count;
        at = end;
      }
    }
  }

  // Calls found(length, id) for every token that `text` starts with.
  template <class Found>
  void Prefixes(std::string_view text, const Found& found) const {
    const Node* node = nodes_.data();
    for (size_t length = 1; length <= text.size(); ++length) {
      const auto label = static_cast<uint8_t>(text[length - 1]);
      const Node* begin = nodes_.data() + node->first;
      const Node* end = begin + node->count;
      const Node* child = std::lower_bound(
          begin, end, label, [](const Node& n, uint8_t value) { return n.label < value; });
      if (child == end || child->label != label)
        return;
      node = child;
      if (node->id >= 0)
        found(length, node->id);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;
    uint16_t count = 0;
    int32_t id = -1;
    uint8_t label = 0;
  };
  std::vector<Node> nodes_;
};

// Texts of the tokens that words may become, ascending by unsigned bytes; of equal ones the last
// id.
std::vector<std::pair<std::string_view, int32_t>> SortedTokens(const Vocabulary& vocabulary,
                                                               const TokenizerPipeline& pipeline) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int32_t id = vocabulary.size() - 1; id >= 0; --id) {
    if (IsWordToken(vocabulary, pipeline, id) && !vocabulary.Text(id).empty())
      tokens.emplace_back(vocabulary.Text(id), id);
  }
  // string_view compares as unsigned bytes.
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  tokens.erase(std::unique(tokens.begin(), tokens.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; }),
               tokens.end());
  return tokens;
}

class UnigramModel final : public TokenModel {
 public:
  UnigramModel(const Vocabulary& vocabulary, const TokenizerPipeline& pipeline)
      : options_(std::get<UnigramOptions>(pipeline.model)),
        tree_(SortedTokens(vocabulary, pipeline)) {
    byte_ids_.fill(-1);
    double least = std::numeric_limits<double>::infinity();
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (!pipeline.in_model[static_cast<size_t>(id)])
        continue;
      least = std::min(least, options_.scores[static_cast<size_t>(id)]);
      if (const int byte = NamedByte(vocabulary.Text(id)); byte >= 0)
        byte_ids_[static_cast<size_t>(byte)] = id;
    }
    unknown_score_ = least - kUnknownPenalty;
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const std::vector<Node> best = FindBest(word);
    std::vector<int32_t> reversed;
    for (size_t end = word.size(); end > 0;) {
      const Node& node = best[end];
      size_t begin = node.begin;
      if (node.id == kUnknown) {
        // Unknown characters side by side are one.
        while (begin > 0 && best[begin].id == kUnknown)
          begin = best[begin].begin;
        AppendUnknown(word.substr(begin, end - begin), reversed);
      } else {
        reversed.push_back(node.id);
      }
      end = begin;
    }
    ids.insert(ids.end(), reversed.rbegin(), reversed.rend());
  }

 private:
  static constexpr int32_t kUnknown = -2;
  struct Node {
    double score = 0.0;  // of the best way to here
    size_t begin = 0;    // of the last token on it
    int32_t id = -1;     // -1: not reached
  };

  static void Offer(Node& node, double score, size_t begin, int32_t id) {
    if (node.id == -1 || score > node.score)
      node = {score, begin, id};
  }

  // best[end] for every end of a character.
  std::vector<Node> FindBest(std::string_view word) const {
    std::vector<Node> best(word.size() + 1);
    for (size_t at = 0; at < word.size();) {
      const double here = best[at].score;
      const size_t length = DecodeUtf8(word, at).length;
      bool single = false;
      tree_.Prefixes(word.substr(at), [&](size_t bytes, int32_t id) {
        Offer(best[at + bytes], here + options_.scores[static_cast<size_t>(id)], at, id);
        single = single || bytes == length;
      });
      if (!single)
        Offer(best[at + length], here + unknown_score_, at, kUnknown);
      at += length;
    }
    return best;
  }

  void AppendUnknown(std::string_view text, std::vector<int32_t>& reversed) const {
    const bool bytes = options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
                         return byte_ids_[static_cast<uint8_t>(c)] >= 0;
                       });
    if (bytes) {
      for (size_t i = text.size(); i-- > 0;)
        reversed.push_back(byte_ids_[static_cast<uint8_t>(text[i])]);
    } else if (options_.unknown_id >= 0) {
      reversed.push_back(options_.unknown_id);
    }
  }

  const UnigramOptions& options_;
  ByteTree tree_;
  std::array<int32_t, 256> byte_ids_;
  double unknown_score_ = 0.0;
};

}  // namespace

std::unique_ptr<TokenModel> CreateUnigramModel(const Vocabulary& vocabulary,
                                               const TokenizerPipeline& pipeline) {
  return std::make_unique<UnigramModel>(vocabulary, pipeline);
}

}  // namespace tenon
