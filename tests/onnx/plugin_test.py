"""Plugins: the example built from outside the tree and used from an ONNX model by its domain, and bad
ones refused. Needs a C compiler and the Python packages onnx and numpy."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What is wrong, C code in place of the example's table and entry, and a part of the refusal.
BAD = [
    ("another interface", 'static const TenonPlugin kPlugin = {999u, "p", "1", 1, kOperators};', "version 999"),
    ("no operators", 'static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "p", "1", 0, kOperators};',
     "no operators"),
    ("no name", 'static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, 0, "1", 1, kOperators};', "no name"),
    ("ONNX's domain", 'static const TenonOperator kBad[] = {{"ai.onnx", "Add", 1, 1, 1, 1, 1, SoftClipShape, '
     'SoftClipRun}};static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "p", "1", 1, kBad};', "domain"),
    ("no run function", 'static const TenonOperator kBad[] = {{"com.example", "A", 1, 1, 1, 1, 1, SoftClipShape, '
     '0}};static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "p", "1", 1, kBad};', "run function"),
    ("one twice", 'static const TenonOperator kBad[] = {{"com.example", "A", 1, 1, 1, 1, 1, SoftClipShape, '
     'SoftClipRun}, {"com.example", "A", 1, 1, 1, 1, 1, SoftClipShape, SoftClipRun}};'
     'static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "p", "1", 2, kBad};', "twice"),
    ("too many outputs", 'static const TenonOperator kBad[] = {{"com.example", "A", 1, 1, 1, 1, 99, SoftClipShape, '
     'SoftClipRun}};static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "p", "1", 1, kBad};', "99 outputs"),
]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def build(compiler, source, folder, name):
    path = pathlib.Path(folder, f"{name}.c")
    path.write_text(source)
    library = pathlib.Path(folder, f"lib{name}.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-Wno-unused-const-variable",
                    "-Wno-unused-function", "-Wno-unused-variable", "-I", str(ROOT / "include"), str(path),
                    "-o", str(library), "-lm"], check=True)
    return library


def model(onnx, limit):
    node = onnx.helper.make_node("SoftClip", ["x"], ["y"], domain="com.example", limit=limit)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, ["n", 3])], [value("y", 1, ["n", 3])])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.example", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString()


def refusal(session_class, error_class, *arguments, **keywords):
    try:
        session_class(*arguments, **keywords)
    except error_class as error:
        return str(error)
    return "it was taken"


def main():
    try:
        import ml_dtypes  # noqa: F401
        import numpy as np
        import onnx
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        skip("no C compiler")
    import tenon_onnx
    session_class, error_class = tenon_onnx.Session, tenon_onnx.TenonError
    source = (ROOT / "examples" / "plugin" / "softclip.c").read_text()
    problems = []

    def expect(what, found, wanted):
        if wanted not in found:
            problems.append(f"{what}: {found!r}, {wanted!r} expected in it")

    with tempfile.TemporaryDirectory() as folder:
        good = build(compiler, source, folder, "softclip")
        x = np.array([[-4.0, 0.5, 30.0], [0.0, -0.1, 2.0]], np.float32)
        y = session_class(model(onnx, 2.0), plugin=str(good)).run([x])[0]
        if not np.allclose(y, 2.0 * np.tanh(x / 2.0), atol=1e-6):
            problems.append(f"other values: {y}")
        expect("without the plugin", refusal(session_class, error_class, model(onnx, 2.0)),
               "com.example.SoftClip")
        try:
            session_class(model(onnx, -1.0), plugin=str(good)).run([x])
            problems.append("a limit below 0 was taken")
        except error_class as error:
            expect("a limit below 0", str(error), "limit has to be above 0")
        table = source[source.index("static const TenonPlugin"):source.index("const TenonPlugin* tenon_plugin")]
        for i, (what, code, wanted) in enumerate(BAD):
            bad = build(compiler, source.replace(table, code + "\n"), folder, f"bad{i}")
            expect(what, refusal(session_class, error_class, model(onnx, 2.0), plugin=str(bad)), wanted)
        silent = build(compiler, "int nothing(void) { return 0; }\n", folder, "silent")
        expect("no entry", refusal(session_class, error_class, model(onnx, 2.0), plugin=str(silent)),
               "tenon_plugin")
        text = pathlib.Path(folder, "text.so")
        text.write_text("no library")
        expect("a text", refusal(session_class, error_class, model(onnx, 2.0), plugin=str(text)),
               "no shared library")
        expect("a missing file",
               refusal(session_class, error_class, model(onnx, 2.0), plugin="/nowhere.so"), "no such plugin")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
