// Tokens: who may log in, and use stores and registries with the same token file.
import { html, useEffect, useState } from "../lib.js";
import { get, post, session } from "../api.js";
import * as format from "../format.js";
import { Ask, Dialog, Filter, Head, toast } from "../parts.js";

const ROLES = [["viewer", "looks"], ["operator", "also changes queues and subscriptions"], ["admin", "also daemons, tokens and the audit log"], ["client", "a program that uses stores"], ["daemon", "a daemon that registers"]];

export default function TokensPage() {
  const [rows, setRows] = useState(null);
  const [error, setError] = useState("");
  const [filter, setFilter] = useState("");
  const [asking, setAsking] = useState(null);
  const [made, setMade] = useState(null);
  const [name, setName] = useState("");
  const [role, setRole] = useState("viewer");
  const [expires, setExpires] = useState("");
  const look = () => get("tokens").then((told) => setRows(told.principals), (caught) => setError(caught.message));
  useEffect(() => { look(); }, []);
  const make = async () => { setMade(await post("tokens/new", { principal: name, role, expires: expires || null })); setName(""); look(); };
  const revoke = async (typed) => { await post("tokens/revoke", { principal: asking.revoke, confirm: typed }); toast(`The token of ${asking.revoke} is revoked.`); look(); };
  const shown = (rows ?? []).filter((row) => `${row.name} ${row.role}`.toLowerCase().includes(filter.toLowerCase()));
  return html`<${Head} title="Tokens" count=${rows ? format.int(rows.length) : ""}>
      ${rows && html`<button class="main" data-new onClick=${() => setAsking({ make: true })}>New token</button>`}<${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body"><div class="scroll panel" tabIndex="0" role="region" aria-label="Tokens">
      ${error ? html`<div class="empty" role="alert">${error}</div>` : html`<table><thead><tr><th>Principal</th><th>Role</th><th>Domains</th><th>Valid until</th><th><span class="hidden-text">Act</span></th></tr></thead><tbody>
        ${shown.map((row) => html`<tr key=${row.name} data-principal=${row.name}><td class="name">${row.name}${row.name === session.principal && html` <span class="tag accent">you</span>`}</td><td>${row.role}</td><td>${row.domains.join(", ") || "all"}</td><td>${row.expired ? html`<span class="tag bad">expired ${row.expires}</span>` : row.expires ?? "for ever"}</td>
          <td class="right"><button class="danger" disabled=${row.name === session.principal} onClick=${() => setAsking({ revoke: row.name })}>Revoke</button></td></tr>`)}</tbody></table>`}
    </div></div>
    ${asking?.make && html`<${Ask} title="New token" act="Make" onDo=${make} onClose=${() => setAsking(null)}>
      <label class="field">Principal<input required name="principal" pattern="[A-Za-z0-9][A-Za-z0-9._@\\-]*" value=${name} spellcheck=${false} onInput=${(event) => setName(event.target.value)} /></label>
      <label class="field">Role<select name="role" value=${role} onChange=${(event) => setRole(event.target.value)}>${ROLES.map(([each, what]) => html`<option key=${each} value=${each}>${each}: ${what}</option>`)}</select></label>
      <label class="field">Last day (UTC), or none<input type="date" name="expires" value=${expires} onInput=${(event) => setExpires(event.target.value)} /></label></${Ask}>`}
    ${asking?.revoke && html`<${Ask} title="Revoke the token of ${asking.revoke}" danger act="Revoke" name=${asking.revoke} onDo=${revoke} onClose=${() => setAsking(null)}
      text="Its sessions end at once. Programs with this token cannot begin new sessions." />`}
    ${made && html`<${Dialog} title="The new token" onClose=${() => setMade(null)}><div class="inner"><h2>The token of ${made.principal}</h2>
      <p>It is shown once, and kept nowhere. Give it to ${made.principal} alone.</p><code class="secret" data-token>${made.token}</code>
      <div class="end"><button onClick=${() => navigator.clipboard?.writeText(made.token).then(() => toast("Copied."), () => {})}>Copy</button><button class="main" onClick=${() => setMade(null)}>Done</button></div></div></${Dialog}>`}`;
}
