// Alarms: what an operator should know, by message id.
import { html, useState } from "../lib.js";
import { may, post } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Filter, Head, toast } from "../parts.js";

const LEVELS = { critical: 0, error: 1, warning: 2, info: 3 };
const MARK = { critical: "bad", error: "bad", warning: "warn" };

export default function AlarmsPage() {
  live.useLive([]);
  const [filter, setFilter] = useState("");
  const [all, setAll] = useState(false);
  const wanted = filter.toLowerCase();
  const rows = [...live.rows("alarms").values()];
  const isOpen = (row) => row.active && !row.acknowledged_by;
  const shown = rows.filter((row) => (all || isOpen(row)) && `${row.id} ${row.text} ${row.level}`.toLowerCase().includes(wanted))
    .sort((one, other) => isOpen(other) - isOpen(one) || LEVELS[one.level] - LEVELS[other.level] || other.first - one.first);
  const acknowledge = (row) => post("alarms/acknowledge", { key: row.key }).catch((caught) => toast(caught.message, "bad"));
  const state = (row) => (row.acknowledged_by ? `known to ${row.acknowledged_by}` : row.active ? "open" : "over");
  return html`<${Head} title="Alarms" count="${rows.filter(isOpen).length} open">
      <label class="check"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} />also those that are over or known</label>
      <${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body"><div class="scroll panel" tabIndex="0" role="region" aria-label="Alarms">
      <table><thead><tr><th>Level</th><th class="minor">Id</th><th>What</th><th class="minor">Since</th><th class="minor">Last</th><th class="num minor">Times</th><th class="minor">State</th><th><span class="hidden-text">Act</span></th></tr></thead><tbody>
        ${shown.map((row) => html`<tr key=${row.key} class=${isOpen(row) ? "" : "off"} data-alarm=${row.key}>
          <td><span class="mark ${MARK[row.level] ?? ""}">${row.level}</span></td><td class="mono minor">${row.id}</td>
          <td class="wrap">${row.text} <span class="dim">${row.advice}</span></td><td class="minor">${format.moment(row.first)}</td><td class="minor">${format.ago(row.last)} ago</td>
          <td class="num minor">${row.count}</td><td class="minor">${state(row)}</td>
          <td>${isOpen(row) && html`<button data-acknowledge disabled=${!may("operator")} onClick=${() => acknowledge(row)}>Acknowledge</button>`}</td></tr>`)}</tbody></table>
      ${!shown.length && html`<div class="empty">${rows.length && !all ? "No open alarm." : "No alarm."}</div>`}
    </div></div>`;
}
