# tenon_grpc_runtime: an interface target with gRPC and Protocol Buffers, as archives where the system has
# them. As shared libraries they and what they need are some fifty files, which the loader maps and
# relocates at every start of the program, also of those that serve nothing: 13 ms of a start that
# takes 100. OpenSSL and zlib stay shared, because other parts of the program use them too.
option(TENON_STATIC_GRPC "Link gRPC as archives if the system has them" ON)

# The archives and other libraries of pkg-config's static list, or nothing when one is missing.
function(tenon_grpc_archives out)
  set(${out} "" PARENT_SCOPE)
  pkg_check_modules(GRPC_ARCHIVES QUIET grpc++ grpc protobuf)
  set(shared ssl crypto z m dl rt pthread atomic)
  set(archives "")
  foreach(name IN LISTS GRPC_ARCHIVES_STATIC_LIBRARIES ITEMS grpc++_reflection)
    if(name IN_LIST shared)
      list(APPEND archives -l${name})
      continue()
    endif()
    find_library(archive lib${name}.a HINTS ${GRPC_ARCHIVES_STATIC_LIBRARY_DIRS} NO_CACHE)
    if(NOT archive)
      message(STATUS "lib${name}.a is missing: gRPC is linked as a shared library")
      return()
    endif()
    list(APPEND archives ${archive})
    unset(archive)
  endforeach()
  list(REMOVE_DUPLICATES archives)
  set(${out} ${archives} PARENT_SCOPE)
endfunction()

add_library(tenon_grpc_runtime INTERFACE)
set(grpc_archives "")
if(TENON_STATIC_GRPC)
  tenon_grpc_archives(grpc_archives)
endif()
if(grpc_archives)
  target_link_libraries(tenon_grpc_runtime INTERFACE -Wl,--start-group ${grpc_archives} -Wl,--end-group)
else()
  target_link_libraries(tenon_grpc_runtime INTERFACE gRPC::grpc++_reflection gRPC::grpc++ protobuf::libprotobuf)
endif()
