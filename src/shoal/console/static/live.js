// The state's tables as the server tells them, once a second. A page says which tables it shows; the stream carries only those.
import { useEffect, useState } from "./lib.js";

const ALWAYS = ["overview", "alarms"];
const tables = new Map();
const listeners = new Set();
let source = null;
let wanted = "";
let painted = true;
export const link = { state: "connecting", at: 0 };
export const series = { at: [], sent_s: [], out_bps: [], backlog: [], stored_s: [] };
const SERIES_MAX = 600;

const tell = () => {
  if (!painted) return;
  painted = false;
  // A page that is not looked at paints nothing.
  const paint = () => { painted = true; for (const listener of listeners) listener(); };
  document.hidden ? setTimeout(paint, 1000) : requestAnimationFrame(paint);
};

function take(told) {
  for (const [name, delta] of Object.entries(told.tables)) {
    const old = told.whole ? new Map() : tables.get(name)?.rows ?? new Map();
    for (const key of delta.gone) old.delete(key);
    for (const [key, row] of Object.entries(delta.set)) old.set(key, { ...row, key });
    tables.set(name, { rows: old, omitted: delta.omitted, version: (tables.get(name)?.version ?? 0) + 1 });
  }
  const now = rows("overview").get("domain");
  if (now && now.at !== series.at.at(-1)) {
    for (const name of Object.keys(series)) {
      series[name].push(now[name] ?? 0);
      if (series[name].length > SERIES_MAX) series[name].shift();
    }
  }
  link.state = "live";
  link.at = Date.now();
  tell();
}

function open() {
  source?.close();
  source = new EventSource(`/api/v1/events?tables=${wanted}`);
  source.addEventListener("state", (event) => take(JSON.parse(event.data)));
  source.onerror = () => {
    link.state = "lost";
    tell();
    // A browser gives up if the answer is an error: the session may be over, or there are too many viewers.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => wanted && open(), 2000);
  };
}

export function start(past) {
  for (const name of Object.keys(series)) series[name] = past?.[name]?.slice() ?? [];
  show([]);
}
export function show(names) {
  const next = [...ALWAYS, ...names].join(",");
  if (next === wanted && source) return;
  wanted = next;
  open();
}
export function stop() {
  wanted = "";
  source?.close();
  source = null;
}
export const rows = (name) => tables.get(name)?.rows ?? new Map();
export const omitted = (name) => tables.get(name)?.omitted ?? 0;
export const isThere = (name) => tables.has(name);

// Paint again whenever something changed.
export function useLive(names) {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((count) => count + 1);
    listeners.add(listener);
    if (names) show(names);
    return () => listeners.delete(listener);
  }, []);
}
