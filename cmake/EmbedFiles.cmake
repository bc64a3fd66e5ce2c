# cmake -DFOLDER=... -DNAMES=a;b -DOUTPUT=page_data.cc -P EmbedFiles.cmake: the files as one C++ source that
# defines PageFiles() of frontend/page/page_files.h. The ETag is the content's SHA-256.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(entries "")
set(index 0)
foreach(name IN LISTS NAMES)
  file(READ "${FOLDER}/${name}" hex HEX)
  file(SHA256 "${FOLDER}/${name}" digest)
  string(SUBSTRING "${digest}" 0 32 tag)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # A line for each 24 bytes keeps the file readable by tools that mind long lines.
  string(REGEX REPLACE "(........................................................................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX MATCH "[a-z]+$" extension "${name}")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {\n${bytes}};\n")
  string(APPEND entries "    {\"${path}\", \"${type_${extension}}\", {kFile${index}, sizeof(kFile${index})}, \"\\\"${tag}\\\"\"},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE "${OUTPUT}" "#include \"frontend/page/page_files.h\"

namespace tenon {
namespace {

${arrays}
constexpr PageFile kFiles[] = {
${entries}};

}  // namespace

std::span<const PageFile> PageFiles() {
  return kFiles;
}

}  // namespace tenon
")
