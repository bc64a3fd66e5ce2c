#include "accel/ngram/ngram_module.h"

#include "accel/ngram/ngram_source.h"
#include "accel/speculation/speculation_module.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateNgramModule(const ModuleContext& context) {
  NgramOptions ngram;
  SpeculationOptions speculation;
  speculation.max_guesses = 8;  // they are free, and repetitions are long
  speculation.prior = 0.5;
  OptionReader reader(context.name, context.options);
  constexpr OptionRange kLengths = {1, 16};
  reader.Int("longest", ngram.longest, kLengths);
  reader.Int("shortest", ngram.shortest, kLengths);
  ReadSpeculationOptions(reader, speculation);
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (ngram.shortest > ngram.longest)
    return InvalidArgument("found a shortest n-gram that is longer than the longest",
                           "modules." + context.name);
  return std::unique_ptr<Module>(std::make_unique<SpeculationModule>(
      context.name, std::make_unique<NgramSource>(ngram), speculation));
}

}  // namespace tenon
