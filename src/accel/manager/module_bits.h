// ModuleBits: some of the chain's modules, as bits. Module i is the i-th of the composed order.
//
// Threading: a value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenon {

class ModuleBits {
 public:
  static constexpr size_t kMaxModules = 16;

  constexpr ModuleBits() = default;
  static constexpr ModuleBits Only(size_t module) { return ModuleBits(uint32_t{1} << module); }

  constexpr bool Has(size_t module) const { return ((bits_ >> module) & 1U) != 0; }
  constexpr ModuleBits With(size_t module) const { return ModuleBits(bits_ | Only(module).bits_); }
  constexpr ModuleBits Without(size_t module) const {
    return ModuleBits(bits_ & ~Only(module).bits_);
  }
  constexpr size_t size() const { return static_cast<size_t>(std::popcount(bits_)); }
  constexpr uint32_t bits() const { return bits_; }
  constexpr bool operator==(const ModuleBits&) const = default;

 private:
  explicit constexpr ModuleBits(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

}  // namespace tenon
