"""The node tests of the `onnx` package (ONNX's own conformance tests), run by tenon.

Each test is run; one that is refused as unsupported is counted with the operator that is missing, and
must be in tests/onnx/unsupported.txt by its operator. A wrong result fails, unless known_different.txt
names it with the reason. At least FEWEST tests must pass. `--write` renews unsupported.txt.
"""
import collections
import pathlib
import re
import sys
import warnings

FEWEST = 600
HERE = pathlib.Path(__file__).parent


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def arrays(case_values, np, onnx):
    """The values of a case as NumPy arrays; None when one is no tensor of numbers."""
    out = []
    for value in case_values:
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if not isinstance(value, (np.ndarray, np.generic)) or np.asarray(value).dtype.kind in "OUSc":
            return None
        out.append(np.asarray(value))
    return out


def compare(np, got, wanted, case):
    if len(got) != len(wanted):
        return f"{len(got)} outputs, {len(wanted)} expected"
    for mine, theirs in zip(got, wanted):
        if mine.dtype != theirs.dtype:
            return f"type {mine.dtype}, {theirs.dtype} expected"
        if mine.shape != theirs.shape:
            return f"shape {mine.shape}, {theirs.shape} expected"
        if mine.dtype == np.bool_ or mine.dtype.kind in "iu":
            same = np.array_equal(mine, theirs)
        else:
            same = np.allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=case.rtol,
                               atol=case.atol, equal_nan=True)
        if not same:
            return "other values"
    return None


def run_case(case, np, onnx, session_class, error_class):
    """None when it passes; ("unsupported" or "failed", why)."""
    data = [(arrays(i, np, onnx), arrays(o, np, onnx)) for i, o in case.data_sets]
    if any(i is None or o is None for i, o in data):
        return "unsupported", "values that are no tensors of numbers"
    try:
        session = session_class(case.model.SerializeToString())
        for inputs, outputs in data:
            names = [value.name for value in case.model.graph.input]
            why = compare(np, session.run(dict(zip(names, inputs))), outputs, case)
            if why:
                return "failed", why
    except error_class as error:
        kind = "unsupported" if str(error).startswith("unsupported") else "failed"
        return kind, str(error)
    return None


def operator_of(why):
    """What unsupported.txt says about a refusal."""
    found = re.search(r"not supported: (.*)", why)
    if found:
        names = {re.sub(r" of operator set \d+", "", name) for name in found[1].split(", ")}
        return sorted(names)
    return [re.sub(r"'[^']*'", "'...'", why)]


def listed(name):
    lines = (HERE / name).read_text().splitlines() if (HERE / name).exists() else []
    return {line.split("  ")[0] for line in lines if line and not line.startswith("#")}


def main():
    try:
        import ml_dtypes  # noqa: F401
        import numpy as np
        import onnx
        from onnx.backend.test.case.node import collect_testcases
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    import tenon_onnx
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    cases = collect_testcases(None)
    refused, failed, passed, differing = collections.Counter(), {}, 0, set()
    known, different = listed("unsupported.txt"), listed("known_different.txt")
    for case in cases:
        result = run_case(case, np, onnx, tenon_onnx.Session, tenon_onnx.TenonError)
        if result is None:
            passed += 1
        elif result[0] == "unsupported":
            refused.update(operator_of(result[1]))
        elif case.name in different:
            differing.add(case.name)
        else:
            failed[case.name] = result[1]
    for name, why in sorted(failed.items()):
        print(f"failed {name}: {why}")
    print(f"{passed} of {len(cases)} node tests pass; {len(failed)} fail; {len(different)} are known to "
          f"differ; the rest are refused, for {len(refused)} reasons")
    if "--write" in sys.argv:
        lines = [f"{name}  {count}" for name, count in sorted(refused.items())]
        header = "# Why node tests are refused: operator or reason, and in how many tests it stands.\n"
        (HERE / "unsupported.txt").write_text(header + "\n".join(lines) + "\n")
        known = set(refused)
    unlisted = set(refused) - known
    for name in sorted(unlisted):
        print(f"refused, but not in unsupported.txt: {name}")
    stale = (different & {case.name for case in cases}) - differing
    for name in sorted(stale):
        print(f"in known_different.txt, but no test that fails: {name}")
    sys.exit(0 if passed >= FEWEST and not failed and not unlisted and not stale else 1)


main()
