// Stores: how they are, how fast their disk is, how much they keep.
import { html, useState } from "../lib.js";
import { may, post } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Ask, Facts, Filter, Head, Mark, Side, Table, choose, chosen, toast } from "../parts.js";

const columns = [
  { by: "name", title: "Store", class: "name", text: (row) => row.name },
  { by: "state", title: "State", text: (row) => row.state, cell: (row) => html`<${Mark} state=${row.state} />` },
  { by: "host", minor: true, title: "Host", text: (row) => row.host || "–" },
  { by: "stored_s", title: "Stored/s", num: true, text: (row) => format.perSecond(row.stored_s) },
  { by: "sync_last_ms", title: "Last sync", num: true, text: (row) => format.ms(row.sync_last_ms) },
  { by: "sync_mean_ms", minor: true, title: "Mean sync", num: true, text: (row) => format.ms(row.sync_mean_ms) },
  { by: "end", title: "Messages", num: true, text: (row) => format.int(row.end - row.floor) },
  { by: "log_bytes", minor: true, title: "Log", num: true, text: (row) => format.bytes(row.log_bytes) },
  { by: "free_bytes", title: "Free", num: true, text: (row) => (row.free_bytes ? format.bytes(row.free_bytes) : "–") },
  { by: "queues", title: "Queues", num: true, text: (row) => format.int(row.queues) },
  { by: "subscriptions", minor: true, title: "Subscriptions", num: true, text: (row) => format.int(row.subscriptions) },
  { by: "sessions", minor: true, title: "Sessions", num: true, text: (row) => format.int(row.sessions) },
];

function Release({ onClose }) {
  const [name, setName] = useState("");
  const release = async () => {
    const told = await post("queues/release", { name });
    toast(`${format.int(told.messages)} messages given back.`);
  };
  return html`<${Ask} title="Release reserved messages" act="Release" onDo=${release} onClose=${onClose}
    text="A Spark job that ended without acknowledging keeps its messages reserved. Releasing gives them to other consumers.">
    <label class="field">Name under which the job reads<input required value=${name} spellcheck=${false} onInput=${(event) => setName(event.target.value)} /></label></${Ask}>`;
}

export default function StoresPage() {
  live.useLive(["stores"]);
  const [filter, setFilter] = useState("");
  const [asking, setAsking] = useState(false);
  const rows = live.rows("stores");
  const row = rows.get(chosen());
  return html`<${Head} title="Stores" count=${live.isThere("stores") ? format.int(rows.size) : ""}>
      ${may("operator") && html`<button onClick=${() => setAsking(true)}>Release reserved messages</button>`}<${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body">
      <${Table} name="stores" label="Stores" columns=${columns} rows=${[...rows.values()]} filter=${filter} at=${chosen()} onChoose=${(each) => choose(each.key)}
        empty="No store answers. Start one: shoal store --data ./data" />
      ${row && html`<${Side} key=${row.key} title=${row.name} tag=${html`<${Mark} state=${row.state} />`} onClose=${() => choose(null)}>
        <${Facts} of=${[
          ["Node", row.node && html`<a href="#/map?at=${row.node}">${row.node}</a>`], ["Host", row.host], ["Records", html`<span class="mono">${row.record.join("  ") || "nothing"}</span>`],
          ["Offsets", `${format.int(row.floor)} to ${format.int(row.end)}`], ["Stored", `${format.perSecond(row.stored_s)}/s, recorded ${format.perSecond(row.recorded_s)}/s, ${row.bytes_s == null ? "–" : `${format.bytes(row.bytes_s)}/s`}`],
          ["Sync", `mean ${format.ms(row.sync_mean_ms)}, last ${format.ms(row.sync_last_ms)}, longest ${format.ms(row.sync_longest_ms)}`],
          ["Log", format.bytes(row.log_bytes)], ["Free on its disk", format.bytes(row.free_bytes)], ["Sessions", format.int(row.sessions)],
          ["Stored, not published yet", row.unpublished || null], ["Retained values", format.int(row.retained)], ["Sessions refused", format.int(row.denied)],
          ["History", row.flight || "not served: start the store with --flight"],
        ]} />
        ${row.flight && html`<div class="acts"><a class="button" href="#/history?store=${encodeURIComponent(row.name)}">Search its history</a></div>`}
      </${Side}>`}
    </div>
    ${asking && html`<${Release} onClose=${() => setAsking(false)} />`}`;
}
