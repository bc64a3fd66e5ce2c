// The chat: sends, streams, stops, edits and draws the conversation.
import { Announcer } from "./announcer.js";
import { streamChat } from "./api.js";
import { Conversation } from "./conversation.js";
import { MessageView, failureView } from "./message_view.js";
import { invalidField, requestFields, systemPrompt } from "./settings.js";

// While an answer comes it is saved this often, in ms, so that a reload keeps it.
const kSaveInterval = 1000;
// Nearer to the end than this, in px, the log follows the text.
const kFollowDistance = 80;

const log = document.getElementById("log");
const prompt = document.getElementById("prompt");
const send = document.getElementById("send");
const stop = document.getElementById("stop");

export class Chat {
  #conversation = new Conversation();
  #announcer = new Announcer();
  #views = [];
  #running = null;  // the AbortController of the answer that comes
  #openSettings;

  constructor({ openSettings }) {
    this.#openSettings = openSettings;
    document.getElementById("composer").addEventListener("submit", event => {
      event.preventDefault();
      this.#sendPrompt();
    });
    prompt.addEventListener("keydown", event => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.#sendPrompt();
      }
    });
    prompt.addEventListener("input", fitPrompt);
    stop.addEventListener("click", () => this.stop());
    document.addEventListener("keydown", event => {
      if (event.key === "Escape" && this.#running)
        this.stop();
    });
    this.#draw();
  }

  stop() {
    this.#running?.abort();
  }

  clear() {
    this.stop();
    this.#conversation.cutAt(0);
    this.#draw();
    this.#announcer.start();
    this.#announcer.say("The conversation is cleared.");
    prompt.focus();
  }

  #sendPrompt() {
    const text = prompt.value.trim();
    if (text === "" || this.#running)
      return;
    const wrong = invalidField();
    if (wrong) {
      this.#openSettings();
      wrong.reportValidity();
      return;
    }
    prompt.value = "";
    fitPrompt();
    this.#add({ role: "user", content: text });
    this.#answer();
  }

  #draw() {
    this.#views = [];
    log.querySelectorAll(".message, .failure").forEach(node => node.remove());
    this.#conversation.messages.forEach(message => this.#show(message));
    document.getElementById("empty").hidden = this.#views.length > 0;
    log.scrollTop = log.scrollHeight;
  }

  #show(message) {
    const index = this.#views.length;
    const view = new MessageView(message, {
      retry: () => this.#retry(index),
      edit: text => this.#edit(index, text),
    });
    this.#views.push(view);
    log.append(view.node);
    return view;
  }

  #add(message) {
    document.getElementById("empty").hidden = true;
    log.querySelectorAll(".failure").forEach(node => node.remove());
    this.#conversation.add(message);
    const view = this.#show(message);
    log.scrollTop = log.scrollHeight;
    return view;
  }

  // Answers anew from the message at `index`, an answer, on.
  #retry(index) {
    if (this.#running)
      return;
    this.#conversation.cutAt(index);
    this.#draw();
    this.#answer();
    prompt.focus();
  }

  #edit(index, text) {
    if (this.#running)
      return;
    this.#conversation.cutAt(index);
    this.#draw();
    this.#add({ role: "user", content: text });
    this.#answer();
    prompt.focus();
  }

  #setRunning(controller) {
    this.#running = controller;
    const focused = document.activeElement === stop || document.activeElement === send;
    send.hidden = controller !== null;
    stop.hidden = controller === null;
    log.setAttribute("aria-busy", String(controller !== null));
    if (focused)
      (controller ? stop : prompt).focus();
  }

  async #answer() {
    const messages = this.#conversation.requestMessages(systemPrompt());
    const message = { role: "assistant", content: "" };
    const view = this.#add(message);
    const controller = new AbortController();
    this.#setRunning(controller);
    this.#announcer.start();
    view.setWaiting(true);
    let failure = null;
    try {
      await this.#receive({ ...requestFields(), messages }, controller.signal, message, view);
    } catch (error) {
      if (error.name === "AbortError")
        message.note = "Stopped";
      else
        failure = error;
    }
    view.setWaiting(false);
    view.update();
    if (this.#running === controller)
      this.#setRunning(null);
    this.#announcer.finish(message.note);
    if (this.#conversation.messages.includes(message))
      this.#conversation.save();
    if (failure)
      this.#fail(failure, message);
  }

  // Takes the chunks of one answer into `message`.
  async #receive(body, signal, message, view) {
    const start = performance.now();
    let first = 0;
    let last = 0;
    let saved = start;
    for await (const chunk of streamChat(body, signal)) {
      const choice = chunk.choices?.[0];
      const delta = choice?.delta ?? {};
      const text = delta.content ?? "";
      const reasoning = delta.reasoning_content ?? "";
      if (text !== "" || reasoning !== "") {
        last = performance.now();
        first ||= last;
        message.content += text;
        if (reasoning !== "")
          message.reasoning = (message.reasoning ?? "") + reasoning;
        this.#follow(view);
        this.#announcer.update(message.content);
      }
      if (choice?.finish_reason === "length")
        message.note = "Cut at the token limit";
      message.stats = statsOf(chunk, message.stats, { start, first, last });
      if (last - saved > kSaveInterval) {
        saved = last;
        this.#conversation.save();
      }
    }
  }

  #follow(view) {
    view.updateSoon(() => {
      const near = log.scrollHeight - log.scrollTop - log.clientHeight < kFollowDistance;
      return () => {
        if (near)
          log.scrollTop = log.scrollHeight;
      };
    });
  }

  // An answer that has not begun is taken back; the question stays and can be tried again.
  #fail(failure, message) {
    const messages = this.#conversation.messages;
    const index = messages.indexOf(message);
    if (index < 0)
      return;
    if (message.content === "" && !message.reasoning) {
      this.#conversation.cutAt(index);
      this.#views.pop().node.remove();
    }
    log.append(failureView(failure.message, () => this.#retry(index)));
    log.scrollTop = log.scrollHeight;
  }
}

// Tokens and speed of an answer: by the server's own times where it gives them.
function statsOf(chunk, stats, { start, first, last }) {
  const result = stats ?? {};
  if (first > 0)
    result.firstTokenMs = first - start;
  if (chunk.usage)
    result.tokens = chunk.usage.completion_tokens;
  if (chunk.timings?.predicted_per_second > 0)
    result.tokensPerSecond = chunk.timings.predicted_per_second;
  else if (chunk.usage && !result.tokensPerSecond && last > first)
    result.tokensPerSecond = (result.tokens - 1) * 1000 / (last - first);
  return result;
}

function fitPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}
