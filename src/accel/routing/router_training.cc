#include "accel/routing/router_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace tenon {
namespace {

// Adam's usual constants (Kingma and Ba, 2015).
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
// A feature that hardly moves is not blown up.
constexpr double kMinDeviation = 1e-4;

// One parameter array with its gradient and moments.
struct Parameter {
  std::span<float> values;
  std::vector<float> gradient;
  std::vector<float> first;
  std::vector<float> second;
  double decay = 0.0;
};

class Adam {
 public:
  explicit Adam(double rate) : rate_(rate) {}

  size_t Add(std::span<float> values, double decay) {
    Parameter parameter;
    parameter.values = values;
    parameter.gradient.resize(values.size());
    parameter.first.resize(values.size());
    parameter.second.resize(values.size());
    parameter.decay = decay;
    parameters_.push_back(std::move(parameter));
    return parameters_.size() - 1;
  }
  std::span<float> gradient(size_t parameter) { return parameters_[parameter].gradient; }

  void Step() {
    ++steps_;
    const double correction1 = 1.0 - std::pow(kBeta1, static_cast<double>(steps_));
    const double correction2 = 1.0 - std::pow(kBeta2, static_cast<double>(steps_));
    const auto rate = static_cast<float>(rate_ / correction1);
    const auto root = static_cast<float>(1.0 / std::sqrt(correction2));
    for (Parameter& p : parameters_) {
      const auto decay = static_cast<float>(1.0 - rate_ * p.decay);
      for (size_t i = 0; i < p.values.size(); ++i) {
        const float g = p.gradient[i];
        p.first[i] += static_cast<float>(1.0 - kBeta1) * (g - p.first[i]);
        p.second[i] += static_cast<float>(1.0 - kBeta2) * (g * g - p.second[i]);
        const float scale = std::sqrt(p.second[i]) * root + static_cast<float>(kEpsilon);
        p.values[i] = p.values[i] * decay - rate * p.first[i] / scale;
      }
    }
  }

 private:
  double rate_;
  int64_t steps_ = 0;
  std::vector<Parameter> parameters_;
};

void InitialiseMatrix(FloatMatrix& matrix, std::mt19937_64& random) {
  // He et al., 2015: keeps the variance through ReLU.
  std::normal_distribution<float> normal(0.0F,
                                         std::sqrt(2.0F / static_cast<float>(matrix.columns)));
  for (float& value : matrix.values)
    value = normal(random);
}

RouterNet InitialNet(const RouterExamples& train, std::mt19937_64& random) {
  const int64_t size = train.hidden.columns;
  const auto count = static_cast<double>(train.hidden.rows);
  RouterNet net;
  for (int64_t c = 0; c < size; ++c) {
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t r = 0; r < train.hidden.rows; ++r) {
      const auto x = static_cast<double>(train.hidden.row(r)[static_cast<size_t>(c)]);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / count;
    const double deviation = std::sqrt(std::max(squares / count - mean * mean, 0.0));
    net.mean.push_back(static_cast<float>(mean));
    net.scale.push_back(static_cast<float>(1.0 / std::max(deviation, kMinDeviation)));
  }
  net.weight1 = FloatMatrix(2 * size, size);
  net.weight2 = FloatMatrix(size, 2 * size);
  net.weight3 = FloatMatrix(1, size);
  net.bias1.resize(static_cast<size_t>(2 * size));
  net.bias2.resize(static_cast<size_t>(size));
  for (FloatMatrix* matrix : {&net.weight1, &net.weight2, &net.weight3})
    InitialiseMatrix(*matrix, random);
  return net;
}

double BinaryLoss(double logit, double label) {
  // log(1 + e^-|z|) + max(z, 0) - z y, which never overflows.
  return std::log1p(std::exp(-std::abs(logit))) + std::max(logit, 0.0) - logit * label;
}

class Trainer {
 public:
  Trainer(const RouterExamples& train, const RouterTrainingOptions& options,
          const KernelSet& kernels, ThreadPool& pool)
      : train_(train),
        options_(options),
        products_(kernels, pool),
        random_(options.seed),
        net_(InitialNet(train, random_)),
        adam_(options.learning_rate) {
    weights_[0] = adam_.Add(net_.weight1.values, options.weight_decay);
    weights_[1] = adam_.Add(net_.weight2.values, options.weight_decay);
    weights_[2] = adam_.Add(net_.weight3.values, options.weight_decay);
    biases_[0] = adam_.Add(net_.bias1, 0.0);
    biases_[1] = adam_.Add(net_.bias2, 0.0);
    biases_[2] = adam_.Add({&net_.bias3, 1}, 0.0);
  }
  Trainer(const Trainer&) = delete;  // the optimiser points into the network
  Trainer& operator=(const Trainer&) = delete;

  double Epoch() {
    std::vector<int64_t> order(static_cast<size_t>(train_.hidden.rows));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    double loss = 0.0;
    for (size_t done = 0; done < order.size();) {
      const size_t count = std::min(static_cast<size_t>(options_.batch), order.size() - done);
      loss += Batch(std::span(order).subspan(done, count));
      done += count;
    }
    return loss / static_cast<double>(order.size());
  }

  // Logits [rows] without dropout.
  std::vector<double> Evaluate(const FloatMatrix& hidden) {
    constexpr int64_t kRows = 1024;
    std::vector<double> logits;
    for (int64_t first = 0; first < hidden.rows; first += kRows) {
      FloatMatrix in(std::min(kRows, hidden.rows - first), hidden.columns);
      for (int64_t r = 0; r < in.rows; ++r)
        std::ranges::copy(hidden.row(first + r), in.row(r).begin());
      Standardise(net_, in);
      const FloatMatrix out = Forward(in, 0.0);
      logits.insert(logits.end(), out.values.begin(), out.values.end());
    }
    return logits;
  }

  const RouterNet& net() const { return net_; }

 private:
  // relu(in w^T + bias), some outputs dropped and the rest scaled up.
  FloatMatrix Layer(const FloatMatrix& in, const FloatMatrix& weight, std::span<const float> bias,
                    double dropout) {
    FloatMatrix out = products_.TimesTransposed(in, weight);
    std::bernoulli_distribution drop(dropout);
    const auto keep = static_cast<float>(1.0 / (1.0 - dropout));
    for (int64_t r = 0; r < out.rows; ++r) {
      const std::span<float> row = out.row(r);
      for (size_t c = 0; c < row.size(); ++c) {
        row[c] = std::max(row[c] + bias[c], 0.0F) * keep;
        if (dropout > 0.0 && drop(random_))
          row[c] = 0.0F;
      }
    }
    return out;
  }

  FloatMatrix Forward(const FloatMatrix& in, double dropout) {
    first_ = Layer(in, net_.weight1, net_.bias1, dropout);
    second_ = Layer(first_, net_.weight2, net_.bias2, dropout);
    FloatMatrix out = products_.TimesTransposed(second_, net_.weight3);
    for (float& value : out.values)
      value += net_.bias3;
    return out;
  }

  // The gradient of what a layer got, where it let something through.
  void ThroughLayer(FloatMatrix& gradient, const FloatMatrix& output, double dropout) const {
    const auto keep = static_cast<float>(1.0 / (1.0 - dropout));
    for (size_t i = 0; i < gradient.values.size(); ++i)
      gradient.values[i] = output.values[i] > 0.0F ? gradient.values[i] * keep : 0.0F;
  }

  // d [B, out] and in [B, k]: gradients of the layer's weight and bias.
  void SetGradients(const FloatMatrix& d, const FloatMatrix& in, size_t layer) {
    const FloatMatrix weight = products_.TimesTransposed(Transposed(d), Transposed(in));
    std::ranges::copy(weight.values, adam_.gradient(weights_[layer]).begin());
    const std::span<float> bias = adam_.gradient(biases_[layer]);
    std::ranges::fill(bias, 0.0F);
    for (int64_t r = 0; r < d.rows; ++r) {
      for (size_t c = 0; c < bias.size(); ++c)
        bias[c] += d.row(r)[c];
    }
  }

  // Returns the sum of the losses.
  double Batch(std::span<const int64_t> examples) {
    const auto count = static_cast<int64_t>(examples.size());
    FloatMatrix in(count, train_.hidden.columns);
    for (int64_t r = 0; r < count; ++r)
      std::ranges::copy(train_.hidden.row(examples[static_cast<size_t>(r)]), in.row(r).begin());
    Standardise(net_, in);
    const FloatMatrix logits = Forward(in, options_.dropout);
    FloatMatrix d(count, 1);
    double loss = 0.0;
    for (int64_t r = 0; r < count; ++r) {
      const auto logit = static_cast<double>(logits.values[static_cast<size_t>(r)]);
      const auto label =
          static_cast<double>(train_.labels[static_cast<size_t>(examples[static_cast<size_t>(r)])]);
      loss += BinaryLoss(logit, label);
      d.values[static_cast<size_t>(r)] =
          static_cast<float>((Sigmoid(logit) - label) / static_cast<double>(count));
    }
    Backward(std::move(d), in);
    adam_.Step();
    return loss;
  }

  void Backward(FloatMatrix d, const FloatMatrix& in) {
    SetGradients(d, second_, 2);
    d = products_.TimesTransposed(d, Transposed(net_.weight3));
    ThroughLayer(d, second_, options_.dropout);
    SetGradients(d, first_, 1);
    d = products_.TimesTransposed(d, Transposed(net_.weight2));
    ThroughLayer(d, first_, options_.dropout);
    SetGradients(d, in, 0);
  }

  const RouterExamples& train_;
  const RouterTrainingOptions& options_;
  FloatProducts products_;
  std::mt19937_64 random_;
  RouterNet net_;
  Adam adam_;
  size_t weights_[3] = {};
  size_t biases_[3] = {};
  FloatMatrix first_;  // outputs of the latest Forward
  FloatMatrix second_;
};

Status CheckExamples(const RouterExamples& examples, std::string_view what) {
  const auto good =
      std::ranges::count_if(examples.labels, [](float label) { return label > 0.5F; });
  const auto all = static_cast<std::ptrdiff_t>(examples.labels.size());
  if (good > 0 && good < all && examples.hidden.rows == all)
    return {};
  return InvalidArgument(
      fmt::format("{} of {} examples are good, expected some of both kinds", good, all),
      std::string(what));
}

}  // namespace

Result<RouterNet> TrainRouter(const RouterSets& sets, const RouterTrainingOptions& options,
                              const KernelSet& kernels, ThreadPool& pool,
                              const std::function<void(const EpochReport&)>& on_epoch) {
  const auto& [train, held_out] = sets;
  TENON_RETURN_IF_ERROR(CheckExamples(train, "training set"));
  TENON_RETURN_IF_ERROR(CheckExamples(held_out, "held-out set"));
  Trainer trainer(train, options, kernels, pool);
  RouterNet best = trainer.net();
  double best_loss = INFINITY;
  int64_t best_epoch = 0;
  for (int64_t epoch = 1; epoch <= options.max_epochs; ++epoch) {
    EpochReport report{epoch, trainer.Epoch(), 0.0, 0.0};
    const std::vector<double> logits = trainer.Evaluate(held_out.hidden);
    for (size_t i = 0; i < logits.size(); ++i)
      report.held_out_loss += BinaryLoss(logits[i], static_cast<double>(held_out.labels[i]));
    report.held_out_loss /= static_cast<double>(logits.size());
    report.held_out_auc = AreaUnderCurve(logits, held_out.labels);
    if (on_epoch)
      on_epoch(report);
    if (report.held_out_loss < best_loss) {
      best_loss = report.held_out_loss;
      best_epoch = epoch;
      best = trainer.net();  // a copy
    }
    if (epoch - best_epoch >= options.patience)
      break;
  }
  return best;
}

// By ranks (Mann and Whitney): the mean rank of ties.
double AreaUnderCurve(std::span<const double> scores, std::span<const float> labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return scores[i]; });
  double rank_sum = 0.0;
  double good = 0.0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && scores[order[end]] == scores[order[begin]])
      ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2.0;
    for (; begin < end; ++begin) {
      if (labels[order[begin]] > 0.5F) {
        rank_sum += rank;
        good += 1.0;
      }
    }
  }
  const double bad = static_cast<double>(order.size()) - good;
  return (rank_sum - good * (good + 1.0) / 2.0) / (good * bad);
}

}  // namespace tenon
