# Headers that nearly every file includes, parsed once for each target.
set(TENON_PRECOMPILED <fmt/format.h> <algorithm> <functional> <memory> <optional> <span> <string>
  <unordered_map> <variant> <vector>)

# tenon_library(NAME DEPS...): the static library tenon_NAME of all sources below the current folder.
function(tenon_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  add_library(tenon_${name} STATIC ${sources})
  target_link_libraries(tenon_${name} PUBLIC tenon_options ${ARGN})
  target_precompile_headers(tenon_${name} PRIVATE ${TENON_PRECOMPILED})
endfunction()
