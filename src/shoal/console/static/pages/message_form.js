// A form for a message: to publish to a topic, or to send into a queue.
import { html, useState } from "../lib.js";
import { post } from "../api.js";
import { Ask, toast } from "../parts.js";

// "name=value" a line; a value that reads as a JSON number, true or false is one.
export function propertiesOf(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`A property is NAME=VALUE, not “${line}”.`);
    const value = line.slice(at + 1);
    found[line.slice(0, at)] = /^(true|false|-?\d+(\.\d+)?)$/.test(value) ? JSON.parse(value) : value;
  }
  return found;
}

export function MessageForm({ name, queue = false, onClose }) {
  const [topic, setTopic] = useState(name ?? "");
  const [body, setBody] = useState("");
  const [form, setForm] = useState("text");
  const [properties, setProperties] = useState("");
  const [priority, setPriority] = useState(4);
  const [persistent, setPersistent] = useState(false);
  const send = async () => {
    let value = body;
    if (form === "json") {
      try { value = JSON.parse(body); } catch (error) { throw new Error(`The body is no JSON: ${error.message}`); }
    }
    const message = { name: topic, form, body: value, properties: propertiesOf(properties), priority: Number(priority) };
    if (!queue) message.persistent = persistent;
    const told = await post(queue ? "queues/send" : "topics/publish", message);
    toast(queue ? `Sent into ${topic}.` : `Published to ${topic}: ${told.subscribers} nodes subscribe.`);
  };
  const input = (set) => (event) => set(event.target.value);
  return html`<${Ask} title=${queue ? "Send a message" : "Publish a message"} act=${queue ? "Send" : "Publish"} onDo=${send} onClose=${onClose}>
    <label class="field">${queue ? "Queue" : "Topic"}<input required value=${topic} onInput=${input(setTopic)} name="topic" spellcheck=${false} /></label>
    <label class="field">Body<textarea class="mono" value=${body} onInput=${input(setBody)} name="body" spellcheck=${false}></textarea></label>
    <div class="fields">
      <label class="field">Form<select value=${form} onChange=${input(setForm)}><option value="text">text</option><option value="json">JSON</option></select></label>
      <label class="field">Priority<input type="number" min="0" max="9" value=${priority} onInput=${input(setPriority)} /></label>
      ${!queue && html`<label class="check"><input type="checkbox" checked=${persistent} onChange=${(event) => setPersistent(event.target.checked)} />persistent (a store keeps it)</label>`}
    </div>
    <label class="field">Properties, NAME=VALUE, one a line<textarea class="mono" rows="2" value=${properties} onInput=${input(setProperties)} spellcheck=${false}></textarea></label>
  </${Ask}>`;
}
