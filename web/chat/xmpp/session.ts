/** A user's session: it logs in, comes back by itself when the connection is lost, and asks questions. */

import { bare, local } from "./jid";
import { Management, SM } from "./management";
import { authenticate, hasTokens, mechanisms, Refused, type Account } from "./sasl";
import { Socket } from "./socket";
import { attr, first, newId, textOf, x, type Node } from "./xml";

const BIND = "urn:ietf:params:xml:ns:xmpp-bind";
const STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas";
const IQ_MS = 30_000;
/** After so long without a byte the server is asked for a sign of life, and after so long again it is given up. */
const SILENCE_MS = 30_000;
const PATIENCE_MS = 10_000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 30_000;

export type Status = { state: "connecting" | "online" } | { state: "waiting"; why: string; until: number } | { state: "ended"; why: string };

/** An error that a stanza was answered with (RFC 6120 8.3). */
export class StanzaError extends Error {
  constructor(readonly condition: string, readonly text: string) {
    super(text || condition);
  }

  static of(stanza: Element) {
    const error = first(stanza, "error");
    const condition = error && [...error.children].find((child) => child.namespaceURI === STANZAS && child.localName !== "text");
    return new StanzaError(condition?.localName ?? "undefined-condition", (textOf(error, "text", STANZAS) ?? "").slice(0, 300));
  }
}

export class Session {
  /** The full JID, once there is one. */
  jid = "";
  /** How many sessions have begun: what was sent in one that is over may be lost. */
  generation = 0;
  status: Status = { state: "connecting" };
  onStatus: () => void = () => {};
  /** A session has begun: `resumed` tells whether it is the one from before, in which nothing was lost. */
  onBegin: (resumed: boolean) => void = () => {};
  onStanza: (stanza: Element) => void = () => {};
  /** The server has taken over the responsibility for this stanza. */
  onAcked: (stanza: Node) => void = () => {};
  /** There is a new token to stay logged in with, or none any more. */
  onToken: (token: string | undefined) => void = () => {};
  #socket?: Socket;
  #management?: Management;
  #questions = new Map<string, { to?: string; done: (answer: Element) => void; failed: (error: Error) => void; timer: ReturnType<typeof setTimeout> }>();
  #retryMs = RETRY_MS_MIN;
  #retryTimer?: ReturnType<typeof setTimeout>;
  #asks = false;
  #watch?: ReturnType<typeof setInterval>;
  #askedAt = 0;
  #hasCsi = false;
  #inactive = false;

  constructor(private url: string, private account: Account) {}

  get bare() {
    return bare(this.jid);
  }

  /** Stanzas written without a connection are sent after resumption (XEP-0198 5). */
  get isResumable() {
    return this.#management?.id !== undefined;
  }

  get online() {
    return this.status.state === "online";
  }

  /** Connects. The first attempt fails at once with the reason; later ones are repeated. */
  async start() {
    await this.#connect();
    addEventListener("online", this.#now);
    // Firefox lets nothing leave once the page is hidden.
    addEventListener("beforeunload", this.#leaving);
    document.addEventListener("visibilitychange", this.#seen);
    this.#watch = setInterval(() => this.#listen(), 5000);
  }

  /** Logs out. */
  end(why = "") {
    this.#stop();
    this.#socket?.close();
    this.#set({ state: "ended", why });
  }

  /** Sends a stanza. Without a connection it leaves when the session is resumed; whether it is not is up to the caller. */
  send(stanza: Node) {
    if (!this.online && !this.#management?.id) return;
    this.#management?.sent(stanza);
    if (!this.online) return;
    this.#socket?.send(stanza);
    // A server without stream management says nothing about what it has.
    if (!this.#management) this.onAcked(stanza);
    if (stanza.name !== "message" || !this.#management || this.#asks) return;
    // One question for what leaves at once.
    this.#asks = true;
    setTimeout(() => {
      this.#asks = false;
      if (this.online && this.#management) this.#socket?.send(this.#management.request());
    });
  }

  /** Asks, and gives the answer. */
  iq(type: "get" | "set", to: string | undefined, payload: Node, ms = IQ_MS): Promise<Element> {
    return new Promise((done, failed) => {
      if (!this.online) return failed(new Error("You are not connected. Try again in a moment."));
      const id = newId();
      const timer = setTimeout(() => (this.#questions.delete(id), failed(new Error("There was no answer in time. Try again."))), ms);
      this.#questions.set(id, { to, done, failed, timer });
      this.send(x("iq", { xmlns: "jabber:client", type, to, id }, payload));
    });
  }

  async #connect() {
    this.#set({ state: "connecting" });
    const account = this.account;
    const socket = (this.#socket = new Socket(this.url, "guestOf" in account ? account.guestOf : account.jid.split("@")[1]!));
    try {
      const user = "guestOf" in account ? "" : local(account.jid);
      const login = await authenticate(socket, await socket.open(), account, user);
      if ("jid" in account && login.token !== account.token) {
        this.onToken((account.token = login.token));
      }
      const resumed = await this.#begin(socket, login.features);
      socket.onFrame = (frame) => this.#frame(frame);
      socket.onClose = (why) => this.#lost(socket, why);
      this.#retryMs = RETRY_MS_MIN;
      this.#set({ state: "online" });
      this.onBegin(resumed);
      this.#csi();
      socket.negotiated();
    } catch (error) {
      socket.drop("");
      throw error;
    }
  }

  /** Resumes the session before (XEP-0198 5), or begins one: whether it was resumed. */
  async #begin(socket: Socket, features: Element): Promise<boolean> {
    this.#hasCsi = first(features, "csi", "urn:xmpp:csi:0") !== undefined;
    const before = this.#management;
    if (before?.id) {
      socket.send(before.resume());
      const answer = await socket.next();
      if (attr(answer, "h") !== undefined) before.acked(answer);
      if (answer.localName === "resumed") {
        for (const stanza of before.waiting) socket.send(stanza);
        return true;
      }
    }
    this.#management = undefined;
    for (const id of [...this.#questions.keys()]) this.#settle(id)?.failed(new Error("The connection was lost. Try again."));
    socket.send(x("iq", { xmlns: "jabber:client", type: "set", id: "bind" }, x("bind", { xmlns: BIND })));
    const bound = await socket.next();
    if (attr(bound, "type") !== "result") throw StanzaError.of(bound);
    this.generation++;
    this.jid = textOf(first(bound, "bind", BIND), "jid") ?? "";
    if (first(features, "sm", SM)) {
      const management = new Management((stanza) => this.onAcked(stanza));
      socket.send(Management.enable());
      const answer = await socket.next();
      if (answer.localName === "enabled") {
        management.enabled(answer);
        this.#management = management;
      }
    }
    return false;
  }

  #frame(frame: Element) {
    if (frame.namespaceURI === SM) {
      if (frame.localName === "r" && this.#management) this.#socket?.send(this.#management.answer());
      if (frame.localName === "a") this.#management?.acked(frame);
      return;
    }
    this.#management?.received();
    const [type, id] = [attr(frame, "type"), attr(frame, "id") ?? ""];
    if (frame.localName === "iq" && (type === "result" || type === "error")) {
      const question = this.#questions.get(id);
      if (!question || !this.#mayAnswer(attr(frame, "from"), question.to)) return;
      this.#settle(id);
      return type === "result" ? question.done(frame) : question.failed(StanzaError.of(frame));
    }
    try {
      this.onStanza(frame);
    } catch (error) {
      // One stanza that this page does not understand must not keep others from being shown.
      console.warn("a stanza was left out", error);
    }
  }

  /** An answer counts from the address that was asked (RFC 6120 8.1.2.1). */
  #mayAnswer(from: string | undefined, to: string | undefined) {
    const own = [this.bare, this.jid.toLowerCase(), bare(this.jid).split("@")[1]];
    if (to === undefined) return from === undefined || own.includes(from.toLowerCase());
    return from?.toLowerCase() === to.toLowerCase() || (from === undefined && bare(to) === this.bare);
  }

  #settle(id: string) {
    const question = this.#questions.get(id);
    if (question) clearTimeout(question.timer);
    this.#questions.delete(id);
    return question;
  }

  #lost(socket: Socket, why: string) {
    if (socket !== this.#socket || this.status.state === "ended") return;
    this.#retry(why);
  }

  #retry(why: string) {
    clearTimeout(this.#retryTimer);
    // Many pages lose their server at the same time: they should not all come back at once.
    const ms = this.#retryMs * (0.5 + Math.random());
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
    this.#set({ state: "waiting", why, until: Date.now() + ms });
    this.#retryTimer = setTimeout(this.#now, ms);
  }

  /** Tries again at once. */
  #now = () => {
    if (this.status.state !== "waiting") return;
    clearTimeout(this.#retryTimer);
    this.#connect().catch((error: Error) => {
      if (!(error instanceof Refused)) return this.#retry(error.message);
      this.onToken(undefined);
      this.#stop();
      this.#set({ state: "ended", why: error.message });
    });
  };

  retryNow() {
    this.#now();
  }

  /** A connection may be dead without an end: a page that wakes up, or a silent one, asks. */
  #listen() {
    const socket = this.#socket;
    if (!this.online || !socket) return;
    const now = performance.now();
    if (this.#askedAt > socket.heardAt) {
      if (now - this.#askedAt > PATIENCE_MS) socket.drop("The connection was lost.");
    } else if (now - socket.heardAt > SILENCE_MS) this.#probe();
  }

  #probe() {
    this.#askedAt = performance.now();
    if (this.#management) this.#socket?.send(this.#management.request());
    else this.iq("get", undefined, x("ping", { xmlns: "urn:xmpp:ping" })).catch(() => {});
  }

  #seen = () => {
    this.#csi();
    if (document.hidden) return;
    if (this.online) this.#probe();
    else this.#now();
  };

  /** A page that is closed resumes nothing: others should see at once that its user has gone. */
  #leaving = () => {
    if (this.#management) this.#socket?.send(this.#management.answer());
    this.#management = undefined;
    this.#socket?.close();
  };

  /** Nobody looks at a hidden page (XEP-0352). */
  #csi() {
    if (!this.online || !this.#hasCsi || (document.hidden === this.#inactive && this.#inactive === false)) return;
    this.#inactive = document.hidden;
    this.#socket?.send(x(this.#inactive ? "inactive" : "active", { xmlns: "urn:xmpp:csi:0" }));
  }

  #stop() {
    clearTimeout(this.#retryTimer);
    clearInterval(this.#watch);
    removeEventListener("online", this.#now);
    removeEventListener("beforeunload", this.#leaving);
    document.removeEventListener("visibilitychange", this.#seen);
    for (const id of [...this.#questions.keys()]) this.#settle(id)?.failed(new Error("You have logged out."));
  }

  #set(status: Status) {
    this.status = status;
    this.onStatus();
  }
}

/** What a server offers to strangers. */
export interface Offers {
  register: boolean;
  guests: boolean;
  /** Somebody may stay logged in without the page keeping the password. */
  tokens: boolean;
}

/** Asks a domain what it offers before a login. */
export async function offers(url: string, domain: string): Promise<Offers> {
  const socket = new Socket(url, domain);
  try {
    const features = await socket.open();
    return {
      register: first(features, "register", "http://jabber.org/features/iq-register") !== undefined,
      guests: mechanisms(features).includes("ANONYMOUS"),
      tokens: hasTokens(features),
    };
  } finally {
    socket.close();
  }
}
