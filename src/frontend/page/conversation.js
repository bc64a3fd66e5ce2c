// The conversation as data, kept in localStorage.
//
// A message: {role: "user" | "assistant", content, reasoning?, stats?, note?}.

const kItem = "tenon.conversation";

export class Conversation {
  #messages;

  constructor() {
    try {
      this.#messages = JSON.parse(localStorage.getItem(kItem)) ?? [];
    } catch {
      this.#messages = [];
    }
  }

  get messages() {
    return this.#messages;
  }

  add(message) {
    this.#messages.push(message);
    this.save();
    return message;
  }

  // Drops the message at `index` and everything after it.
  cutAt(index) {
    this.#messages.length = Math.min(index, this.#messages.length);
    this.save();
  }

  // Storage that is full or switched off does not stop the chat.
  save() {
    try {
      localStorage.setItem(kItem, JSON.stringify(this.#messages));
    } catch {
      return false;
    }
    return true;
  }

  // As the API wants them. Questions that got no answer become one with the next: many models' templates
  // want the roles to alternate.
  requestMessages(system) {
    const list = system === "" ? [] : [{ role: "system", content: system }];
    for (const { role, content } of this.#messages) {
      if (content === "")
        continue;
      if (role === list.at(-1)?.role)
        list.at(-1).content += `\n\n${content}`;
      else
        list.push({ role, content });
    }
    return list;
  }
}
