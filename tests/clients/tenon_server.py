"""A `tenon serve` of its own for each test program, on a free port.

Needs the model smollm2-135m-instruct in the store and the Python packages of scripts/setup_python.sh; a
program that lacks one says which and is skipped (exit code 77).
"""
import http.client
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import unittest_program  # noqa: E402 (its folder comes first)

BINARY = os.environ["TENON_BINARY"]
MODEL = "smollm2-135m-instruct"

# The packages live in the project's virtual environment.
_PYTHON = os.environ.get("TENON_PYTHON", "")
if os.path.exists(_PYTHON) and os.environ.get("TENON_PYTHON_STARTED") != _PYTHON:
    os.environ["TENON_PYTHON_STARTED"] = _PYTHON
    os.execv(_PYTHON, [_PYTHON, *sys.argv])


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(unittest_program.SKIPPED)


def require(package):
    """The module, or the end of the program as skipped."""
    try:
        return importlib.import_module(package)
    except ImportError:
        return skip(f"the Python package {package} is not installed (scripts/setup_python.sh)")


def require_model():
    done = subprocess.run([BINARY, "list", "--json"], capture_output=True, text=True, check=False)
    if MODEL not in [model["name"] for model in json.loads(done.stdout or "[]")]:
        skip(f"the model {MODEL} is not in the store; `tenon pull {MODEL}`")


class Server:
    """A running server; `url` once its port is known."""

    def __init__(self, *flags, wait=True, environment=None, context=8192):
        kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        self.process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", "-c", str(context), *flags],
                                        stderr=subprocess.PIPE, text=True, env={**kept, **(environment or {})})
        self.log = []
        self._asked_to_end = False
        self._known = threading.Event()
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._known.wait(60), self.log
        if wait:
            assert self._ready.wait(120) and self.process.poll() is None, self.log

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            if match := re.match(r"(https?://\S+:(\d+)) \(loading", line):
                self.url, self.port = match[1], int(match[2])
                self._known.set()
            if " is ready" in line:
                self._ready.set()
        self._known.set()
        self._ready.set()

    def call(self, path, body=None, method=None, headers=None, timeout=120):
        """(status, headers, body) of one request; `body` is bytes, or becomes JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, data,
                               {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, path, body=None, **options):
        status, _, data = self.call(path, body, **options)
        assert status == 200, (status, data)
        return json.loads(data)

    def metric(self, name):
        _, _, data = self.call("/metrics")
        match = re.search(rf"^{re.escape(name)} (\S+)$", data.decode(), re.M)
        return float(match[1])

    def wait_idle(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.metric("tenon_sequences_running") == 0 and self.metric("tenon_requests_waiting") == 0:
                return True
            time.sleep(0.05)
        return False

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def terminate(self):
        self._asked_to_end = True
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        if not self._asked_to_end:  # a second signal would not wait for anything
            self.terminate()
        code = self.process.wait(60)
        self._reader.join(10)
        self.process.stderr.close()
        return code


class ServerTest(unittest.TestCase):
    """Tests that share one server."""
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.log[-5:])


def main():
    require_model()
    unittest_program.main()
