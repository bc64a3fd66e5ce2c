#!/usr/bin/env python3
"""Schemas against Python's jsonschema: what the constraint lets through is valid (nothing too loose), what it
should let through passes (nothing too tight), and what it can't keep is refused by its name."""
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

_PYTHON = os.environ.get("TENON_PYTHON", "")
if os.path.exists(_PYTHON) and os.environ.get("TENON_PYTHON_STARTED") != _PYTHON:
    os.environ["TENON_PYTHON_STARTED"] = _PYTHON
    os.execv(_PYTHON, [_PYTHON, *sys.argv])
try:
    import jsonschema
except ImportError:
    print("skipped: the Python package jsonschema is not installed (scripts/setup_python.sh)", file=sys.stderr)
    sys.exit(77)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import unittest_program  # noqa: E402 (its folder comes first)

SAMPLES = 40

# Schema, texts that must pass, texts that must not.
SCHEMAS = [
    ({}, ['1', '"x"', '[1, {"a": null}]', '{}', '{\n  "a": 1.5e3\n}'], ['', 'x', '[1,]', '01', '{"a"}', '"\n"', '[1', '1 2']),
    (True, ['null'], ['nul']),
    ({"type": "object"}, ['{}', '{"a": [1, 2, {"b": "c"}]}'], ['[]', '{"a": 1,}', '{"a": }']),
    ({"type": "array"}, ['[]', '[[], {}]'], ['{}', '[1 2]']),
    ({"type": "string"}, ['""', '"a\\n\\u00e9é😀"'], ['"\\x"', '"\\ud800"', '"', '"\t"', 'a']),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"a\\n"', '"日本語"', '"😀😀"', '"\\u0041bc"'],
     ['"a"', '"abcd"', '""']),
    ({"type": "string", "maxLength": 3000}, [f'"{"é" * 3000}"'], [f'"{"é" * 3001}"']),
    ({"type": "string", "minLength": 5}, ['"abcde"'], ['"abcd"']),
    ({"type": "integer"}, ['0', '-5', '123456789'], ['01', '1.5', '--1', '+1', '-']),
    ({"type": "number"}, ['0', '-5.25', '1e5', '2.5E-3'], ['.5', '1.', '1e', 'NaN']),
    ({"type": "boolean"}, ['true', 'false'], ['True', '1']),
    ({"type": "null"}, ['null'], ['none']),
    ({"type": ["string", "null"]}, ['"a"', 'null'], ['1']),
    ({"enum": ["a", 1, None, {"b": [1, 2]}, "ab"]}, ['"a"', '"ab"', '1', 'null', '{"b":[1,2]}'], ['"b"', '2', '"abc"']),
    ({"type": "string", "enum": ["x", 5]}, ['"x"'], ['5']),
    ({"const": "with \"quotes\" and \\ é"}, [r'"with \"quotes\" and \\ é"'], ['"with"']),
    ({"type": "integer", "minimum": 3, "maximum": 12}, ['3', '9', '12'], ['2', '13', '03', '1', '120']),
    ({"type": "integer", "minimum": -15, "maximum": 7}, ['-15', '-1', '0', '7'], ['-16', '8']),
    ({"type": "integer", "exclusiveMinimum": 0}, ['1', '99999'], ['0', '-1']),
    ({"type": "integer", "maximum": -10}, ['-10', '-11', '-99999'], ['-9', '0', '5']),
    ({"type": "integer", "minimum": 99, "maximum": 100001}, ['99', '100', '9999', '100001'], ['98', '100002', '999999']),
    ({"type": "integer", "minimum": 0.5, "maximum": 3.5}, ['1', '3'], ['0', '4']),
    ({"type": "number", "minimum": 0, "maximum": 1}, ['0', '1', '0.5', '1.0', '0.001'], ['1.1', '-0.5', '1.0001', '2']),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, ['0.5', '0.001', '0.999'], ['0', '1', '0.0', '1.0']),
    ({"type": "number", "minimum": -2.75, "maximum": 10.5}, ['-2.75', '-2.7', '10.5', '10.49', '0', '-0.1', '9.999'],
     ['-2.76', '10.51', '11', '-3']),
    ({"type": "number", "exclusiveMaximum": -1.5}, ['-1.51', '-1.6', '-20', '-2.0'], ['-1.5', '-1', '0', '-1.50']),
    ({"type": "number", "multipleOf": 1}, ['5'], ['5.5']),
    ({"type": "string", "pattern": "^[a-z]{2,4}$"}, ['"ab"', '"abcd"'], ['"a"', '"ABC"', '"abcde"']),
    ({"type": "string", "pattern": "b+"}, ['"b"', '"xxbbyy"', '"\\n b"'], ['"a"', '""']),
    ({"type": "string", "pattern": "^\\d{3}-\\d{4}$"}, ['"555-1234"'], ['"5551234"', '"555-12345"']),
    ({"type": "string", "pattern": "^(\"|\\\\|\\n)+$"}, ['"\\"\\\\\\n"'], ['"x"', '"""']),
    ({"type": "string", "pattern": "^\\S+\\s\\S+$"}, ['"a b"', '"é\\té"'], ['"ab"', '"a  b"']),
    ({"type": "string", "format": "date"}, ['"2024-12-31"', '"1999-02-28"'], ['"2024-13-01"', '"2024-04-31"', '"24-1-1"']),
    ({"type": "string", "format": "date-time"}, ['"2024-12-31T23:59:59Z"', '"2024-01-01T00:00:00.5+02:00"'], ['"2024-12-31"']),
    ({"type": "string", "format": "time"}, ['"10:11:12Z"'], ['"25:00:00Z"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123"']),
    ({"type": "string", "format": "ipv4"}, ['"255.0.10.199"'], ['"256.0.0.1"', '"1.2.3"']),
    ({"type": "string", "format": "email"}, ['"a.b@example.org"'], ['"a"', '"@x"']),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, ['[1]', '[1, 2, 3]', '[1,2]'],
     ['[]', '[1,2,3,4]', '["a"]']),
    ({"type": "array", "items": {"type": "null"}, "maxItems": 1000}, ['[]', '[' + ','.join(['null'] * 1000) + ']'],
     ['[' + ','.join(['null'] * 1001) + ']']),
    ({"type": "array", "maxItems": 0}, ['[]'], ['[1]']),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ['["a"]', '["a", 1]', '[]'], ['[1]']),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
     ['["a", null]', '["a", null, null, null]'], ['["a"]', '["a", null, null, null, null]', '["a", 1]']),
    ({"type": "array", "items": [{"type": "string"}], "additionalItems": False, "minItems": 1}, ['["a"]'], ['["a", 1]', '[]']),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"],
      "additionalProperties": False}, ['{"a": 1, "b": "x"}', '{"a":1,"b":""}', '{\n  "a": 1,\n  "b": "x"\n}'],
     ['{"a": 1}', '{"b": "x"}', '{}', '{"a": 1, "b": "x", "c": 1}', '{"a": "1", "b": "x"}']),
    ({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}},
     ['{}', '{"a": null}', '{"b": null, "c": null}', '{"a": null, "b": null, "c": null}'], ['{"a": null,}', '{"a": 1}']),
    ({"type": "object", "properties": {"ab": {"type": "null"}, "é": {"type": "null"}}, "required": ["é"],
      "additionalProperties": {"type": "integer"}},
     ['{"é": null, "abc": 1, "a": 2, "": 3, "b": 4}', '{"ab": null, "é": null}'],
     ['{"é": null, "ab": 1}', '{"é": 1}', '{"é": null, "x": null}']),
    ({"type": "object", "additionalProperties": {"type": "string"}}, ['{}', '{"x": "y", "z": ""}'], ['{"x": 1}']),
    ({"type": "object", "required": ["x"]}, ['{"x": [1]}'], ['{}']),
    ({"properties": {"x": {"type": "integer"}}, "required": ["x"]}, ['{"x": 1}'], ['{}', '{"x": "1"}']),
    ({"type": "object", "properties": {"x": {"type": "null"}}, "additionalProperties": True, "maxProperties": 2},
     ['{"x": null, "y": 1}', '{"y": 1}'], ['{"x": null, "y": 1, "z": 2}']),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, ['5', '"a"'], ['"ab"', '1.5', 'null']),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
      "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ['{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'], ['{}']),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ['"a"', '1'], ['null']),
    ({"oneOf": [{"type": "object", "properties": {"t": {"const": "x"}, "v": {"type": "integer"}}, "required": ["t", "v"]},
                {"type": "object", "properties": {"t": {"const": "y"}}, "required": ["t"]}]},
     ['{"t": "x", "v": 1}', '{"t": "y"}'], ['{"t": "x"}', '{"t": "z"}']),
    ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"a": {"minimum": 5}, "b": {"type": "null"}}, "required": ["b"]}]},
     ['{"a": 5, "b": null}'], ['{"a": 4, "b": null}', '{"a": 5}']),
    ({"allOf": [{"$ref": "#/$defs/p"}], "description": "d", "$defs": {"p": {"type": "boolean"}}}, ['true'], ['1']),
    ({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value"], "additionalProperties": False}}},
     ['{"value": 1}', '{"value": 1, "children": [{"value": 2, "children": []}, {"value": 3}]}'], ['{"children": []}']),
    ({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
     ['{"next": {"next": {"next": null}}}'], ['{"next": 1}', '{}']),
    ({"title": "T", "description": "D", "default": 1, "examples": [1], "$schema": "https://json-schema.org/draft/2020-12/schema",
      "$comment": "c", "deprecated": True, "x-vendor": 1, "type": "integer"}, ['1'], ['"a"']),
    ({"type": "object", "properties": {f"property_{i}": {"type": "integer"} for i in range(300)}}, ['{"property_299": 1}'],
     ['{"property_300": 1}']),
    ({"enum": [f"value {i}" for i in range(5000)]}, ['"value 4999"'], ['"value 5000"']),
]

# Schema, and the place that the refusal names.
REFUSED = [
    ({"not": {"type": "string"}}, "not"),
    ({"type": "object", "properties": {"a": {"if": {}, "then": {}}}}, "properties.a.if"),
    ({"type": "object", "patternProperties": {"^a": {}}}, "patternProperties"),
    ({"type": "object", "propertyNames": {"maxLength": 3}}, "propertyNames"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    ({"type": "object", "unevaluatedProperties": False}, "unevaluatedProperties"),
    ({"type": "array", "contains": {"type": "integer"}}, "contains"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "number", "multipleOf": 0.25}, "multipleOf"),
    ({"type": "string", "format": "idn-email"}, "format"),
    ({"type": "string", "pattern": "(?<=x)a"}, "pattern"),
    ({"type": "string", "pattern": "a{2,3", }, "pattern"),
    ({"type": "string", "pattern": "^a+$", "maxLength": 5}, "maxLength"),
    ({"type": "string", "nullable": True}, "nullable"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}, "oneOf"),
    ({"$ref": "https://example.org/schema"}, "$ref"),
    ({"$ref": "#/$defs/missing"}, "$ref"),
    ({"$ref": "#"}, "without end"),
    ({"allOf": [{"$ref": "#"}]}, "no text"),
    ({"type": "strin"}, "type"),
    ({"type": 5}, "type"),
    ({"enum": []}, "enum"),
    ({"type": "string", "minLength": -1}, "minLength"),
    ({"type": "string", "maxLength": "5"}, "maxLength"),
    ({"type": "array", "items": 5}, "items"),
    ({"type": "object", "properties": [1]}, "properties"),
    ({"type": "object", "required": "a"}, "required"),
    ({"type": "object", "minProperties": 3}, "minProperties"),
    ({"enum": ["a"], "minLength": 1}, "minLength"),
    ({"minimums": 1}, "minimums"),
    (5, "schema"),
    ([], "schema"),
    (False, "no text"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no text"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "no text"),
]

REGEXES = ["[a-f]{1,300}x?", "(GET|POST) /[a-z/]{0,20}", "[^\\d]{3}", "\\w+(?:, \\w+)*", "é{2}|[日本]+", "-?\\d+\\.\\d\\d"]


def run(lines):
    done = subprocess.run([os.environ["SCHEMA_DRIVER"]], input="".join(json.dumps(line) + "\n" for line in lines),
                          capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class SchemaTest(unittest.TestCase):
    def test_what_passes_is_valid_and_what_should_pass_does(self):
        answers = run([{"schema": schema, "samples": SAMPLES, "texts": good + bad} for schema, good, bad in SCHEMAS])
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        for (schema, good, bad), answer in zip(SCHEMAS, answers, strict=True):
            shown = json.dumps(schema)[:200]
            self.assertNotIn("error", answer, shown)
            validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
            if isinstance(schema, dict) and isinstance(schema.get("items"), list):
                validator = jsonschema.Draft7Validator(schema, format_checker=checker)
            self.assertEqual(len(answer["samples"]), SAMPLES, shown)
            for text in answer["samples"] + good:
                self.assertTrue(text, shown)  # a text that could not be ended
                value = json.loads(text)  # ... or is no JSON
                self.assertTrue(validator.is_valid(value), (shown, text))
            self.assertEqual(answer["accepts"], [True] * len(good) + [False] * len(bad), (shown, list(zip(good + bad, answer["accepts"]))))

    def test_what_cannot_be_kept_is_refused_by_its_name(self):
        for (schema, place), answer in zip(REFUSED, run([{"schema": schema} for schema, _ in REFUSED]), strict=True):
            self.assertIn("error", answer, schema)
            self.assertIn(place, answer["error"], schema)

    def test_deep_schemas_are_refused_or_work(self):
        nested = {"type": "integer"}
        for _ in range(100):
            nested = {"type": "array", "items": nested}
        deeper = {"type": "integer"}
        for _ in range(700):
            deeper = {"type": "array", "items": deeper}
        answers = run([{"schema": nested, "texts": ["[" * 100 + "1" + "]" * 100]}, {"schema": deeper}])
        self.assertEqual(answers[0]["accepts"], [True])
        self.assertIn("nested", answers[1]["error"])

    @staticmethod
    def chain(length, link, last):
        """$defs of which each is made by `link` from a reference to the next one."""
        links = {f"a{i}": link({"$ref": f"#/$defs/a{i + 1}"}) for i in range(length)}
        return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{length}": last}}

    def test_chains_of_references(self):
        integer = {"type": "integer"}
        objects = self.chain(100, lambda ref: {"type": "object", "properties": {"n": ref}, "required": ["n"]}, integer)
        circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
        answers = run([{"schema": self.chain(2000, lambda ref: ref, integer), "texts": ["5", '"5"']},
                       {"schema": self.chain(100, lambda ref: {"description": "x", **ref}, integer), "texts": ["5", "x"]},
                       {"schema": self.chain(100, lambda ref: {"anyOf": [{"type": "boolean"}, ref]}, integer),
                        "texts": ["5", "true", "null"]},
                       {"schema": objects, "texts": ['{"n":' * 100 + "1" + "}" * 100, '{"n":' * 99 + "1" + "}" * 99]},
                       {"schema": circle}, {"schema": {"$ref": "#"}}, {"schema": {"$ref": "#", "minimum": 1}}])
        self.assertEqual([answer.get("accepts") for answer in answers[:4]],
                         [[True, False], [True, False], [True, True, False], [True, False]], answers)
        for answer in answers[4:]:
            self.assertIn("without end", answer["error"])

    def test_what_would_grow_without_bound_is_refused(self):
        double = self.chain(40, lambda ref: {"anyOf": [ref, ref], "minimum": 1}, {"type": "number"})
        parts = [{"type": "object", "properties": {f"k{i}": {"type": "integer"}}} for i in range(2000)]
        answers = run([{"schema": double}, {"schema": {"allOf": parts}, "texts": ['{"k0":1, "k1999":2}', '{"k0":"x"}']}])
        self.assertIn("puts more than", answers[0]["error"])
        self.assertEqual(answers[1]["accepts"], [True, False])

    def test_regular_expressions_match_as_pythons(self):
        answers = run([{"regex": regex, "samples": SAMPLES} for regex in REGEXES])
        for regex, answer in zip(REGEXES, answers, strict=True):
            self.assertEqual(len(answer["samples"]), SAMPLES, regex)
            for text in answer["samples"]:
                self.assertTrue(re.fullmatch(regex, text, re.ASCII), (regex, text))


if __name__ == "__main__":
    unittest_program.main()
