# Language, warnings, sanitizers: what every target of the project is built with.
option(TENON_TESTS "Build the tests" ON)
option(TENON_FUZZ "Build the fuzz targets (clang only)" OFF)
option(TENON_BENCH "Build the micro benchmarks" OFF)
set(TENON_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")
option(TENON_COVERAGE "Instrument for gcov" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# -O2 everywhere; kernel files ask for more themselves.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  # The sloppiness is what ccache asks for to cache files with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TENON_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

add_library(tenon_options INTERFACE)
target_include_directories(tenon_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(tenon_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror
  # A fused multiply-add is written where it is meant: results must not depend on the optimiser.
  -ffp-contract=off
  -fno-omit-frame-pointer
  # GCC 12 reports string concatenation that is inlined (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(TENON_SANITIZE)
  # At -O1 GCC 12 sees overflows in its own strings and vectors that can't be; the sanitizers see real ones.
  target_compile_options(tenon_options INTERFACE -fsanitize=${TENON_SANITIZE} -fno-sanitize-recover=all
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)
  target_link_options(tenon_options INTERFACE -fsanitize=${TENON_SANITIZE})
endif()
if(TENON_COVERAGE)
  target_compile_options(tenon_options INTERFACE --coverage -O0)
  target_link_options(tenon_options INTERFACE --coverage)
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
target_link_libraries(tenon_options INTERFACE fmt::fmt Threads::Threads)
