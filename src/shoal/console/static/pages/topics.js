// Topics: who subscribes, what stores record, a live watch, and publishing.
import { html, useEffect, useRef, useState } from "../lib.js";
import { may } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Facts, Filter, Head, MessageView, Side, Table, choose, chosen } from "../parts.js";
import { MessageForm } from "./message_form.js";

const KEPT = 200;
const columns = [
  { by: "key", title: "Topic", class: "name", text: (row) => row.key, cell: (row) => html`<span class="mono">${row.key}</span>${row.pattern && html` <span class="tag">pattern</span>`}` },
  { by: "subscribers", title: "Subscribing nodes", num: true, text: (row) => format.int(row.subscribers) },
  { by: "rate", title: "Recorded/s", num: true, text: (row) => format.perSecond(row.rate) },
  { by: "stored", title: "Messages in store", num: true, text: (row) => format.int(row.stored) },
  { by: "store", title: "Store", text: (row) => row.store || "–" },
];

export function Watch({ pattern }) {
  const [selector, setSelector] = useState("");
  const [on, setOn] = useState(false);
  const [error, setError] = useState("");
  const [seen, setSeen] = useState({ rows: [], heard: 0, rate: null });
  const past = useRef([]);
  useEffect(() => {
    if (!on) return undefined;
    past.current = [];
    setSeen({ rows: [], heard: 0, rate: null });
    setError("");
    const query = new URLSearchParams({ pattern, ...(selector ? { selector } : {}) });
    const source = new EventSource(`/api/v1/watch?${query}`);
    source.addEventListener("messages", (event) => {
      const told = JSON.parse(event.data), now = performance.now() / 1000;
      past.current = [...past.current.filter(([at]) => now - at < 5), [now, told.heard]];
      const [[at, heard]] = past.current;
      setSeen((old) => ({
        rows: [...told.rows.map((row, number) => ({ ...row, key: `${told.heard}-${number}` })).reverse(), ...old.rows].slice(0, KEPT),
        heard: told.heard, rate: now > at ? (told.heard - heard) / (now - at) : null,
      }));
    });
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;
      setError("The watch was refused. Is the selector right?");
      setOn(false);
    };
    return () => source.close();
  }, [on, pattern]);
  return html`<section class="stack" aria-label="Live watch">
    <div class="fields"><label class="field grow">Selector<input value=${selector} disabled=${on} placeholder="region = 'EU'" spellcheck=${false}
        onInput=${(event) => setSelector(event.target.value)} /></label>
      <button class=${on ? "" : "main"} data-watch onClick=${() => setOn(!on)}>${on ? "Stop" : "Watch live"}</button></div>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${on && html`<p class="dim" data-heard>${format.int(seen.heard)} messages heard, ${format.perSecond(seen.rate)}/s now. The newest ${Math.min(seen.rows.length, KEPT)} are shown.</p>`}
    <div class="messages">${seen.rows.map((row) => html`<${MessageView} key=${row.key} message=${row} showTopic=${/[*>]/.test(pattern)} />`)}</div>
  </section>`;
}

export default function TopicsPage() {
  live.useLive(["topics", "nodes"]);
  const [filter, setFilter] = useState("");
  const [pattern, setPattern] = useState("");
  const [form, setForm] = useState(null);
  const rows = live.rows("topics");
  const at = chosen();
  const row = rows.get(at) ?? (at && { key: at, nodes: [], subscribers: 0 });
  const nodes = live.rows("nodes");
  const watch = (event) => { event.preventDefault(); if (pattern.trim()) choose(pattern.trim()); };
  return html`<${Head} title="Topics" count=${live.isThere("topics") ? rows.size : ""}>
      <form class="fields" onSubmit=${watch}><input value=${pattern} aria-label="A pattern to watch" placeholder="prices/>" spellcheck=${false} onInput=${(event) => setPattern(event.target.value)} />
        <button>Watch a pattern</button></form>
      ${may("operator") && html`<button data-publish onClick=${() => setForm("")}>Publish</button>`}
      <${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body">
      <${Table} name="topics" label="Topics" columns=${columns} rows=${[...rows.values()]} filter=${filter} at=${at} onChoose=${(each) => choose(each.key)}
        empty="No node subscribes to a topic, and no store records one." />
      ${row && html`<${Side} key=${at} title=${at} onClose=${() => choose(null)}>
        <${Facts} of=${[["Recorded", row.stored == null ? null : `${format.int(row.stored)} messages in ${row.store}, ${format.perSecond(row.rate)}/s`]]} />
        ${may("operator") && !row.pattern && !/[*>]/.test(at) && html`<div class="acts"><button onClick=${() => setForm(at)}>Publish</button>
          ${row.store && html`<a class="button" href="#/history?store=${encodeURIComponent(row.store)}&patterns=${encodeURIComponent(at)}">History</a>`}</div>`}
        <div><h3>Subscribing nodes</h3>${row.subscribers ? html`<table><tbody>${row.nodes.map((id) => html`<tr key=${id}><td><a href="#/map?at=${id}">${nodes.get(id)?.name ?? id}</a></td>
          <td class="dim">${nodes.get(id)?.host}</td><td class="dim num">${id}</td></tr>`)}</tbody></table>` : html`<p class="dim">No node subscribes to exactly this.</p>`}</div>
        <${Watch} pattern=${at} />
      </${Side}>`}
    </div>
    ${form !== null && html`<${MessageForm} name=${form} onClose=${() => setForm(null)} />`}`;
}
