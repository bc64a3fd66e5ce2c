// The settings form: kept in localStorage, the API key in sessionStorage.
import { apiKey, loadDefaults, loadModels, setApiKey } from "./api.js";

const kItem = "tenon.settings";
const kNumbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const kKept = [...kNumbers, "system", "stop-texts", "model"];

const field = id => document.getElementById(id);

function save() {
  localStorage.setItem(kItem, JSON.stringify(Object.fromEntries(kKept.map(id => [id, field(id).value]))));
}

function saved() {
  try {
    return JSON.parse(localStorage.getItem(kItem)) ?? {};
  } catch {
    return {};
  }
}

function fillModels(names) {
  const select = field("model");
  const wanted = saved().model || select.value;
  select.replaceChildren(...names.map(name => new Option(name, name)));
  if (names.includes(wanted))
    select.value = wanted;
}

function showDefaults(values) {
  for (const id of kNumbers) {
    if (typeof values[id] === "number")
      field(id).placeholder = String(Math.round(values[id] * 1e4) / 1e4);
  }
}

// Asks the server for its models and defaults. Throws ApiFailure.
export async function refreshSettings() {
  fillModels(await loadModels());
  showDefaults(await loadDefaults());
}

export function resetParameters() {
  for (const id of [...kNumbers, "stop-texts"])
    field(id).value = "";
  save();
}

// `onKey` is called when another API key was entered.
export function bindSettings(onKey) {
  const values = saved();
  for (const id of kKept) {
    if (typeof values[id] === "string" && id !== "model")
      field(id).value = values[id];
  }
  field("api-key").value = apiKey();
  field("settings-form").addEventListener("input", save);
  field("settings-form").addEventListener("submit", event => event.preventDefault());
  field("api-key").addEventListener("change", () => {
    setApiKey(field("api-key").value.trim());
    onKey();
  });
}

// The first field that the browser finds wrong, or null.
export function invalidField() {
  return kNumbers.map(field).find(input => !input.checkValidity()) ?? null;
}

// What a request takes from the settings.
export function requestFields() {
  const fields = {};
  if (field("model").value !== "")
    fields.model = field("model").value;
  for (const id of kNumbers) {
    if (field(id).value !== "")
      fields[id] = Number(field(id).value);
  }
  const stop = field("stop-texts").value.split("\n").filter(line => line !== "");
  if (stop.length > 0)
    fields.stop = stop;
  return fields;
}

export const systemPrompt = () => field("system").value.trim();
