// Puts the page together: views, theme, settings.
import { Chat } from "./chat.js";
import { MetricsView } from "./metrics.js";
import { bindSettings, refreshSettings, resetParameters } from "./settings.js";

const kThemes = ["auto", "light", "dark"];
const kThemeItem = "tenon.theme";
// While the server loads its model or is gone, its models are asked for this often, in ms.
const kRetryInterval = 3000;

const byId = id => document.getElementById(id);

function bindTheme() {
  const button = byId("toggle-theme");
  const show = theme => {
    button.textContent = `Theme: ${theme}`;
    if (theme === "auto")
      delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = theme;
  };
  const current = () => localStorage.getItem(kThemeItem) ?? "auto";
  button.addEventListener("click", () => {
    const next = kThemes[(kThemes.indexOf(current()) + 1) % kThemes.length];
    localStorage.setItem(kThemeItem, next);
    show(next);
  });
  show(current());
}

function bindTabs(onShow) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const select = chosen => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
    onShow(chosen.id);
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined)
        return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      select(next);
      next.focus();
    });
  });
}

function bindSettingsPanel() {
  const button = byId("toggle-settings");
  const show = open => {
    byId("settings").hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => show(byId("settings").hidden));
  // Beside the conversation there is room for it; on a phone it would hide it.
  show(window.matchMedia("(min-width: 48.01rem)").matches);
  return show;
}

const showSettings = bindSettingsPanel();
const chat = new Chat({ openSettings: () => showSettings(true) });
const metrics = new MetricsView();

let retryTimer = 0;
async function refresh() {
  clearTimeout(retryTimer);
  try {
    await refreshSettings();
  } catch (error) {
    if (error.status !== 401)
      retryTimer = setTimeout(refresh, kRetryInterval);
  }
}

bindTheme();
bindTabs(tab => {
  byId("toggle-settings").hidden = tab !== "tab-chat";
  if (tab === "tab-metrics")
    metrics.start();
  else
    metrics.stop();
});
bindSettings(refresh);
byId("reset").addEventListener("click", resetParameters);
byId("clear").addEventListener("click", () => chat.clear());
refresh();
