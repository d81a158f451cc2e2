/** XMPP on a WebSocket: a frame is an element (RFC 7395). */

import { parse, write, x, type Node } from "./xml";

const FRAMING = "urn:ietf:params:xml:ns:xmpp-framing";
const ANSWER_MS = 20_000;

export class Socket {
  /** Gets the frames that nobody waits for. */
  onFrame: (frame: Element) => void = () => {};
  onClose: (why: string) => void = () => {};
  /** When something last came, by the browser's monotonic clock. */
  heardAt = performance.now();
  #socket: WebSocket;
  #domain: string;
  #opened: Promise<void>;
  #waits?: { done: (frame: Element) => void; failed: (error: Error) => void };
  #early: Element[] = [];
  #negotiating = true;
  #ended?: string;

  constructor(url: string, domain: string) {
    this.#domain = domain;
    this.#socket = new WebSocket(url, "xmpp");
    this.#opened = new Promise((done, failed) => {
      this.#socket.onopen = () => done();
      this.#socket.onclose = () => {
        failed(new Error("unreachable"));
        this.#end("The connection was lost.");
      };
    });
    this.#opened.catch(() => {});
    this.#socket.onmessage = ({ data }) => this.#receive(String(data));
  }

  /** Opens a stream, or opens it anew after a login, and gives its features. */
  async open(): Promise<Element> {
    await within(this.#opened, ANSWER_MS);
    this.send(x("open", { xmlns: FRAMING, to: this.#domain, version: "1.0" }));
    const header = await this.next();
    if (header.localName === "open") return this.next();
    throw new Error(header.localName === "error" ? wordsOfStreamError(header) : "The server refused the connection.");
  }

  send(node: Node) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(write(node));
  }

  /** The next frame, while what comes is an answer. */
  next(): Promise<Element> {
    const early = this.#early.shift();
    if (early) return Promise.resolve(early);
    if (this.#ended !== undefined) return Promise.reject(new Error(this.#ended));
    return within(new Promise((done, failed) => (this.#waits = { done, failed })), ANSWER_MS);
  }

  /** From now on all frames go to `onFrame`. */
  negotiated() {
    this.#negotiating = false;
    for (const frame of this.#early.splice(0)) this.onFrame(frame);
  }

  /** Ends the stream in order: what can be resumed is over. */
  close() {
    this.send(x("close", { xmlns: FRAMING }));
    this.drop("");
  }

  /** Leaves the connection, as if the network had gone. */
  drop(why: string) {
    this.#end(why);
    this.#socket.close();
  }

  #receive(data: string) {
    this.heardAt = performance.now();
    let frame: Element;
    try {
      frame = parse(data);
    } catch (error) {
      return this.drop((error as Error).message);
    }
    if (frame.localName === "close") return this.drop("The server ended the connection.");
    if (frame.localName === "error" && frame.namespaceURI !== "jabber:client") return this.drop(wordsOfStreamError(frame));
    if (!this.#negotiating) return this.onFrame(frame);
    const waits = this.#waits;
    this.#waits = undefined;
    if (waits) waits.done(frame);
    else this.#early.push(frame);
  }

  #end(why: string) {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    this.#waits?.failed(new Error(why));
    this.onClose(why);
  }
}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, failed) => (timer = setTimeout(() => failed(new Error("The server did not answer in time.")), ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A stream error (RFC 6120 4.9.3) in plain words. */
function wordsOfStreamError(error: Element) {
  const condition = error.firstElementChild?.localName ?? "";
  const own = [...error.children].find((child) => child.localName === "text")?.textContent?.slice(0, 300);
  const words: Record<string, string> = {
    "host-unknown": "This server does not serve that domain. Check the part after the @ of your address.",
    conflict: "You have logged in here from another place.",
    "policy-violation": "The server ended the connection because a limit was reached.",
    "system-shutdown": "The server is restarting.",
    "not-authorized": "The server ended the connection because nobody logged in.",
  };
  return own ?? words[condition] ?? `The server ended the connection (${condition}).`;
}
