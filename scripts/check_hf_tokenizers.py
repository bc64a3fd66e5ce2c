#!/usr/bin/env python3
"""Compares tokenizer.json files as Tenon runs them with the `tokenizers` package, ids and decoding.

    check_hf_tokenizers.py DRIVER [--all] [FILE...]      exit code 77: something is missing

The files are made here: small BPE, Unigram, WordPiece and WordLevel models, trained on a few of the
strings of make_tokenizer_golden.py, with all known normalizers, pre-tokenizers, decoders and kinds of added
tokens; and the reference tokenizer of $TENON_TEST_DATA, where it is there. DRIVER is
tests/tokenizer/parity/tokenize_driver.
"""
import argparse
import base64
import json
import os
import pathlib
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_tokenizer_golden as golden  # noqa: E402

SKIP = 77
COMPARED = 4000
DATA = pathlib.Path(os.environ.get("TENON_TEST_DATA", "../shared/data"))
SPECIALS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def texts():
    return golden.strings(COMPARED)


def corpus():
    words = " ".join(golden.WORDS)
    return [words, words.lower(), " ".join(golden.CODE), " ".join(golden.EMOJI), "é e\u0301 ﬁ ½ Å ① ｶﾞ"] * 3 + texts()[:400]


# -- Models --------------------------------------------------------------------------------------


def bpe(pre, normalizer=None, decoder=None, size=900, alphabet=(), **options):
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=SPECIALS + list(alphabet.get("tokens", []))
        if isinstance(alphabet, dict) else SPECIALS,
        initial_alphabet=alphabet if isinstance(alphabet, list) else [], limit_alphabet=300,
        continuing_subword_prefix=options.get("continuing_subword_prefix", ""),
        end_of_word_suffix=options.get("end_of_word_suffix", ""))
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(pre=None, normalizer=None):
    from tokenizers import decoders, pre_tokenizers

    return bpe(pre or pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer, decoders.ByteLevel(),
               alphabet=pre_tokenizers.ByteLevel.alphabet())


def split_bpe(pattern, behavior="isolated", invert=False, first=()):
    from tokenizers import Regex, pre_tokenizers as pre

    return byte_level(pre.Sequence([*first, pre.Split(Regex(pattern), behavior, invert=invert),
                                    pre.ByteLevel(add_prefix_space=False, use_regex=False)]))


def with_model(tokenizer, **fields):
    """The same tokenizer with other options in its model."""
    from tokenizers import Tokenizer

    parsed = json.loads(tokenizer.to_str())
    parsed["model"].update(fields)
    return Tokenizer.from_str(json.dumps(parsed))


def llama_style():
    """Llama 2's: Prepend and Replace, no pre-tokenizer, byte fallback."""
    from tokenizers import decoders, normalizers

    tokenizer = bpe(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)]),
                    alphabet={"tokens": BYTES}, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    parsed = json.loads(tokenizer.to_str())
    # Bytes are ordinary tokens of the model, not special ones.
    parsed["added_tokens"] = [t for t in parsed["added_tokens"] if t["content"] in SPECIALS]
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(parsed))


def metaspace_bpe(scheme, split):
    from tokenizers import decoders, pre_tokenizers

    return bpe(pre_tokenizers.Metaspace("▁", scheme, split), None, decoders.Metaspace("▁", scheme, split),
               unk_token="<unk>", fuse_unk=False)


def unigram(normalizer=None, scheme="always", byte_fallback=False):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Metaspace("▁", scheme)
    # Few texts: the model must have a piece for each of their characters.
    tokenizer.train_from_iterator(corpus()[:15], trainers.UnigramTrainer(
        vocab_size=700, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False))
    if not byte_fallback:
        return tokenizer
    parsed = json.loads(tokenizer.to_str())
    parsed["model"]["vocab"] += [[piece, -20.0] for piece in BYTES]
    parsed["model"]["byte_fallback"] = True
    parsed["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(parsed))


def wordpiece(normalizer, pre):
    from tokenizers import Tokenizer, decoders, models, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def word_level():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(corpus(), trainers.WordLevelTrainer(
        vocab_size=500, special_tokens=["[UNK]"], show_progress=False))
    return tokenizer


def added_tokens():
    """Tokens of every kind among plain ones, and a template around the text."""
    from tokenizers import AddedToken, processors

    tokenizer = byte_level()
    tokenizer.add_tokens([
        AddedToken("<think>", normalized=False), AddedToken("the", single_word=True, normalized=False),
        AddedToken("foo", lstrip=True, normalized=True), AddedToken("bar", rstrip=True, normalized=False),
        AddedToken("=>", lstrip=True, rstrip=True), AddedToken("naïve", normalized=True)])
    tokenizer.add_special_tokens([AddedToken("<pad>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def added_normalized():
    from tokenizers import AddedToken, normalizers, pre_tokenizers

    tokenizer = bpe(pre_tokenizers.Whitespace(), normalizers.Lowercase(), unk_token="<unk>")
    tokenizer.add_tokens([AddedToken("McDonald's", normalized=True), AddedToken("HTTPServer", normalized=False),
                          AddedToken("Größe", normalized=True, single_word=True)])
    return tokenizer


def precompiled_map(pairs):
    """SentencePiece's map as a Darts-clone double array, for keys that share no prefix with others."""
    root = {}
    texts = b""
    for key, value in pairs:
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += value.encode() + b"\0"
    units = {0: 0}
    used = {0}

    def place(node, index):
        labels = [0 if label is None else label for label in node]
        base = 1
        while any((index ^ base ^ label) in used for label in labels) or base >= 1 << 21:
            base += 1
        units[index] |= base << 10
        if None in node:
            units[index] |= 1 << 8
            units[index ^ base] = 1 << 31 | node[None]
        for label in labels:
            used.add(index ^ base ^ label)
        for label, child in node.items():
            if label is not None:
                units[index ^ base ^ label] = label
                place(child, index ^ base ^ label)

    place(root, 0)
    # Whole blocks of 256, as the original writes: lookups don't check bounds.
    table = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(units) // 256 + 2) * 256))
    return base64.b64encode(struct.pack("<I", len(table)) + table + texts).decode()


def precompiled():
    from tokenizers import Tokenizer, normalizers

    tokenizer = unigram(normalizers.Lowercase())
    parsed = json.loads(tokenizer.to_str())
    parsed["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": precompiled_map(
            [("ﬁ", "fi"), ("½", "1/2"), ("é", "e"), ("①", "1"), ("\u3000", " "), ("e\u0301", "E"), ("Å", "")])},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Nmt"}]}
    return Tokenizer.from_str(json.dumps(parsed))


KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = golden.O200K % (golden.CONTRACTIONS + "?", golden.CONTRACTIONS + "?", "{1,3}")


def cases():
    from tokenizers import normalizers as norm, pre_tokenizers as pre

    yield "byte level", byte_level
    yield "byte level, prefix space", lambda: byte_level(pre.ByteLevel(add_prefix_space=True))
    yield "byte level, NFC", lambda: byte_level(None, norm.NFC())
    yield "digits, byte level", lambda: byte_level(pre.Sequence([pre.Digits(True), pre.ByteLevel(False)]))
    yield "contiguous digits", lambda: byte_level(pre.Sequence([pre.Digits(False), pre.ByteLevel(False)]))
    yield "falcon", lambda: byte_level(pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(False),
                                                      pre.Digits(False), pre.Split("e", "merged_with_previous")]))
    yield "llama 3", lambda: with_model(split_bpe(golden.CL100K % "{1,3}"), ignore_merges=True)
    yield "qwen 2", lambda: split_bpe(golden.CL100K % "")
    yield "qwen 3.5", lambda: split_bpe(golden.QWEN35)
    yield "o200k", lambda: split_bpe(O200K)
    yield "kimi", lambda: split_bpe(KIMI)
    yield "deepseek v3", lambda: split_bpe(golden.DEEPSEEK_V3, first=[
        pre.Split(golden_regex(r"\p{N}{1,3}"), "isolated"), pre.Split(golden_regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated")])
    yield "deepseek llm", lambda: split_bpe(DEEPSEEK_END, first=[
        pre.Split(golden_regex("[\r\n]"), "isolated"), pre.Split(golden_regex(r"\s?\p{L}+"), "isolated"),
        pre.Split(golden_regex(r"\s?\p{P}+"), "isolated")])
    yield "bloom", lambda: split_bpe(golden.BLOOM)
    yield "line ends", lambda: split_bpe(r"^\s+|\s+$|\d+|\w+|[a-c]{2,}?x|(?=[A-Z])[A-Z]\w?|(ab|a)(c|bcd)?" .replace("{2,}?", "{2,}"))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"split {behavior}", lambda b=behavior: split_bpe(r"\s|[.,]", b)
        yield f"split {behavior}, inverted", lambda b=behavior: split_bpe(r"\p{L}+", b, True)
        yield f"punctuation {behavior}", lambda b=behavior: bpe(pre.Punctuation(b), unk_token="<unk>")
    yield "llama 2", llama_style
    for scheme in ("always", "never", "first"):
        yield f"metaspace {scheme}", lambda s=scheme: metaspace_bpe(s, True)
        yield f"metaspace {scheme}, whole", lambda s=scheme: metaspace_bpe(s, False)
    yield "subword prefix", lambda: bpe(pre.Whitespace(), unk_token="<unk>", continuing_subword_prefix="##")
    yield "word suffix", lambda: bpe(pre.Whitespace(), norm.Lowercase(), golden_decoders().BPEDecoder("</w>"),
                                     unk_token="<unk>", end_of_word_suffix="</w>")
    yield "unknown fused", lambda: bpe(pre.WhitespaceSplit(), unk_token="<unk>", fuse_unk=True, size=300)
    yield "no unknown", lambda: bpe(pre.CharDelimiterSplit("e"), size=300)
    yield "unigram", unigram
    yield "unigram, first", lambda: unigram(norm.NFKC(), "first")
    yield "unigram, never, bytes", lambda: unigram(None, "never", True)
    yield "precompiled", precompiled
    yield "bert", lambda: wordpiece(norm.BertNormalizer(), pre.BertPreTokenizer())
    yield "bert cased", lambda: wordpiece(norm.BertNormalizer(lowercase=False), pre.BertPreTokenizer())
    yield "bert raw", lambda: wordpiece(norm.BertNormalizer(False, False, True, False), pre.BertPreTokenizer())
    yield "words", word_level
    for form in (norm.NFD, norm.NFKC, norm.NFKD, norm.StripAccents, norm.Lowercase, norm.Nmt):
        yield f"normalizer {form.__name__}", lambda f=form: wordpiece(f(), pre.WhitespaceSplit())
    yield "normalizer Strip", lambda: byte_level(None, norm.Sequence([norm.Strip(), norm.Replace("a", "o")]))
    yield "normalizer Strip left", lambda: byte_level(None, norm.Strip(True, False))
    yield "added tokens", added_tokens
    yield "added tokens, normalized", added_normalized


DEEPSEEK_END = r"\s+$"


def golden_regex(pattern):
    from tokenizers import Regex

    return Regex(pattern)


def golden_decoders():
    from tokenizers import decoders

    return decoders


# -- Comparing -----------------------------------------------------------------------------------


def is_unigram(tokenizer):
    from tokenizers import models

    return isinstance(tokenizer.model, models.Unigram)


def compare(driver, name, tokenizer, inputs):
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        file.write(tokenizer.to_str(pretty=True))
    try:
        failed = False
        for special in (False, True):
            tokenizer.encode_special_tokens = not special
            # The reference lets Unigram make control tokens of plain text, Tenon never.
            plain = inputs if special or not is_unigram(tokenizer) else [
                text for text in inputs if not any(token in text for token in SPECIALS)]
            expected = [tokenizer.encode(text, add_special_tokens=special).ids for text in plain]
            found = golden.run_driver(driver, [file.name] + (["--special"] if special else []), plain)
            failed |= golden.report(f"{name}, special={special}", plain, expected, found)
        # A lone byte that is no UTF-8 becomes U+FFFD; each side counts them in its own way.
        ids = [ids for ids in expected if "\ufffd" not in tokenizer.decode(ids)]
        expected = [tokenizer.decode(i, skip_special_tokens=True) for i in ids]
        found = [bytes(b).decode(errors="replace") for b in golden.run_driver(driver, [file.name, "--decode"], ids)]
        return golden.report(f"{name}, decoded", ids, expected, found) or failed
    finally:
        os.unlink(file.name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true", help="all strings for every case")
    parser.add_argument("--only", default="", help="cases whose name has this")
    flags = parser.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("skipped: the Python package tokenizers is missing")
        return SKIP
    inputs = texts()
    few = inputs if flags.all else inputs[::5]
    failed = False
    files = flags.files or [str(DATA / "smollm2-tokenizer.json")]
    for path in files:
        if not os.path.exists(path):
            print(f"{path}: skipped, it is missing")
        elif not flags.only:
            failed |= compare(flags.driver, os.path.basename(path), Tokenizer.from_file(path), inputs)
    for name, make in cases():
        if flags.only in name:
            failed |= compare(flags.driver, name, make(), few)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
