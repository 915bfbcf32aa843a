/**
 * Shoal for JavaScript: publish, subscribe, queues, requests and transactions over a gateway's WebSocket (STOMP 1.2).
 *
 * Frames and their headers are those of docs/reference/stomp.md. Everything that waits has a bound: a subscription has at
 * most `prefetch` messages here, and the gateway keeps or drops the rest. After a lost connection the client connects
 * again, subscribes again and repeats what it has no receipt for; the store knows a repetition by its number.
 */

/** Messages that a subscription may have here ahead of its reader. */
const PREFETCH = 1000;
/** Calls that wait for their receipt, or for a connection. */
const WAITING_MAX = 10_000;
/** What a reader finished is acknowledged this late at the most. */
const ACK_MS = 50;
/** Bytes in the socket above which `publish` waits. */
const UNSENT_MAX = 1 << 20;
const HEART_BEAT_MS = 10_000;
const CONNECT_MS = 10_000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 10_000;
/** Errors of CONNECT that trying again does not mend. */
const FINAL = new Set(["JMSSecurityError", "Malformed"]);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** What the gateway refuses, or what becomes of a call whose connection is closed. `code` is its kind. */
export class ShoalError extends Error {
  constructor(message, code) {
    super(message);
    this.name = "ShoalError";
    this.code = code;
  }
}

/** A property of a type that JavaScript has no value of: `typed("i", 3)`. Types: b y h i l f d s. */
export function typed(type, value) {
  return { [TYPE]: type, value };
}
const TYPE = Symbol("shoal-type");

/** Connect to a gateway. Resolves when it has welcomed the client; rejects why not. */
export async function connect(url, options = {}) {
  const bus = new Bus(url, options);
  await bus._opened;
  return bus;
}

// --- frames ---

const ESCAPES = { "\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c" };
const UNESCAPES = { "\\\\": "\\", "\\r": "\r", "\\n": "\n", "\\c": ":" };
const escape = (text) => String(text).replace(/[\\\r\n:]/g, (c) => ESCAPES[c]).replaceAll("\0", "\ufffd");
const unescape = (text) => (text.includes("\\") ? text.replace(/\\[\\rnc]/g, (c) => UNESCAPES[c]) : text);

function encode(command, headers, body) {
  let head = command + "\n";
  const plain = command === "CONNECT";
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || value === null) continue;
    head += plain ? `${name}:${value}\n` : `${escape(name)}:${escape(value)}\n`;
  }
  if (body?.length) head += `content-length:${body.length}\n`;
  const bytes = encoder.encode(head + "\n");
  const frame = new Uint8Array(bytes.length + (body?.length ?? 0) + 1);
  frame.set(bytes);
  if (body) frame.set(body, bytes.length);
  return frame;
}

/** The frames of one WebSocket message, which has whole ones. */
function* decode(data) {
  const bytes = typeof data === "string" ? encoder.encode(data) : new Uint8Array(data);
  let at = 0;
  while (at < bytes.length) {
    if (bytes[at] === 10 || bytes[at] === 13) {
      at += 1;
      continue;
    }
    let end = at;
    while (end < bytes.length && !(bytes[end] === 10 && bytes[end + 1] === 10)) end += 1;
    const [command, ...lines] = decoder.decode(bytes.subarray(at, end)).split("\n");
    const headers = {};
    for (const line of lines) {
      const colon = line.indexOf(":");
      const name = unescape(line.slice(0, colon));
      if (!(name in headers)) headers[name] = unescape(line.slice(colon + 1));
    }
    const begin = end + 2;
    const length = headers["content-length"];
    let stop = length === undefined ? bytes.indexOf(0, begin) : begin + Number(length);
    if (stop < 0) stop = bytes.length;
    yield { command, headers, body: bytes.subarray(begin, stop) };
    at = stop + 1;
  }
}

// --- messages ---

const KNOWN = new Set(
  ("subscription message-id destination ack content-type content-length persistent priority timestamp expires correlation-id " +
    "reply-to type redelivered shoal-delivery-count shoal-delay shoal-dropped shoal-types shoal-retain browser").split(" "),
);
const PREFIX = "shoal-property-";
const nameOf = (destination) => destination.replace(/^\/(topic|queue|temp-queue|temp-topic)\//, "");

function valueOf(text, type) {
  if (type === "b") return text === "true";
  if (type === "l" && !Number.isSafeInteger(Number(text))) return BigInt(text);
  return type === undefined || type === "s" ? text : Number(text.replace(/^(-?)inf$/, "$1Infinity"));
}

/** A message that was received. */
export class Message {
  constructor(frame, subscription) {
    this.headers = frame.headers;
    this._frame = frame;
    this._subscription = subscription;
    this._connection = subscription._bus._connections;
  }

  get id() {
    return this.headers["message-id"];
  }
  get destination() {
    return this.headers.destination;
  }
  get topic() {
    return nameOf(this.headers.destination);
  }
  get body() {
    if (!("_body" in this)) {
      const type = this.headers["content-type"] ?? "";
      const bytes = this._frame.body;
      if (type.startsWith("application/json")) this._body = JSON.parse(decoder.decode(bytes));
      else if (type.startsWith("text/plain")) this._body = decoder.decode(bytes);
      else this._body = type === "" && bytes.length === 0 ? null : bytes;
    }
    return this._body;
  }
  get properties() {
    if (this._properties === undefined) {
      const types = Object.fromEntries((this.headers["shoal-types"] ?? "").split(",").map((each) => each.split("=")));
      this._properties = {};
      for (const [name, value] of Object.entries(this.headers)) {
        if (!KNOWN.has(name)) this._properties[name.replace(PREFIX, "")] = valueOf(value, types[name]);
      }
    }
    return this._properties;
  }
  get priority() {
    return Number(this.headers.priority ?? 4);
  }
  get persistent() {
    return this.headers.persistent === "true";
  }
  get redelivered() {
    return this.headers.redelivered === "true";
  }
  get deliveryCount() {
    return Number(this.headers["shoal-delivery-count"] ?? 1);
  }
  get correlationId() {
    return this.headers["correlation-id"];
  }
  get replyTo() {
    return this.headers["reply-to"];
  }
  get type() {
    return this.headers.type;
  }
  get timestamp() {
    return this.headers.timestamp === undefined ? undefined : new Date(Number(this.headers.timestamp));
  }
  get expires() {
    return this.headers.expires === undefined ? undefined : new Date(Number(this.headers.expires));
  }
  /** How many messages before this one were dropped, because they were not read. */
  get dropped() {
    return Number(this.headers["shoal-dropped"] ?? 0);
  }

  /** Acknowledge it; resolves when the store knows. For subscriptions with `ack: "manual"`. */
  ack() {
    return this._settle("ACK", {});
  }
  /** Give it back: it is delivered again, or with `dead` put aside as a dead letter. */
  nack({ dead = false } = {}) {
    return this._settle("NACK", dead ? { "shoal-dead": "true" } : {});
  }
  /** Answer it, if it names where answers go. */
  reply(body, options = {}) {
    if (!this.replyTo) throw new ShoalError("The message names no destination for answers.", "State");
    return this._subscription._bus._send(this.replyTo, body, { correlationId: this.correlationId, ...options });
  }

  _settle(command, more) {
    const bus = this._subscription._bus;
    if (this._connection !== bus._connections || !this.headers.ack) {
      const why = this.headers.ack ? "its connection was lost: it comes again" : "its subscription has not ack: 'manual'";
      return Promise.reject(new ShoalError(`The message cannot be acknowledged: ${why}.`, "LeaseError"));
    }
    return bus._call(command, { id: this.headers.ack, ...more }, undefined, { once: true });
  }
}

function encodeBody(body) {
  if (body === undefined || body === null) return [undefined, undefined];
  if (typeof body === "string") return ["text/plain", encoder.encode(body)];
  if (body instanceof Uint8Array) return ["application/octet-stream", body];
  if (body instanceof ArrayBuffer) return ["application/octet-stream", new Uint8Array(body)];
  return ["application/json", encoder.encode(JSON.stringify(body))];
}

function encodeProperties(properties) {
  const headers = {};
  const types = [];
  for (const [name, given] of Object.entries(properties ?? {})) {
    const header = KNOWN.has(name) || SENT.has(name) ? PREFIX + name : name;
    let value = given;
    let type;
    if (typeof given === "object" && given !== null && TYPE in given) [type, value] = [given[TYPE], given.value];
    else if (typeof given === "boolean") type = "b";
    else if (typeof given === "bigint") type = "l";
    else if (typeof given === "number") type = Number.isSafeInteger(given) ? "l" : "d";
    else if (typeof given !== "string") throw new TypeError(`The property ${name} must be a string, a number or a boolean.`);
    headers[header] = type === "f" || type === "d" ? String(value).replace("Infinity", "inf") : String(value);
    if (type !== undefined && type !== "s") types.push(`${header}=${type}`);
  }
  if (types.length) headers["shoal-types"] = types.join(",");
  return headers;
}
const SENT = new Set(["transaction", "receipt", "shoal-publisher", "shoal-id", "shoal-repeat"]);

function encodeSend(destination, body, options = {}) {
  const [type, bytes] = encodeBody(body);
  const { ttlMs, expires = ttlMs === undefined ? undefined : Date.now() + ttlMs } = options;
  const headers = {
    destination,
    "content-type": options.contentType ?? type,
    persistent: options.persistent ? "true" : undefined,
    priority: options.priority,
    expires: expires === undefined ? undefined : Math.round(Number(expires)),
    "correlation-id": options.correlationId,
    "reply-to": options.replyTo,
    type: options.type,
    "shoal-delay": options.delayMs,
    "shoal-retain": options.retain ? "true" : undefined,
    ...encodeProperties(options.properties),
  };
  return [headers, bytes];
}

// --- subscriptions ---

/** Messages, one after the other: `for await (const message of subscription)`. A message is finished when the next is asked for. */
export class Subscription {
  constructor(bus, id, destination, options) {
    this._bus = bus;
    this._id = id;
    this._manual = options.ack === "manual";
    this._browses = Boolean(options.browser);
    this._prefetch = options.prefetch ?? PREFETCH;
    this._headers = {
      id,
      destination,
      ack: this._browses ? "auto" : this._manual ? "client-individual" : "client",
      selector: options.selector,
      correlation: options.correlation,
      "prefetch-count": this._browses ? undefined : this._prefetch,
      "durable-subscription-name": options.durable,
      "no-local": options.noLocal ? "true" : undefined,
      browser: options.browser ? "true" : undefined,
      "shoal-retained": options.retained ? "true" : undefined,
    };
    this._buffer = [];
    this._waiting = [];
    this._last = undefined;
    this._finished = 0;
    this._over = false;
    this._error = undefined;
    this._timer = undefined;
    /** Messages that were dropped, because they were not read. */
    this.dropped = 0;
    /** Resolves when routers, or the store, know of it; rejects why it is refused. */
    this.ready = bus._call("SUBSCRIBE", this._headers, undefined, { subscription: this });
    this.ready.catch((error) => this._end(error));
  }

  /** The next message; `undefined` at the end, or if none came in time. */
  async receive(timeoutMs) {
    this._finish();
    if (this._buffer.length) return this._take(this._buffer.shift());
    if (this._over) {
      if (this._error) throw this._error;
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const entry = { resolve, reject, timer: undefined };
      if (timeoutMs !== undefined) {
        entry.timer = setTimeout(() => {
          this._waiting.splice(this._waiting.indexOf(entry), 1);
          resolve(undefined);
        }, timeoutMs);
      }
      this._waiting.push(entry);
    });
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const message = await this.receive();
        if (message === undefined) return;
        yield message;
      }
    } finally {
      // The loop may have been left by an error: its last message was not finished.
      this._last = undefined;
      await this.close().catch(() => {});
    }
  }

  /** End it: what is not acknowledged goes back. `forget` removes a durable subscription and its backlog. */
  async close({ forget = false } = {}) {
    if (this._over && !forget) return;
    this._finish();
    this._acknowledge();
    const durable = forget ? this._headers["durable-subscription-name"] : undefined;
    this._end();
    if (!this._browses || forget) {
      await this._bus._call("UNSUBSCRIBE", { id: this._id, "durable-subscription-name": durable }, undefined, {
        once: !forget,
      }).catch((error) => {
        if (forget) throw error;
      });
    }
  }

  _arrived(message) {
    this.dropped += message.dropped;
    if (this._browses && message.headers.browser === "end") {
      this._end();
      return;
    }
    const waiting = this._waiting.shift();
    if (waiting === undefined) {
      this._buffer.push(message);
    } else {
      clearTimeout(waiting.timer);
      waiting.resolve(this._take(message));
    }
  }

  _take(message) {
    if (!this._manual) this._last = message;
    return message;
  }

  /** The reader asks for more: it has finished the last one. */
  _finish() {
    if (this._last === undefined || this._browses) return;
    this._acked = this._last;
    this._last = undefined;
    this._finished += 1;
    if (this._finished * 4 >= this._prefetch) this._acknowledge();
    else this._timer ??= setTimeout(() => this._acknowledge(), ACK_MS);
  }

  /** Acknowledge all that was finished. */
  _acknowledge() {
    clearTimeout(this._timer);
    this._timer = undefined;
    const message = this._acked;
    this._acked = undefined;
    this._finished = 0;
    if (message?.headers.ack && message._connection === this._bus._connections) {
      this._bus._write("ACK", { id: message.headers.ack });
    }
  }

  /** The connection was lost: what was not finished comes again from a store. */
  _lost() {
    if (this._headers.destination.startsWith("/queue/") || this._headers["durable-subscription-name"]) this._buffer = [];
    clearTimeout(this._timer);
    this._timer = this._acked = undefined;
    this._finished = 0;
  }

  _end(error) {
    if (this._over) return;
    this._over = true;
    this._error = error;
    this._bus._subscriptions.delete(this._id);
    for (const { resolve, reject, timer } of this._waiting.splice(0)) {
      clearTimeout(timer);
      if (error) reject(error);
      else resolve(undefined);
    }
  }
}

/** A queue: a message goes to one receiver. */
export class Queue {
  constructor(bus, name) {
    this._bus = bus;
    this.name = name;
  }
  /** Send a message; resolves when it is kept. Persistent unless said otherwise. */
  send(body, options = {}) {
    return this._bus._send(`/queue/${this.name}`, body, { persistent: true, ...options });
  }
  /** Receive from it, beside others. */
  consume(options = {}) {
    return this._bus._subscribe(`/queue/${this.name}`, options);
  }
  /** Look at what waits in it, and take nothing. */
  browse(options = {}) {
    return this._bus._subscribe(`/queue/${this.name}`, { ...options, browser: true });
  }
  [Symbol.asyncIterator]() {
    return this.consume()[Symbol.asyncIterator]();
  }
}

/** What is sent and acknowledged when the function of `Bus.transaction` has returned, all or nothing. */
export class Transaction {
  constructor(id) {
    this._id = id;
    this._frames = [];
    this._acks = false;
  }
  publish(topic, body, options = {}) {
    this._frames.push(["SEND", ...encodeSend(`/topic/${topic}`, body, { persistent: true, ...options })]);
  }
  send(queue, body, options = {}) {
    this._frames.push(["SEND", ...encodeSend(`/queue/${queue}`, body, { persistent: true, ...options })]);
  }
  /** Acknowledge a message of a subscription with `ack: "manual"`. */
  ack(message) {
    this._acks = true;
    this._frames.push(["ACK", { id: message.headers.ack }, undefined]);
  }
}

// --- the connection ---

/** A connection to a gateway. Made by `connect`. */
export class Bus {
  constructor(url, options) {
    this._url = url;
    this._options = options;
    this._WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this._WebSocket) throw new TypeError("There is no WebSocket here: give one, such as that of 'ws', as an option.");
    this._publisher = options.publisher ?? randomId();
    this._subscriptions = new Map();
    /** Calls without a receipt, by receipt, in order; and what to do when there is a connection. */
    this._calls = new Map();
    this._queued = [];
    this._requests = new Map();
    this._ids = 0;
    this._numbers = 0;
    this._connections = 0;
    this._socket = undefined;
    this._isOpen = this._closed = false;
    this._retries = 0;
    this._opened = new Promise((resolve, reject) => {
      this._welcome = resolve;
      this._refuse = reject;
    });
    this._opened.catch(() => {});
    this._dial();
  }

  /** Whether the gateway is there now. */
  get connected() {
    return this._isOpen;
  }

  /** Publish on a topic. Resolves when the store has it if it is `persistent`, otherwise when it was handed to the socket. */
  publish(topic, body, options = {}) {
    return this._send(`/topic/${topic}`, body, options);
  }
  /** Receive what matches a pattern from now on: `*` is one level, `>` the rest. */
  subscribe(pattern, options = {}) {
    return this._subscribe(`/topic/${pattern}`, options);
  }
  queue(name) {
    return new Queue(this, name);
  }

  /** Publish a question and resolve with the first answer. */
  async request(topic, body, { timeoutMs = 5000, ...options } = {}) {
    this._answers ??= this._answering();
    await this._answers.ready;
    const correlationId = `${this._publisher}-${++this._ids}`;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this._requests.delete(correlationId);
        reject(new ShoalError(`No program answered on ${topic} within ${timeoutMs} ms.`, "NoReplyError"));
      }, timeoutMs);
      this._requests.set(correlationId, { resolve, reject, timer });
      const failed = (error) => this._answered(correlationId, undefined, error);
      this._send(`/topic/${topic}`, body, { ...options, correlationId, replyTo: "/temp-queue/answers" }).catch(failed);
    });
  }

  /** Call a function with a `Transaction`, and commit what it put there. Resolves when that is durable. */
  async transaction(work) {
    const transaction = new Transaction(`t${++this._ids}`);
    const result = await work(transaction);
    if (transaction._frames.length) {
      // A number of its own, so that a repeated commit changes nothing.
      const number = transaction._acks ? undefined : ++this._numbers;
      await this._call("COMMIT", { transaction: transaction._id }, undefined, { transaction, number, once: transaction._acks });
    }
    return result;
  }

  /** Close it, after everything has its receipt or `timeoutMs` are over. */
  async close({ timeoutMs = 5000 } = {}) {
    if (this._closed) return;
    for (const subscription of this._subscriptions.values()) {
      subscription._finish();
      subscription._acknowledge();
    }
    if (this._isOpen) {
      const pause = new Promise((resolve) => setTimeout(resolve, timeoutMs)?.unref?.());
      await Promise.race([this._call("DISCONNECT", {}, undefined, { once: true }).catch(() => {}), pause]);
    }
    this._fail(new ShoalError("The connection was closed here.", "Closed"));
  }

  _answering() {
    const answers = this._subscribe("/temp-queue/answers", {});
    (async () => {
      for await (const message of answers) this._answered(message.correlationId, message);
    })().catch(() => {});
    return answers;
  }

  _answered(correlationId, message, error) {
    const waiting = this._requests.get(correlationId);
    if (waiting === undefined) return;
    this._requests.delete(correlationId);
    clearTimeout(waiting.timer);
    if (message?.headers._reply === "error") {
      error = new ShoalError(`${message.body?.error}: ${message.body?.message}`, "RemoteError");
    }
    if (error) waiting.reject(error);
    else waiting.resolve(message);
  }

  _subscribe(destination, options) {
    const id = `s${++this._ids}`;
    const subscription = new Subscription(this, id, destination, options);
    this._subscriptions.set(id, subscription);
    return subscription;
  }

  _send(destination, body, options) {
    let sent;
    try {
      sent = encodeSend(destination, body, options);
    } catch (error) {
      return Promise.reject(error);
    }
    const [headers, bytes] = sent;
    if (options.persistent) return this._call("SEND", headers, bytes, { number: ++this._numbers });
    if (destination.startsWith("/queue/")) return this._call("SEND", headers, bytes, { once: true });
    if (this._isOpen && this._queued.length === 0) {
      this._write("SEND", headers, bytes);
      return this._socket.bufferedAmount > UNSENT_MAX ? this._drained() : Promise.resolve();
    }
    return this._later(() => this._write("SEND", headers, bytes));
  }

  /** Resolves when the socket has sent most of what it was given. */
  async _drained() {
    while (this._isOpen && this._socket.bufferedAmount > UNSENT_MAX / 2) await new Promise((resolve) => setTimeout(resolve, 2));
  }

  _later(act) {
    if (this._closed) return Promise.reject(this._why());
    if (this._queued.length >= WAITING_MAX) {
      return Promise.reject(new ShoalError(`${WAITING_MAX} messages wait for the gateway already.`, "Full"));
    }
    return new Promise((resolve, reject) => this._queued.push({ act, resolve, reject }));
  }

  /**
   * Send a frame and resolve with its receipt. After a lost connection it is sent again, with its `number` if it has one;
   * what can be done only `once` is rejected then, because its outcome is not known.
   */
  _call(command, headers, body, { number, once = false, subscription, transaction } = {}) {
    if (this._closed) return Promise.reject(this._why());
    if (this._calls.size >= WAITING_MAX) {
      return Promise.reject(new ShoalError(`${WAITING_MAX} calls wait for their receipts already.`, "Full"));
    }
    const receipt = `r${++this._ids}`;
    return new Promise((resolve, reject) => {
      const call = { command, headers, body, number, once, subscription, transaction, receipt, resolve, reject, tried: false };
      this._calls.set(receipt, call);
      if (this._isOpen) this._try(call);
    });
  }

  _try(call) {
    const { command, headers, body, number, transaction, receipt } = call;
    const more = { receipt };
    if (transaction) {
      this._write("BEGIN", { transaction: transaction._id, "shoal-id": number });
      for (const [each, its, content] of transaction._frames) {
        this._write(each, { ...its, transaction: transaction._id }, content);
      }
    } else if (number !== undefined) {
      more["shoal-id"] = number;
      if (call.tried) more["shoal-repeat"] = "true";
    }
    call.tried = true;
    this._write(command, { ...headers, ...more }, body);
  }

  _write(command, headers, body) {
    this._socket?.send(encode(command, headers, body));
    this._saidAt = Date.now();
  }

  // --- connecting ---

  _dial() {
    const socket = new this._WebSocket(this._url, ["v12.stomp"]);
    socket.binaryType = "arraybuffer";
    this._socket = socket;
    const timer = setTimeout(() => socket.close(), CONNECT_MS);
    socket.onopen = () => {
      const { token, login, clientId } = this._options;
      this._write("CONNECT", {
        "accept-version": "1.2",
        host: "shoal",
        "heart-beat": `${HEART_BEAT_MS},${HEART_BEAT_MS}`,
        login,
        passcode: token,
        "client-id": clientId,
        "shoal-publisher": this._publisher,
      });
    };
    socket.onmessage = ({ data }) => {
      this._heardAt = Date.now();
      for (const frame of decode(data)) this._handle(frame, timer);
    };
    socket.onerror = () => {};
    socket.onclose = () => {
      clearTimeout(timer);
      if (socket === this._socket) this._lost();
    };
  }

  _handle(frame, timer) {
    const { command, headers } = frame;
    if (command === "MESSAGE") {
      const subscription = this._subscriptions.get(headers.subscription);
      subscription?._arrived(new Message(frame, subscription));
    } else if (command === "RECEIPT") {
      const call = this._calls.get(headers["receipt-id"]);
      this._calls.delete(headers["receipt-id"]);
      call?.resolve();
    } else if (command === "CONNECTED") {
      clearTimeout(timer);
      this._open();
    } else if (command === "ERROR") {
      this._refused(headers, decoder.decode(frame.body));
    }
  }

  _open() {
    this._isOpen = true;
    this._retries = 0;
    this._connections += 1;
    this._heardAt = this._saidAt = Date.now();
    this._beating = setInterval(() => this._beat(), HEART_BEAT_MS / 2);
    this._beating.unref?.();
    const calls = [...this._calls.values()];
    const waiting = new Set(calls.map((call) => call.subscription));
    for (const subscription of [...this._subscriptions.values()]) {
      if (waiting.has(subscription)) continue;
      this._call("SUBSCRIBE", subscription._headers, undefined, { subscription }).catch((error) => subscription._end(error));
    }
    for (const call of calls) this._try(call);
    for (const { act, resolve } of this._queued.splice(0)) {
      act();
      resolve();
    }
    this._options.onState?.("up");
    this._welcome();
  }

  _beat() {
    if (Date.now() - this._heardAt > 2.5 * HEART_BEAT_MS) this._drop();
    else if (Date.now() - this._saidAt >= HEART_BEAT_MS / 2) {
      this._socket?.send("\n");
      this._saidAt = Date.now();
    }
  }

  _drop() {
    const socket = this._socket;
    this._socket = undefined;
    socket?.close();
    this._lost();
  }

  /** The gateway refuses a frame, and closes the connection. */
  _refused(headers, text) {
    const error = new ShoalError(text || headers.message, headers["shoal-error"] ?? "Error");
    const call = this._calls.get(headers["receipt-id"]);
    if (call) {
      this._calls.delete(call.receipt);
      if (call.subscription) this._subscriptions.delete(call.subscription._id);
      call.reject(error);
    } else if (!this._isOpen && (FINAL.has(error.code) || this._connections === 0)) {
      this._fail(error);
    } else {
      // What it is about has no receipt: a subscription that ended, or the gateway that closes.
      this._options.onError?.(error);
      const ended = /^The subscription '([^']*)' ended/.exec(error.message);
      if (ended) this._subscriptions.get(ended[1])?._end(error);
    }
  }

  _lost() {
    clearInterval(this._beating);
    const wasOpen = this._isOpen;
    this._isOpen = false;
    this._socket = undefined;
    if (this._closed) return;
    if (wasOpen) this._options.onState?.("down");
    else if (this._connections === 0 && !this._options.retryFirst) {
      this._fail(new ShoalError(`No gateway answers at ${this._url}, or it refuses this page.`, "Unreachable"));
      return;
    }
    for (const subscription of this._subscriptions.values()) subscription._lost();
    const unknown = new ShoalError("The connection was lost: whether it was done is not known.", "Lost");
    for (const call of [...this._calls.values()]) {
      if (call.once && call.tried) {
        this._calls.delete(call.receipt);
        call.reject(unknown);
      }
    }
    for (const correlationId of [...this._requests.keys()]) this._answered(correlationId, undefined, unknown);
    const most = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** this._retries++);
    this._retry = setTimeout(() => this._dial(), most / 2 + (Math.random() * most) / 2);
  }

  _why() {
    return this._error ?? new ShoalError("The connection was closed here.", "Closed");
  }

  /** End for good. */
  _fail(error) {
    this._closed = true;
    this._error = error;
    this._isOpen = false;
    clearInterval(this._beating);
    clearTimeout(this._retry);
    const isClosed = error.code === "Closed";
    for (const call of this._calls.values()) call.reject(error);
    for (const { reject } of this._queued.splice(0)) reject(error);
    for (const subscription of [...this._subscriptions.values()]) subscription._end(isClosed ? undefined : error);
    for (const correlationId of [...this._requests.keys()]) this._answered(correlationId, undefined, error);
    this._calls.clear();
    this._refuse(error);
    const socket = this._socket;
    this._socket = undefined;
    socket?.close();
  }
}

function randomId() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
