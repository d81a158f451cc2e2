/**
 * Notification channels of a Throng server: subscribe and publish from a page.
 *
 * A subscription uses WebSocket where it passes, else server-sent events, else long polls. It comes
 * back by itself and continues where it was, so that each item of a channel that keeps its items
 * comes once and in order. What can no longer be had is reported as a gap.
 */

/** An item as the server hands it out. */
export interface Item {
  /** The channel. */
  channel: string;
  /** Its number in the channel, which grows. */
  id: string;
  /** Its id as an item of the node (XEP-0060); absent in binary messages. */
  item?: string;
  /** Its key, if it has one: it replaces the item before with this key. */
  key?: string;
  /** When it was published (RFC 3339). */
  time: string;
  /** Its content type; absent, as is `data`, if the node keeps no content. */
  type?: string;
  /** Its content; see {@link content}. */
  data?: string;
  /** `data` is Base64, because the content is not text. */
  base64?: boolean;
  /** Its content instead of `data`, if it came as a binary message; see {@link bytes}. */
  bytes?: Uint8Array;
}

/** Items of a channel that can no longer be had. */
export interface Gap {
  /** The channel, or the prefix with its `*`. */
  channel: string;
  /** They are behind this id; absent if that is not known. Of a prefix it is a place. */
  after?: string;
}

/** Who subscribes to a channel. */
export interface Occupancy {
  /** The channel. */
  channel: string;
  /** How many connections, this one among them. */
  subscribers: number;
  /** Names of those whose tokens have one (`sub`), each once; none in channels that need no token. */
  who: string[];
  /** Those who were not there before. */
  joined: string[];
  /** Those who have left since. */
  left: string[];
  /** There are more names: with so many, none are told, or some by long poll. */
  more: boolean;
}

/** A way to receive items. */
export type Transport = "websocket" | "sse" | "poll";

/** How a subscription is. */
export interface Status {
  /**
   * `connecting`: a transport is tried. `open`: items come. `waiting`: the connection is lost, and
   * the next attempt is due in `retryMs`. `closed`: nothing comes any more.
   */
  state: "connecting" | "open" | "waiting" | "closed";
  /** The transport that is tried, or in use. */
  transport?: Transport;
  /** Why it waits or is closed; absent if the application has closed it. */
  error?: ThrongError;
  /** The time until the next attempt, ms; a page that is shown or online again tries sooner. */
  retryMs?: number;
}

/** What a subscription calls. */
export interface Handlers {
  /** An item has come. */
  onItem(item: Item): void;
  /** Items are missing: load the state of the channel anew if it matters. */
  onGap?(gap: Gap): void;
  /**
   * Subscribers have come or gone, at most once a second; by long poll it is asked for with each.
   * The server has to tell it of all channels of the subscription (`notify_occupancy`), and a token
   * to grant it where one is needed (`presence`); otherwise the subscription is refused.
   */
  onOccupancy?(occupancy: Occupancy): void;
  /** The connection has changed. */
  onStatus?(status: Status): void;
}

/** How to subscribe. */
export interface SubscribeOptions extends Handlers {
  /**
   * The place to begin from: what {@link Subscription.after} was, or `"0"` for all that is kept.
   * Default: what is published from now on.
   */
  after?: string;
  /** The id of this page's registration for pushes ({@link Throng.push}): while it listens it is sent none. */
  push?: string;
  /** Transports in the order in which they are tried. Default: all. */
  transports?: Transport[];
  /** The longest time until a transport has said where it begins, ms. Default: 10,000. */
  openMs?: number;
  /** The longest silence of a connection, ms; the server breaks it every 15 to 19 s. Default: 30,000. */
  silenceMs?: number;
  /** The time that a long poll waits, s, at most 300. Default: 50. */
  pollSeconds?: number;
  /** Items come as bytes, without Base64, where WebSocket passes: see {@link bytes}. Default: false. */
  binary?: boolean;
}

/** How to publish. */
export interface PublishOptions {
  /** Content type. Default: by the content; see {@link Throng.publish}. */
  type?: string;
  /**
   * Key by which the server knows a repetition, 1 to 64 visible characters. Default: a random one.
   * `null`: none, as live channels require; then this module repeats nothing whose outcome is
   * unknown.
   */
  key?: string | null;
  /** What it is a value of, 1 to 64 visible characters: it replaces the item before with this key. */
  itemKey?: string;
  /** The longest time for all repetitions, ms. Default: 60,000. */
  timeoutMs?: number;
}

/** What came of a publication. */
export interface Published {
  /** The channel. */
  channel: string;
  /** The number of the item. */
  id: string;
  /** An earlier attempt with the same key had been successful. */
  repeated: boolean;
  /** How many wait for the channel, if the publisher may know it. */
  subscribers?: number;
}

/** A registration for pushes. */
export interface Registered {
  /** The channel. */
  channel: string;
  /** Its id, for {@link SubscribeOptions.push} and {@link Throng.unpush}. */
  push: string;
  /** Until when it holds (RFC 3339), unless it is made again. */
  until: string;
}

/** How to reach a server. */
export interface Options {
  /**
   * The address of `/n/`. Default: on the server from which this module was loaded, else of the page.
   */
  url?: string | URL;
  /**
   * An access token, or a function that gives one before each attempt. It is sent as
   * `Authorization: Bearer`, and to WebSockets, which take no header, as `access_token` in the query.
   */
  token?: string | (() => string | Promise<string>);
}

/** A subscription. */
export interface Subscription {
  /** The place behind the last item that came; undefined as long as it is not known. */
  readonly after: string | undefined;
  /** How it is. */
  readonly status: Status;
  /** Ends it. No handler is called afterwards, but for the one that is told of the end. */
  close(): void;
}

/** A refusal, or a loss of connection. */
export class ThrongError extends Error {
  override name = "ThrongError";
  constructor(
    message: string,
    /** The status of the answer; 0 if there was none. */
    readonly status = 0,
    /** The time after which the server wants to be asked again, ms. */
    readonly retryMs = 0,
  ) {
    super(message);
  }
}

/** Delays double from here, and each is drawn at random between 0 and its bound, ms. */
const BACKOFF_MS = 1_000;
/** The largest bound, ms. */
const BACKOFF_MS_MAX = 30_000;
/** A page that is hidden or offline waits at least this long between attempts, ms. */
const AWAY_MS = 60_000;
/** A connection that was open for so long begins with short delays again, ms. */
const STABLE_MS = 10_000;
/** A transport that has not passed while a later one did is tried again after this time, ms. */
const REFUSED_MS = 3_600_000;
/** A transport that has been open before fails so often before the next one is tried. */
const PROVEN_TRIES = 3;

/** An attempt to publish is given up after this time, and repeated with its key, ms. */
const PUBLISH_MS = 15_000;

/** What a transport hands over: an answer to a long poll. */
interface Batch {
  items: Item[];
  gaps: string[];
  after: string | null;
  occupancy?: Told;
}

/** What the server tells of who subscribes: all of it, or what has changed. */
interface Told {
  channel: string;
  subscribers: number;
  who?: { name: string }[];
  more?: boolean;
  joined?: string[];
  left?: string[];
}

/** One attempt of one transport. */
interface Attempt {
  /** The address, with the place. */
  url(query: string): string;
  token?: string;
  signal: AbortSignal;
  openMs: number;
  silenceMs: number;
  pollSeconds: number;
  binary: boolean;
  /** Whether the place is known. */
  placed(): boolean;
  /** Whether it is time to look if an earlier transport passes by now. */
  isDue(): boolean;
  /** Gives up unless the next sign of life comes in this time, ms. */
  expect(ms: number): void;
  opened(): void;
  take(batch: Batch): void;
  /** Asks who subscribes, where nobody tells it. */
  count(headers: Record<string, string>): Promise<void>;
}

/** The content of an item: parsed JSON, bytes, or text. Of a binary message, text is what its type calls so. */
export function content(item: Item): unknown {
  const type = item.type ?? "";
  const isJson = /^application\/json\b/i.test(type);
  if (item.base64 || (item.bytes && !isJson && !/^text\//i.test(type))) return bytes(item);
  const data = item.data ?? decoder.decode(item.bytes);
  return isJson ? JSON.parse(data) : data;
}

/** The content of an item as bytes, however it has come. */
export function bytes(item: Item): Uint8Array {
  const data = item.data ?? "";
  return item.bytes ?? (item.base64 ? Uint8Array.from(atob(data), (char) => char.charCodeAt(0)) : new TextEncoder().encode(data));
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A server. */
export class Throng {
  #url: URL;
  #token: Options["token"];

  constructor(options: Options = {}) {
    const own = import.meta.url;
    const page = globalThis.document?.baseURI;
    this.#url = new URL(options.url ?? "/n/", /^http/.test(own) ? own : page);
    this.#url.pathname = this.#url.pathname.replace(/\/?$/, "/");
    this.#token = options.token;
  }

  /**
   * Subscribes to one to 16 channels. `news.*` is all whose names begin with `news.`, as far as the
   * server lets it (`notify_wildcards`).
   * @throws TypeError if a name cannot be one.
   */
  subscribe(channels: string | string[], options: SubscribeOptions): Subscription {
    const names = [channels].flat();
    return follow(this.#at(names), names, this.#token, options);
  }

  /**
   * Publishes. A string is sent as text, a `Blob`, `ArrayBuffer` or view as it is, and anything else
   * as JSON. It is repeated with its key until the outcome is known; publications that are under way
   * at the same time have no order.
   * @throws ThrongError if it was refused, or if the outcome is not known in time.
   */
  async publish(channel: string, data: unknown, options: PublishOptions = {}): Promise<Published> {
    const url = this.#at([channel]);
    const [type, body] = encode(data);
    const { key = random(), timeoutMs = 60_000 } = options;
    const headers: Record<string, string> = { "Content-Type": options.type ?? type };
    if (key !== null) headers["Idempotency-Key"] = key;
    if (options.itemKey) headers["Item-Key"] = options.itemKey;
    const end = Date.now() + timeoutMs;
    // Without a key there is one attempt, which may take all the time.
    const eachMs = key === null ? timeoutMs : PUBLISH_MS;
    for (let tries = 0; ; tries++) {
      let error: ThrongError;
      try {
        const token = await current(this.#token);
        const signal = AbortSignal.timeout(Math.max(1, Math.min(eachMs, end - Date.now())));
        const sent = { method: "POST", body, headers: { ...headers, ...bearer(token) }, signal };
        const response = await fetch(url, sent);
        if (response.status === 200) return (await response.json()) as Published;
        error = await refusal(response);
      } catch (cause) {
        error = failure(cause);
      }
      // Without a key only what was certainly not published may be repeated.
      if (isFinal(error, this.#token) || (key === null && error.status !== 429)) throw error;
      const delay = Math.max(backoff(tries), error.retryMs);
      if (Date.now() + delay >= end) throw error;
      await pause(delay, error.retryMs);
    }
  }

  /**
   * Registers for pushes of a channel, which this service worker gets while no page listens. The
   * browser asks the user if it has to. Call it at each start of the page: it renews the registration.
   * @throws ThrongError if it was refused; what the browser throws if it or the user does not allow it.
   */
  async push(channel: string, { pushManager }: ServiceWorkerRegistration): Promise<Registered> {
    const url = this.#at([channel]);
    let own = await pushManager.getSubscription();
    if (!own) {
      const asked = new URL(this.#url);
      asked.search = "push-key";
      const { key } = await (await this.#ask(asked, "GET")).json();
      own = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    }
    url.search = "push";
    return (await this.#ask(url, "PUT", JSON.stringify(own))).json();
  }

  /** Ends a registration for pushes, by its id. */
  async unpush(channel: string, push: string): Promise<void> {
    const url = this.#at([channel]);
    url.search = `push=${push}`;
    await this.#ask(url, "DELETE");
  }

  async #ask(url: URL, method: string, body?: string): Promise<Response> {
    const response = await fetch(url, { method, body, headers: bearer(await current(this.#token)) });
    if (!response.ok) throw await refusal(response);
    return response;
  }

  #at(names: string[]): URL {
    const url = new URL(this.#url);
    const path = names.join(",");
    url.pathname += path;
    // The server decodes nothing, so a name that has to be encoded, or is resolved, cannot be one.
    const fits = names.length && names.every((name) => /^[^,/%]+$/.test(name));
    if (!fits || !url.pathname.endsWith("/" + path)) throw new TypeError(`no channel: "${path}"`);
    return url;
  }
}

function encode(data: unknown): [string, BodyInit] {
  if (typeof data === "string") return ["text/plain", data];
  if (data instanceof Blob) return [data.type || "application/octet-stream", data];
  if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) {
    return ["application/octet-stream", data as BodyInit];
  }
  return ["application/json", JSON.stringify(data)];
}

function random(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function current(token: Options["token"]): Promise<string | undefined> {
  return typeof token === "function" ? token() : token;
}

function bearer(token?: string): Record<string, string> {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** What the server says when it does not do what was asked. */
async function refusal(response: Response): Promise<ThrongError> {
  const text = (await response.text()).trim().slice(0, 300);
  const seconds = Number(response.headers.get("Retry-After")) || 0;
  return new ThrongError(text || response.statusText, response.status, seconds * 1_000);
}

function failure(cause: unknown): ThrongError {
  return cause instanceof ThrongError ? cause : new ThrongError(String((cause as Error)?.message ?? cause));
}

/** Whether it makes no sense to try again. A token may be another one the next time. */
function isFinal({ status }: ThrongError, token: Options["token"]): boolean {
  const passes = [408, 425, 429].includes(status) || (status === 401 && typeof token === "function");
  return status >= 400 && status < 500 && !passes;
}

function backoff(tries: number): number {
  return Math.random() * Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** tries);
}

const isOffline = () => globalThis.navigator?.onLine === false;
const isHidden = () => globalThis.document?.hidden === true;

/** Waits; not so long if the page is shown or online again meanwhile, but never less than `least`. */
function pause(ms: number, least: number, signal?: AbortSignal): Promise<void> {
  const soonest = Date.now() + least;
  const page = globalThis.document;
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", wake);
      page?.removeEventListener("visibilitychange", wake);
      signal?.removeEventListener("abort", end);
      done();
    };
    const wake = () => {
      if (isOffline() || isHidden()) return;
      clearTimeout(timer);
      // Those of one network come online in the same moment.
      const at = Math.max(soonest, Date.now() + Math.random() * BACKOFF_MS);
      timer = setTimeout(end, Math.min(at, due) - Date.now());
    };
    const due = Date.now() + ms;
    let timer = setTimeout(end, ms);
    if (signal?.aborted) return end();
    globalThis.addEventListener?.("online", wake);
    page?.addEventListener("visibilitychange", wake);
    signal?.addEventListener("abort", end);
  });
}

/** Calls the application, whose errors are its own. */
function tell<T>(handler: ((value: T) => void) | undefined, value: T): void {
  try {
    handler?.(value);
  } catch (error) {
    setTimeout(() => {
      throw error;
    });
  }
}

/** Whether what has come is what the server sends, and not a page of somebody in between. */
function batch(json: string): Batch {
  const batch: Batch = JSON.parse(json);
  if (!Array.isArray(batch.items) || !Array.isArray(batch.gaps)) throw new ThrongError("an answer has no items");
  return batch;
}

/** An item as a binary message; the server's documentation has the table. */
function unpack(data: ArrayBuffer): Batch {
  const view = new DataView(data);
  if (view.getUint8(0) !== 1) throw new ThrongError("an item of another version");
  let at = 24;
  const text = (length: number) => decoder.decode(new Uint8Array(data, (at += length) - length, length));
  const after = text(view.getUint16(6));
  const channel = text(view.getUint8(1));
  const key = text(view.getUint16(2)) || undefined;
  const type = text(view.getUint16(4)) || undefined;
  const time = new Date(Number(view.getBigUint64(16))).toISOString();
  const item = { channel, id: `${view.getBigUint64(8)}`, key, time, type, bytes: new Uint8Array(data, at) };
  return { items: [item], gaps: [], after };
}

function websocket(attempt: Attempt): Promise<never> {
  return new Promise((_, fail) => {
    const token = attempt.token && `access_token=${encodeURIComponent(attempt.token)}`;
    const query = [token, attempt.binary && "format=binary"].filter(Boolean).join("&");
    const socket = new WebSocket(attempt.url(query).replace(/^http/, "ws"));
    socket.binaryType = "arraybuffer";
    attempt.signal.addEventListener("abort", () => {
      socket.close();
      fail(attempt.signal.reason);
    });
    socket.onopen = () => {
      // Who brings a place along is told nothing before the first item; others are told where they begin.
      if (!attempt.placed()) return;
      attempt.expect(attempt.silenceMs);
      attempt.opened();
    };
    socket.onmessage = ({ data }) => {
      attempt.expect(attempt.silenceMs);
      try {
        attempt.take(typeof data === "string" ? batch(data) : unpack(data));
      } catch (error) {
        fail(error);
      }
    };
    socket.onclose = socket.onerror = () => fail(new ThrongError("the WebSocket was closed"));
  });
}

/**
 * Server-sent events (HTML 9.2), read by `fetch`: an `EventSource` shows neither the signs of life nor
 * why it was refused, and sends no token but in its address.
 */
async function sse(attempt: Attempt): Promise<never> {
  const headers = { Accept: "text/event-stream", ...bearer(attempt.token) };
  const response = await fetch(attempt.url(""), { headers, cache: "no-store", signal: attempt.signal });
  if (response.status !== 200) throw await refusal(response);
  const type = response.headers.get("Content-Type") ?? "";
  if (!type.startsWith("text/event-stream") || !response.body) throw new ThrongError("no stream of events");
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let [id, event, data] = ["", "", ""];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new ThrongError("the stream of events has ended");
    attempt.expect(attempt.silenceMs);
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      const [, name, text] = /^(id|event|data): ?(.*?)\r?$/.exec(line) ?? [];
      if (name === "id") id = text!;
      else if (name === "event") event = text!;
      else if (name) data += text;
      else if (line.trim() === "") {
        const what = data && JSON.parse(data);
        // Events of other names, as `expired` at the end of a token, say nothing of items.
        const items = data && !event ? [what] : [];
        const gaps = data && event === "gap" ? [what.channel] : [];
        if (id) attempt.take({ items, gaps, after: id, occupancy: event === "occupancy" ? what : undefined });
        event = data = "";
      }
    }
  }
}

async function poll(attempt: Attempt): Promise<never> {
  const headers = bearer(attempt.token);
  // The first answer comes soon: it says whether polls pass, and which the place is.
  for (let wait = attempt.placed() ? 0 : 1; ; wait = attempt.pollSeconds) {
    // The server may be four seconds late.
    attempt.expect((wait + 4) * 1_000 + attempt.openMs);
    const { signal } = attempt;
    const response = await fetch(attempt.url(`wait=${wait}`), { headers, cache: "no-store", signal });
    if (response.status === 204) {
      attempt.take({ items: [], gaps: [], after: response.headers.get("Next-After") });
    } else if (response.status === 200) {
      attempt.take(batch(await response.text()));
    } else {
      throw await refusal(response);
    }
    await attempt.count(headers);
    if (attempt.isDue()) throw new ThrongError("looks for a better transport");
  }
}

const TRANSPORTS: Record<Transport, (attempt: Attempt) => Promise<never>> = { websocket, sse, poll };

function follow(
  url: URL,
  names: string[],
  token: Options["token"],
  options: SubscribeOptions,
): Subscription {
  const { openMs = 10_000, silenceMs = 30_000, pollSeconds = 50, binary = false } = options;
  const transports = options.transports ?? (Object.keys(TRANSPORTS) as Transport[]);
  // The place in each channel, once all are known.
  let places = options.after?.split(",");
  if (options.after === "0") places = names.map(() => "0");
  if (places && places.length !== names.length) throw new TypeError("after has one number per channel");
  let status: Status = { state: "connecting" };
  const closing = new AbortController();
  const isClosed = () => closing.signal.aborted;

  const set = (next: Status) => {
    status = next;
    tell(options.onStatus, next);
  };
  const close = (error?: ThrongError) => {
    if (isClosed()) return;
    closing.abort(new ThrongError("closed"));
    set({ state: "closed", error });
  };

  /** What has come; each item moves the place, so that the application may end at any of them. */
  const take = (batch: Batch) => {
    const { items, gaps, after } = batch;
    for (const channel of gaps) {
      if (isClosed()) return;
      tell(options.onGap, { channel, after: places?.[names.indexOf(channel)] });
    }
    for (const item of items) {
      if (isClosed()) return;
      const at = names.indexOf(item.channel);
      // Where it stands with an item of a prefix is said behind all that came together.
      if (places && at >= 0) places[at] = item.id;
      tell(options.onItem, item);
    }
    if (after && !isClosed()) places = after.split(",");
    if (batch.occupancy && !isClosed()) meet(batch.occupancy);
  };

  const rooms = new Map<string, Set<string>>();
  /** What is told is how it is, whatever was lost before. */
  const meet = ({ channel, subscribers, who, more = false, joined = [], left = [] }: Told) => {
    const before = rooms.get(channel) ?? new Set();
    const now = new Set(who ? who.map(({ name }) => name) : [...before, ...joined]);
    for (const name of left) now.delete(name);
    rooms.set(channel, now);
    tell(options.onOccupancy, {
      channel,
      subscribers,
      who: [...now],
      joined: [...now].filter((name) => !before.has(name)),
      left: [...before].filter((name) => !now.has(name)),
      more,
    });
  };

  // Transports before this one are not tried until then.
  let from = 0;
  let until = 0;
  let openedAt = 0;

  const attempt = async (transport: Transport): Promise<ThrongError> => {
    openedAt = 0;
    set({ state: "connecting", transport });
    const over = new AbortController();
    const { signal } = over;
    const end = () => over.abort(closing.signal.reason);
    closing.signal.addEventListener("abort", end);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const expect = (ms: number) => {
      clearTimeout(timer);
      if (signal.aborted) return;
      timer = setTimeout(() => over.abort(new ThrongError("the connection is silent")), ms);
    };
    const opened = () => {
      if (openedAt || signal.aborted) return;
      openedAt = Date.now();
      set({ state: "open", transport });
    };
    try {
      expect(openMs);
      const shown = await current(token);
      if (isClosed()) throw closing.signal.reason;
      return await TRANSPORTS[transport]({
        url: (query) => {
          const at = new URL(url);
          const tells = options.onOccupancy && !query.startsWith("wait") && "occupancy=1";
          const page = options.push && `push=${options.push}`;
          at.search = [query, tells, page, places && `after=${places}`].filter(Boolean).join("&");
          return at.href;
        },
        token: shown,
        signal,
        openMs,
        silenceMs,
        pollSeconds,
        binary,
        placed: () => places !== undefined,
        isDue: () => from > 0 && Date.now() >= until,
        expect,
        opened,
        take: (batch) => {
          if (signal.aborted) return;
          opened();
          take(batch);
        },
        count: async (headers) => {
          if (!options.onOccupancy) return;
          for (const name of names) {
            const at = new URL(url);
            at.pathname = at.pathname.replace(/[^/]*$/, name);
            at.search = "occupancy=1";
            const response = await fetch(at, { headers, cache: "no-store", signal });
            if (response.status !== 200) throw await refusal(response);
            const told: Told = await response.json();
            if (!signal.aborted) meet(told);
          }
        },
      });
    } catch (cause) {
      // The reason of an abort says more than what the abort does to what was under way.
      return failure(signal.aborted ? signal.reason : cause);
    } finally {
      clearTimeout(timer);
      closing.signal.removeEventListener("abort", end);
      over.abort();
    }
  };

  const run = async () => {
    const proven = new Set<Transport>();
    let tries = 0;
    const begin = () => (from = 0);
    globalThis.addEventListener?.("online", begin);
    while (!isClosed()) {
      if (Date.now() >= until) from = 0;
      const first = from;
      let error = new ThrongError("there is no transport");
      for (let at = first; at < transports.length; at++) {
        const transport = transports[at]!;
        error = await attempt(transport);
        if (isClosed()) break;
        if (openedAt) {
          if (at > first) [from, until] = [at, Date.now() + REFUSED_MS];
          if (Date.now() - openedAt >= STABLE_MS) tries = 0;
          proven.add(transport);
          break;
        }
        // One that has been open fails because the server is away, more likely than because of what it is.
        if (proven.has(transport) && tries < PROVEN_TRIES) break;
        from = 0;
        if (at + 1 === transports.length && isFinal(error, token)) close(error);
      }
      if (isClosed()) break;
      let delay = Math.max(backoff(tries), error.retryMs);
      if (isOffline() || (isHidden() && tries > 1)) delay = Math.max(delay, AWAY_MS + backoff(5));
      tries++;
      set({ state: "waiting", error, retryMs: Math.round(delay) });
      await pause(delay, error.retryMs, closing.signal);
    }
    globalThis.removeEventListener?.("online", begin);
  };

  setTimeout(run);
  return {
    get after() {
      return places?.join();
    },
    get status() {
      return status;
    },
    close: () => close(),
  };
}
