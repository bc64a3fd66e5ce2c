#!/usr/bin/env python3
"""The built-in page in headless Chromium: with a real server, and with one that fails on demand."""
import re
import subprocess
import sys
import json
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
from tenon_server import BINARY, MODEL, ServerTest, skip  # noqa: E402 (it may start another Python)
import unittest_program  # noqa: E402 (tenon_server knows its folder)

from browser import Page, missing  # noqa: E402
from stub_server import StubServer  # noqa: E402

try:
    from selenium.webdriver.common.keys import Keys
except ImportError:
    Keys = None

CONTROLS = {"button", "textbox", "combobox", "spinbutton", "tab", "link", "searchbox", "checkbox", "image", "img"}


def has_model():
    done = subprocess.run([BINARY, "list"], capture_output=True, text=True, timeout=60, check=False)
    return MODEL in done.stdout


def luminance(color):
    """Relative luminance of "rgb(r, g, b)" (WCAG 2.2)."""
    parts = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class PageTest(unittest.TestCase):
    """One browser for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = Page()
        cls.addClassCleanup(cls.page.quit)

    def open(self, url):
        self.page.clear_phone()
        self.page.emulate_scheme("light")
        self.page.open(url)
        self.page.errors()


class StubTest(PageTest):
    def setUp(self):
        self.server = StubServer()
        self.addCleanup(self.server.close)
        self.open(self.server.url)
        self.page.wait(lambda: self.page.all("#model option"), "no models")

    def test_text_of_the_model_stays_text(self):
        self.page.ask("markup")
        self.page.wait_for_answer()
        body = ".message.assistant > .body"
        self.assertIn('<img src=x onerror="window.hacked=1"><script>', self.page.answers()[0])
        self.assertEqual(self.page.all(f"{body} img, {body} script, {body} b"), [])
        self.assertIsNone(self.page.run("return window.hacked ?? null"))
        links = [link.get_attribute("href") for link in self.page.all(f"{body} a")]
        self.assertEqual(links, ["https://example.org/"])
        for selector, text in (("strong", "bold"), ("p code", "a<b"), ("h3", "Title"), ("ul ul li", "inner"),
                               ("ol li:last-child", "second"), ("blockquote p", "quoted"), ("td", "<b>1</b>"),
                               ("pre code", "<script>window.hacked=1</script>")):
            self.assertEqual(self.page.find(f"{body} {selector}").text, text, selector)
        self.assertEqual(self.page.errors(), [])

    def test_a_question_with_markup_stays_text(self):
        self.page.ask("<img src=x onerror='window.hacked=1'>")
        self.page.wait_for_answer()
        self.assertEqual(self.page.find(".message.user .body").text, "<img src=x onerror='window.hacked=1'>")
        self.assertIsNone(self.page.run("return window.hacked ?? null"))

    def test_stop_ends_the_stream_and_keeps_the_text(self):
        for end in (lambda: self.page.find("#stop").click(), lambda: self.page.press(Keys.ESCAPE)):
            self.server.cut.clear()
            self.page.ask("endless")
            self.page.wait(lambda: "word" in "".join(self.page.answers()[-1:]), "no text")
            end()
            self.page.wait(lambda: not self.page.running(), "still running")
            self.assertTrue(self.server.cut.wait(30), "the server still sends")
            self.assertIn("word", self.page.answers()[-1])
            self.assertIn("Stopped", self.page.all(".stats")[-1].text)

    def test_failures_are_shown_and_can_be_retried(self):
        for question, text in (("full", "The server is full"), ("break", "The connection broke"),
                               ("fail", "the engine failed")):
            self.page.ask(question)
            self.page.wait(lambda: self.page.all(".failure"), question)
            failure = self.page.find(".failure")
            self.assertEqual(failure.get_attribute("role"), "alert")
            self.assertIn(text, failure.text)
            sent = len(self.server.requests)
            self.page.find(".failure button").click()
            self.page.wait(lambda n=sent: len(self.server.requests) > n and self.page.all(".failure"), "no retry")
            self.assertEqual(self.server.requests[-1], self.server.requests[-2], "the retry asked something else")

    def test_a_server_that_is_gone(self):
        self.server.close()
        self.page.ask("anyone?")
        self.page.wait(lambda: self.page.all(".failure"), "no error")
        self.assertIn("can't be reached", self.page.find(".failure").text)
        self.assertEqual(self.page.find(".message.user .body").text, "anyone?")
        self.page.find("#tab-metrics").click()
        self.page.wait(lambda: "can't be reached" in self.page.find("#metrics-state").text, "no error in metrics")

    def test_a_key_is_asked_for_and_kept_for_the_session_only(self):
        self.server.key = "s3cret"
        self.page.ask("hello")
        self.page.wait(lambda: self.page.all(".failure"), "no error")
        self.assertIn("API key", self.page.find(".failure").text)
        self.page.find("#api-key").send_keys("s3cret", Keys.TAB)
        self.page.find(".failure button").click()
        self.page.wait_for_answer()
        self.assertEqual(self.page.answers(), ["You said hello."])
        self.assertNotIn("s3cret", self.page.run("return JSON.stringify(localStorage)"))

    def test_the_settings_are_what_is_sent(self):
        values = {"temperature": "0.25", "top_p": "0.5", "top_k": "7", "min_p": "0.1", "max_tokens": "33",
                  "seed": "5", "system": "Be brief.", "stop-texts": "END"}
        for name, value in values.items():
            self.page.find(f"#{name}").send_keys(value)
        self.page.find("#model option:nth-child(2)").click()
        self.page.ask("hello")
        self.page.wait_for_answer()
        sent = self.server.requests[-1]
        self.assertEqual(sent, {"model": "stub-b", "temperature": 0.25, "top_p": 0.5, "top_k": 7, "min_p": 0.1,
                                "max_tokens": 33, "seed": 5, "stop": ["END"], "stream": True,
                                "stream_options": {"include_usage": True},
                                "messages": [{"role": "system", "content": "Be brief."},
                                             {"role": "user", "content": "hello"}]})
        self.assertIn("7 tokens · 123.4 tokens/s · first token after", self.page.find(".message.assistant .stats").text)
        self.page.driver.refresh()
        self.page.wait(lambda: self.page.all("#model option"), "no models")
        for name, value in values.items():
            self.assertEqual(self.page.find(f"#{name}").get_attribute("value"), value, name)
        self.page.find("#reset").click()
        self.page.find("#system").clear()
        self.page.ask("again")
        self.page.wait(lambda: len(self.server.requests) == 2 and not self.page.running(), "not sent")
        self.assertEqual(set(self.server.requests[-1]), {"model", "messages", "stream", "stream_options"})

    def test_a_wrong_value_is_not_sent(self):
        self.page.find("#top_p").send_keys("7")
        self.page.ask("hello")
        self.assertEqual(self.page.focused().get_attribute("id"), "top_p")
        self.assertEqual(self.server.requests, [])
        self.assertEqual(self.page.find("#prompt").get_attribute("value"), "hello")

    def test_edit_and_retry_cut_what_followed(self):
        for question in ("one", "two"):
            self.page.ask(question)
            self.page.wait(lambda q=question: self.page.answers()[-1:] == [f"You said {q}."], question)
            self.page.wait_for_answer()
        self.page.find(".message.user button[aria-label='Edit this message']").click()
        self.page.focused().send_keys(Keys.CONTROL, "a")
        self.page.focused().send_keys("three", Keys.ENTER)
        self.page.wait(lambda: self.page.answers() == ["You said three."], "not edited")
        self.page.wait_for_answer()
        self.assertEqual([m["content"] for m in self.server.requests[-1]["messages"]], ["three"])
        self.page.find(".message.assistant button[aria-label='Answer again']").click()
        self.page.wait(lambda: len(self.server.requests) == 4 and not self.page.running(), "not retried")
        self.assertEqual(self.server.requests[-1]["messages"], self.server.requests[-2]["messages"])

    def test_keyboard_alone(self):
        page = self.page
        page.press(Keys.TAB)
        self.assertEqual(page.focused().text, "Skip to the message field")
        page.press(Keys.ENTER)
        page.press("first")
        page.shift(Keys.ENTER)
        page.press("second")
        self.assertEqual(page.find("#prompt").get_attribute("value"), "first\nsecond")
        page.press(Keys.ENTER)
        page.wait_for_answer()
        self.assertEqual(self.server.requests[-1]["messages"][0]["content"], "first\nsecond")
        page.run("document.getElementById('tab-chat').focus()")
        page.press(Keys.ARROW_RIGHT)
        self.assertEqual(page.focused().get_attribute("id"), "tab-metrics")
        self.assertTrue(page.find("#view-metrics").is_displayed())
        page.press(Keys.ARROW_LEFT)
        self.assertTrue(page.find("#view-chat").is_displayed())

    def test_every_control_is_reached_by_tab_and_shows_the_focus(self):
        page = self.page
        page.ask("hello")
        page.wait_for_answer()
        page.run("document.activeElement.blur(); getSelection().removeAllRanges()")
        page.run("document.querySelector('.skip').focus()")
        reached = set()
        for _ in range(60):
            node = page.focused()
            key = page.run("return arguments[0].id || arguments[0].getAttribute('aria-label') || arguments[0].className",
                           node)
            outline = page.run("return getComputedStyle(arguments[0]).outlineStyle", node)
            if key in reached:
                break
            self.assertNotEqual(outline, "none", key)
            reached.add(key)
            page.press(Keys.TAB)
            if page.focused().tag_name == "body":
                break
        wanted = {"tab-chat", "toggle-theme", "toggle-settings", "log", "Copy this answer", "Answer again",
                  "Edit this message", "prompt", "send", "model", "system", "temperature", "seed", "stop-texts",
                  "api-key", "reset", "clear"}
        self.assertEqual(wanted - reached, set())

    def test_every_control_has_a_name(self):
        self.page.ask("markup")
        self.page.wait_for_answer()
        for tab in ("tab-chat", "tab-metrics"):
            self.page.find(f"#{tab}").click()
            if tab == "tab-metrics":
                self.page.wait(lambda: "100" in self.page.find("#charts").text, "no values")
            nodes = self.page.accessible_nodes()
            nameless = [role for role, name in nodes if role in CONTROLS and not name.strip()]
            self.assertEqual(nameless, [], tab)
            self.assertGreater(sum(role in CONTROLS for role, _ in nodes), 5, tab)
        for attribute, value in (("lang", "en"),):
            self.assertEqual(self.page.find("html").get_attribute(attribute), value)

    def test_answers_are_announced(self):
        region = self.page.find("#announcer")
        self.assertEqual(region.get_attribute("aria-live"), "polite")
        self.page.ask("hello")
        self.page.wait_for_answer()
        self.page.wait(lambda: "You said hello." in region.get_attribute("textContent"), "not announced")

    def test_light_and_dark(self):
        def colors():
            return self.page.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")

        seen = {}
        for scheme in ("light", "dark"):
            self.page.emulate_scheme(scheme)
            text, ground = (luminance(color) for color in colors())
            seen[scheme] = ground
            bright, dim = max(text, ground), min(text, ground)
            self.assertGreater((bright + 0.05) / (dim + 0.05), 7, scheme)
        self.assertGreater(seen["light"], 0.8)
        self.assertLess(seen["dark"], 0.1)
        self.page.find("#toggle-theme").click()  # light
        self.assertGreater(luminance(colors()[1]), 0.8)
        self.page.emulate_scheme("light")
        self.page.find("#toggle-theme").click()  # dark
        self.assertLess(luminance(colors()[1]), 0.1)
        self.page.driver.refresh()
        self.assertLess(luminance(colors()[1]), 0.1)

    def test_phone_width_without_scrolling_sideways(self):
        self.page.ask("markup")
        self.page.wait_for_answer()
        self.page.ask("w" * 300)
        self.page.wait(lambda: len(self.page.answers()) == 2 and not self.page.running(), "no answer")
        for width in (320, 360):
            self.page.set_phone(width)
            self.page.driver.refresh()
            self.page.wait(lambda: self.page.all("#model option"), "no models")
            self.assertFalse(self.page.find("#settings").is_displayed())
            for control in (None, "#toggle-settings", "#tab-metrics"):
                if control:
                    self.page.find(control).click()
                wide = self.page.run("return document.documentElement.scrollWidth")
                self.assertEqual(wide, width, control)
            self.page.find("#tab-chat").click()
            self.assertTrue(self.page.find("#prompt").is_displayed())
            box = self.page.run("return document.querySelector('#send').getBoundingClientRect().toJSON()")
            self.assertLessEqual(box["bottom"], 740)
            self.assertLess(box["height"], 50, "the button's word is broken in two")

    def test_metrics(self):
        self.page.find("#tab-metrics").click()
        self.page.wait(lambda: self.server.scrapes >= 3, "not polled")
        self.page.wait(lambda: self.page.all("#charts tbody tr"), "no table")
        values = self.page.run("return [...document.querySelectorAll('.chart .value')].map(n => n.textContent)")
        self.assertAlmostEqual(float(values[0]), 50, delta=25)  # 100 tokens each 2 s
        self.assertEqual(values[1:], ["1000", "25.0", "3 / 2"])
        label = self.page.find(".chart svg").get_attribute("aria-label")
        self.assertRegex(label, r"Tokens per second: now [\d.]+, highest [\d.]+")
        points = self.page.run("return document.querySelector('.trace').points.numberOfItems")
        self.assertGreaterEqual(points, 2)
        self.page.find("#tab-chat").click()
        scrapes = self.server.scrapes
        self.page.ask("hello")
        self.page.wait_for_answer()
        self.assertLessEqual(self.server.scrapes, scrapes + 1, "polled while hidden")


    def test_modules_and_their_switches(self):
        self.page.find("#tab-metrics").click()
        self.page.wait(lambda: self.page.all("#module-rows tr"), "no modules")
        cells = self.page.run("return [...document.querySelector('#module-rows tr').cells].map(n => n.textContent)")
        self.assertEqual(cells, ["ngram", "on", "21%", "150 of 200 (75%)", "0 of 400", "12 MB", "Switch off"])
        self.assertEqual([n.text for n in self.page.all("#decisions li")],
                         ["ngram disabled (min_latency_saving): saves <b>2%</b>, below 15%, 5 s ago"])
        button = self.page.find("#module-rows button")
        self.assertEqual(button.get_attribute("aria-label"), "Switch ngram off")
        button.send_keys(Keys.ENTER)
        self.page.wait(lambda: button.text == "Switch on", "not switched")
        self.assertEqual(self.server.requests[-1], {"module": "ngram", "state": "off"})
        self.assertEqual(self.page.focused(), button, "the focus is lost")
        scrapes = self.server.scrapes
        self.page.wait(lambda: self.server.scrapes > scrapes + 1, "not polled")
        self.assertEqual(self.page.focused(), button, "the focus is lost by a refresh")
        self.assertEqual(self.page.run("return document.querySelector('#module-rows td').textContent"), "off")


@unittest.skipUnless(has_model(), f"the model {MODEL} is not in the store")
class ServeTest(PageTest, ServerTest):
    """The page as `tenon serve` has it, with a model and a module."""
    flags = ("--module", "ngram")

    def setUp(self):
        self.open(self.server.url)
        self.page.wait(lambda: self.page.all("#model option"), "no models")

    def test_files_and_their_headers(self):
        for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css")):
            status, headers, body = self.server.call(path)
            self.assertEqual(status, 200, path)
            self.assertGreater(len(body), 500, path)
            self.assertTrue(headers["Content-Type"].startswith(kind), path)
            self.assertIn("default-src 'none'; script-src 'self';", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            status, _, body = self.server.call(path, headers={"If-None-Match": headers["ETag"]})
            self.assertEqual((status, body), (304, b""), path)

    def test_chat_streams_and_stays_after_a_reload(self):
        self.assertEqual(self.page.find("#model").get_attribute("value"), MODEL)
        self.page.find("#temperature").send_keys("0")
        self.page.find("#max_tokens").send_keys("40")
        self.page.run("""
            window.lengths = new Set();
            new MutationObserver(() => window.lengths.add(document.querySelector('.message.assistant > .body')
                ?.innerText.length)).observe(document.getElementById('log'), {subtree: true, childList: true});""")
        self.page.ask("Tell me about the sea.")
        self.page.wait_for_answer()
        answer = self.page.answers()[0]
        self.assertGreater(len(answer), 20)
        self.assertGreater(self.page.run("return window.lengths.size"), 3, "the text came at once")
        stats = self.page.find(".message.assistant .stats").text
        self.assertRegex(stats, r"Cut at the token limit · 40 tokens · [\d.]+ tokens/s · first token after \d+ ms")
        self.page.driver.refresh()
        self.assertEqual(self.page.answers(), [answer])
        self.page.find("#clear").click()
        self.assertEqual(self.page.answers(), [])
        self.page.driver.refresh()
        self.assertEqual(self.page.answers(), [])
        self.assertEqual(self.page.errors(), [])

    def test_stop_frees_the_sequence(self):
        self.page.ask("Write a very long story.")
        self.page.wait(lambda: "".join(self.page.answers()).strip() != "", "no text")
        self.page.press(Keys.ESCAPE)
        self.page.wait(lambda: not self.page.running(), "still running")
        self.assertTrue(self.server.wait_idle(), "the sequence still runs")

    def test_metrics_of_a_real_server(self):
        self.page.find("#tab-metrics").click()
        self.page.wait(lambda: len(self.page.all("#charts tbody tr")) >= 8, "no values")
        text = self.page.find("#charts").text
        for title in ("Generated tokens per second", "Time to first token", "KV cache in use", "Running / waiting"):
            self.assertIn(title, text)
        self.assertNotIn("NaN", text)

    def test_a_module_of_a_real_server_is_switched(self):
        def state():
            return json.loads(self.server.call("/v1/modules")[2])["modules"][0]["state"]

        self.page.find("#tab-metrics").click()
        self.page.wait(lambda: self.page.all("#module-rows button"), "no modules")
        for wanted in ("off", "active"):
            self.page.find("#module-rows button").click()
            self.page.wait(lambda: state() == wanted, f"not {wanted}")
        self.assertEqual(self.page.errors(), [])


if __name__ == "__main__":
    if missing():
        skip(f"{missing()} is not installed")
    unittest_program.main()
