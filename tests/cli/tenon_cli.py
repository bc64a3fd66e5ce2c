"""The tenon binary under test, as a subprocess."""
import json
import os
import re
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import unittest_program  # noqa: E402 (its folder comes first)

BINARY = os.environ["TENON_BINARY"]
SMOLLM = "smollm2-135m-instruct"


def run(*arguments, stdin="", env=None):
    environment = dict(os.environ, **(env or {}))
    return subprocess.run([BINARY, *arguments], input=stdin, capture_output=True, text=True,
                          timeout=300, check=False, env=environment)


def serve_and_end(*arguments):
    """Starts a server on a free port, asks for its health until it answers 200 or 503 with nothing to
    wait for, ends it with SIGTERM and returns (health status, exit code, standard error)."""
    process = subprocess.Popen([BINARY, *arguments], stderr=subprocess.PIPE, text=True)
    url = re.search(r"http://[\w.:]+:\d+", process.stderr.readline())[0]
    status = 0
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                status = answer.status
            break
        except urllib.error.HTTPError as error:
            status = error.code
            if b"loading" not in error.read():
                break
        except OSError:
            pass
        time.sleep(0.1)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    return status, process.returncode, errors


def run_json(*arguments, **options):
    done = run(*arguments, "--json", **options)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return json.loads(done.stdout)


def peak_bytes_of(*arguments):
    """The output of a command and the peak resident memory of its process."""
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return output, usage.ru_maxrss * 1024


def has_model(name):
    return name in [model["name"] for model in run_json("list")]


needs_smollm = unittest.skipUnless(has_model(SMOLLM), f"the model {SMOLLM} is not in the store")


def main():
    unittest_program.main(verbosity=2)
