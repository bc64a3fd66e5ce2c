// Logits of a model in reference mode, for scripts/check_hf_models.py.
//
//   logit_driver MODEL < ids > logits   ids: int32, one sequence; logits: float32 [ids,
//   vocabulary];
//                                       of an encoder the sequence's vector
#include <cstdio>
#include <iostream>
#include <iterator>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "frontend/session/model.h"

namespace tenon {
namespace {

std::vector<int32_t> ReadIds() {
  const std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(int32_t));
  return ids;
}

Status Run(const char* path) {
  const std::vector<int32_t> ids = ReadIds();
  TENON_ASSIGN_OR_RETURN(const auto model, Model::Open(path));
  LoadOptions options;
  options.precision = Precision::kReference;
  options.context_tokens = static_cast<int64_t>(ids.size());
  options.batch_outputs = 64;
  TENON_RETURN_IF_ERROR(model->Load(options));
  Sequence sequence(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
  TENON_RETURN_IF_ERROR(ReserveNow(sequence, static_cast<int64_t>(ids.size())));
  BatchBuilder builder;
  if (model->runner().is_encoder()) {
    builder.AddTokens(builder.AddSequence(sequence.block_table()), ids, 0,
                      BatchBuilder::Outputs::kLast);
    TENON_ASSIGN_OR_RETURN(const auto vector, model->runner().Step(builder.batch()));
    std::fwrite(vector.data(), sizeof(float), vector.size(), stdout);
    return {};
  }
  for (size_t begin = 0; begin < ids.size(); begin += 64) {
    const auto piece = std::span(ids).subspan(begin, std::min<size_t>(64, ids.size() - begin));
    builder.Clear();
    builder.AddTokens(builder.AddSequence(sequence.block_table()), piece,
                      static_cast<int64_t>(begin), BatchBuilder::Outputs::kAll);
    TENON_ASSIGN_OR_RETURN(const auto logits, model->runner().Step(builder.batch()));
    std::fwrite(logits.data(), sizeof(float), logits.size(), stdout);
  }
  return {};
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  const tenon::Status status = tenon::Run(argv[1]);
  if (!status.ok())
    std::cerr << status.error().ToString() << '\n';
  return status.ok() ? 0 : 1;
}
