// What a module is made from: its options, the target model and a way to more models.
//
// The session gives it (frontend/session/); modules know no files. Ownership: the context lives
// during Create only; the runner, pool and provider outlive the module. Threading: that of Create.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/result.h"
#include "engine/exec/model_runner.h"
#include "hal/thread_pool.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {

// A model beside the target: loaded, with a KV pool of its own unless it shares the target's.
class AuxiliaryModel {
 public:
  virtual ~AuxiliaryModel() = default;
  virtual ModelRunner& runner() = 0;
  virtual ThreadPool& pool() = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // Changes when a weight, the architecture or the tokenizer does.
  virtual const std::string& fingerprint() const = 0;
  virtual int64_t bytes() const = 0;  // weights, KV, workspace
};

enum class DraftWeights : uint8_t {
  kAsStored,
  kInt4,  // rounded to 4 bits in groups where the file has more
};

enum class DraftKv : uint8_t {
  kOwn,
  kOfTarget,  // the target's own KV pool, for a variant of the target
};

struct ModelRequest {
  std::string model;           // a file, a directory or a name of the store; empty: the target's
  int64_t context_tokens = 0;  // KV capacity over all sequences; 0: the target's
  DraftWeights weights = DraftWeights::kAsStored;
  DraftKv kv = DraftKv::kOwn;  // kOfTarget: with the target's model only
};

class ModelProvider {
 public:
  virtual ~ModelProvider() = default;
  virtual Result<std::unique_ptr<AuxiliaryModel>> Open(const ModelRequest& request) = 0;

  // The same, with errors at the option that names the model, such as "modules.routing.small".
  Result<std::unique_ptr<AuxiliaryModel>> OpenNamed(const ModelRequest& request,
                                                    std::string option) {
    auto model = Open(request);
    if (!model.ok())
      return MakeError(model.error().code, model.error().ToString(), std::move(option));
    return model;
  }
};

struct ModuleContext {
  std::string name;        // as it is configured
  nlohmann::json options;  // an object; the module refuses what it does not know
  ModelRunner* target = nullptr;
  ThreadPool* pool = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::string target_fingerprint;
  ModelProvider* models = nullptr;  // null: no other models (tests)
  int64_t quota_bytes = 0;          // memory that the module may take; 0: no limit
};

// Tokenizers give the same ids for the same text, so that one model's tokens mean the same to the
// other: equal size, and the same bytes and kind for each id. Fails naming the first difference.
Status CheckSameTokenizer(const Tokenizer& target, const Tokenizer& other);

}  // namespace tenon
