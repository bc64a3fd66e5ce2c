#!/usr/bin/env python3
"""Writes tests/data/gbnf_golden.jsonl: what llama.cpp's own grammar sampler (llama_cpp_python) makes of grammars and
texts. A line holds {"grammar", "texts", "accepts"}, or {"grammar", "refused": true}.

  make_gbnf_golden.py MODEL.gguf OUT        (any model with byte tokens; only its vocabulary is read)"""
import ctypes
import json
import random
import sys

import llama_cpp

JSON_GRAMMAR = r'''
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
    string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# a line end may have an indentation
ws ::= | " " | "\n" [ \t]{0,20}
'''

# Grammar, texts, letters for random ones.
CASES = [
    ('root ::= "abc"', ["abc", "ab", "abcd", ""], "abc"),
    ('root ::= "a" | "b" | ""', ["", "a", "b", "ab"], "ab"),
    ('root ::= [a-c]+', ["a", "abccba", "", "abd"], "abcd"),
    ('root ::= [^a-c\\n]*', ["", "xyz", "\n", "é日😀", "xa"], "axé"),
    ('root ::= "a"{3}', ["aa", "aaa", "aaaa"], "a"),
    ('root ::= "a"{2,}', ["a", "aa", "aaaaaaa"], "a"),
    ('root ::= "a"{1,3} "b"?', ["a", "aaab", "aaaab", "b", "ab"], "ab"),
    ('root ::= "ab"* "c"+', ["c", "ababcc", "abac", "ab"], "abc"),
    ('root ::= ("x" | "yz"){2} "."', ["xx.", "xyz.", "yzyz.", "x.", "xxx."], "xyz."),
    ('root ::= .', ["a", "é", "😀", "", "ab"], "aé"),
    ('root ::= "\\x41\\u00e9\\U0001F600\\t\\"\\\\"', ['Aé😀\t"\\', "Aé"], "Aé"),
    ('root ::= [\\]\\[\\-a] [a-] [-a]', ["]--", "a-a", "[a-", "-b-"], "[]-ab"),
    ('root ::= [α-ω]+ | [一-龥]+', ["αβγ", "日本", "α日", "a"], "αω日a"),
    ('root ::= item ("," item)*\nitem ::= "1" | "22" # two\n', ["1", "1,22,1", "2", "1,", "22"], "12,"),
    ('root ::= "(" root ")" | "o"', ["o", "((o))", "((o)", "()", "(((((o)))))"], "(o)"),
    ('root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= num | "(" expr ")"\nnum ::= [0-9]+',
     ["1", "1+2", "(1+2)*34", "(1", "1+", "()", "((7))"], "1+()"),
    ('root ::= "a" (\n  "b"\n  | "c"\n) "d"', ["abd", "acd", "ad"], "abcd"),
    ('root ::= a-b c2\na-b ::= "x" |\n  "y"\nc2 ::= "z"', ["xz", "yz", "zz"], "xyz"),
    ('# first a comment\n\nroot ::= # and here\n  "a" # and there\n', ["a", "b"], "ab"),
    ('root ::= ("a" "b"?)* "c"', ["c", "aabac", "abbc", "bc"], "abc"),
    ('root ::= (("a"?) "b")+', ["b", "abbab", "aab", "a"], "ab"),
    ('root ::= s s s\ns ::= "a" | ""', ["", "a", "aa", "aaa", "aaaa"], "a"),
    ('root ::= "a" root "b" | ""', ["", "ab", "aabb", "aab", "abb"], "ab"),
    ('root ::= p1\np1 ::= "k" p2 | "e"\np2 ::= "j" p1 | "f"', ["e", "kf", "kje", "kjkf", "kj"], "kjef"),
    ('root ::= "é" "日"? [^é]', ["éx", "é日日", "éé", "é"], "é日x"),
    ('root ::= [a-z] [a-z0-9]{0,3} ("." [a-z]{2})?', ["a", "a1b2", "ab.de", "ab.d", "1a", "abcde"], "a1.b"),
    ('root ::= "a"{0,2} "a"{1}', ["", "a", "aaa", "aaaa"], "a"),
    ('root ::= "a"{0} "b"', ["b", "ab"], "ab"),
    ('root ::= ("a" | "ab") ("c" | "bc")', ["ac", "abc", "abbc", "ab"], "abc"),
    (JSON_GRAMMAR, ['{}', '{"a": 1}', '{"a": [1, 2.5e3, {"b": null}], "c": "x\\n\\u00e9"}', '{"a": 01}', '{"a"}', '[1]',
                    '{"a": 1,}', '{\n  "k": true\n}', '{"a": "\t"}', '{"a":-0.5E-7 }', '{"a": 1}  '], '{}":1, a'),
]

REFUSED = [
    'root', 'root ::', 'root ::= "a', 'root ::= [a', 'root ::= ("a"', 'root ::= "a")', 'root ::= x', 'start ::= "a"',
    'root ::= *', 'root ::= "a"{', 'root ::= "a"{x}', 'root ::= "a"{1', 'root ::= "\\q"', 'root ::= "\\x4"', 'root ::= root "a"',
    'root ::= a\na ::= b\nb ::= a "x"', '::= "a"', 'root ::= "a" ::= "b"', 'root_x ::= "a"', 'root ::= "a" }', 'root = "a"',
    'root ::= "a"\n| "b"', 'root ::= s "x"\ns ::= "" root',
]


class Oracle:
    def __init__(self, path):
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.eos = llama_cpp.llama_vocab_eos(self.vocab)

    def tokens(self, text):
        room = (llama_cpp.llama_token * (4 * len(text.encode()) + 8))()
        data = text.encode()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), room, len(room), False, False)
        return list(room[:count])

    def allows(self, sampler, token):
        data = (llama_cpp.llama_token_data * 1)(llama_cpp.llama_token_data(token, 1.0, 0.0))
        array = llama_cpp.llama_token_data_array(data, 1, -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        return data[0].logit > -1e30

    def accepts(self, grammar, text):
        """None where the grammar is refused."""
        sampler = llama_cpp.llama_sampler_init_grammar(self.vocab, grammar.encode(), b"root")
        if not sampler:
            return None
        try:
            for character in text:  # one by one: a token must not hide where the text leaves the grammar
                for token in self.tokens(character):
                    if not self.allows(sampler, token):
                        return False
                    llama_cpp.llama_sampler_accept(sampler, token)
            return self.allows(sampler, self.eos)
        finally:
            llama_cpp.llama_sampler_free(sampler)


def main():
    oracle = Oracle(sys.argv[1])
    randomness = random.Random(7)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for grammar, texts, letters in CASES:
            texts = list(texts)
            while len(texts) < 30:
                if texts and randomness.random() < 0.5:  # one that is nearly right
                    base = list(randomness.choice(texts))
                    base.insert(randomness.randint(0, len(base)), randomness.choice(letters))
                    if randomness.random() < 0.5:
                        base.pop(randomness.randrange(len(base)))
                    texts.append("".join(base))
                else:
                    texts.append("".join(randomness.choice(letters) for _ in range(randomness.randint(0, 7))))
            texts = list(dict.fromkeys(texts))
            accepts = [oracle.accepts(grammar, text) for text in texts]
            assert None not in accepts, grammar
            out.write(json.dumps({"grammar": grammar, "texts": texts, "accepts": accepts}) + "\n")
        for grammar in REFUSED:
            refused = oracle.accepts(grammar, "") is None
            if not refused:
                print("llama.cpp takes", repr(grammar))
            else:
                out.write(json.dumps({"grammar": grammar, "refused": True}) + "\n")


if __name__ == "__main__":
    main()
