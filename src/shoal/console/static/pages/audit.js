// The audit log: who did what, from where, and what came of it.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../api.js";
import * as format from "../format.js";
import { Filter, Head } from "../parts.js";

const KNOWN = ["n", "at", "who", "role", "from", "act", "target", "before", "result", "of", "prev", "hash"];
const more = (row) => Object.entries(row).filter(([name]) => !KNOWN.includes(name)).map(([name, value]) => `${name} ${value}`).join(", ");

export default function AuditPage() {
  const [rows, setRows] = useState([]);
  const [filter, setFilter] = useState("");
  const [verdict, setVerdict] = useState(null);
  const [error, setError] = useState("");
  const look = () => get("audit", { limit: 1000 }).then((told) => setRows(told.rows), (caught) => setError(caught.message));
  useEffect(() => { look(); }, []);
  const verify = () => get("audit/verify").then(setVerdict, (caught) => setError(caught.message));
  const wanted = filter.toLowerCase();
  // An act that is over has a line that says what came of it.
  const over = new Map(rows.filter((row) => row.of).map((row) => [row.of, row]));
  const before = new Map(rows.map((row) => [row.n, row.before]));
  const shown = rows.filter((row) => !(row.result === "begun" && over.has(row.n)) && `${row.who} ${row.act} ${row.target} ${row.result} ${row.from}`.toLowerCase().includes(wanted));
  const kind = (row) => (row.result === "done" ? "good" : row.result.startsWith("refused") ? "bad" : "warn");
  return html`<${Head} title="Audit" count="the last ${rows.length} acts">
      <button data-verify onClick=${verify}>Verify the chain</button><button onClick=${look}>Refresh</button><${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body"><div class="scroll stack" tabIndex="0" role="region" aria-label="Audit log">
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${verdict && html`<p class="note" role="status">${verdict.whole ? html`<span class="mark good">The chain is whole</span>: ${format.int(verdict.lines)} acts, the last with the hash <code>${verdict.last_hash.slice(0, 16)}…</code>`
        : html`<span class="mark bad">Line ${verdict.wrong_line} is wrong</span>: ${verdict.why}`}</p>`}
      <div class="panel"><table><thead><tr><th class="num minor">No.</th><th>When</th><th>Who</th><th class="minor">From</th><th>Act</th><th>What</th><th class="num minor">Before</th><th>Result</th></tr></thead><tbody>
        ${shown.map((row) => html`<tr key=${row.n}><td class="num minor">${row.n}</td><td>${format.moment(row.at)}</td><td>${row.who} <span class="dim">${row.role}</span></td><td class="minor">${row.from}</td>
          <td>${row.act}</td><td class="cut mono" title=${row.target}>${row.target}</td><td class="num minor">${row.before ?? before.get(row.of) ?? ""}</td><td class="wrap"><span class="mark ${kind(row)}">${row.result}</span> <span class="dim">${more(row)}</span></td></tr>`)}</tbody></table>
        ${!shown.length && html`<div class="empty">Nothing.</div>`}</div>
    </div></div>`;
}
