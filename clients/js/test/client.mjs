// Run by tests/e2e/test_stomp_clients.py with a gateway's URL; prints "ok NAME" for each behaviour, and fails with the first that is wrong.
import assert from "node:assert/strict";
import WebSocket from "ws";
import { connect, ShoalError, typed } from "../shoal-client.js";

const [url] = process.argv.slice(2);
const bus = await connect(url, { WebSocket, clientId: "js" });
const done = (name) => console.log(`ok ${name}`);

{
  const prices = bus.subscribe("prices/*", { selector: "region = 'EU'" });
  await prices.ready;
  await bus.publish("prices/ACME", { bid: 1 }, { properties: { region: "US" } });
  const properties = { region: "EU", n: typed("i", 3), big: 2n ** 60n, ratio: 0.5, last: true, "x-y": "z", type: "mine" };
  await bus.publish("prices/ACME", { bid: 2 }, { properties, priority: 7, type: "quote", correlationId: "c:1", ttlMs: 60_000 });
  const message = await prices.receive(5000);
  assert.deepEqual(message.body, { bid: 2 });
  assert.deepEqual(message.properties, { ...properties, n: 3 });
  assert.equal(message.topic, "prices/ACME");
  assert.deepEqual([message.priority, message.type, message.correlationId, message.persistent], [7, "quote", "c:1", false]);
  assert.ok(message.expires > message.timestamp);
  await prices.close();
  done("topics");
}
{
  for (const body of ["h\u00e9", new Uint8Array([0, 1, 255]), null, [1, "a"], 7]) {
    const echo = bus.subscribe("echo");
    await echo.ready;
    await bus.publish("echo", body);
    assert.deepEqual((await echo.receive(5000)).body, body);
    await echo.close();
  }
  done("bodies");
}
{
  const orders = bus.queue("orders");
  for (let n = 0; n < 5; n++) await orders.send(n);
  const seen = [];
  for await (const message of orders.browse()) seen.push(message.body);
  assert.deepEqual(seen, [0, 1, 2, 3, 4]);
  const taken = [];
  for await (const message of orders) {
    taken.push(message.body);
    if (taken.length === 3) break;
  }
  const manual = orders.consume({ ack: "manual", prefetch: 1 });
  // The last message of a loop that was left was not finished.
  const again = await manual.receive(5000);
  assert.deepEqual([again.body, again.redelivered], [2, true]);
  await again.ack();
  const third = await manual.receive(5000);
  assert.equal(third.body, 3);
  await third.nack();
  const back = await manual.receive(5000);
  assert.deepEqual([back.body, back.deliveryCount], [3, third.deliveryCount + 1]);
  await bus.transaction((tx) => {
    tx.ack(back);
    tx.send("done", back.body);
    tx.publish("told", "committed");
  });
  const finished = bus.queue("done").consume();
  assert.equal((await finished.receive(5000)).body, 3);
  const last = await manual.receive(5000);
  await last.nack({ dead: true });
  await manual.close();
  await finished.close();
  done("queues");
}
{
  const service = bus.subscribe("double");
  await service.ready;
  (async () => {
    for await (const message of service) await message.reply(message.body * 2);
  })();
  assert.equal((await bus.request("double", 21)).body, 42);
  await assert.rejects(bus.request("nobody", 1, { timeoutMs: 50 }), { code: "NoReplyError" });
  assert.equal((await bus.request("python", "x")).body, "python:x");
  await assert.rejects(bus.request("python", "fail"), { code: "RemoteError" });
  await service.close();
  done("requests");
}
{
  const durable = bus.subscribe("news", { durable: "all" });
  await durable.ready;
  await bus.publish("news", "one", { persistent: true });
  assert.equal((await durable.receive(5000)).body, "one");
  await durable.close();
  await bus.publish("news", "two", { persistent: true });
  const next = bus.subscribe("news", { durable: "all" });
  const bodies = [(await next.receive(5000)).body];
  if (bodies[0] === "one") bodies.push((await next.receive(5000)).body);
  assert.equal(bodies.at(-1), "two");
  await next.close({ forget: true });
  done("durable");
}
{
  for (const persistent of [false, true]) {
    const topic = `values/${persistent}`;
    await bus.publish(topic, { bid: 1 }, { retain: true, persistent });
    await bus.publish(topic, { bid: 2 }, { retain: true, persistent });
    const first = bus.subscribe(topic, { retained: true });
    assert.deepEqual((await first.receive(10_000)).body, { bid: 2 });
    await first.ready;
    await bus.publish(topic, null, { retain: true, persistent });
    assert.equal((await first.receive(5000)).body, null);
    await first.close();
    const second = bus.subscribe(topic, { retained: true });
    await second.ready;
    await bus.publish(topic, "live");
    assert.equal((await second.receive(10_000)).body, "live");
    await second.close();
  }
  done("values");
}
{
  await assert.rejects(bus.subscribe("a", { selector: "a =" }).ready, ShoalError);
  // The others go on after it.
  await bus.publish("news", "three", { persistent: true });
  done("errors");
}
await bus.close();
await assert.rejects(bus.publish("a", 1), { code: "Closed" });
await assert.rejects(connect("ws://127.0.0.1:1/stomp", { WebSocket }), { code: "Unreachable" });
done("close");
