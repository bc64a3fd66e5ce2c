#!/usr/bin/env python3
"""Compares the tokenizers with independent implementations, and writes the golden files of the tests.

    make_tokenizer_golden.py --compare DRIVER [--all]   live; exit code 77: something is missing
    make_tokenizer_golden.py --write DIR                tests/data/*.jsonl, a sample of the strings

References: SmolLM2 and the pre-tokenizers against the `tokenizers` package, Gemma against
`llama_cpp`. DRIVER is tests/tokenizer/parity/tokenize_driver. Models are read from
$TENON_HOME/models, the reference tokenizer.json from $TENON_TEST_DATA (default ../shared/data).
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

SKIP = 77
COMPARED = 21000
PRE_STRIDE = 7  # every seventh string for each of the pre-tokenizers, unless --all
GOLDEN = 400
PRE_GOLDEN = 60
HOME = pathlib.Path(os.environ.get("TENON_HOME", pathlib.Path.home() / ".tenon"))
DATA = pathlib.Path(os.environ.get("TENON_TEST_DATA", "../shared/data"))

# The tokenizer.json pre-tokenizers of the families that tenon knows, by GGUF's names.
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
                         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CAPITAL, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + CAPITAL + "*" + SMALL + "+%s"
         r"|[^\r\n\p{L}\p{N}]?" + CAPITAL + "+" + SMALL + "*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK_V3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
               r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# In escapes: some of these letters change when an editor normalizes the text.
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376-\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183-\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2-\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943")
DEEPSEEK_CJK = "[一-龥ࠀ-一가-퟿]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DIGITS, PUNCTUATION, GPT2_STEP = "digits", "punctuation", "gpt2"
MAPPED_DIGITS = "mapped digits"
FAMILIES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2_STEP],
    "mpt": [GPT2_STEP],
    "smollm": [DIGITS, GPT2_STEP],
    "command-r": [DIGITS, GPT2_STEP],
    "llama-bpe": [CL100K % "{1,3}"],
    "dbrx": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "qwen35": [QWEN35],
    "gpt-4o": [O200K % (CONTRACTIONS + "?", CONTRACTIONS + "?", "{1,3}")],
    "tekken": [O200K % ("", "", "")],
    "deepseek-llm": ["[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
                     r"\s+$", DEEPSEEK_CJK, DIGITS],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, DIGITS],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
    "falcon": [PUNCTUATION, GPT2_STEP, MAPPED_DIGITS, "[0-9][0-9][0-9]"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}


def reference_pre_tokenizer(steps):
    """The `tokenizers` package's own pre-tokenizer; pieces come out in the byte-level alphabet."""
    from tokenizers import Regex, pre_tokenizers as pre

    made = []
    for step in steps:
        if step == DIGITS:
            made.append(pre.Digits(individual_digits=True))
        elif step == MAPPED_DIGITS:
            made.append(pre.Digits(individual_digits=False))
        elif step == PUNCTUATION:
            made.append(pre.Punctuation("contiguous"))
        elif step == GPT2_STEP:
            made.append(pre.ByteLevel(add_prefix_space=False, use_regex=True))
        else:
            made.append(pre.Split(Regex(step), "isolated"))
    if GPT2_STEP not in steps:
        made.append(pre.ByteLevel(add_prefix_space=False, use_regex=False))
    return pre.Sequence(made)


def byte_of_letter():
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    letters = {chr(b): b for b in printable}
    others = [b for b in range(256) if b not in printable]
    letters.update({chr(256 + i): b for i, b in enumerate(others)})
    return letters


def reference_pieces(name, texts):
    pre, letters = reference_pre_tokenizer(FAMILIES[name]), byte_of_letter()
    for text in texts:
        yield [[letters[c] for c in piece] for piece, _ in pre.pre_tokenize_str(text)]


# -- The strings ---------------------------------------------------------------------------------

BLOCKS = [
    (0x21, 0x7E), (0x21, 0x7E), (0xA1, 0x17F), (0x180, 0x24F), (0x250, 0x2FF), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x7BF),
    (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xB7F), (0xB80, 0xCFF), (0xD00, 0xDFF), (0xE01, 0xEDF),
    (0xF00, 0xFDA), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x139F),
    (0x13A0, 0x167F), (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1AB0, 0x1ACE), (0x1C80, 0x1CBF),
    (0x1D00, 0x1DFF), (0x1E00, 0x1FFF), (0x2010, 0x205E), (0x2070, 0x20F0), (0x2100, 0x218B),
    (0x2190, 0x23FF), (0x2460, 0x27BF), (0x2C00, 0x2DFF), (0x2E00, 0x2E5D), (0x3001, 0x303F),
    (0x3041, 0x30FF), (0x3105, 0x318E), (0x3200, 0x33FF), (0x3400, 0x3500), (0x4E00, 0x9FFF),
    (0xA000, 0xA4C6), (0xA640, 0xA7FF), (0xA800, 0xABF9), (0xAC00, 0xD7A3), (0xF900, 0xFAD9),
    (0xFB00, 0xFDFF), (0xFE20, 0xFE6F), (0xFF01, 0xFFEE), (0x10000, 0x101FF), (0x10280, 0x10CFF),
    (0x10D00, 0x10FFF), (0x11000, 0x11FFF), (0x12000, 0x12400), (0x16A40, 0x16FFF),
    (0x1B000, 0x1B2FF), (0x1D100, 0x1D7FF), (0x1E000, 0x1E9FF), (0x1EE00, 0x1EEFF),
    (0x1F000, 0x1F2FF), (0x1F300, 0x1FAFF), (0x1FB00, 0x1FBF9), (0x20000, 0x20100),
    (0x2EBF0, 0x2EE5D), (0x31350, 0x323AF), (0xE000, 0xE010), (0xE0100, 0xE01EF),
]
WORDS = ("the of and to in is it was for on are as with his they at be this from have or by one had not "
         "but what all were when we there can an your which their said if do will each about how up "
         "out them then she many some so these would other into has more her two like him see time "
         "I'm don't you're WE'VE he'll it's O'Neill rock'n'roll l'été Ça naïve café Straße İstanbul "
         "HTTPServer parseJSON camelCase snake_case XMLHttpRequest iPhone eBay McDonald's ΑΒΓ'ς "
         "Привет мир schön Größe 你好 世界 こんにちは 안녕하세요 مرحبا שלום नमस्ते สวัสดี Việt").split()
CODE = ["def f(x):\n    return x**2\n", "for (int i = 0; i < n; ++i) {\n\t\ta[i] += 1;\n}\n", "#include <vector>\r\n",
        "<div class=\"a\">\n  <p>text</p>\n</div>", "SELECT * FROM t WHERE a != 'b';", "\\frac{1}{2}\\sum_{i=0}^n",
        "if (a && b || !c) return a ? b : c; // comment", "{\"key\": [1, 2.5e-3, null]}", "https://example.org/a?b=c&d=%20#e",
        "x = np.array([[1,2],[3,4]])\n\n\n", "\t\t\tfoo\n\t\tbar\n", "/* a\n * b\n */", "$ ls -la | grep '^d' > /dev/null 2>&1",
        "user@example.com", "C:\\Users\\name\\file.txt", "@decorator\nclass A(B):\n    pass", "=>", "!==", "::", "...", "???!!!"]
EMOJI = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👩🏽‍💻", "🇩🇪🇫🇷", "👍🏿", "❤️‍🔥", "🧑‍🚀", "1️⃣", "☺️", "🫠🫡🫨", "😀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🐻‍❄️", "🪿🫎"]
BLANKS = [" ", "  ", "   ", "        ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n ", " \n \n", "\u00a0",
          "\u2003", "\u3000", "\u2028", "\u0085", "\u000b\u000c", "\u1680", "\u200b", "\u2060", "\ufeff", "\u200e", "\u00ad",
          " " * 31, " " * 40, "\n" * 33, "\t" * 9, "\u3000\u3000 ", "\r", "\r\r\n"]
DIGIT_TEXTS = ["0", "7", "12", "123", "1234", "3.14159", "1,000,000", "2024-05-17", "12:30", "0x1F", "1e-10", "٣٤٥", "१२३", "½", "²³",
               "Ⅻ", "①②③", "１２３", "𝟙𝟚𝟛", "৪৫", "1234567890123", "x²+y²", "10¹²", "¼¾"]
NEWEST = ["\u1c89\u1c8a", "\ua7cb\ua7cc\ua7da", "\U00031350\U000323af", "\U0002ebf0", "\U00010d4a\U00010d70", "\U0001e5d0\U0001e5f1",
          "\U00016d40\U00016d6b", "\U00011db0\U00011de1", "\U00011de0", "\U0001fae9\U0001fadf", "\u088f", "\U00016ea0\U00016ebb",
          "\U0001ccf0\U0001ccd6", "\u0897", "\U000105c0", "\U00011bc0\U00011bf0", "\ufffd", "\U0010ffff", "\ufdd0"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<unk>", "<pad>",
           "<unused12>", "</s>", "<s>", "<0x0A>", "<table>", "</td>", "<h1>", "[multimodal]", "<|im_end", "|im_end|>", "<strong>",
           "<file_sep>", "<mask>", "\u2581", "\u2581\u2581the", "Ġthe", "<li", "<ul>", "<code>", "<start_of_image>"]


def letters(rng):
    low, high = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 9)))


def fragment(rng):
    kind = rng.randrange(16)
    if kind < 4:
        return rng.choice(["", " "]) + rng.choice(WORDS)
    if kind < 7:
        return letters(rng)
    if kind == 7:
        return rng.choice(CODE)
    if kind == 8:
        return rng.choice(EMOJI)
    if kind < 11:
        return rng.choice(BLANKS)
    if kind == 11:
        return rng.choice(DIGIT_TEXTS)
    if kind == 12:
        return "".join(rng.choice("'.,;:!?-_/\\()[]{}<>@#$%^&*+=|~`\"") for _ in range(rng.randint(1, 5)))
    if kind == 13:
        return rng.choice(NEWEST + SPECIAL)
    if kind == 14:
        return rng.choice(["'s", "'S", "'T", "'re", "'RE", "'Ve", "'m", "'ll", "'LL", "'d", "'ſ", "'l", "'x", "''s", " 's", "’s"])
    code = rng.randrange(0x110000)
    return chr(code) if not 0xD800 <= code < 0xE000 else chr(rng.randrange(0x80))


def strings(count):
    """`count` different strings, the same ones on every run."""
    rng = random.Random(20240517)
    fixed = [w for group in (WORDS, CODE, EMOJI, BLANKS, DIGIT_TEXTS, NEWEST, SPECIAL) for w in group]
    fixed += ["a" * 1000, "ab" * 500, " " * 1000, "\n" * 300, "=" * 257, "é" * 200, "e\u0301" * 50, "あ" * 300, "1" * 100]
    seen = dict.fromkeys(fixed)
    while len(seen) < count:
        text = "".join(fragment(rng) for _ in range(rng.randint(1, 12)))
        if rng.random() < 0.1:
            text = unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), text)
        seen.setdefault(text)
    texts = list(seen)[:count]
    # Long texts, in which words come again.
    return texts + [" ".join(texts[i : i + 300]) for i in range(0, count, 1000)]


def sample(texts, count):
    """Evenly spread, and short: golden files are read by people too."""
    short = [t for t in texts if len(t.encode()) <= 60]
    return short[:: max(1, len(short) // count)][:count]


# -- The references ------------------------------------------------------------------------------


def smollm2_reference(texts, special):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(DATA / "smollm2-tokenizer.json"))
    tokenizer.encode_special_tokens = not special
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def gemma_reference(texts, special):
    import llama_cpp

    model = llama_cpp.Llama(str(HOME / "models/gemma-3-270m.gguf"), vocab_only=True, verbose=False)
    return [model.tokenize(text.encode(), add_bos=False, special=special) for text in texts]


MODELS = {
    "smollm2-135m-instruct": smollm2_reference,
    "gemma-3-270m": gemma_reference,
}


# Texts on which a reference is known to be wrong about plain text. llama_cpp takes every "</s>" for an
# end token, but Gemma's file says user-defined: it is HTML.
WRONG_REFERENCE = {"gemma-3-270m": "</s>"}


def comparable(name, texts, special):
    wrong = WRONG_REFERENCE.get(name)
    return [text for text in texts if special or wrong is None or wrong not in text]


def run_driver(driver, arguments, values):
    lines = "\n".join(json.dumps(value) for value in values) + "\n"
    done = subprocess.run([driver, *arguments], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{driver} {arguments}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def report(what, inputs, expected, found):
    wrong = [(i, e, f) for i, e, f in zip(inputs, expected, found) if e != f]
    print(f"{what}: {len(found)} compared, {len(wrong)} differ")
    for text, want, got in wrong[:5]:
        print(f"  {text!r}\n    expected {want}\n    found    {got}")
    return bool(wrong) or len(found) != len(inputs)


def compare_model(driver, name, texts):
    model = HOME / "models" / f"{name}.gguf"
    if not model.exists():
        print(f"{name}: skipped, {model} is missing")
        return None
    failed = False
    for special in (False, True):
        inputs = comparable(name, texts, special)
        try:
            expected = MODELS[name](inputs, special)
        except Exception as error:  # a missing package or file: the reference's own kinds of errors
            print(f"{name}: skipped, no reference: {error}")
            return None
        found = run_driver(driver, [str(model)] + (["--special"] if special else []), inputs)
        failed |= report(f"{name}, special={special}", inputs, expected, found)
    return failed


def compare_pre_tokenizers(driver, texts):
    failed = False
    for name in FAMILIES:
        found = run_driver(driver, ["--pre", name], texts)
        failed |= report(name, texts, list(reference_pieces(name, texts)), found)
    from tokenizers import normalizers

    expected = [normalizers.NFC().normalize_str(text) for text in texts]
    return report("NFC", texts, expected, run_driver(driver, ["--nfc"], texts)) or failed


def compare(driver, stride):
    try:
        import tokenizers  # noqa: F401
    except ImportError:
        print("skipped: the Python package tokenizers is missing")
        return SKIP
    texts = strings(COMPARED)
    results = [compare_pre_tokenizers(driver, texts[::stride])]
    results += [compare_model(driver, name, texts) for name in MODELS]
    if any(results):
        return 1
    return SKIP if None in results else 0


def write_lines(path, values):
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def write(folder):
    texts = strings(COMPARED)
    chosen = sample(texts, GOLDEN)
    for name, reference in MODELS.items():
        inputs = comparable(name, chosen, False)
        values = [{"text": t, "ids": i} for t, i in zip(inputs, reference(inputs, False))]
        write_lines(folder / f"tokenizer_{name}.jsonl", values)
    chosen = sample([t for t in texts if len(t.encode()) <= 40], PRE_GOLDEN - len(NEWEST)) + NEWEST
    lines = []
    for name in FAMILIES:
        for text, pieces in zip(chosen, reference_pieces(name, chosen)):
            lines.append({"pre": name, "text": text, "lengths": [len(p) for p in pieces]})
    write_lines(folder / "pretokenizer_golden.jsonl", lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare", metavar="DRIVER")
    parser.add_argument("--write", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="no shortcuts in --compare: minutes")
    flags = parser.parse_args()
    if flags.write:
        write(flags.write)
    return compare(flags.compare, 1 if flags.all else PRE_STRIDE) if flags.compare else 0


if __name__ == "__main__":
    sys.exit(main())
