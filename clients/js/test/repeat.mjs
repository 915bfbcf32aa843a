// Sends numbered persistent messages and transactions while the gateway is killed; prints each when it has its receipt.
import WebSocket from "ws";
import { connect } from "../shoal-client.js";

const [url, count] = process.argv.slice(2);
const bus = await connect(url, { WebSocket, onState: (state) => console.log(`state ${state}`) });
const heard = bus.subscribe("live/>");
await heard.ready;
(async () => {
  for await (const message of heard) console.log(`heard ${message.body}`);
})();
const waiting = [];
for (let number = 1; number <= Number(count); number++) {
  const sent =
    number % 5 === 0
      ? bus.transaction((tx) => {
          tx.send("numbers", number);
          tx.send("copies", number);
        })
      : bus.queue("numbers").send(number);
  waiting.push(sent.then(() => console.log(`receipt ${number}`)));
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await Promise.all(waiting);
await bus.publish("live/last", "after", { persistent: true });
console.log("done");
await new Promise((resolve) => setTimeout(resolve, 500));
await bus.close();
