"""main() of the Python test programs: says which tests were skipped and why, and tells CTest when no test ran."""
import sys
import unittest

SKIPPED = 77  # what CTest takes for skipped (SKIP_RETURN_CODE)


class _Result(unittest.TextTestResult):
    """Knows how many tests ran to their end; unittest counts those that were skipped among them."""
    ran = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.ran += 1


class _Runner(unittest.TextTestRunner):
    resultclass = _Result


def main(verbosity=1):
    """Runs the tests of __main__ and ends the program. scripts/run_tests.sh collects the lines "skipped: "."""
    result = unittest.main(verbosity=verbosity, exit=False, testRunner=_Runner).result
    for test, reason in result.skipped:
        print(f"skipped: {test.id().removeprefix('__main__.')}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    if result.ran == 0:
        print("no test ran", file=sys.stderr)
        sys.exit(SKIPPED if result.skipped else 1)
    sys.exit(0)
