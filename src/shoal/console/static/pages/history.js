// History: what stores recorded, by topic, time and selector; counts over time; Parquet.
import { html, useEffect, useState } from "../lib.js";
import { get, may } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Chart, Head, MessageView } from "../parts.js";

const PAGE = 200, BARS = 80;
const SPANS = [["5 min", 300], ["1 h", 3600], ["24 h", 86400], ["7 d", 604800]];
// A datetime-local field has this machine's time.
const toField = (at) => new Date((at - new Date(at * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19);
const fromField = (text) => new Date(text).getTime() / 1000;

export default function HistoryPage({ query }) {
  live.useLive(["stores"]);
  const stores = [...live.rows("stores").values()].filter((each) => each.flight).map((each) => each.name);
  const [asked, setAsked] = useState(() => {
    const now = Math.ceil(Date.now() / 1000);
    return { store: query.get("store") ?? "", patterns: query.get("patterns") ?? "", selector: "", from: toField(now - 300), to: toField(now) };
  });
  const [found, setFound] = useState(null);
  const [counts, setCounts] = useState(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const store = asked.store || stores[0] || "";
  const wanted = (form) => ({ store, patterns: form.patterns, selector: form.selector, from_s: fromField(form.from), to_s: fromField(form.to) });
  const search = async (form = asked) => {
    if (!store) return;
    setBusy(true);
    setError("");
    try {
      const [rows, bars] = await Promise.all([get("history", { ...wanted(form), limit: PAGE }), get("history/counts", { ...wanted(form), buckets: BARS })]);
      setFound(rows);
      setCounts(bars);
    } catch (caught) {
      setError(caught.message);
    }
    setBusy(false);
  };
  useEffect(() => { store && search(); }, [store]);
  const change = (more) => { const next = { ...asked, ...more }; setAsked(next); return next; };
  const field = (name) => (event) => change({ [name]: event.target.value });
  const last = (seconds) => { const now = Math.ceil(Date.now() / 1000); search(change({ from: toField(now - seconds), to: toField(now) })); };
  const more = async () => {
    const next = await get("history", { ...wanted(asked), limit: 1000, start: found.next }).catch((caught) => setError(caught.message));
    if (next) setFound({ rows: [...found.rows, ...next.rows], next: next.next, lost: found.lost + next.lost });
  };
  const link = new URLSearchParams(Object.entries(wanted(asked)).filter(([, value]) => value !== ""));
  return html`<${Head} title="History" count=${counts ? `${format.int(counts.total)} messages match` : ""}>
      ${SPANS.map(([title, seconds]) => html`<button key=${title} onClick=${() => last(seconds)}>Last ${title}</button>`)}
      ${may("operator") && store && html`<a class="button" data-export href="/api/v1/history/export?${link}" download>Export Parquet</a>`}</${Head}>
    <div class="body"><div class="scroll stack" tabIndex="0" role="region" aria-label="History">
      <form class="panel pad fields" onSubmit=${(event) => { event.preventDefault(); search(); }}>
        <label class="field">Store<select value=${store} onChange=${field("store")}>${stores.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
        <label class="field grow">Topics, separated by spaces<input value=${asked.patterns} placeholder="all, or prices/>" spellcheck=${false} onInput=${field("patterns")} /></label>
        <label class="field grow">Selector<input value=${asked.selector} placeholder="region = 'EU'" spellcheck=${false} onInput=${field("selector")} /></label>
        <label class="field">From<input type="datetime-local" step="1" value=${asked.from} onInput=${field("from")} /></label>
        <label class="field">To<input type="datetime-local" step="1" value=${asked.to} onInput=${field("to")} /></label>
        <button class="main" disabled=${busy || !store}>${busy ? "Searching…" : "Search"}</button>
      </form>
      ${!stores.length && live.isThere("stores") && html`<p class="note">No store of this domain serves its history. Start one with <code>shoal store --data ./data --flight 127.0.0.1:7475</code>.</p>`}
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${counts && html`<${Chart} bars title="Messages over time. Drag to look closer" now=${format.int(counts.total)} times=${counts.times} values=${counts.counts} height=${130} show=${format.short}
        onSelect=${(from, to) => search(change({ from: toField(from), to: toField(Math.max(to, from + 1)) }))} />`}
      ${found?.lost > 0 && html`<p class="note">About ${format.int(found.lost)} messages of this span are missing: they were lost on their way to the store.</p>`}
      ${found && html`<div class="messages">${found.rows.map((row) => html`<${MessageView} key=${row.offset} message=${row} />`)}
        ${!found.rows.length && html`<div class="empty">Nothing matches.</div>`}</div>
        ${found.next != null && found.rows.length < 10000 && html`<button onClick=${more}>Show 1,000 more</button>`}`}
    </div></div>`;
}
