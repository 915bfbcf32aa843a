// Queues: what waits, who works on it, and putting right what went wrong.
import { html, useEffect, useRef, useState } from "../lib.js";
import { get, may, post } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Ask, Chart, Facts, Filter, Head, MessageView, Side, Table, choose, chosen, toast } from "../parts.js";
import { MessageForm } from "./message_form.js";

const columns = [
  { by: "name", title: "Queue", class: "name", text: (row) => row.name,
    cell: (row) => html`${row.name}${row.dead && html` <span class="tag ${row.messages ? "bad" : ""}">dead letters</span>`}` },
  { by: "store", minor: true, title: "Store", text: (row) => row.store },
  { by: "messages", title: "Messages", num: true, text: (row) => format.int(row.messages) },
  { by: "growth_s", title: "Change/s", num: true, text: (row) => format.signed(row.growth_s) },
  { by: "in_s", minor: true, title: "In/s", num: true, text: (row) => format.perSecond(row.in_s) },
  { by: "out_s", minor: true, title: "Out/s", num: true, text: (row) => format.perSecond(row.out_s) },
  { by: "in_flight", title: "In flight", num: true, text: (row) => format.int(row.in_flight) },
  { by: "waiting", minor: true, title: "Delayed", num: true, text: (row) => format.int(row.waiting) },
  { by: "since", title: "Oldest", num: true, text: (row) => (row.since ? format.ago(row.since) : "–"), sort: (row) => (row.since ? -row.since : null) },
  { by: "consumers", title: "Consumers", num: true, text: (row) => format.int(row.consumers),
    cell: (row) => (row.messages && !row.consumers ? html`<span class="tag warn">none</span>` : format.int(row.consumers)) },
  { by: "bytes", minor: true, title: "Size", num: true, text: (row) => format.bytes(row.bytes) },
];

function Browse({ queue, stamp }) {
  const [selector, setSelector] = useState("");
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const look = async (limit = 50) => {
    setError("");
    try { setFound(await get("queues/messages", { name: queue, selector, limit })); } catch (caught) { setError(caught.message); }
  };
  useEffect(() => { found && look(); }, [stamp]);
  return html`<section class="stack" aria-label="Messages">
    <form class="fields" onSubmit=${(event) => { event.preventDefault(); look(); }}>
      <label class="field grow">Selector<input value=${selector} spellcheck=${false} placeholder="desk = 3" onInput=${(event) => setSelector(event.target.value)} /></label>
      <button data-browse>Browse</button></form>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${found && html`<p class="dim">${found.rows.length ? `The ${found.more ? "first " : ""}${found.rows.length} messages that wait.` : "No message waits."}</p>`}
    <div class="messages">${found?.rows.map((row) => html`<${MessageView} key=${row.message_id} message=${row} showTopic=${false} />`)}</div>
    ${found?.more && found.rows.length < 500 && html`<button onClick=${() => look(500)}>Show up to 500</button>`}
  </section>`;
}

// How the depth went while this queue was looked at.
function Depth({ row }) {
  const past = useRef({ times: [], values: [] });
  const now = live.rows("overview").get("domain")?.at;
  const { times, values } = past.current;
  if (now && times.at(-1) !== now) {
    past.current = { times: [...times.slice(-599), now], values: [...values.slice(-599), row.messages] };
  }
  return html`<${Chart} title="Messages, since you looked" now=${format.int(row.messages)} times=${past.current.times} values=${past.current.values} show=${format.short} />`;
}

function Move({ row, onClose, onDone }) {
  const [to, setTo] = useState("");
  const [selector, setSelector] = useState("");
  useEffect(() => {
    // Dead letters know where they are from.
    if (row.dead) get("queues/messages", { name: row.name, limit: 1 }).then((found) => setTo((old) => old || found.rows[0]?.properties.shoal_queue || ""), () => {});
  }, []);
  const move = async () => {
    const told = await post("queues/move", { name: row.name, to, selector: selector || null });
    toast(`${format.int(told.messages)} messages moved to ${to}.`);
    onDone();
  };
  return html`<${Ask} title="Move messages of ${row.name}" act="Move" onDo=${move} onClose=${onClose}>
    <label class="field">To queue<input required value=${to} name="to" list="queues" spellcheck=${false} onInput=${(event) => setTo(event.target.value)} /></label>
    <datalist id="queues">${[...live.rows("queues").values()].slice(0, 500).map((each) => html`<option key=${each.key} value=${each.name} />`)}</datalist>
    <label class="field">Only messages that match this selector<input value=${selector} spellcheck=${false} placeholder="everything" onInput=${(event) => setSelector(event.target.value)} /></label>
  </${Ask}>`;
}

function Purge({ row, onClose, onDone }) {
  const [selector, setSelector] = useState("");
  const purge = async (typed) => {
    const told = await post("queues/purge", { name: row.name, selector: selector || null, confirm: typed });
    toast(`${format.int(told.messages)} messages dropped from ${row.name}.`);
    onDone();
  };
  return html`<${Ask} title="Purge ${row.name}" danger act="Purge" name=${row.name} onDo=${purge} onClose=${onClose}
    text="The ${format.int(row.messages)} messages that wait are dropped for good. Messages in flight stay with their consumers.">
    <label class="field">Only messages that match this selector<input value=${selector} spellcheck=${false} placeholder="everything" onInput=${(event) => setSelector(event.target.value)} /></label></${Ask}>`;
}

function QueueSide({ row }) {
  const [asking, setAsking] = useState("");
  const [stamp, setStamp] = useState(0);
  const close = () => setAsking("");
  const done = () => setStamp((count) => count + 1);
  const remove = async (typed) => {
    const told = await post("queues/delete", { name: row.name, confirm: typed });
    toast(`${row.name} is deleted, with ${format.int(told.messages)} messages.`);
    choose(null);
  };
  return html`<${Side} title=${row.name} tag=${row.dead ? html`<span class="tag bad">dead letters</span>` : null} onClose=${() => choose(null)}>
    <${Depth} row=${row} />
    <${Facts} of=${[
      ["Store", row.store], ["Messages", `${format.int(row.messages)}, ${format.bytes(row.bytes)}`], ["In flight", format.int(row.in_flight)],
      ["Oldest", row.since ? `waits since ${format.moment(row.since)}` : null], ["Consumers", format.int(row.consumers)],
      ["Expired", row.expired || null], ["Dropped", row.dropped || null],
      ["After failures", row.deliveries_max ? `${row.deliveries_max} deliveries, then ${row.dead_letter}` : "delivered again and again"],
      ["May keep", row.backlog_max_bytes ? `${format.bytes(row.backlog_max_bytes)}, then ${row.on_full}` : "as much as the disk has"],
    ]} />
    <div class="acts" role="group" aria-label="Acts">
      ${[["send", "Send", ""], ["move", row.dead ? "Move back" : "Move", ""], ["purge", "Purge", "danger"], ["delete", "Delete", "danger"]].map(([act, title, kind]) => html`
        <button key=${act} class=${kind} data-act=${act} disabled=${!may("operator")} title=${may("operator") ? undefined : "For operators"} onClick=${() => setAsking(act)}>${title}</button>`)}
    </div>
    <${Browse} queue=${row.name} stamp=${stamp} />
    ${asking === "send" && html`<${MessageForm} queue name=${row.name} onClose=${close} />`}
    ${asking === "move" && html`<${Move} row=${row} onClose=${close} onDone=${done} />`}
    ${asking === "purge" && html`<${Purge} row=${row} onClose=${close} onDone=${done} />`}
    ${asking === "delete" && html`<${Ask} title="Delete ${row.name}" danger act="Delete" name=${row.name} onDo=${remove} onClose=${close}
      text="The queue and its ${format.int(row.messages)} messages are deleted for good." />`}
  </${Side}>`;
}

export default function QueuesPage() {
  live.useLive(["queues"]);
  const [filter, setFilter] = useState("");
  const [only, setOnly] = useState("all");
  const rows = live.rows("queues");
  const shown = [...rows.values()].filter((row) => only === "all" || (only === "dead" ? row.dead : only === "waiting" ? row.messages : row.messages && !row.consumers));
  const row = rows.get(chosen());
  const total = shown.reduce((sum, each) => sum + each.messages, 0);
  return html`<${Head} title="Queues" count=${live.isThere("queues") ? `${format.int(shown.length)}, ${format.int(total)} messages` : ""}>
      <select aria-label="Which queues" value=${only} onChange=${(event) => setOnly(event.target.value)}>
        <option value="all">all queues</option><option value="waiting">with messages</option><option value="unconsumed">without consumers</option><option value="dead">dead letters</option></select>
      <${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body">
      <${Table} name="queues" label="Queues" columns=${columns} rows=${shown} filter=${filter} start=${{ by: "messages", down: true }} at=${chosen()}
        onChoose=${(each) => choose(each.key)} empty="No store answers with a queue." />
      ${row && html`<${QueueSide} key=${row.key} row=${row} />`}
    </div>`;
}
