#!/usr/bin/env python3
"""Writes src/model/tokenizer/unicode_{class,normal,step}_table.cc.

The data is taken from the `tokenizers` package itself, by asking its regex engine and its
normalizers about every code point, so that our splits agree with it whatever Unicode version it
was built with. Python's unicodedata only names one mark of each combining class.

    python3 scripts/make_unicode_tables.py   (needs: pip install tokenizers)
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src/model/tokenizer"
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Order of tenon's CharClass (unicode_classes.h); 0 is "other".
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S"]
NEWLINE, SPACE = len(CATEGORIES) + 1, len(CATEGORIES) + 2
DIGIT_FLAG, PUNCTUATION_FLAG = 16, 32
# White space that BERT's cleaning makes a space of; the other kinds go.
SPACES = {0x09, 0x0A, 0x0D, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by arithmetic


def members(pattern):
    """Code points that `pattern` matches: those that a removing split takes away."""
    text = "".join(map(chr, CODES))
    kept = set()
    for _, (begin, end) in pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text):
        kept.update(CODES[begin:end])
    return [c for c in CODES if c not in kept]


def isolated(pre_tokenizer):
    """Code points that `pre_tokenizer` cuts out of letters."""
    text = "a".join(map(chr, CODES)) + "a"
    pieces = pre_tokenizer.pre_tokenize_str(text)
    return {CODES[begin // 2] for _, (begin, end) in pieces if end - begin == 1 and begin % 2 == 0}


def class_values():
    values = dict.fromkeys(CODES, 0)
    for index, category in enumerate(CATEGORIES):
        values.update((c, index + 1) for c in members(r"\p{%s}" % category))
    values.update((c, SPACE) for c in members(r"\s"))
    values.update((c, NEWLINE) for c in (0x0A, 0x0D))
    for c in isolated(pre_tokenizers.Digits(individual_digits=True)):
        values[c] |= DIGIT_FLAG
    for c in isolated(pre_tokenizers.Punctuation("isolated")):
        values[c] |= PUNCTUATION_FLAG
    return values


def step_values():
    """Flags of unicode_steps.h: what single steps of a tokenizer.json do, each by its own Unicode version."""
    text = "".join(map(chr, CODES))
    marks = members(r"\p{M}")
    cleaned = set(normalizers.BertNormalizer(True, False, False, False).normalize_str(text))
    stripped = set(normalizers.StripAccents().normalize_str("".join(map(chr, marks))))
    bert = normalizers.BertNormalizer(False, False, True, False)
    words = " ".join(f"a{chr(c)}a" for c in CODES)
    flags = [
        [c for c in marks if bert.normalize_str("(" + chr(c)) == "("],
        [c for c in marks if chr(c) not in stripped],
        [c for c in CODES if chr(c) not in cleaned and c not in SPACES],
        members(r"\w"),
        [CODES[begin // 4] for _, (begin, end) in pre_tokenizers.Whitespace().pre_tokenize_str(words)
         if end - begin == 3],
    ]
    values = dict.fromkeys(CODES, 0)
    for bit, codes in enumerate(flags):
        for c in codes:
            values[c] |= 1 << bit
    return values


def runs(values):
    """(first code point, value) of each run of equal values; surrogates continue a run."""
    last = None
    for c in CODES:
        if values.get(c, 0) != last:
            last = values.get(c, 0)
            yield c, last


def compositions():
    """(composite, first, second) of every canonical decomposition, one step; second 0: a singleton."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    full = {c: nfd(chr(c)) for c in CODES if c not in HANGUL}
    full = {c: text for c, text in full.items() if text != chr(c)}
    whole = {text: chr(c) for c, text in full.items()}
    for c, text in full.items():
        first = text if len(text) == 1 else nfc(text[:-1])
        if len(first) > 1:  # its composite is excluded from composition, but named
            first = whole[text[:-1]]
        composes = len(text) > 1 and nfc(text) == chr(c)
        yield c, ord(first), ord(text[-1]) if len(text) > 1 else 0, composes


def combining_classes(marks):
    """Canonical combining class of each mark, found by the order that the normalizer gives it."""
    nfd = normalizers.NFD().normalize_str
    known = {}  # class -> a mark that has it
    for c in marks:
        ccc = unicodedata.combining(chr(c))
        # Only a mark that the normalizer itself moves (across U+0334, class 1, or U+0345, 240).
        if ccc and (nfd(chr(c) + "\u0334") != chr(c) + "\u0334" or nfd("\u0345" + chr(c))[0] != "\u0345"):
            known.setdefault(ccc, chr(c))
    values = {}
    for c in marks:
        for ccc, mark in known.items():
            after, before = mark + chr(c), chr(c) + mark
            # A starter is never moved; equal classes are not swapped, but both are marks: then a
            # mark of another class moves across the two.
            if nfd(after) == after and nfd(before) == before and reorders(nfd, chr(c), known):
                values[c] = ccc
                break
    return values


def reorders(nfd, char, known):
    return any(nfd(m + char) == char + m or nfd(char + m) == m + char for m in known.values())


def array(kind, name, items):
    """A C++ array of items, in lines of at most 100 columns."""
    lines = ["  "]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > 100:
            lines.append("  ")
        lines[-1] += " " + item + ","
    body = "\n".join(lines)
    return f"constexpr {kind} {name}[] = {{\n{body}\n}};\n"


def write(name, arrays, functions):
    (FOLDER / name).write_text(f"""\
// Generated by scripts/make_unicode_tables.py from tokenizers {tokenizers.__version__}: do not edit.
#include "model/tokenizer/unicode_tables.h"

namespace tenon {{
namespace {{

// clang-format off
{chr(10).join(arrays)}// clang-format on

}}  // namespace

{chr(10).join(functions)}

}}  // namespace tenon
""")


def packed(values):
    return ["0x%08x" % (c << 8 | v) for c, v in runs(values)]


def main():
    write("unicode_class_table.cc",
          [array("uint32_t", "kClassRuns", packed(class_values()))],
          ["std::span<const uint32_t> ClassRuns() { return kClassRuns; }"])
    write("unicode_step_table.cc", [array("uint32_t", "kStepRuns", packed(step_values()))],
          ["std::span<const uint32_t> StepRuns() { return kStepRuns; }"])
    pairs, decompose_only = [], []
    for c, first, second, composes in compositions():
        (pairs if composes else decompose_only).append("{0x%x, 0x%x, 0x%x}" % (c, first, second))
    combining = packed(combining_classes(members(r"\p{M}")))
    write("unicode_normal_table.cc",
          [array("uint32_t", "kCombiningRuns", combining),
           array("CanonicalPair", "kComposingPairs", pairs),
           array("CanonicalPair", "kDecomposeOnly", decompose_only)],
          ["std::span<const uint32_t> CombiningRuns() { return kCombiningRuns; }",
           "std::span<const CanonicalPair> ComposingPairs() { return kComposingPairs; }",
           "std::span<const CanonicalPair> DecomposeOnly() { return kDecomposeOnly; }"])


if __name__ == "__main__":
    main()
