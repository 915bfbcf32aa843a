// Compiled, never run: what a program may write, and what it may not.
import { type Bus, connect, type Message, ShoalError, typed } from "../shoal-client.js";

async function main(): Promise<void> {
  const bus: Bus = await connect("ws://127.0.0.1:7482/stomp", { token: "t", onState: (state: "up" | "down") => void state });
  await bus.publish("prices/ACME", { bid: 10.25 }, { properties: { region: "EU", count: typed("i", 3) }, persistent: true });
  await bus.publish("prices/ACME", null, { retain: true });
  for await (const message of bus.subscribe("prices/*", { selector: "region = 'EU'", prefetch: 10, retained: true })) {
    const topic: string = message.topic;
    const when: Date | undefined = message.timestamp;
    void topic, when;
  }
  const answer: Message = await bus.request("time", undefined, { timeoutMs: 100 });
  const size: number = await bus.transaction(async (tx) => {
    tx.send("orders", answer.body);
    tx.ack(answer);
    return 1;
  });
  const error = new ShoalError("text", String(size));
  const code: string = error.code;
  void code;
  // @ts-expect-error a topic is a string
  await bus.publish(7);
  // @ts-expect-error there is no such option
  bus.subscribe("a", { selektor: "x" });
  // @ts-expect-error queues have no durable subscriptions
  bus.queue("q").consume({ durable: "d" });
  // @ts-expect-error a property is no list
  await bus.publish("a", null, { properties: { a: [1] } });
  await bus.close();
}
void main;
