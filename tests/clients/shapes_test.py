#!/usr/bin/env python3
"""Answers of a demanded form: JSON schemas, expressions, choices, forced tool calls, through every API; each answer
is checked by jsonschema, at temperatures at which the model alone would write anything."""
import concurrent.futures
import json
import re
import unittest

from tenon_server import ServerTest, main, require

jsonschema = require("jsonschema")

CHAT = "/v1/chat/completions"
PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3}},
    "required": ["name", "age", "tags"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 16}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"], "additionalProperties": False}}}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["zone"]}}}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 12}]},
    {"type": "string", "format": "date"},
    {"type": "object", "properties": {"tree": {"$ref": "#/$defs/t"}}, "required": ["tree"], "$defs": {"t": {
        "type": "object", "properties": {"leaf": {"type": "boolean"}, "left": {"$ref": "#/$defs/t"}}, "required": ["leaf"]}}},
    {"type": "string", "maxLength": 200},
    {"enum": ["yes", "no", "perhaps"]},
]


def ask(text, **options):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 300, "temperature": 1.5, **options}


class ShapesTest(ServerTest):
    flags = ("-q",)

    def content(self, **options):
        choice = self.server.json(CHAT, ask("Describe a person.", **options))["choices"][0]
        if "$defs" in str(options) and choice["finish_reason"] == "length":
            return None  # a recursive form may go on as long as the model likes
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return choice["message"]["content"]

    def check(self, text, schema):
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(json.loads(text))

    def test_schemas_in_chat(self):
        def one(task):
            i, schema = task
            return self.content(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, seed=i)
        tasks = [(seed, schema) for schema in SCHEMAS for seed in range(4)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(one, tasks))
        whole = [(schema, text) for (_, schema), text in zip(tasks, texts, strict=True) if text is not None]
        self.assertGreaterEqual(len(whole), 4 * (len(SCHEMAS) - 1))
        for schema, text in whole:
            self.check(text, schema)

    def test_json_object(self):
        for seed in range(3):
            body = ask("Give me some JSON.", response_format={"type": "json_object"}, seed=seed, temperature=0.7)
            choice = self.server.json(CHAT, body)["choices"][0]
            text = choice["message"]["content"]
            self.assertTrue(text.lstrip().startswith("{"), text)
            if choice["finish_reason"] == "stop":  # what is cut by max_tokens is not whole
                self.assertIsInstance(json.loads(text), dict)

    def test_streams_n_and_stop_tokens(self):
        body = ask("A person.", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": PERSON}}, n=3)
        whole = self.server.json(CHAT, {**body, "seed": 5})["choices"]
        for choice in whole:
            self.check(choice["message"]["content"], PERSON)
        _, _, data = self.server.call(CHAT, {**body, "seed": 5, "stream": True, "ignore_eos": True})
        texts = ["", "", ""]
        for line in data.decode().splitlines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    texts[choice["index"]] += choice["delta"].get("content") or ""
        self.assertEqual(texts, [choice["message"]["content"] for choice in whole])

    def test_other_apis(self):
        text = self.server.json("/v1/completions", {"prompt": "x", "max_tokens": 200, "json_schema": PERSON})["choices"][0]["text"]
        self.check(text, PERSON)
        text = self.server.json("/v1/completions", {"prompt": "x", "max_tokens": 50, "guided_regex": "[a-c]{3}-\\d{2}"})
        self.assertTrue(re.fullmatch(r"[a-c]{3}-\d{2}", text["choices"][0]["text"]), text)
        text = self.server.json("/v1/completions", {"prompt": "x", "guided_choice": ["left", "right"]})["choices"][0]["text"]
        self.assertIn(text, ("left", "right"))
        for given in ({"json": PERSON}, {"regex": "[0-9]{4}"}, {"choice": ["a", "b"]}):
            self.assertTrue(self.content(structured_outputs=given))
        body = {"input": "A person.", "text": {"format": {"type": "json_schema", "name": "x", "schema": PERSON}},
                "max_output_tokens": 300}
        self.check(self.server.json("/v1/responses", body)["output"][0]["content"][0]["text"], PERSON)
        body = {"model": "smollm2-135m-instruct", "max_tokens": 300, "messages": [{"role": "user", "content": "A person."}],
                "output_format": {"type": "json_schema", "schema": PERSON}}
        self.check(self.server.json("/v1/messages", body)["content"][0]["text"], PERSON)
        model = {"model": "smollm2-135m-instruct", "stream": False, "options": {"num_predict": 300}}
        text = self.server.json("/api/chat", {**model, "messages": [{"role": "user", "content": "A person."}], "format": PERSON})
        self.check(text["message"]["content"], PERSON)
        text = self.server.json("/api/generate", {**model, "prompt": "A person.", "format": PERSON})["response"]
        self.check(text, PERSON)

    def test_forced_calls(self):
        named = {"type": "function", "function": {"name": "get_time"}}
        for choice in ("required", named):
            for seed in range(4):
                body = ask("How is it in Paris?", tools=[WEATHER, TIME], tool_choice=choice, seed=seed, parallel_tool_calls=False)
                answer = self.server.json(CHAT, body)["choices"][0]
                self.assertEqual(answer["finish_reason"], "tool_calls", answer)
                call, = answer["message"]["tool_calls"]
                tool = {"get_weather": WEATHER, "get_time": TIME}[call["function"]["name"]]
                self.check(call["function"]["arguments"], tool["function"]["parameters"])
                if choice == named:
                    self.assertEqual(call["function"]["name"], "get_time")
        body = {"max_tokens": 200, "messages": [{"role": "user", "content": "Paris?"}], "tool_choice": {"type": "any"},
                "tools": [{"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}]}
        block = self.server.json("/v1/messages", body)["content"][0]
        self.assertEqual((block["type"], block["name"]), ("tool_use", "get_weather"))
        self.check(json.dumps(block["input"]), WEATHER["function"]["parameters"])
        flat = {"type": "function", **WEATHER["function"]}
        item = self.server.json("/v1/responses", {"input": "Paris?", "tools": [flat], "tool_choice": "required"})["output"][0]
        self.assertEqual(item["type"], "function_call")
        self.check(item["arguments"], WEATHER["function"]["parameters"])

    def test_strict_arguments_when_the_model_may_call(self):
        strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
        body = ask("Say hello.", tools=[strict], temperature=0, max_tokens=24)
        free = ask("Say hello.", tools=[WEATHER], temperature=0, max_tokens=24)
        self.assertEqual(self.server.json(CHAT, body)["choices"][0]["message"]["content"],
                         self.server.json(CHAT, free)["choices"][0]["message"]["content"])

    def test_grammar(self):
        grammar = 'root ::= item (", " item){2}\nitem ::= [a-z]+ "-" [0-9]{2} # name and number\n'
        for field in ({"grammar": grammar}, {"guided_grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
            body = ask("Name three parts.", temperature=1, seed=3, max_tokens=200, **field)
            choice = self.server.json(CHAT, body)["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertRegex(choice["message"]["content"], r"^[a-z]+-\d\d(, [a-z]+-\d\d){2}$")
        body = {"prompt": "1 + 2 =", "max_tokens": 8, "grammar": 'root ::= " " [0-9]'}
        self.assertRegex(self.server.json("/v1/completions", body)["choices"][0]["text"], r"^ \d$")

    def test_an_ambiguous_grammar_ends_its_own_request_only(self):
        ambiguous = 'root ::= "a" root "b" | "a" root "c" | "d"'
        bias = self.server.json("/tokenize", {"content": "a"})["tokens"]
        status, _, data = self.server.call(CHAT, ask("a", grammar=ambiguous, temperature=0, max_tokens=200,
                                                     logit_bias=[[token, 100] for token in bias]))
        self.assertEqual(status, 400, data)
        self.assertIn("ambiguous", json.loads(data)["error"]["message"])
        fine = self.server.json(CHAT, ask("a", grammar='root ::= "fine"', max_tokens=20))
        self.assertEqual(fine["choices"][0]["message"]["content"], "fine")

    def test_refusals(self):
        def refused(param, **options):
            status, _, data = self.server.call(CHAT, ask("x", **options))
            self.assertEqual(status, 400, data)
            self.assertTrue(json.loads(data)["error"]["param"].startswith(param), data)
        wrap = lambda schema: {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        refused("response_format.json_schema.schema.properties.a.not", response_format=wrap({"type": "object", "properties": {"a": {"not": {}}}}))
        refused("response_format.json_schema.schema.pattern", response_format=wrap({"type": "string", "pattern": "(?=x)"}))
        refused("response_format", response_format={"type": "grammar"})
        refused("guided_regex", guided_regex="(" * 60000)
        refused("guided_choice", guided_choice=[""])
        refused("grammar", grammar="root ::= x")
        refused("grammar", grammar="root ::= \"a\"", json_schema={})
        status, _, data = self.server.call(CHAT, ask("x", grammar="root ::= \"a\"\n\nb ::= [z-a]"))
        self.assertIn("line 3, column 8", json.loads(data)["error"]["message"], data)
        refused("json_schema", response_format=wrap({}), json_schema={})
        refused("tool_choice", tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "other"}})
        refused("tool_choice", tool_choice="required")
        bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "minProperties": 3}}}
        refused("tools.0.function.parameters.minProperties", tools=[bad], tool_choice="required")


if __name__ == "__main__":
    main()
