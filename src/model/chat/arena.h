// Arena: the storage of everything one rendering creates, released as a whole.
//
// Values only point; nothing in the arena has a destructor, so neither a cycle nor a deep nest of
// lists costs anything to drop. Charges the budget. Threading: one rendering, one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/chat/budget.h"

namespace tenon::chat {

class Arena {
 public:
  explicit Arena(Budget& budget) : budget_(budget) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  template <class T, class... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return new (Allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }

  // `count` value-initialised elements.
  template <class T>
  T* NewArray(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    budget_.Bytes(count, sizeof(T));
    T* items = static_cast<T*>(Take(count * sizeof(T)));
    for (size_t i = 0; i < count; ++i)
      new (items + i) T{};
    return items;
  }

  // Keeps a text that was charged while it was built.
  std::string_view Adopt(std::string text) {
    budget_.Bytes(sizeof(std::string));
    texts_.push_back(std::move(text));
    return texts_.back();
  }

 private:
  static constexpr size_t kBlockBytes = 32 << 10;  // a short chat fits one or two blocks

  void* Allocate(size_t bytes) {
    budget_.Bytes(bytes);
    return Take(bytes);
  }
  void* Take(size_t bytes);

  Budget& budget_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  std::deque<std::string> texts_;  // a deque: views of its elements stay valid
};

}  // namespace tenon::chat
