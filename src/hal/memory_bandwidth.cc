#include "hal/memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "tensor/buffer.h"

namespace tenon {
namespace {

// Bytes that a worker reads in one go: large against the cost of a claim, small against the buffer.
constexpr int64_t kPiece = int64_t{1} << 20;

// Eight independent sums: the additions must not hold up the loads.
uint64_t SumOf(std::span<const std::byte> bytes) {
  uint64_t sums[8] = {};
  for (size_t at = 0; at + sizeof(sums) <= bytes.size(); at += sizeof(sums)) {
    uint64_t words[8];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (size_t i = 0; i < 8; ++i)
      sums[i] += words[i];
  }
  uint64_t sum = 0;
  for (uint64_t value : sums)
    sum += value;
  return sum;
}

// All workers together, as over the weights of a step.
double SweepSeconds(const Buffer& buffer, ThreadPool& pool) {
  std::atomic<uint64_t> total = 0;
  const auto size = static_cast<int64_t>(buffer.size());
  const auto start = std::chrono::steady_clock::now();
  pool.ParallelFor((size + kPiece - 1) / kPiece, 1, [&](int64_t begin, int64_t end, int) {
    const auto first = static_cast<size_t>(begin * kPiece);
    const auto last = static_cast<size_t>(std::min(size, end * kPiece));
    total.fetch_add(SumOf(buffer.bytes().subspan(first, last - first)), std::memory_order_relaxed);
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  // Looked at, so that the reading can't be left out.
  return total.load() == 1 ? 0.0 : taken.count();
}

}  // namespace

Result<double> ReadBandwidth(int64_t bytes, int sweeps, ThreadPool& pool) {
  TENON_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(static_cast<size_t>(bytes)));
  std::memset(buffer.data(), 2, buffer.size());
  std::vector<double> rates;
  for (int i = 0; i <= sweeps; ++i) {
    const double seconds = SweepSeconds(buffer, pool);
    if (i > 0 && seconds > 0.0)
      rates.push_back(static_cast<double>(bytes) / seconds);
  }
  if (rates.empty())
    return 0.0;
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

}  // namespace tenon
