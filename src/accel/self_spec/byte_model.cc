#include "accel/self_spec/byte_model.h"

namespace tenon {

double ByteModel::SpeedUp(int64_t guesses, double acceptance, int64_t context) const {
  const auto g = static_cast<double>(guesses);
  return (1.0 + g * acceptance) * plain.At(context) / (g * draft.At(context) + verify.At(context));
}

double ByteModel::BreakEven(int64_t guesses, int64_t context) const {
  const auto g = static_cast<double>(guesses);
  const double extra = g * draft.At(context) + verify.At(context) - plain.At(context);
  return extra / (g * plain.At(context));
}

}  // namespace tenon
