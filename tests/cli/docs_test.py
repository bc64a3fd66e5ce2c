#!/usr/bin/env python3
"""Every `tenon` line in a ```sh block of the README and of docs/ runs and succeeds. Servers are started on
a free port, asked for their health, and ended."""
import re
import shlex
import tempfile
import unittest
from pathlib import Path

from tenon_cli import main, needs_smollm, run, serve_and_end

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Tenon reads the text and tells how well the model knows it. " * 80


def examples():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
            for line in block.splitlines():
                command = line.split("#")[0].strip()
                if command.startswith("tenon "):
                    yield path.name, command


@needs_smollm
class DocsTest(unittest.TestCase):
    def test_examples(self):
        found = list(examples())
        self.assertGreater(len(found), 5)
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text.txt"
            text.write_text(TEXT, encoding="utf-8")
            for name, command in found:
                arguments = [str(text) if word == "text.txt" else word for word in shlex.split(command)[1:]]
                with self.subTest(file=name, command=command):
                    if arguments[0] in ("serve", "gateway"):
                        self.check_server(arguments)
                        continue
                    done = run(*arguments, stdin="")
                    self.assertEqual(done.returncode, 0, done.stderr)

    def check_server(self, arguments):
        if "--port" in arguments:
            at = arguments.index("--port")
            del arguments[at:at + 2]
        status, code, errors = serve_and_end(*arguments, "--port", "0")
        # No replica is up while the examples run.
        self.assertEqual(status, 503 if arguments[0] == "gateway" else 200, errors)
        self.assertEqual(code, 0, errors)


if __name__ == "__main__":
    main()
