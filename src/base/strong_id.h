// StrongId<Tag>: an index that can't be mixed up with an index of another kind.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace tenon {

template <class Tag>
class StrongId {
 public:
  constexpr StrongId() = default;  // the invalid id
  constexpr explicit StrongId(uint32_t index) : index_(index) {}

  constexpr bool valid() const { return index_ != kInvalid; }
  constexpr uint32_t index() const { return index_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  static constexpr uint32_t kInvalid = std::numeric_limits<uint32_t>::max();
  uint32_t index_ = kInvalid;
};

}  // namespace tenon

template <class Tag>
struct std::hash<tenon::StrongId<Tag>> {
  std::size_t operator()(tenon::StrongId<Tag> id) const noexcept {
    return std::hash<uint32_t>{}(id.index());
  }
};
