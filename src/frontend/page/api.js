// Requests to the server that this page came from. Failures are ApiFailure, with a text for people.

const kKeyItem = "tenon.key";

export class ApiFailure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;  // 0: no answer at all
  }
}

export const apiKey = () => sessionStorage.getItem(kKeyItem) ?? "";
export const setApiKey = key => sessionStorage.setItem(kKeyItem, key);

async function failureOf(response) {
  let message = "";
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not the API's JSON: the status has to do.
  }
  if (response.status === 401)
    return new ApiFailure("The server asks for an API key. Enter it in the settings.", 401);
  if (response.status === 429)
    return new ApiFailure("The server is full. Try again in a moment.", 429);
  return new ApiFailure(`The server answered with status ${response.status}${message ? `: ${message}` : "."}`,
    response.status);
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (apiKey() !== "")
    headers.Authorization = `Bearer ${apiKey()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError")
      throw error;
    throw new ApiFailure("The server can't be reached.");
  }
  if (!response.ok)
    throw await failureOf(response);
  return response;
}

export async function loadModels() {
  return (await (await request("/v1/models")).json()).data.map(model => model.id);
}

// The values that the server uses for fields that a request leaves out.
export async function loadDefaults() {
  return (await (await request("/props")).json()).default_generation_settings?.params ?? {};
}

export async function loadMetrics() {
  return (await request("/metrics")).text();
}

// The report of the module manager; fails when the server runs without modules.
export async function loadModules() {
  return (await request("/v1/modules")).json();
}

// `state` is on or off. Gives the report after the change.
export async function switchModule(module, state) {
  const response = await request("/v1/modules", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ module, state }),
  });
  return response.json();
}

// The data of each server-sent event. Source of the format: WHATWG HTML, section 9.2.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done)
        return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:"))
          yield line.slice(5).trim();
      }
    }
  } catch (error) {
    if (error.name === "AbortError")
      throw error;
    throw new ApiFailure("The connection broke before the answer was complete.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Chunks of a streamed chat completion. Ends after the last one; throws when the stream breaks off.
export async function* streamChat(body, signal) {
  const response = await request("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]")
      return;
    const chunk = JSON.parse(data);
    if (chunk.error)
      throw new ApiFailure(`The server stopped: ${chunk.error.message ?? "unknown error"}`);
    yield chunk;
  }
  throw new ApiFailure("The connection broke before the answer was complete.");
}
