// Counts messages of a topic whose bodies begin with the time they were published at (milliseconds, text): rate and latency.
import WebSocket from "ws";
import { connect } from "../shoal-client.js";

const [url, topic, count] = process.argv.slice(2);
const bus = await connect(url, { WebSocket });
const subscription = bus.subscribe(topic);
await subscription.ready;
console.log("ready");
const delays = [];
let began;
let cpu;
let got = 0;
for await (const message of subscription) {
  if (got === 0) {
    began = performance.now();
    cpu = process.cpuUsage();
  }
  got += 1;
  if (got % 10 === 0) delays.push(performance.timeOrigin + performance.now() - Number(Buffer.from(message.body.subarray(0, 17)).toString()));
  if (got + subscription.dropped >= Number(count)) break;
}
const seconds = (performance.now() - began) / 1000;
const used = process.cpuUsage(cpu);
delays.sort((a, b) => a - b);
const at = (share) => Number(delays[Math.min(delays.length - 1, Math.floor(delays.length * share))].toFixed(3));
console.log(
  JSON.stringify({
    received: got,
    dropped: subscription.dropped,
    rate_per_s: Math.round(got / seconds),
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    node_cpu_us_per_message: Number(((used.user + used.system) / got).toFixed(2)),
  }),
);
await bus.close();
