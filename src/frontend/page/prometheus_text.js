// Prometheus' text format 0.0.4: samples as {name, labels, value}, and what the page makes of two scrapes.

const kSample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const kLabel = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : kSample.exec(line);
    if (!match)
      continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(kLabel))
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    samples.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return samples;
}

const valueOf = (samples, name) => samples.find(sample => sample.name === name)?.value ?? 0;

// Growth of a counter; a server that was started anew counts from zero.
function growth(before, after, name) {
  const change = valueOf(after, name) - valueOf(before, name);
  return change >= 0 ? change : valueOf(after, name);
}

// What the charts show, from two scrapes `seconds` apart. NaN where there is nothing to show.
export function readings(before, after, seconds) {
  const histogram = "tenon_time_to_first_token_seconds";
  const firsts = growth(before, after, `${histogram}_count`);
  return {
    tokensPerSecond: growth(before, after, "tenon_completion_tokens_total") / seconds,
    firstTokenMs: firsts > 0 ? growth(before, after, `${histogram}_sum`) * 1000 / firsts : NaN,
    kvPercent: valueOf(after, "tenon_kv_use_ratio") * 100,
    running: valueOf(after, "tenon_sequences_running"),
    waiting: valueOf(after, "tenon_requests_waiting"),
  };
}
