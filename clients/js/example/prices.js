// Prices of examples/ticker.py, as they come. ?gateway=ws://… names another gateway.
import { connect } from "../shoal-client.js";

const gateway = new URLSearchParams(location.search).get("gateway") ?? "ws://127.0.0.1:7482/stomp";
const [table, state, rate, region] = ["prices", "state", "rate", "region"].map((id) => document.getElementById(id));
const rows = new Map();
let count = 0;

const say = (text) => {
  state.textContent = text === "up" ? "connected" : text;
  state.dataset.state = text;
};
const bus = await connect(gateway, { onState: say, retryFirst: true });

function rowOf(symbol) {
  if (!rows.has(symbol)) {
    const row = table.insertRow();
    const cells = [row.insertCell(), row.insertCell(), row.insertCell(), row.insertCell()];
    cells[0].textContent = symbol;
    rows.set(symbol, { cells, bids: [] });
  }
  return rows.get(symbol);
}

function draw({ cells, bids }) {
  const [low, high] = [Math.min(...bids), Math.max(...bids)];
  const points = bids.map((bid, at) => `${at * 2},${20 - (18 * (bid - low)) / (high - low || 1)}`).join(" ");
  cells[3].innerHTML = `<svg width="120" height="22" role="img" aria-label="the last ${bids.length} bids"><polyline points="${points}" fill="none" stroke="currentColor"/></svg>`;
}

let subscription;
async function watch() {
  await subscription?.close();
  rows.clear();
  table.replaceChildren();
  const selector = region.value ? `region = '${region.value}'` : undefined;
  subscription = bus.subscribe("prices/*", { selector });
  for await (const { topic, body, properties } of subscription) {
    count += 1;
    const row = rowOf(topic.replace("prices/", ""));
    const before = row.bids.at(-1);
    row.bids.push(body.bid);
    if (row.bids.length > 60) row.bids.shift();
    row.cells[1].textContent = properties.region;
    row.cells[2].textContent = body.bid.toFixed(2);
    row.cells[2].className = body.bid < before ? "down" : "up";
    row.isStale = true;
  }
}
region.addEventListener("change", watch);
setInterval(() => {
  rate.textContent = `${count} messages a second`;
  count = 0;
}, 1000);
// Screens are drawn less often than prices come.
setInterval(() => {
  for (const row of rows.values()) if (row.isStale) draw(row);
}, 100);
watch();
