#include "graph/test_operators.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace tenon {
namespace {

const float* Floats(const TenonTensor& tensor) {
  return static_cast<const float*>(tensor.data);
}

TenonTensor InputOf(const TenonHost* host, const TenonCall* call, uint32_t index) {
  TenonTensor tensor = {};
  host->input(call, index, &tensor);
  return tensor;
}

void LikeInput(const TenonHost* host, const TenonCall* call, TenonOutput& output) {
  const TenonTensor x = InputOf(host, call, 0);
  output.type = x.type;
  output.rank = x.rank;
  std::copy_n(x.shape, x.rank, output.shape);
}

int BlendShape(const TenonHost* host, TenonCall* call, TenonOutput* outputs) {
  const TenonTensor x = InputOf(host, call, 0);
  const TenonTensor shift = InputOf(host, call, 1);
  if (x.rank != 2 || shift.rank != 1 || x.shape[1] != shift.shape[0])
    return host->fail(call, "shift has to have x's columns");
  LikeInput(host, call, outputs[0]);
  return 0;
}

int BlendRun(const TenonHost* host, TenonCall* call, const TenonTensor* outputs) {
  const TenonTensor x = InputOf(host, call, 0);
  const float* shift = Floats(InputOf(host, call, 1));
  float by = 1.0F;
  host->number(call, "by", &by);
  for (int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i)
    static_cast<float*>(outputs[0].data)[i] = Floats(x)[i] * by + shift[i % x.shape[1]];
  return 0;
}

int HalvesShape(const TenonHost* host, TenonCall* call, TenonOutput* outputs) {
  for (int i = 0; i < 2; ++i) {
    LikeInput(host, call, outputs[i]);
    outputs[i].shape[1] /= 2;
  }
  return 0;
}

int HalvesRun(const TenonHost* host, TenonCall* call, const TenonTensor* outputs) {
  const TenonTensor x = InputOf(host, call, 0);
  const int64_t half = outputs[0].shape[1];
  for (int64_t i = 0; i < x.shape[0] * half * 2; ++i) {
    const int64_t column = i % (2 * half);
    const int64_t place = i / (2 * half) * half + column % half;
    static_cast<float*>(outputs[column / half].data)[place] = Floats(x)[i];
  }
  return 0;
}

int OddShape(const TenonHost* host, TenonCall* call, TenonOutput* outputs) {
  const char* text = nullptr;
  size_t length = 0;
  if (host->text(call, "how", &text, &length) != 0)
    return host->fail(call, "how is missing");
  const std::string_view how(text, length);
  LikeInput(host, call, outputs[0]);
  int64_t* shape = outputs[0].shape;
  if (how == "type")
    outputs[0].type = TENON_F16;
  else if (how == "unknown type")
    outputs[0].type = 1000;
  else if (how == "rank")
    outputs[0].rank = 1;
  else if (how == "no rank")
    outputs[0].rank = 99;
  else if (how == "negative")
    shape[1] = -shape[1];
  else if (how == "huge")
    shape[1] = std::numeric_limits<int64_t>::max();
  else if (how == "square")
    shape[1] = shape[0] * shape[0];
  else if (how == "few rows")
    shape[0] = std::min<int64_t>(shape[0], 12);
  else if (how == "one row")
    shape[0] = 1;
  else if (how == "wide")
    shape[1] *= shape[0];
  else if (how == "by data")
    shape[1] += InputOf(host, call, 0).data == nullptr ? 0 : 1;
  return 0;
}

int OddRun(const TenonHost* host, TenonCall* call, const TenonTensor* /*outputs*/) {
  return host->fail(call, "it never works");
}

constexpr TenonOperator kOperators[] = {
    {"test", "Blend", 1, 1, 2, 2, 1, BlendShape, BlendRun},
    {"test", "Halves", 1, 1, 1, 1, 2, HalvesShape, HalvesRun},
    {"test", "Odd", 1, 1, 1, 1, 1, OddShape, OddRun},
};

PluginOperators MakeOperators() {
  PluginOperators operators;
  for (const TenonOperator& op : kOperators)
    static_cast<void>(operators.Add(op).ok());
  return operators;
}

}  // namespace

const PluginOperators& TestOperators() {
  static const PluginOperators operators = MakeOperators();
  return operators;
}

}  // namespace tenon
