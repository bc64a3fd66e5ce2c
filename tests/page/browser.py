"""The page in headless Chromium."""
import shutil

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

WAIT_S = 60  # for things that the server or the browser will do; generous, as the machine may be busy


def missing():
    """The name of what a run in the browser lacks, or None."""
    if webdriver is None:
        return "the Python package selenium"
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"the program {program}"
    return None


class Page:
    """One browser with the page of the server at `url`."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                         "--disable-background-networking", "--no-first-run"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_window_size(1200, 900)

    def quit(self):
        self.driver.quit()

    def open(self, url):
        """A fresh start: nothing kept from earlier tests."""
        self.driver.get(url + "/icon.svg")
        self.driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        self.driver.get(url)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, message=""):
        return WebDriverWait(self.driver, WAIT_S, poll_frequency=0.05).until(lambda _: condition(), message)

    def press(self, *keys):
        """Keys to whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def shift(self, key):
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()

    def focused(self):
        return self.driver.switch_to.active_element

    def ask(self, question):
        self.find("#prompt").send_keys(question, Keys.ENTER)

    def running(self):
        return self.find("#stop").is_displayed()

    def wait_for_answer(self):
        self.wait(lambda: not self.running() and self.all(".message.assistant"), "no answer")

    def answers(self):
        return self.run("return [...document.querySelectorAll('.message.assistant > .body')].map(n => n.innerText)")

    def emulate_scheme(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def set_phone(self, width):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True})

    def clear_phone(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def accessible_nodes(self):
        """(role, name) of every node that the browser tells assistive software about."""
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [(node.get("role", {}).get("value"), node.get("name", {}).get("value", ""))
                for node in nodes if not node.get("ignored")]

    def errors(self):
        """What the browser complained about, such as breaches of the content policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
