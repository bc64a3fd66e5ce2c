// ModuleSet: some of the chain's modules, as bits. Module i is the i-th of the composed order.
//
// Threading: a value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenon {

class ModuleSet {
 public:
  static constexpr size_t kMaxModules = 16;

  constexpr ModuleSet() = default;
  static constexpr ModuleSet Only(size_t module) { return ModuleSet(uint32_t{1} << module); }

  constexpr bool Has(size_t module) const { return ((bits_ >> module) & 1U) != 0; }
  constexpr ModuleSet With(size_t module) const { return ModuleSet(bits_ | Only(module).bits_); }
  constexpr ModuleSet Without(size_t module) const {
    return ModuleSet(bits_ & ~Only(module).bits_);
  }
  constexpr size_t size() const { return static_cast<size_t>(std::popcount(bits_)); }
  constexpr uint32_t bits() const { return bits_; }
  constexpr bool operator==(const ModuleSet&) const = default;

 private:
  explicit constexpr ModuleSet(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

}  // namespace tenon
