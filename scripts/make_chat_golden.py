#!/usr/bin/env python3
"""Writes the expected results of the chat template tests with jinja2 3.1.6.

The environment is the one transformers' apply_chat_template builds. Inputs and results live in
tests/data/chat:
  templates/*.jinja   one template per model family
  cases.json          message sets: {name: variables}
  golden.json         {template: {case: {"output": ...} or {"error": ..., "kind": ...}}}
  expressions.jsonl   one small case a line: template, variables, and the result beside them

Needs: pip install jinja2==3.1.6. With --model FILE.gguf (and pip install gguf) the template inside
the model is rendered instead, to --out: that text is the model's, and stays out of the repository.
"""

import argparse
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "chat"
NOW = datetime.datetime(2024, 7, 26, 14, 3, 5)  # what strftime_now sees; the C++ tests have it too


class GenerationTracker(jinja2.ext.Extension):
    """The {% generation %} block, which transformers adds to mark a model's own words."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_call")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _call(self, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[GenerationTracker, jinja2.ext.loopcontrols],
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def run(env, source, variables):
    """The output, or the error: its kind tells whether the text is jinja2's or Python's."""
    try:
        output = env.from_string(source).render(**variables)
        output.encode("utf-8")
        return {"output": output}
    except Exception as error:  # every way to fail is a result here
        return {"error": str(error), "kind": type(error).__name__}


def render_expressions(env):
    path = DATA / "expressions.jsonl"
    lines = []
    # Not splitlines: a text may hold U+2028.
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        case = json.loads(line)
        fresh = {"template": case["template"]}
        if case.get("variables"):
            fresh["variables"] = case["variables"]
        fresh.update(run(env, case["template"], case.get("variables", {})))
        lines.append(json.dumps(fresh, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def render_families(env):
    cases = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
    golden = {}
    for path in sorted((DATA / "templates").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        golden[path.stem] = {name: run(env, source, case) for name, case in cases.items()}
    text = json.dumps(golden, ensure_ascii=False, indent=1)
    (DATA / "golden.json").write_text(text + "\n", encoding="utf-8")


def render_model(env, model, out):
    import gguf

    field = gguf.GGUFReader(model).get_field("tokenizer.chat_template")
    source = bytes(field.parts[field.data[0]]).decode("utf-8")
    cases = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
    result = {"template": source, "cases": cases}
    result["golden"] = {name: run(env, source, case) for name, case in cases.items()}
    pathlib.Path(out).write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a GGUF file whose own template is rendered")
    parser.add_argument("--out", help="where the results of --model go")
    arguments = parser.parse_args()
    if jinja2.__version__ != "3.1.6":
        sys.exit(f"jinja2 3.1.6 is the reference; found {jinja2.__version__}")
    env = make_environment()
    if arguments.model:
        render_model(env, arguments.model, arguments.out)
    else:
        render_families(env)
        render_expressions(env)


if __name__ == "__main__":
    main()
