// Daemons: how they are, and starting, stopping and reloading those of hosts whose keys the console has.
import { html, useEffect, useState } from "../lib.js";
import { get, may, post } from "../api.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Ask, Facts, Filter, Head, Mark, Side, Table, choose, chosen, toast } from "../parts.js";

const columns = [
  { by: "name", title: "Daemon", class: "name", text: (row) => row.name },
  { by: "state", title: "State", text: (row) => row.state, cell: (row) => html`<${Mark} state=${row.state} />` },
  { by: "host", title: "Host", text: (row) => row.host },
  { by: "roles", title: "Roles", text: (row) => row.roles.join(", "), sort: (row) => row.roles.join(", ") },
  { by: "started", minor: true, title: "Up for", num: true, text: (row) => (row.started ? format.ago(row.started) : "–"), sort: (row) => -row.started },
  { by: "members", minor: true, title: "Members", num: true, text: (row) => format.int(row.members) },
  { by: "received_s", title: "Messages/s", num: true, text: (row) => format.perSecond((row.sent_s ?? 0) + (row.received_s ?? 0)), sort: (row) => (row.sent_s ?? 0) + (row.received_s ?? 0) },
  { by: "cpu", title: "Processor", num: true, text: (row) => format.percent(row.cpu) },
  { by: "load", title: "Load ρ", num: true, text: (row) => (row.load == null ? "–" : row.load.toFixed(2)) },
  { by: "memory", minor: true, title: "Memory", num: true, text: (row) => format.bytes(row.memory) },
  { by: "reloads", minor: true, title: "Reloads", num: true, text: (row) => format.int(row.reloads) },
  { by: "version", minor: true, title: "Version", text: (row) => row.version },
];

function Log({ host, daemon, onClose }) {
  const [told, setTold] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => { get("hosts/log", { host, daemon }).then(setTold, (caught) => setError(caught.message)); }, []);
  return html`<${Side} title="${daemon} on ${host}" onClose=${onClose}>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${told && html`<${Facts} of=${[["Its file", told.wrong ? html`<span class="error">${told.wrong}</span>` : `right: domain ${told.check.domain}, links ${told.check.links.join(", ")}`]]} />
      <h3>The end of its log</h3><pre class="log">${told.lines.join("\n") || "It has logged nothing."}</pre>`}
  </${Side}>`;
}

function Hosts({ onLog }) {
  const [hosts, setHosts] = useState(null);
  const [asking, setAsking] = useState(null);
  const look = () => get("hosts").then((told) => setHosts(told.hosts), () => setHosts([]));
  useEffect(() => {
    look();
    const timer = setInterval(() => !document.hidden && look(), 3000);
    return () => clearInterval(timer);
  }, []);
  const order = async (host, daemon, what, confirm = "") => {
    await post("hosts/order", { host, daemon, order: what, confirm });
    toast(`${daemon}: ${{ start: "started", stop: "stopped", reload: "reloaded" }[what]}.`);
    look();
  };
  const now = (host, daemon, what) => order(host, daemon, what).catch((caught) => toast(caught.message, "bad"));
  if (!hosts?.length) return html`<p class="note">To start and stop daemons here, give a daemon the role <code>host</code> and this console its key
    (<code>shoal host init</code>, <code>shoal console --host-key FILE</code>).</p>`;
  return html`${hosts.map((each) => html`<section class="panel pad stack" key=${each.host} aria-label="Host ${each.host}">
    <h2>Host ${each.host}</h2>${each.why && html`<p class="error">${each.why}</p>`}
    <table><thead><tr><th>File</th><th>State</th><th class="num minor">Process</th><th class="minor">Since</th><th><span class="hidden-text">Acts</span></th></tr></thead><tbody>
      ${each.daemons.map((one) => html`<tr key=${one.name} data-daemon=${one.name}><td class="name">${one.name}.toml</td>
        <td><${Mark} state=${one.running ? "up" : ""} text=${one.running ? "runs" : one.ended_with == null ? "stopped" : `ended with ${one.ended_with}`} /></td>
        <td class="num minor">${one.pid ?? "–"}</td><td class="minor">${one.since ? format.moment(one.since) : "–"}</td>
        <td><div class="acts">
          <button disabled=${!may("admin") || one.running} data-order="start" onClick=${() => now(each.host, one.name, "start")}>Start</button>
          <button disabled=${!may("admin") || !one.running} data-order="reload" onClick=${() => now(each.host, one.name, "reload")}>Reload</button>
          <button class="danger" disabled=${!may("admin") || !one.running} data-order="stop" onClick=${() => setAsking({ host: each.host, daemon: one.name })}>Stop</button>
          <button disabled=${!may("operator")} onClick=${() => onLog({ host: each.host, daemon: one.name })}>Log</button></div></td></tr>`)}</tbody></table>
    ${!each.daemons.length && !each.why && html`<p class="dim">Its directory has no other file of a daemon.</p>`}</section>`)}
    ${asking && html`<${Ask} title="Stop ${asking.daemon}" danger act="Stop" name=${asking.daemon} onDo=${(typed) => order(asking.host, asking.daemon, "stop", typed)}
      onClose=${() => setAsking(null)} text="Programs that are connected to it lose their connection." />`}`;
}

export default function DaemonsPage() {
  live.useLive(["nodes"]);
  const [filter, setFilter] = useState("");
  const [log, setLog] = useState(null);
  const rows = [...live.rows("nodes").values()].filter((row) => row.kind === "daemon");
  const row = rows.find((each) => each.key === chosen());
  return html`<${Head} title="Daemons" count=${live.isThere("nodes") ? format.int(rows.length) : ""}><${Filter} value=${filter} onInput=${setFilter} /></${Head}>
    <div class="body"><div class="scroll stack" tabIndex="0" role="region" aria-label="Daemons and hosts">
        <${Table} name="nodes" label="Daemons" columns=${columns} rows=${rows} filter=${filter} at=${chosen()} onChoose=${(each) => { setLog(null); choose(each.key); }} empty="No daemon answers." />
        <${Hosts} onLog=${(each) => { choose(null); setLog(each); }} /></div>
      ${log && html`<${Log} key="${log.host}/${log.daemon}" ...${log} onClose=${() => setLog(null)} />`}
      ${row && !log && html`<${Side} key=${row.key} title=${row.name} tag=${html`<${Mark} state=${row.state} />`} onClose=${() => choose(null)}>
        ${row.trouble && html`<p class="error">${row.trouble}</p>`}
        <${Facts} of=${[["Node", html`<a href="#/map?at=${row.key}">${row.key}</a>`], ["Host", `${row.host}, process ${row.pid}`], ["Roles", row.roles.join(", ")], ["Version", row.version],
          ["Started", format.moment(row.started)], ["LANs", row.lans.join("; ")], ["Sent", `${format.perSecond(row.sent_s)} msg/s, ${format.bits(row.out_bps)}`],
          ["Received", `${format.perSecond(row.received_s)} msg/s, ${format.bits(row.in_bps)}`], ["Processor", `${format.percent(row.cpu)} of a core`],
          ["Capacity", row.load == null ? "not known yet" : `ρ ${row.load.toFixed(2)}, ${format.percent(Math.max(0, 1 - row.load))} free`], ["Memory", format.bytes(row.memory)], ["Reloads", row.reloads], ["Losses", row.lost]]} />
      </${Side}>`}
    </div>`;
}
