// Subscriptions that stores keep: durable and shared ones, their backlog, and since when no consumer is there.
import { html, useState } from "../lib.js";
import { may, post } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Ask, Facts, Filter, Head, Side, Table, choose, chosen, toast } from "../parts.js";

const kind = (row) => [row.durable ? "durable" : "", row.shared ? "shared" : ""].filter(Boolean).join(", ") || "live";
const columns = [
  { by: "name", title: "Subscription", class: "name", text: (row) => row.name },
  { by: "client_id", title: "Client", class: "cut", text: (row) => row.client_id || "–" },
  { by: "patterns", title: "Topics", class: "cut", text: (row) => row.patterns.join(" "), sort: (row) => row.patterns.join(" "), cell: (row) => html`<span class="mono">${row.patterns.join(" ")}</span>` },
  { by: "selector", minor: true, title: "Selector", class: "cut", text: (row) => row.selector || "–", cell: (row) => html`<span class="mono">${row.selector || "–"}</span>` },
  { by: "kind", minor: true, title: "Kind", text: kind, sort: kind },
  { by: "messages", title: "Backlog", num: true, text: (row) => format.int(row.messages) },
  { by: "growth_s", minor: true, title: "Change/s", num: true, text: (row) => format.signed(row.growth_s) },
  { by: "in_flight", minor: true, title: "In flight", num: true, text: (row) => format.int(row.in_flight) },
  { by: "consumers", title: "Consumers", num: true, text: (row) => format.int(row.consumers) },
  { by: "away", title: "Away", num: true, text: (row) => (row.away ? format.ago(row.away) : "–"), sort: (row) => (row.away ? -row.away : null) },
];

function SubscriptionSide({ row }) {
  const [asking, setAsking] = useState(false);
  const remove = async (typed) => {
    await post("subscriptions/unsubscribe", { name: row.name, client_id: row.client_id || null, shared: row.shared, confirm: typed });
    toast(`The subscription ${row.name} is deleted.`);
    choose(null);
  };
  return html`<${Side} title=${row.name} tag=${html`<span class="tag">${kind(row)}</span>`} onClose=${() => choose(null)}>
    <${Facts} of=${[
      ["Store", row.store], ["Client", row.client_id || "–"], ["Topics", html`<span class="mono">${row.patterns.join("  ")}</span>`],
      ["Selector", row.selector && html`<span class="mono">${row.selector}</span>`], ["Backlog", `${format.int(row.messages)} messages, ${format.bytes(row.bytes)}`],
      ["In flight", format.int(row.in_flight)], ["Consumers", format.int(row.consumers)],
      ["Away", row.away ? `at least since ${format.moment(row.away)}` : null], ["Dropped", row.dropped || null], ["Behind the log's end", `${format.int(row.lag)} offsets`],
    ]} />
    ${row.durable && html`<div class="acts"><button class="danger" data-act="unsubscribe" disabled=${!may("operator") || row.consumers > 0}
      title=${row.consumers ? "It has consumers: end them first" : undefined} onClick=${() => setAsking(true)}>Unsubscribe</button></div>`}
    ${asking && html`<${Ask} title="Unsubscribe ${row.name}" danger act="Unsubscribe" name=${row.name} onDo=${remove} onClose=${() => setAsking(false)}
      text="The subscription and the ${format.int(row.messages)} messages of its backlog are deleted for good." />`}
  </${Side}>`;
}

export default function SubscriptionsPage() {
  live.useLive(["subscriptions"]);
  const [filter, setFilter] = useState("");
  const rows = live.rows("subscriptions");
  const row = rows.get(chosen());
  return html`<${Head} title="Subscriptions" count=${live.isThere("subscriptions") ? format.int(rows.size) : ""}><${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body">
      <${Table} name="subscriptions" label="Subscriptions" columns=${columns} rows=${[...rows.values()]} filter=${filter} start=${{ by: "messages", down: true }} at=${chosen()}
        onChoose=${(each) => choose(each.key)} empty="No store keeps a durable or shared subscription." />
      ${row && html`<${SubscriptionSide} key=${row.key} row=${row} />`}
    </div>`;
}
