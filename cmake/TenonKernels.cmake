# Instruction-set flags of the kernel files: by folder, never for the rest of the program. Folders
# of another architecture than the target's stay out of the build.
function(tenon_kernel_flags target)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(isas ref avx2 avx512vnni amx)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(isas ref neon)
  else()
    set(isas ref)
  endif()
  set(flags_ref "")
  set(flags_avx2 -mavx2 -mfma -mf16c)
  set(flags_avx512vnni -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c
    -mprefer-vector-width=512)
  # GCC 12 warns about its own headers: their "undefined" vectors initialize a variable with itself.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags_avx512vnni -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set(flags_amx ${flags_avx512vnni} -mamx-tile -mamx-int8)
  set(flags_neon -march=armv8.2-a+dotprod+fp16)
  # Undefined-behaviour checks cost vector code tenfold, so under sanitizers only ref has them;
  # address and thread checks stay on everywhere.
  set(unchecked "")
  if(TENON_SANITIZE MATCHES "undefined")
    set(unchecked -fno-sanitize=undefined)
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "/hal/cpu/([a-z0-9]+)/")
      continue()
    endif()
    set(isa ${CMAKE_MATCH_1})
    if(isa IN_LIST isas)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
        SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS "${flags_${isa}};-fno-exceptions;-fno-rtti;-O3;$<$<NOT:$<STREQUAL:${isa},ref>>:${unchecked}>")
    else()
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
    endif()
  endforeach()
endfunction()
