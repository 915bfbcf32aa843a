// The map: LANs as boxes with their nodes in them, links between single nodes as lines with rates.
import { html, useLayoutEffect, useRef, useState } from "../lib.js";
import * as live from "../live.js";
import * as format from "../format.js";
import { Chart, Facts, Filter, Head, Mark, Side, choose, chosen } from "../parts.js";

const GAP = 8, PAD = 12, TITLE = 44, MARGIN = 14, LANE = 26;
const SIZES = [
  { most: 60, width: 152, height: 42, two: true },
  { most: 1000, width: 108, height: 24, two: false },
  { most: Infinity, width: 26, height: 18, two: false, bare: true },
];
const KIND = { up: "", trouble: "warn", silent: "bad", failed: "bad" };

// Groups of nodes: by LAN; nodes without one stand with the node they are linked to; then those that do not answer.
export function groupsOf(nodes, links) {
  const groups = new Map();
  const add = (key, title, node) => {
    if (!groups.has(key)) groups.set(key, { key, title, nodes: [] });
    groups.get(key).nodes.push(node);
  };
  for (const node of nodes.values()) {
    if (!node.answers) add("~members", "Members without a status", node);
    else if (node.lans.length) add(node.lans[0], node.lans[0], node);
    else add("~links", "Connected by links", node);
  }
  for (const link of links.values()) {
    const group = link.lan && groups.get(link.lan);
    if (group) group.bits = (group.bits ?? 0) + (link.out_bps ?? 0);
  }
  const order = { daemon: 0, store: 1, program: 2, node: 3 };
  for (const group of groups.values()) {
    group.nodes.sort((one, other) => (order[one.kind] ?? 2) - (order[other.kind] ?? 2) || one.name.localeCompare(other.name) || one.key.localeCompare(other.key));
  }
  return [...groups.values()].sort((one, other) => (one.key > other.key ? 1 : -1));
}

export function arrange(groups, width) {
  const boxes = [], at = new Map();
  let x = MARGIN, y = MARGIN, row = 0;
  const room = Math.max(260, width - 2 * MARGIN);
  for (const group of groups) {
    const size = SIZES.find((each) => group.nodes.length <= each.most);
    const most = Math.max(1, Math.floor((room - 2 * PAD + GAP) / (size.width + GAP)));
    // A small LAN is about three times as wide as high, a large one as wide as the page.
    const ideal = size.two ? Math.max(2, Math.ceil(Math.sqrt((3 * group.nodes.length * size.height) / size.width))) : most;
    const columns = Math.min(most, ideal, group.nodes.length);
    const rows = Math.ceil(group.nodes.length / columns);
    const box = { group, size, width: Math.max(columns * (size.width + GAP) - GAP + 2 * PAD, Math.min(330, room)), height: rows * (size.height + GAP) - GAP + TITLE + PAD };
    if (x > MARGIN && x + box.width > width - MARGIN) { x = MARGIN; y += row + LANE; row = 0; }
    box.x = x; box.y = y;
    group.nodes.forEach((node, number) => at.set(node.key, {
      x: x + PAD + (number % columns) * (size.width + GAP), y: y + TITLE + Math.floor(number / columns) * (size.height + GAP), size,
    }));
    boxes.push(box);
    x += box.width + LANE * 1.5;
    row = Math.max(row, box.height);
  }
  return { boxes, at, height: y + row + MARGIN };
}

function linesOf(nodes, links, at, boxes) {
  const lines = new Map();
  for (const link of links.values()) {
    if (link.role === "listen") continue;
    const from = at.get(link.node);
    if (!from) continue;
    if (link.lan) {
      // A node that is on a second LAN: a line to that LAN's box.
      const box = boxes.find((each) => each.group.key === link.lan);
      if (nodes.get(link.node)?.lans[0] === link.lan || !box) continue;
      lines.set(`${link.node}-${link.lan}`, { link, from, to: { x: box.x + box.width / 2, y: box.y, size: { width: 0, height: 0 } } });
    } else if (at.get(link.peer)) {
      const key = [link.node, link.peer].sort().join("-");
      if (!lines.has(key) || lines.get(key).link.out_bps < link.out_bps) lines.set(key, { link, from, to: at.get(link.peer) });
    }
  }
  return [...lines.entries()];
}

// Where a line is at a share of its length, and what it says there.
function geometry({ link, from, to }) {
  const [x1, y1] = [from.x + from.size.width / 2, from.y + from.size.height / 2];
  const [x2, y2] = [to.x + to.size.width / 2, to.y + to.size.height / 2];
  const bend = Math.max(24, Math.hypot(x2 - x1, y2 - y1) / 6);
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2 - bend];
  const rate = (link.out_bps ?? 0) + (link.in_bps ?? 0);
  const text = link.up ? `${link.kind} · ${format.bits(rate)}${link.rtt_ms == null ? "" : ` · ${format.ms(link.rtt_ms)}`}` : `${link.kind} · ${link.state || "down"}`;
  const point = (t) => [0, 1].map((axis) => (1 - t) ** 2 * [x1, y1][axis] + 2 * t * (1 - t) * [mx, my][axis] + t ** 2 * [x2, y2][axis]);
  return { path: `M${x1},${y1} Q${mx},${my} ${x2},${y2}`, width: 1 + Math.min(4, Math.log10(1 + rate / 1e4)), text, point };
}

function Line({ line }) {
  const { path, width } = geometry(line);
  return html`<path class="link ${line.link.up ? "" : "down"}" d=${path} stroke-width=${width} />`;
}

// What lines say, each where it covers no node, no title and no other text, if there is such a place.
function ratesOf(lines, at, boxes) {
  const taken = [
    ...[...at.values()].map(({ x, y, size }) => [x, y, x + size.width, y + size.height]),
    ...boxes.map(({ x, y, width }) => [x, y, x + Math.min(width, 320), y + TITLE - 4]),
  ];
  return lines.map(([key, line]) => {
    const { point, text } = geometry(line);
    const half = text.length * 3;
    const around = ([x, y]) => [x - half, y - 16, x + half, y];
    const isFree = ([left, top, right, bottom]) => !taken.some((each) => left < each[2] && right > each[0] && top < each[3] && bottom > each[1]);
    const places = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82].map(point);
    const [x, y] = places.find((each) => isFree(around(each))) ?? places[0];
    taken.push(around([x, y]));
    return { key, text, x, y };
  });
}

const cutTo = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

function Tile({ node, place, dim }) {
  const { size } = place;
  const kind = node.answers ? KIND[node.state] ?? "" : "unknown";
  const sub = node.state === "up" || node.state === "trouble"
    ? node.answers ? `${node.kind} · ${format.bits((node.out_bps ?? 0) + (node.in_bps ?? 0))}` : "no status"
    : node.state;
  const open = () => choose(node.key);
  return html`<g class="tile ${node.kind} ${kind} ${chosen() === node.key ? "chosen" : ""}" tabIndex="0" role="button" data-node=${node.name}
    data-state=${node.state} aria-label="${node.name}, ${node.kind}, ${node.state}" opacity=${dim ? 0.25 : 1} onClick=${open}
    onKeyDown=${(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open())}>
    <title>${node.name} (${node.key})${node.host ? ` on ${node.host}` : ""}: ${node.trouble || node.state}</title>
    <rect class="box" x=${place.x} y=${place.y} width=${size.width} height=${size.height} rx="5" />
    <rect class="state" x=${place.x} y=${place.y + 4} width="4" height=${size.height - 8} rx="2" />
    ${!size.bare && html`<text x=${place.x + 12} y=${place.y + (size.two ? 17 : 16)} font-weight="500">${cutTo(node.name, size.two ? 20 : 13)}</text>`}
    ${size.two && html`<text class="sub" x=${place.x + 12} y=${place.y + 33}>${cutTo(sub, 24)}</text>`}
  </g>`;
}

function NodeSide({ node }) {
  const links = [...live.rows("links").values()].filter((each) => each.node === node.key);
  const topics = [...live.rows("topics").values()].filter((each) => each.nodes.includes(node.key));
  const name = (id) => live.rows("nodes").get(id)?.name ?? id;
  return html`<${Side} title=${node.name} tag=${html`<${Mark} state=${node.state} />`} onClose=${() => choose(null)}>
    ${node.trouble && html`<p class="error">${node.trouble}</p>`}
    ${!node.answers && html`<p class="note">This member does not answer. Connect it with <code>answer=True</code> to see what it does.</p>`}
    <${Facts} of=${[
      ["Node", node.key], ["Kind", node.kind], ["Roles", node.roles.join(", ")], ["Host", node.host && `${node.host}, process ${node.pid}`],
      ["Version", node.version], ["Up for", node.started ? format.ago(node.started) : null], ["Members it sees", node.answers ? node.members : null],
      ["Sent", node.answers ? `${format.perSecond(node.sent_s)} msg/s, ${format.bits(node.out_bps)}` : null],
      ["Received", node.answers ? `${format.perSecond(node.received_s)} msg/s, ${format.bits(node.in_bps)}` : null],
      ["Asked for again", node.repair == null ? null : `${format.percent(node.repair)} of its datagrams`],
      ["Round trip", node.rtt_ms == null ? null : format.ms(node.rtt_ms)], ["Unacknowledged", node.answers ? format.bytes(node.window) : null],
      ["Slow members", node.answers ? node.slow : null], ["Losses", node.answers ? node.lost : null],
      ["Processor", node.cpu == null ? null : `${format.percent(node.cpu)} of a core`], ["Memory", node.memory ? format.bytes(node.memory) : null],
    ]} />
    ${links.length > 0 && html`<div><h3>Links</h3><table><thead><tr><th>To</th><th>State</th><th class="num">Out</th><th class="num">In</th></tr></thead><tbody>
      ${links.map((each) => html`<tr key=${each.key}><td class="cut" title=${each.lan || each.address}>${each.lan ? `LAN ${each.lan}` : each.peer ? name(each.peer) : `${each.role} ${each.address}`}</td>
        <td><${Mark} state=${each.up ? "up" : "silent"} text=${each.state} /></td><td class="num">${format.bits(each.out_bps)}</td><td class="num">${format.bits(each.in_bps)}</td></tr>`)}</tbody></table></div>`}
    ${topics.length > 0 && html`<div><h3>Subscribes to</h3><p class="mono">${topics.slice(0, 50).map((each) => each.key).join("  ")}</p></div>`}
  </${Side}>`;
}

export default function MapPage() {
  live.useLive(["nodes", "links", "topics"]);
  const [filter, setFilter] = useState("");
  const [width, setWidth] = useState(900);
  const box = useRef(null);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setWidth(box.current.clientWidth));
    watcher.observe(box.current);
    setWidth(box.current.clientWidth);
    return () => watcher.disconnect();
  }, []);
  const nodes = live.rows("nodes"), links = live.rows("links");
  const groups = groupsOf(nodes, links);
  const { boxes, at, height } = arrange(groups, width);
  const lines = linesOf(nodes, links, at, boxes);
  const node = nodes.get(chosen());
  const wanted = filter.toLowerCase();
  const now = live.rows("overview").get("domain");
  const { series } = live;
  const hits = (each) => !wanted || `${each.name} ${each.host} ${each.kind} ${each.roles.join(" ")} ${each.key} ${each.state}`.toLowerCase().includes(wanted);
  return html`<${Head} title="Map" count=${live.isThere("nodes") ? `${nodes.size} nodes` : ""}>
      <div class="legend"><span><i class="daemon"></i>daemon</span><span><i class="store"></i>store</span><span><i class="program"></i>program</span></div>
      <${Filter} value=${filter} onInput=${setFilter} label="Find a node" /></${Head}>
    <div class="charts">
      <${Chart} title="Messages sent per second" now=${format.perSecond(now?.sent_s)} times=${series.at} values=${series.sent_s} show=${format.short} />
      <${Chart} title="Sent by all nodes" now=${format.bits(now?.out_bps)} times=${series.at} values=${series.out_bps} show=${(value) => format.short(value).replace(" ", "")} />
      <${Chart} title="Stored per second" now=${format.perSecond(now?.stored_s)} times=${series.at} values=${series.stored_s} show=${format.short} />
      <${Chart} title="Messages in queues" now=${format.int(now?.backlog)} times=${series.at} values=${series.backlog} show=${format.short} />
    </div>
    <div class="body">
      <div class="map panel" ref=${box} tabIndex="0" role="region" aria-label="Map of the domain">
        ${live.isThere("nodes") && !nodes.size && html`<div class="empty">No node answers. Daemons do, and programs that connect with <code>answer=True</code>.</div>`}
        <svg width=${width} height=${height} role="group" aria-label="Nodes and links">
          ${boxes.map((each) => html`<g key=${each.group.key}><rect class="lan" x=${each.x} y=${each.y} width=${each.width} height=${each.height} rx="8" />
            <text class="lan-name" x=${each.x + PAD} y=${each.y + 19}>${cutTo(each.group.title.replace(" on ", "  ·  "), Math.floor(each.width / 7))}</text>
            <text class="lan-facts" x=${each.x + PAD} y=${each.y + 35}>${each.group.nodes.length} ${each.group.nodes.length === 1 ? "node" : "nodes"}${each.group.bits == null ? "" : ` · ${format.bits(each.group.bits)}`}</text></g>`)}
          ${lines.map(([key, line]) => html`<${Line} key=${key} line=${line} />`)}
          ${[...nodes.values()].map((each) => at.has(each.key) && html`<${Tile} key=${each.key} node=${each} place=${at.get(each.key)} dim=${!hits(each)} />`)}
          ${lines.length <= 40 && ratesOf(lines, at, boxes).map((each) => html`<text class="rate" key=${each.key} x=${each.x} y=${each.y - 5}>${each.text}</text>`)}
        </svg>
      </div>
      ${node && html`<${NodeSide} key=${node.key} node=${node} />`}
    </div>`;
}
