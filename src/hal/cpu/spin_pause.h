// What a waiting thread does between two looks at a word: tells the core that it spins, so that the
// other thread of the core gets its units. 10 to 40 ns; nothing where the CPU has no such hint.
#pragma once

namespace tenon {

inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace tenon
