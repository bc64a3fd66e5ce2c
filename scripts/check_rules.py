#!/usr/bin/env python3
"""The rules of the tree that a compiler does not check. Prints each breach and fails if there is one.

 1. Include direction: a folder of src/ includes only what stands below it (docs/architecture.md).
 2. Size: files at most 600 lines (kernels and tables 800), functions of src/ and tests/ at most 70
    (kernels 120), by the ratchet scripts/size_ratchet.txt: what is listed there may only shrink.
 3. Names: no file called utils, helper, common or manager; no bool parameters in headers.
 4. Kernel files include intrinsics, the fixed-width integer headers and layout headers only.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A folder and what it may include, beside itself.
ALLOWED = {
    "base": set(),
    "tensor": {"base"},
    "quant": {"base", "tensor"},
    "hal": {"base", "tensor", "quant"},
    "graph": {"base", "tensor", "quant"},
    "model": {"base", "tensor", "quant", "graph"},
    "engine": {"base", "tensor", "quant", "graph", "hal"},
    "accel": {"base", "tensor", "quant", "graph", "hal", "engine", "model"},
    "frontend": {"base", "tensor", "quant", "graph", "hal", "engine", "model", "accel"},
}
FILE_LIMIT, WIDE_FILE_LIMIT = 600, 800
FUNCTION_LIMIT, KERNEL_FUNCTION_LIMIT = 70, 120
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager\d*)(_|$)|^common$|_common$")
KERNEL_INCLUDES = re.compile(
    r"<(immintrin\.h|arm_neon\.h|x86intrin\.h|cstddef|cstdint|cstring|cmath|bit|limits|array|utility|type_traits)>"
    r'|"hal/(kernel_set\.h|cpu/.*)"|"quant/half\.h"')


def is_kernel(path):
    return bool(re.match(r"src/hal/cpu/(ref|avx2|avx512vnni|amx|neon)/", path))


def is_wide(path):
    return path.startswith("src/hal/cpu/") or "table" in Path(path).name


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8").splitlines()


def check_includes(path, lines):
    layer = path.split("/")[1]
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([a-z_]+)/', line)
        if match and match[1] in ALLOWED and match[1] != layer and match[1] not in ALLOWED[layer]:
            yield f"{path}:{number}: {layer} must not include {match[1]}"
        match = re.match(r"#include (.*)", line)
        if match and is_kernel(path) and not KERNEL_INCLUDES.match(match[1]):
            yield f"{path}:{number}: a kernel file must not include {match[1]}"


def functions(lines):
    """(first line, length) of bodies that open at the end of a line that starts in column 0 to 2."""
    start, indent = None, ""
    for number, line in enumerate(lines, 1):
        if start is None:
            match = re.match(r"^( {0,2})(?!namespace|class|struct|enum|union|extern)\S.*(?<!= )\{$", line)
            if match and ("(" in line or "(" in "".join(lines[max(0, number - 6):number])):
                start, indent = number, match[1]
        elif line.startswith(indent + "}"):
            yield start, number - start + 1
            start = None


def ratchet():
    listed = {}
    for line in (ROOT / "scripts/size_ratchet.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            what, limit = line.rsplit(" ", 1)
            listed[what] = int(limit)
    return listed


def check_size(path, lines, listed):
    limit = max(listed.get(path, 0), WIDE_FILE_LIMIT if is_wide(path) else FILE_LIMIT)
    if len(lines) > limit:
        yield f"{path}: {len(lines)} lines, at most {limit}"
    if path in listed and len(lines) < listed[path]:
        yield f"scripts/size_ratchet.txt: {path} has shrunk to {len(lines)}; lower its entry"
    if not path.startswith(("src/", "tests/")):
        return
    longest = KERNEL_FUNCTION_LIMIT if is_wide(path) else FUNCTION_LIMIT
    for start, length in functions(lines):
        if length > longest:
            yield f"{path}:{start}: a function of {length} lines, at most {longest}"


def check_names(path, lines):
    if BANNED_NAMES.search(Path(path).stem):
        yield f"{path}: a name that says nothing"
    if not path.startswith("src/") or not path.endswith(".h"):
        return
    # Declarations span lines. A value made from a bool, Bool(bool), is no switch; what an override takes is
    # for others to say.
    text = "\n".join(line.split("//")[0] for line in lines)
    for match in re.finditer(r"(?<!Bool)[(,]\s*(const\s+)?bool(\s+\w+)?\s*(?=[,=]|\)(?! override))", text):
        number = text.count("\n", 0, match.end()) + 1
        yield f"{path}:{number}: a bool parameter; use an enum"


def main():
    breaches = []
    listed = ratchet()
    for path, lines in sources("src"):
        breaches += check_includes(path, lines)
    for path, lines in sources("src", "tests", "fuzz", "bench"):
        breaches += check_size(path, lines, listed)
        breaches += check_names(path, lines)
    print("\n".join(breaches))
    print(f"{len(breaches)} breaches of the tree's rules")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
