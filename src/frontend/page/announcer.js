// Reads an answer out to screen readers, sentence by sentence, while it comes.

// Shorter pieces than this would make a reader stutter.
const kLeastCharacters = 60;

export class Announcer {
  #region = document.getElementById("announcer");
  #text = "";
  #said = 0;

  start() {
    this.#region.replaceChildren();
    this.#text = "";
    this.#said = 0;
  }

  // `text`: the whole answer so far.
  update(text) {
    this.#text = text;
    const rest = text.slice(this.#said);
    const end = Math.max(rest.lastIndexOf(". "), rest.lastIndexOf("? "), rest.lastIndexOf("! "),
      rest.lastIndexOf("\n"));
    if (end >= kLeastCharacters)
      this.#say(end + 1);
  }

  finish(note) {
    this.#say(this.#text.length - this.#said);
    if (note)
      this.say(note);
  }

  say(text) {
    const line = document.createElement("div");
    line.textContent = text;
    this.#region.append(line);
  }

  #say(length) {
    const piece = this.#text.slice(this.#said, this.#said + length).trim();
    this.#said += length;
    if (piece !== "")
      this.say(piece);
  }
}
