#include "frontend/cli/model_flags.h"

#include <fmt/format.h>

#include "frontend/session/weight_file_cache.h"
#include "frontend/store/store.h"
#include "hal/kv_type.h"

namespace tenon {
void ModelFlags::AddModel(CLI::App& app) {
  // An unset variable of a script must not become the default model.
  const CLI::Validator not_empty(
      [](const std::string& text) {
        return text.empty() ? std::string("is empty") : std::string();
      },
      "");
  app.add_option("MODEL", model,
                 "File, directory or name from `tenon list` (default: smollm2-135m-instruct)")
      ->check(not_empty);
  app.add_option("-m,--model", model_flag, "The same as MODEL")->check(not_empty);
}

void ModelFlags::AddAll(CLI::App& app) {
  AddModel(app);
  app.add_option("-t,--threads", threads, "Compute threads (default: what the machine gives)")
      ->check(CLI::Range(0, 1024));
  app.add_option("-c,--ctx-size", context, "Tokens of context (default: what is needed, or 4096)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  app.add_option("-b,--batch-size", batch, "Tokens in one step at most (default: 512)")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  app.add_option("--ubatch-size", ubatch, "The same as -b; the smaller one counts (-ub)")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  app.add_option("--cache-type-k", kv_type_k,
                 "KV cache type: f32, f16, bf16, q8, q4, nf4, hier (-ctk)");
  app.add_option("--cache-type-v", kv_type_v, "The same as -ctk; both must agree (-ctv)");
  app.add_flag("--reference", reference, "Everything in float: slow, the measure for the rest");
  app.add_option("-O,--optimize", level, "Graph optimisation level: 0 or 3")
      ->check(CLI::IsMember({0, 3}));
  app.add_option("--disable-pass", disabled_passes, "Name of a graph pass that shall not run");
  app.add_option("--kernels", kernel_set, "Kernel set, such as avx2 (default: TENON_CPU or best)");
  app.add_flag("--no-weight-cache", no_weight_cache,
               "Pack the weights anew and leave none for the next start");
}

Result<std::filesystem::path> ModelFlags::Path() const {
  if (!model.empty() && !model_flag.empty() && model != model_flag)
    return InvalidArgument(fmt::format("two models: {} and {}", model, model_flag), "--model");
  return ResolveModel(model.empty() ? model_flag : model);
}

Result<LoadOptions> ModelFlags::ToLoadOptions() const {
  LoadOptions options;
  options.threads = threads;
  options.context_tokens = context;
  options.batch_tokens = ubatch > 0 ? std::min(batch, ubatch) : batch;
  options.precision = reference ? Precision::kReference : Precision::kFast;
  options.level = level == 0 ? OptimizeLevel::kO0 : OptimizeLevel::kO3;
  options.disabled_passes = disabled_passes;
  options.kernel_set = kernel_set;
  if (!no_weight_cache)
    options.weight_cache = DefaultWeightCacheDirectory();
  TENON_ASSIGN_OR_RETURN(options.kv_type, ToKvType());
  return options;
}

Result<std::optional<KvType>> ModelFlags::ToKvType() const {
  std::optional<KvType> type;
  for (const auto& [name, flag] :
       {std::pair(&kv_type_k, "--cache-type-k"), std::pair(&kv_type_v, "--cache-type-v")}) {
    if (name->empty())
      continue;
    Result<KvType> parsed = ParseKvType(*name);
    if (!parsed.ok()) {
      parsed.error().where = flag;
      return parsed.error();
    }
    if (type.has_value() && *type != *parsed) {
      return InvalidArgument(
          fmt::format("keys in {} and values in {}; both must be the same", kv_type_k, kv_type_v),
          flag);
    }
    type = *parsed;
  }
  return type;
}

Result<std::unique_ptr<Model>> ModelFlags::OpenModel() const {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, Path());
  return Model::Open(path);
}

}  // namespace tenon
