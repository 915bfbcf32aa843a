/** What can be the body of a message: a text, bytes, nothing, or what JSON can say. */
export type Body = string | Uint8Array | ArrayBuffer | null | undefined | number | boolean | object;

/** A type of property that JavaScript has no value of: boolean, byte, short, int, long, float, double, string. */
export type PropertyType = "b" | "y" | "h" | "i" | "l" | "f" | "d" | "s";
export interface TypedValue {
  readonly value: string | number | bigint | boolean;
}
export type Property = string | number | bigint | boolean | TypedValue;

/** A property with its type: `typed("i", 3)`. Without it whole numbers are `l`, other numbers `d`. */
export function typed(type: PropertyType, value: string | number | bigint | boolean): TypedValue;

/** What the part of a `WebSocket` is like that the client uses; that of browsers, and of `ws`. */
export interface WebSocketLike {
  binaryType: string;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: any): void;
  close(): void;
}

export interface ConnectOptions {
  /** The token, as `shoal token new` wrote it. */
  token?: string;
  /** The principal of the token; it is known without. */
  login?: string;
  /** Whose durable subscriptions these are. */
  clientId?: string;
  /** The class to connect with, where there is no global one: that of `ws`. */
  WebSocket?: new (url: string, protocols: string[]) => WebSocketLike;
  /** Go on trying if the first attempt finds no gateway. */
  retryFirst?: boolean;
  /** Drawn once for each client, and the same for a program that repeats what an earlier run sent. */
  publisher?: string;
  /** Called when the connection is there, and when it is lost. */
  onState?: (state: "up" | "down") => void;
  /** Called with errors that belong to no call. */
  onError?: (error: ShoalError) => void;
}

export interface MessageOptions {
  properties?: Record<string, Property>;
  /** A store keeps it, and the promise waits for that. */
  persistent?: boolean;
  /** 0 to 9; 4 if not given. */
  priority?: number;
  /** It is delivered for so long, or until then. */
  ttlMs?: number;
  expires?: Date | number;
  correlationId?: string;
  /** Where answers go: /topic/NAME, /queue/NAME. */
  replyTo?: string;
  type?: string;
  /** The store holds it back for so long. */
  delayMs?: number;
  contentType?: string;
  /** Keep it as the last value of its topic; an empty body deletes that. With `persistent` a store keeps it. */
  retain?: boolean;
}

export interface SubscribeOptions {
  /** A condition of properties and header fields, as in JMS: "region = 'EU' AND bid > 10". */
  selector?: string;
  /** Correlation ids that are wanted: "[#7;#13]". */
  correlation?: string;
  /** "auto": a message is finished when the next is asked for. "manual": call `ack` or `nack` of each. */
  ack?: "auto" | "manual";
  /** Messages that may be here ahead of their reader; 1000 if not given. */
  prefetch?: number;
  /** The name of a durable subscription; needs `clientId`. */
  durable?: string;
  /** Leave out what this connection itself sends. */
  noLocal?: boolean;
  /** The last value of each topic comes first. */
  retained?: boolean;
}

/** What the gateway refuses, or what becomes of a call whose connection is closed. */
export class ShoalError extends Error {
  readonly code: string;
  constructor(message: string, code: string);
}

export class Message {
  readonly headers: Readonly<Record<string, string>>;
  readonly id: string;
  readonly destination: string;
  readonly topic: string;
  readonly body: any;
  readonly properties: Readonly<Record<string, string | number | bigint | boolean>>;
  readonly priority: number;
  readonly persistent: boolean;
  readonly redelivered: boolean;
  readonly deliveryCount: number;
  readonly correlationId: string | undefined;
  readonly replyTo: string | undefined;
  readonly type: string | undefined;
  readonly timestamp: Date | undefined;
  readonly expires: Date | undefined;
  readonly dropped: number;
  /** Acknowledge it; resolves when the store knows. */
  ack(): Promise<void>;
  /** Give it back, or put it aside as a dead letter. */
  nack(options?: { dead?: boolean }): Promise<void>;
  reply(body?: Body, options?: MessageOptions): Promise<void>;
}

export class Subscription implements AsyncIterable<Message> {
  /** Resolves when routers, or the store, know of it; rejects why it is refused. */
  readonly ready: Promise<void>;
  readonly dropped: number;
  receive(timeoutMs?: number): Promise<Message | undefined>;
  close(options?: { forget?: boolean }): Promise<void>;
  [Symbol.asyncIterator](): AsyncIterator<Message>;
}

export class Queue implements AsyncIterable<Message> {
  readonly name: string;
  send(body?: Body, options?: MessageOptions): Promise<void>;
  consume(options?: Omit<SubscribeOptions, "durable" | "noLocal" | "retained">): Subscription;
  browse(options?: Pick<SubscribeOptions, "selector" | "correlation">): Subscription;
  [Symbol.asyncIterator](): AsyncIterator<Message>;
}

export class Transaction {
  publish(topic: string, body?: Body, options?: MessageOptions): void;
  send(queue: string, body?: Body, options?: MessageOptions): void;
  ack(message: Message): void;
}

export class Bus {
  readonly connected: boolean;
  publish(topic: string, body?: Body, options?: MessageOptions): Promise<void>;
  subscribe(pattern: string, options?: SubscribeOptions): Subscription;
  queue(name: string): Queue;
  request(topic: string, body?: Body, options?: MessageOptions & { timeoutMs?: number }): Promise<Message>;
  transaction<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T>;
  close(options?: { timeoutMs?: number }): Promise<void>;
}

/** Connect to a gateway, such as `wss://gateway:7482/stomp`. */
export function connect(url: string, options?: ConnectOptions): Promise<Bus>;
