// One message as DOM nodes, with its buttons.
import { make } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

function button(text, label, onClick) {
  const node = document.createElement("button");
  node.type = "button";
  node.textContent = text;
  node.setAttribute("aria-label", label);
  node.addEventListener("click", onClick);
  return node;
}

// An error with a way to try again.
export function failureView(text, retry) {
  const node = make("div", "failure");
  node.setAttribute("role", "alert");
  node.append(make("p", "", text), button("Retry", "Retry the request", retry));
  return node;
}

function statsText({ note, stats = {} }) {
  const parts = [];
  if (note)
    parts.push(note);
  if (stats.tokens > 0)
    parts.push(`${stats.tokens} tokens`);
  if (stats.tokensPerSecond > 0)
    parts.push(`${stats.tokensPerSecond.toFixed(1)} tokens/s`);
  if (stats.firstTokenMs > 0)
    parts.push(`first token after ${Math.round(stats.firstTokenMs)} ms`);
  return parts.join(" · ");
}

export class MessageView {
  #message;
  #actions;
  #body = make("div", "body");
  #stats = make("span", "stats");
  #reasoning = null;
  #frame = 0;

  // `actions`: retry(), of an answer; edit(text), of a question.
  constructor(message, actions) {
    this.#message = message;
    this.#actions = actions;
    const mine = message.role === "user";
    this.node = make("article", `message ${mine ? "user" : "assistant"}`);
    this.node.append(make("h2", "", mine ? "You" : "Answer"), this.#body, this.#foot(mine));
    this.update();
  }

  update() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#message.role === "user")
      this.#body.textContent = this.#message.content;
    else
      renderMarkdown(this.#body, this.#message.content);
    this.#updateReasoning();
    this.#stats.textContent = statsText(this.#message);
  }

  // Once before the next paint, however often the text grows. `before` runs ahead of the update and
  // returns what is to run after it.
  updateSoon(before) {
    if (this.#frame !== 0)
      return;
    // A hidden page gets no frames; its text is drawn at the end.
    this.#frame = requestAnimationFrame(() => {
      const after = before();
      this.update();
      after();
    });
  }

  setWaiting(waiting) {
    this.#body.classList.toggle("waiting", waiting);
  }

  #updateReasoning() {
    const text = this.#message.reasoning ?? "";
    if (text === "")
      return;
    if (this.#reasoning === null) {
      const details = make("details", "reasoning");
      this.#reasoning = make("div", "body");
      details.append(make("summary", "", "Reasoning"), this.#reasoning);
      this.#body.before(details);
    }
    renderMarkdown(this.#reasoning, text);
  }

  #foot(mine) {
    const foot = make("div", "foot");
    const copy = button("Copy", mine ? "Copy this message" : "Copy this answer", async () => {
      try {
        await navigator.clipboard.writeText(this.#message.content);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Not allowed";
      }
    });
    foot.append(copy);
    foot.append(mine ? button("Edit", "Edit this message", () => this.#edit())
      : button("Retry", "Answer again", () => this.#actions.retry()));
    foot.append(this.#stats);
    return foot;
  }

  #edit() {
    if (this.node.querySelector("form"))
      return;
    const form = document.createElement("form");
    const text = document.createElement("textarea");
    text.value = this.#message.content;
    text.rows = Math.min(12, this.#message.content.split("\n").length + 1);
    text.setAttribute("aria-label", "Edited message");
    const row = make("div", "row");
    const close = () => {
      form.replaceWith(this.#body);
      this.node.querySelector(".foot").hidden = false;
    };
    const submit = make("button", "primary", "Send");
    row.append(submit, button("Cancel", "Cancel the edit", close));
    form.append(text, row);
    form.addEventListener("submit", event => {
      event.preventDefault();
      if (text.value.trim() !== "")
        this.#actions.edit(text.value.trim());
    });
    text.addEventListener("keydown", event => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
    });
    this.#body.replaceWith(form);
    this.node.querySelector(".foot").hidden = true;
    text.focus();
  }
}
