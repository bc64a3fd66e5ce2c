#!/usr/bin/env python3
"""The command line: JSON shapes, exit codes, errors by name, memory as predicted."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tenon_cli import BINARY, SMOLLM, main, needs_smollm, peak_bytes_of, run, run_json

COMMANDS = ["serve", "gateway", "run", "chat", "pull", "list", "rm", "inspect", "convert", "tokenize", "perplexity", "quantize", "bench",
            "bench-modules", "plan", "modules", "train-router", "doctor"]


class UsageTest(unittest.TestCase):
    def test_every_command_has_help(self):
        for command in COMMANDS:
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn("Usage", done.stdout, command)

    def test_wrong_usage_is_exit_code_2(self):
        for arguments in ([], ["frobnicate"], ["run", "--no-such-flag"], ["bench", "-t", "many"],
                          ["perplexity"], ["run", "-p", "x", "-n", "-5"],
                          ["run", "", "-p", "x"], ["tokenize", "--jsonl", "-p", "x"],
                          ["perplexity", "-f", "/etc/passwd", "--chunks", "0"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)

    @needs_smollm
    def test_wrong_usage_that_a_model_is_looked_up_for(self):
        for arguments in (["run", SMOLLM, "-p", "x", "-ctk", "q9"], ["serve", SMOLLM, "--tls-cert", "/no/such/file"],
                          ["run", SMOLLM, "-p", "x", "-ctk", "f16", "-ctv", "f32"],
                          ["run", SMOLLM, "-p", "x", "-s", "99999999999999999999"],
                          ["perplexity", SMOLLM, "-f", "/etc/passwd", "-c", "2"],
                          ["perplexity", SMOLLM, "-f", "/etc/passwd", "--kl-base", "x", "--save-base", "x"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))

    def test_wrong_flags_of_serve_are_exit_code_2_and_named(self):
        for flag, value in (("--port", "70000"), ("--parallel", "0"), ("--queue-limit", "0"), ("--policy", "random"),
                            ("--batch-window-ms", "-1"), ("--stuck-after", "x"), ("--drain-timeout", "-1"),
                            ("--slot-save-path", "/no/such/folder"), ("--preemption", "swap"),
                            ("--checkpoint-interval", "0")):
            done = run("serve", SMOLLM, flag, value)
            self.assertEqual(done.returncode, 2, (flag, done.stderr))
            self.assertIn(flag, done.stderr)

    @needs_smollm
    def test_serve_says_what_it_cannot_do_before_it_loads(self):
        for arguments, word in ((["--api-key", ""], "--api-key"), (["--tls-cert", "/etc/hostname"], "--tls-key"),
                                (["-np", "64", "-b", "32"], "--parallel"), (["--api-key-file", "/dev/null"], "not a regular file")):
            done = run("serve", SMOLLM, "--port", "0", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(word, done.stderr, arguments)

    def test_results_that_cannot_be_written_are_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for arguments in (["doctor"], ["list", "--json"], ["--help"]):
                done = subprocess.run([BINARY, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertIn("standard output", done.stderr, arguments)

    def test_a_pipe_is_no_model_and_nothing_waits_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fifo.gguf")
            os.mkfifo(path)
            done = run("run", path, "-p", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not a regular file", done.stderr)

    def test_a_missing_model_is_exit_code_1_and_says_how_to_pull(self):
        done = run("run", "no-such-model", "-p", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-model", done.stderr)
        self.assertIn("tenon pull", done.stderr)

    def test_a_file_that_is_no_model(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF")
            file.flush()
            done = run("run", file.name, "-p", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("truncated", done.stderr)
        self.assertIn(file.name, done.stderr)

    def test_doctor(self):
        report = run_json("doctor")
        self.assertIn("ref", report["kernel_sets_runnable"])
        for name, state in report["kernel_sets_runnable"].items():
            self.assertEqual(state, "ok", name)

    def test_a_kernel_set_that_does_not_exist_is_named(self):
        done = run("doctor", env={"TENON_CPU": "z80"})
        self.assertIn("z80", done.stdout + done.stderr)


@needs_smollm
class ModelTest(unittest.TestCase):
    def test_run_json(self):
        result = run_json("run", SMOLLM, "--raw", "--temp", "0", "-n", "5", "-p", "The capital of France is")
        self.assertEqual(set(result), {"text", "token_ids", "prompt_tokens", "completion_tokens",
                                       "finish_reason", "first_token_s", "tokens_per_s"})
        self.assertTrue(result["text"].startswith(" Paris"))
        self.assertEqual(result["completion_tokens"], 5)
        self.assertEqual(len(result["token_ids"]), 5)
        self.assertEqual(result["finish_reason"], "length")

    def test_no_tokens_at_all(self):
        result = run_json("run", SMOLLM, "-n", "0", "-p", "Hi")
        self.assertEqual((result["text"], result["completion_tokens"], result["finish_reason"]), ("", 0, "length"))

    def test_a_failed_turn_from_a_pipe_fails_the_chat(self):
        done = run("chat", SMOLLM, "-c", "64", "-n", "4", stdin="word " * 500 + "\nHi\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the context 64", done.stderr)

    def test_streamed_text_is_the_text(self):
        arguments = ["run", SMOLLM, "--temp", "0", "-n", "12", "-p", "Count to five."]
        self.assertEqual(run(*arguments).stdout, run_json(*arguments)["text"] + "\n")

    def test_greedy_text_is_the_same_without_optimisation_and_for_other_shapes(self):
        base = ["run", SMOLLM, "--temp", "0", "-n", "24", "-p", "Write a poem about rain."]
        expected = run_json(*base)["token_ids"]
        for extra in (["-O", "0"], ["-t", "1"], ["-b", "7"], ["-ub", "1"], ["--disable-pass", "merge_linears"]):
            self.assertEqual(run_json(*base, *extra)["token_ids"], expected, extra)

    def test_every_kernel_set_gives_the_same_tokens(self):
        base = ["run", SMOLLM, "--temp", "0", "-n", "6", "-p", "Hi"]
        results = {name: run_json(*base, env={"TENON_CPU": name})["token_ids"]
                   for name in run_json("doctor")["kernel_sets_runnable"]}
        self.assertEqual(len({tuple(ids) for ids in results.values()}), 1, results)

    @unittest.skipUnless(shutil.which("qemu-x86_64"), "qemu-x86_64 is not installed")
    def test_an_old_cpu_without_avx_gives_the_same_token(self):
        arguments = ["run", SMOLLM, "--raw", "--temp", "0", "-n", "1", "-p", "The capital of France is", "--json"]
        done = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", BINARY, *arguments], capture_output=True,
                              text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["text"], " Paris")

    def test_bad_sampling_values_are_refused_by_name(self):
        for flag, value, name in (("--temp", "nan", "temperature"), ("--temp", "-1", "temperature"),
                                  ("--top-p", "inf", "top_p"), ("--top-p", "1.5", "top_p"),
                                  ("--min-p", "-0.1", "min_p"), ("--repeat-penalty", "0", "repetition_penalty"),
                                  ("--mirostat", "7", "mirostat"), ("-l", "1*2", "logit-bias")):
            done = run("run", SMOLLM, "-p", "x", "-n", "1", flag, value)
            self.assertEqual(done.returncode, 2, (flag, value))
            self.assertIn(name, done.stderr, (flag, value))

    def test_a_prompt_over_the_context_is_refused_with_both_numbers(self):
        done = run("run", SMOLLM, "--raw", "-c", "16", "-p", "word " * 100)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"prompt has \d+ tokens and the context 16")

    def test_tokenize_jsonl(self):
        lines = ["Hello world", "", "  spaces\n\n\ttabs", "caf\u00e9 \U0001F469\u200d\U0001F680"]
        done = run("tokenize", SMOLLM, "--jsonl", stdin="".join(json.dumps(line) + "\n" for line in lines))
        ids = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(ids), len(lines))
        self.assertEqual(ids[0], [19556, 905])
        self.assertEqual(ids[1], [])

    def test_inspect_json(self):
        report = run_json("inspect", SMOLLM)
        self.assertEqual(list(report), ["source", "graph", "optimized", "plan"])
        for stage in ("graph", "optimized", "plan"):
            for key in ("ops", "flops_per_token", "bytes_per_token", "arena_bytes"):
                self.assertGreater(report[stage][key], 0, (stage, key))
        self.assertLess(report["optimized"]["ops"], report["graph"]["ops"])
        self.assertEqual(run_json("inspect", SMOLLM, "-O", "0")["optimized"]["ops"], report["graph"]["ops"])

    def test_inspect_prints_every_stage(self):
        for stage, text in (("source", "blk.0.attn_q.weight"), ("graph", "rms_norm"),
                            ("optimized", "linear"), ("plan", "attention 9 heads")):
            done = run("inspect", SMOLLM, "--stage", stage)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(text, done.stdout, stage)

    def test_flags_that_would_be_ignored_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "link.gguf")
            os.symlink("/dev/null", link)
            out = os.path.join(folder, "out.gguf")
            for arguments, named in ((["convert", SMOLLM, link], "link.gguf"),
                                     (["convert", SMOLLM, out, "--int8"], "--int8"),
                                     (["convert", SMOLLM, out, "--dtype", "f16"], "--dtype"),
                                     (["quantize", SMOLLM, out, "--damp", "nan"], "--damp"),
                                     (["quantize", SMOLLM, out, "--type", "q4_0", "--w-bits", "8"], "--type"),
                                     (["perplexity", SMOLLM, "-f", __file__, "--max-delta-ppl", "1"], "--kl-base")):
                done = run(*arguments)
                self.assertIn(done.returncode, (1, 2), arguments)
                self.assertIn(named, done.stderr)
            self.assertTrue(os.path.islink(link))
            self.assertFalse(os.path.exists(out))

    def test_bench_modules(self):
        with tempfile.TemporaryDirectory() as folder:
            prompts = os.path.join(folder, "prompts.jsonl")
            with open(prompts, "w", encoding="utf-8") as file:
                file.write('{"prompt": "The sea is"}\n{"prompt": "not used"}\n')
            flags = ["bench", "modules", SMOLLM, "--module", "ngram", "--workload", f"short={prompts}",
                     "--prompts", "1", "-n", "8", "-r", "1"]
            rows = [json.loads(line) for line in run(*flags, "--json").stdout.splitlines()]
            self.assertEqual([(row["workload"], row["setting"], row["tokens"]) for row in rows],
                             [("short", "plain", 8), ("short", "ngram", 8)])
            self.assertEqual(rows[0]["agreement"], 1)
            self.assertIn("| ngram |", run(*flags).stdout)
            failed = run(*flags[:3], "--workload", f"short={prompts}")
            self.assertEqual(failed.returncode, 2)
            self.assertIn("nothing to compare", failed.stderr)

    def test_bench_json(self):
        report = run_json("bench", SMOLLM, "-p", "16", "-n", "4", "-np", "2", "-r", "1")
        self.assertEqual([row["test"] for row in report["results"]], ["prefill", "decode", "batch"])
        for row in report["results"]:
            self.assertGreater(row["tok_s"]["median"], 0)

    def test_perplexity_and_divergence(self):
        text = "The quick brown fox jumps over the lazy dog. " * 60
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text.txt")
            base = os.path.join(folder, "base.bin")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            common = ["perplexity", SMOLLM, "-f", path, "-c", "64", "--chunks", "4"]
            reference = run_json(*common, "--reference", "--save-base", base)
            fast = run_json(*common, "--kl-base", base)
            self.assertEqual(reference["tokens"], 4 * 31)
            self.assertAlmostEqual(fast["nll"] - reference["nll"], fast["delta_nll"], places=4)
            self.assertGreater(fast["kl_mean"], 0)
            self.assertLess(fast["kl_mean"], 0.02)
            self.assertGreater(fast["top1"], 0.9)
            # The same form against itself: no divergence at all.
            itself = run_json(*common, "--reference", "--kl-base", base)
            self.assertAlmostEqual(itself["kl_mean"], 0, places=6)
            self.assertEqual(itself["top1"], 1)

    def test_memory_is_what_plan_says(self):
        for context in ("256", "512", "4096"):
            predicted = run_json("plan", SMOLLM, "-c", context)
            _, measured = peak_bytes_of("run", SMOLLM, "--raw", "-c", context, "-p", "word " * 150, "-n", "60",
                                        "--ignore-eos", "--json")
            self.assertAlmostEqual(measured / predicted["peak_rss_bytes"], 1, delta=0.05,
                                   msg=f"context {context}: {predicted}, measured {measured}")

    def test_a_model_that_does_not_fit_is_refused_before_loading(self):
        done = run("run", SMOLLM, "--raw", "-p", "x", "-c", str(1 << 28))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"needs \d+ bytes .* \d+ are available")

    def test_the_configuration_names_the_kv_type(self):
        with tempfile.TemporaryDirectory() as folder:
            def fails(command, text, *flags):
                path = os.path.join(folder, "t.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = run(command, SMOLLM, "--config", path, *flags)
                self.assertEqual(done.returncode, 2, done.stdout)
                return done.stderr
            prompt = ("--raw", "-p", "a", "-n", "1")
            message = fails("run", "\nkv_cache: 4bit_nf4", "-ctk", "f16", *prompt)
            self.assertIn("t.yaml:2: kv_cache is 4bit_nf4 and --cache-type-k is f16", message)
            self.assertRegex(fails("run", "kv_cache: 3bit", *prompt), "KV cache type '3bit'")
            port = ("--port", "0")
            message = fails("serve", "scheduling: { max_batch: 16 }", "-np", "8", *port)
            self.assertIn("scheduling.max_batch is 16 and --parallel is 8", message)
            message = fails("serve", "scheduling: { batch_window_ms: 5 }", "--batch-window-ms", "50", *port)
            self.assertIn("scheduling.batch_window_ms is 5 and --batch-window-ms is 50", message)
            self.assertIn("scheduling.max_batch", fails("serve", "scheduling: { max_batch: 0 }", *port))
            self.assertIn("scheduling.window", fails("serve", "scheduling: { window: 5 }", *port))
            self.assertIn("scheduling.batch_thresholds.prefill", fails("serve", "scheduling: { max_batch: 8, batch_thresholds: { prefill: 32 } }", *port))
            self.assertIn("scheduling.batch_thresholds.decode", fails("serve", "scheduling: { batch_thresholds: { decode: 2 } }", *port))
            self.assertIn("--preemption", fails("serve", "quantization: { recomputation: true }", "--preemption", "recompute", *port))
            path = os.path.join(folder, "t.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("kv_cache: hierarchical\n")
            by_config = run_json("run", SMOLLM, "--config", path, "--raw", "-p", "The sea", "-n", "8", "--temp", "0", "--json")
            by_flag = run_json("run", SMOLLM, "-ctk", "hier", "--raw", "-p", "The sea", "-n", "8", "--temp", "0", "--json")
            self.assertEqual(by_config["token_ids"], by_flag["token_ids"])

    def test_a_full_context_points_at_clear(self):
        done = run("chat", SMOLLM, "-c", "64", "-n", "4", stdin="Hi\n" + "word " * 500 + "\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no room for an answer; /clear starts anew", done.stderr)
        # Not where it would not help.
        done = run("chat", SMOLLM, "-c", "64", "-n", "4", stdin="word " * 500 + "\n")
        self.assertNotIn("no room for an answer; /clear", done.stderr)

    def test_ctrl_c_stops_an_answer_and_then_the_chat(self):
        master, terminal = os.openpty()
        process = subprocess.Popen([BINARY, "chat", SMOLLM, "--temp", "0", "-n", "3000"], stdin=terminal,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(terminal)
        try:
            os.write(master, b"Tell a tale\n")
            answer = b""
            while len(answer) < 60:  # more than the prompt and the question
                answer += os.read(process.stdout.fileno(), 4096)
            process.send_signal(signal.SIGINT)
            errors = b""
            while b"tok/s]" not in errors:
                piece = os.read(process.stderr.fileno(), 4096)
                self.assertTrue(piece, (errors, process.poll()))
                errors += piece
            self.assertIn(b"and stopped", errors)
            time.sleep(0.5)  # the prompt is there
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(30), -signal.SIGINT)
        finally:
            process.kill()
            process.communicate()
            os.close(master)

    def test_chat_from_a_pipe_reuses_the_cache(self):
        done = run("chat", SMOLLM, "--temp", "0", "-n", "40",
                   stdin="Tell me about the sea, in a few sentences please.\nAnd about rivers?\n/exit\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        turns = [line for line in done.stderr.splitlines() if "prompt tokens from the cache" in line]
        self.assertEqual(len(turns), 2, done.stderr)
        self.assertTrue(turns[0].startswith("[0 of"))
        self.assertGreaterEqual(int(turns[1].split()[0][1:]), 32)


if __name__ == "__main__":
    main()
