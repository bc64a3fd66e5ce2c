// A subset of Markdown as DOM nodes. Text of the model only ever becomes text nodes: no HTML of it is
// parsed. Inline: code, strong, emphasis, links. Blocks: headings, lists, quotes, fenced code, tables.

const kFence = /^ {0,3}(```+|~~~+)\s*([\w+#.-]*)/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const kRule = /^ {0,3}([-*_])( *\1){2,}\s*$/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kQuote = /^ {0,3}> ?(.*)$/;
const kTableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
// Quotes inside quotes are read this deep; deeper marks stay text.
const kMaxDepth = 8;

function element(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(label, target) {
  const url = safeUrl(target);
  if (url === null)
    return document.createTextNode(`${label} (${target})`);
  const anchor = element("a", label);
  anchor.href = url;
  anchor.rel = "noopener noreferrer";
  anchor.target = "_blank";
  return anchor;
}

// Every pattern is bounded by its line and excludes its own mark, so that no text takes long.
const kInline = /(`{1,3})(.+?)\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|(?<![\w])_([^_\s][^_\n]*)_(?![\w])|\[([^\][\n]+)\]\(([^()\s]+)\)/g;

function inline(text) {
  const nodes = [];
  let last = 0;
  for (const match of text.matchAll(kInline)) {
    if (match.index > last)
      nodes.push(text.slice(last, match.index));
    const [, , code, strong, star, underline, label, target] = match;
    if (code !== undefined)
      nodes.push(element("code", code.length > 2 ? code.replace(/^ (.*) $/, "$1") : code));
    else if (strong !== undefined)
      nodes.push(element("strong", ...inline(strong)));
    else if (label !== undefined)
      nodes.push(link(label, target));
    else
      nodes.push(element("em", ...inline(star ?? underline)));
    last = match.index + match[0].length;
  }
  nodes.push(text.slice(last));
  return nodes;
}

function codeBlock(language, text) {
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.setAttribute("aria-label", "Copy this code");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  const block = element("div", element("div", element("span", language), copy),
    element("pre", element("code", text)));
  block.className = "code";
  block.querySelector("pre").tabIndex = 0;
  return block;
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map(cell => cell.trim());
}

function table(lines) {
  const head = element("tr", ...cells(lines[0]).map(cell => element("th", ...inline(cell))));
  const rows = lines.slice(2).map(
    line => element("tr", ...cells(line).map(cell => element("td", ...inline(cell)))));
  const box = element("div", element("table", element("thead", head), element("tbody", ...rows)));
  box.className = "table";
  box.tabIndex = 0;
  return box;
}

// Lines of a list with deeper indents as lists of their own.
function list(items) {
  const stack = [];
  let top = null;
  for (const { indent, mark, text } of items) {
    while (stack.length > 1 && indent < stack.at(-1).indent)
      stack.pop();
    if (stack.length === 0 || indent > stack.at(-1).indent + 1) {
      const node = document.createElement(/\d/.test(mark) ? "ol" : "ul");
      if (/\d/.test(mark))
        node.start = parseInt(mark, 10);
      if (stack.length === 0)
        top = node;
      else
        (stack.at(-1).node.lastElementChild ?? stack.at(-1).node).append(node);
      stack.push({ indent, node });
    }
    stack.at(-1).node.append(element("li", ...inline(text)));
  }
  return top;
}

// Splits into blocks {kind, lines}; each is drawn on its own, so a growing text redraws its end only.
function blocks(text) {
  const found = [];
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  let paragraph = [];
  const endParagraph = () => {
    if (paragraph.length > 0)
      found.push({ kind: "paragraph", lines: paragraph });
    paragraph = [];
  };
  const take = (kind, start, belongs) => {
    endParagraph();
    let end = start + 1;
    while (end < lines.length && belongs(lines[end]))
      ++end;
    found.push({ kind, lines: lines.slice(start, end) });
    return end - 1;
  };
  for (let i = 0; i < lines.length; ++i) {
    const line = lines[i];
    const fence = kFence.exec(line);
    if (fence) {
      let open = true;
      i = take("code", i, next => open && ((open = !next.trimStart().startsWith(fence[1])), true));
    } else if (kRule.test(line)) {
      i = take("rule", i, () => false);
    } else if (kHeading.test(line)) {
      i = take("heading", i, () => false);
    } else if (kItem.test(line)) {
      i = take("list", i, next => kItem.test(next) || /^ {2,}\S/.test(next));
    } else if (kQuote.test(line)) {
      i = take("quote", i, next => kQuote.test(next));
    } else if (line.includes("|") && kTableRule.test(lines[i + 1] ?? "")) {
      i = take("table", i, next => next.includes("|"));
    } else if (line.trim() === "") {
      endParagraph();
    } else {
      paragraph.push(line);
    }
  }
  endParagraph();
  return found;
}

function drawList(lines) {
  const items = [];
  for (const line of lines) {
    const [, indent, mark, text] = kItem.exec(line) ?? [];
    if (mark === undefined)
      items.at(-1).text += ` ${line.trim()}`;
    else
      items.push({ indent: indent.length, mark, text });
  }
  return list(items);
}

function drawBlock({ kind, lines }, depth) {
  switch (kind) {
    case "code": {
      const [, mark, language] = kFence.exec(lines[0]);
      const closed = lines.length > 1 && lines.at(-1).trimStart().startsWith(mark);
      return codeBlock(language, lines.slice(1, closed ? -1 : undefined).join("\n"));
    }
    case "rule":
      return document.createElement("hr");
    case "heading": {
      const [, marks, text] = kHeading.exec(lines[0]);
      // The page has used two levels above.
      return element(`h${Math.min(marks.length + 2, 5)}`, ...inline(text));
    }
    case "list":
      return drawList(lines);
    case "quote": {
      const inner = lines.map(line => kQuote.exec(line)[1]).join("\n");
      const quote = document.createElement("blockquote");
      quote.append(...(depth >= kMaxDepth ? [inner]
        : blocks(inner).map(block => drawBlock(block, depth + 1))));
      return quote;
    }
    case "table":
      return table(lines);
    default:
      return element("p", ...inline(lines.join("\n")));
  }
}

// Draws `text` into `target`. Blocks that have not changed since the last call keep their nodes.
export function renderMarkdown(target, text) {
  const drawn = target.drawnBlocks ?? [];
  const wanted = blocks(text);
  wanted.forEach((block, i) => {
    const source = `${block.kind}\n${block.lines.join("\n")}`;
    if (drawn[i]?.source === source)
      return;
    const node = drawBlock(block, 0);
    if (drawn[i])
      drawn[i].node.replaceWith(node);
    else
      target.append(node);
    drawn[i] = { source, node };
  });
  for (const extra of drawn.splice(wanted.length))
    extra.node.remove();
  target.drawnBlocks = drawn;
}
