// Parts of pages: tables, side panels, dialogs, charts, messages.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import uPlot from "./vendor/uplot.js";
import * as format from "./format.js";
import { omitted } from "./live.js";

// --- Where we are: #/page?key=value ---
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: path || "map", query: new URLSearchParams(query || "") };
}
export function go(page, query = {}) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  location.hash = text ? `/${page}?${text}` : `/${page}`;
}
export function choose(key) {
  const { page, query } = place();
  const next = Object.fromEntries(query);
  key ? (next.at = key) : delete next.at;
  go(page, next);
}
export const chosen = () => place().query.get("at");

// --- Short messages ---
let toasts = [];
let onToast = () => {};
export function toast(text, kind = "") {
  const mine = { text, kind, id: Math.random() };
  toasts = [...toasts, mine];
  onToast();
  setTimeout(() => { toasts = toasts.filter((each) => each !== mine); onToast(); }, 5000);
}
export function Toasts() {
  const [, again] = useState(0);
  useEffect(() => { onToast = () => again((count) => count + 1); }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((each) => html`<div key=${each.id} class="toast ${each.kind}">${each.text}</div>`)}</div>`;
}

// --- Tables: sorted, filtered, and only the rows in view are made ---
const ROW = 29;
const EXTRA = 12;

export function Table({ name, columns, rows, filter = "", start, empty, onChoose, at, label }) {
  const [sort, setSort] = useState({ by: start?.by ?? columns[0].by, down: start?.down ?? false });
  const [view, setView] = useState({ top: 0, height: 900 });
  const box = useRef(null);
  const column = columns.find((each) => each.by === sort.by) ?? columns[0];
  const wanted = filter.trim().toLowerCase();
  const kept = wanted
    ? rows.filter((row) => columns.some((each) => each.text && String(each.text(row)).toLowerCase().includes(wanted)))
    : rows.slice();
  const value = column.sort ?? ((row) => row[column.by]);
  kept.sort((one, other) => {
    const [left, right] = [value(one), value(other)];
    if (left == null || right == null) return (left == null) - (right == null);
    const order = typeof left === "string" ? left.localeCompare(right) : left - right;
    return (sort.down ? -order : order) || String(one.key).localeCompare(String(other.key));
  });
  useLayoutEffect(() => {
    const node = box.current;
    const look = () => setView((old) => {
      const next = { top: node.scrollTop, height: node.clientHeight };
      return Math.abs(old.top - next.top) < ROW && old.height === next.height ? old : next;
    });
    node.addEventListener("scroll", look, { passive: true });
    const watcher = new ResizeObserver(look);
    watcher.observe(node);
    look();
    return () => { node.removeEventListener("scroll", look); watcher.disconnect(); };
  }, []);
  const first = Math.max(0, Math.min(Math.floor(view.top / ROW) - EXTRA, kept.length - 1));
  const last = Math.min(kept.length, first + Math.ceil(view.height / ROW) + 2 * EXTRA);
  const onKey = (event) => {
    if (!onChoose || !["ArrowDown", "ArrowUp"].includes(event.key) || !kept.length) return;
    const here = event.target.closest("tr[data-key]");
    if (!here) return;
    event.preventDefault();
    const next = event.key === "ArrowDown" ? here.nextElementSibling : here.previousElementSibling;
    next?.dataset.key && next.focus();
  };
  const left = omitted(name);
  return html`<div class="scroll panel" ref=${box} onKeyDown=${onKey} tabIndex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${kept.length + 1}>
      <thead><tr>${columns.map((each) => html`<th key=${each.by} scope="col" class="${each.num ? "num" : ""} ${each.minor ? "minor" : ""}"
        aria-sort=${each.by === sort.by ? (sort.down ? "descending" : "ascending") : undefined}>
        <button onClick=${() => setSort({ by: each.by, down: each.by === sort.by ? !sort.down : !!each.num })}>${each.title}
        <span aria-hidden="true">${each.by === sort.by ? (sort.down ? "▾" : "▴") : ""}</span></button></th>`)}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }}></td></tr>`}
        ${kept.slice(first, last).map((row) => html`<tr key=${row.key} data-key=${row.key} class="${onChoose ? "click" : ""} ${row.off ? "off" : ""}"
          tabIndex=${onChoose ? 0 : undefined} aria-selected=${onChoose ? String(at === row.key) : undefined}
          onClick=${onChoose && (() => onChoose(row))}
          onKeyDown=${onChoose && ((event) => event.key === "Enter" && event.target.dataset.key && onChoose(row))}>
          ${columns.map((each) => html`<td key=${each.by} class="${each.num ? "num" : ""} ${each.class ?? ""} ${each.minor ? "minor" : ""}"
            title=${each.class === "name" || each.class === "cut" ? each.text?.(row) : undefined}>
            ${each.cell ? each.cell(row) : each.text(row)}</td>`)}</tr>`)}
        ${last < kept.length && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(kept.length - last) * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
    ${!kept.length && html`<div class="empty">${wanted && rows.length ? `Nothing matches “${filter}”.` : empty}</div>`}
    ${left > 0 && html`<div class="empty">${format.int(left)} more rows are not shown.</div>`}
  </div>`;
}

export function Filter({ value, onInput, label = "Filter" }) {
  return html`<input class="filter" type="search" placeholder="${label}  ( / )" aria-label=${label} data-filter value=${value}
    onInput=${(event) => onInput(event.target.value)} />`;
}

export function Head({ title, count, children }) {
  return html`<div class="head"><h1>${title}</h1>${count != null && html`<span class="count">${count}</span>`}
    <span class="grow"></span>${children}</div>`;
}

export function Side({ title, tag, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    return () => { if (before?.isConnected) before.focus(); };
  }, []);
  return html`<aside class="side panel" aria-label=${title} ref=${box}>
    <header><h2>${title}</h2>${tag}<button class="quiet icon" aria-label="Close" data-close onClick=${onClose}>✕</button></header>
    <div class="inner stack">${children}</div></aside>`;
}

export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value !== undefined && value !== null && value !== "")
  .map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>`;

const MARKS = {
  up: ["good", "up"], silent: ["bad", "silent"], failed: ["bad", "failed"], trouble: ["warn", "trouble"],
  recording: ["good", "recording"], open: ["good", "open"], full: ["bad", "full"], closing: ["warn", "closing"],
};
export function Mark({ state, text }) {
  const [kind, word] = MARKS[state] ?? ["", state || "unknown"];
  return html`<span class="mark ${kind}">${text ?? word}</span>`;
}

// --- Dialogs ---
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const node = box.current;
    node.showModal();
    return () => node.close();
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>${children}</dialog>`;
}

// What an operator is asked before something is done; `name` has to be typed if something is lost.
export function Ask({ title, text, name, act, danger, children, onDo, onClose }) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await onDo(typed);
      onClose();
    } catch (caught) {
      setError(caught.message);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${send}>
    <h2>${title}</h2>${text && html`<p>${text}</p>`}${children}
    ${name && html`<label class="field">Type <strong class="mono">${name}</strong> to confirm
      <input value=${typed} autocomplete="off" spellcheck=${false} data-confirm onInput=${(event) => setTyped(event.target.value)} /></label>`}
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="end"><button type="button" onClick=${onClose}>Cancel</button>
      <button class="main ${danger ? "danger" : ""}" disabled=${busy || (name && typed !== name)}>${busy ? "Working…" : act}</button></div>
  </form></${Dialog}>`;
}

// --- Messages ---
export function MessageView({ message, open = false, showTopic = true }) {
  const { body } = message;
  const text = body.unreadable ? `cannot be read: ${body.unreadable}` : body.text;
  const at = message.stored ?? message.timestamp;
  const properties = Object.entries(message.properties ?? {});
  return html`<details class="message" open=${open}>
    <summary><span class="dim mono">${format.clock(at, true)}</span>
      ${showTopic && html`<span class="mono">${message.topic}</span>`}
      <span class="peek mono">${text.replace(/\s+/g, " ").slice(0, 200) || html`<span class="dim">empty</span>`}</span></summary>
    <div class="stack"><pre>${text}</pre>
      ${body.cut && html`<p class="dim">Shown up to 64 KiB of ${format.bytes(body.size)}.</p>`}
      <${Facts} of=${[
        ["Published", format.moment(message.timestamp, true)], ["Stored", message.stored && format.moment(message.stored, true)],
        ["Offset", message.offset], ["Message id", message.message_id], ["Type", message.type], ["Priority", message.priority],
        ["Correlation id", message.correlation_id], ["Reply to", message.reply_to], ["Publisher", message.publisher],
        ...properties.map(([name, value]) => [name, html`<span class="mono">${String(value)}</span>`]),
      ]} /></div></details>`;
}

// --- Charts ---
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Times at the x axis: none before there is a line, and none that the edge would cut.
function timesOf(self, ticks) {
  const { min, max } = self.scales.x;
  const letters = (ticks.length > 1 ? ticks[1] - ticks[0] : max - min) < 60 ? 8 : 5;
  const room = self.bbox.width / devicePixelRatio + 22 - letters * 3.4;
  const fits = (tick) => ((tick - min) / (max - min)) * (self.bbox.width / devicePixelRatio) <= room;
  return ticks.map((tick) => (self.data[0].length > 1 && fits(tick) ? format.clock(tick).slice(0, letters) : ""));
}

export function Chart({ title, now, times, values, height = 74, show, bars = false, onSelect }) {
  const box = useRef(null);
  const plot = useRef(null);
  const theme = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  useLayoutEffect(() => {
    const node = box.current;
    const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot({
      width: Math.max(120, node.clientWidth), height, padding: [6, 22, 0, 0], cursor: { y: false, drag: { x: !!onSelect, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, space: 70, size: 20, values: timesOf },
        { ...axis, size: 46, space: 26, values: (_, ticks) => ticks.map((tick) => show(tick)) }],
      series: [{}, { stroke: css("--accent"), width: 1.5, fill: `${css("--accent")}22`, points: { show: false },
        paths: bars ? uPlot.paths.bars({ size: [0.8, 60] }) : undefined }],
      hooks: { setSelect: [(self) => {
        if (!onSelect || self.select.width < 4) return;
        onSelect(self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x"));
        self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }] },
    }, [times, values], node);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: Math.max(120, node.clientWidth), height }));
    watcher.observe(node);
    return () => { watcher.disconnect(); made.destroy(); };
  }, [theme, bars, height]);
  useLayoutEffect(() => plot.current?.setData([times, values]), [times.at(-1), times.length, values]);
  return html`<figure class="chart panel" role="img" aria-label="${title}, now ${now ?? ""}">
    <header><h3>${title}</h3><span class="now">${now}</span></header><div ref=${box}></div></figure>`;
}

export const useSorted = (rows) => useMemo(() => [...rows.values()], [rows, rows.size]);
