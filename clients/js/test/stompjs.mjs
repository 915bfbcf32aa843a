// Run by tests/e2e/test_stomp_clients.py with a gateway's URL: @stomp/stompjs as released.
import assert from "node:assert/strict";
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

Object.assign(globalThis, { WebSocket });
const [brokerURL] = process.argv.slice(2);
const client = new Client({ brokerURL, reconnectDelay: 0, heartbeatIncoming: 10000, heartbeatOutgoing: 10000 });
client.onStompError = (frame) => {
  throw new Error(frame.headers.message);
};
await new Promise((resolve) => {
  client.onConnect = resolve;
  client.activate();
});
const receipt = (act) =>
  new Promise((resolve) => {
    const id = `r${Math.random()}`;
    client.watchForReceipt(id, resolve);
    act(id);
  });
const messages = (destination, headers) => {
  const queue = [];
  const waiting = [];
  const subscription = client.subscribe(
    destination,
    (message) => (waiting.length ? waiting.shift()(message) : queue.push(message)),
    headers,
  );
  return { subscription, next: () => (queue.length ? Promise.resolve(queue.shift()) : new Promise((r) => waiting.push(r))) };
};

const topic = messages("/topic/t/*", { selector: "n = '2'" });
await receipt((id) => client.publish({ destination: "/topic/x", body: "", headers: { receipt: id } }));
for (const n of ["1", "2"]) client.publish({ destination: "/topic/t/a", body: `text ${n} \u00e9`, headers: { n, "content-type": "text/plain" } });
const message = await topic.next();
assert.equal(message.body, "text 2 \u00e9");
assert.equal(message.headers.destination, "/topic/t/a");
console.log("ok topics");

const binaryBody = new Uint8Array([1, 0, 2]);
await receipt((id) => client.publish({ destination: "/queue/q", binaryBody, headers: { persistent: "true", receipt: id } }));
const queue = messages("/queue/q", { ack: "client-individual" });
const first = await queue.next();
assert.deepEqual([...first.binaryBody], [1, 0, 2]);
first.nack();
const again = await queue.next();
assert.equal(again.headers.redelivered, "true");
const tx = client.begin();
again.ack({ transaction: tx.id });
client.publish({ destination: "/queue/out", body: "out", headers: { transaction: tx.id, persistent: "true" } });
tx.commit();
const out = messages("/queue/out", {});
assert.equal((await out.next()).body, "out");
console.log("ok queues");

let many = 0;
const all = new Promise((resolve) => client.subscribe("/topic/many", () => ++many === 500 && resolve()));
await receipt((id) => client.publish({ destination: "/topic/x", body: "", headers: { receipt: id } }));
for (let n = 0; n < 500; n++) client.publish({ destination: "/topic/many", body: `${n}` });
await all;
console.log("ok many");
await client.deactivate();
