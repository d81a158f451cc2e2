/**
 * The messages of a conversation in the order of its archive, each once, with what others said about them: corrections, reactions,
 * retractions. Order follows the archive and arrival, never clocks, for those of client and server differ.
 */

import type { Content, Author } from "../ext/content";

export type Delivery = "sending" | "sent" | "received" | "read" | "failed";

export interface Message {
  /** A key for the screen. */
  key: number;
  author: Author;
  stanzaId?: string;
  id?: string;
  time: number;
  text: string;
  file?: string;
  replyTo?: string;
  /** The sender wants to know when it was read (XEP-0333). */
  isMarkable: boolean;
  edited: boolean;
  /** When it was corrected, and when each author reacted, for the last time. */
  changedAt?: Map<string, number>;
  retracted?: { reason?: string; moderated: boolean };
  /** Each reaction, and who has it. */
  reactions: Map<string, Author[]>;
  /** Of own messages. */
  delivery?: Delivery;
  problem?: string;
}

/** As many messages of a conversation are kept. */
export const MESSAGES_MAX = 1000;
const REACTIONS_MAX = 20;
const REACTORS_MAX = 200;
/** Of what refers to messages that are not there (yet). */
const EARLY_MAX = 200;

export class Timeline {
  messages: Message[] = [];
  /** The archive has nothing before the first message. */
  complete = false;
  /** The place in the archive before which older messages are, and after which newer ones. */
  oldest?: string;
  newest?: string;
  #byStanzaId = new Map<string, Message>();
  #byId = new Map<string, Message>();
  #early: Content[] = [];
  #nextKey = 0;

  /** Puts in what was said at a position, unless it is there already: the position after it, and the message if it is new. */
  insert(content: Content, at = this.messages.length): { next: number; message?: Message } {
    if (content.kind !== "text" && content.kind !== "tombstone") {
      if (content.kind !== "other" && content.kind !== "subject") this.#refer(content);
      return { next: at };
    }
    const known = this.#known(content);
    if (content.kind === "text" && content.replaces !== undefined && !known) {
      this.#refer(content);
      return { next: at };
    }
    if (known) {
      const waited = known.delivery === "sending" || known.delivery === "failed";
      this.#confirm(known, content);
      const where = this.messages.lastIndexOf(known);
      if (!waited) return { next: Math.max(at, where + 1) };
      // All occupants of a room see one order: an own message stands where the archive has it.
      this.messages.splice(where, 1);
      const place = where < at ? at - 1 : at;
      this.messages.splice(place, 0, known);
      return { next: place + 1 };
    }
    const message: Message = {
      key: this.#nextKey++,
      author: content.author,
      stanzaId: content.stanzaId,
      id: content.id,
      time: content.time,
      text: content.kind === "text" ? content.text : "",
      file: content.kind === "text" ? content.file : undefined,
      replyTo: content.kind === "text" ? content.replyTo : undefined,
      isMarkable: content.kind === "text" && content.isMarkable,
      edited: false,
      retracted: content.kind === "tombstone" ? { moderated: false } : undefined,
      reactions: new Map(),
      delivery: content.author.own ? "sent" : undefined,
    };
    this.messages.splice(at, 0, message);
    this.#index(message);
    this.#settle();
    return { next: at + 1, message };
  }

  /** An own message that leaves now. */
  send(content: Content & { kind: "text" }): Message {
    const { message } = this.insert(content);
    message!.delivery = "sending";
    return message!;
  }

  /** The message that others name by this id: by the archive's, or by the sender's own one. */
  find(ref: string, author?: Author): Message | undefined {
    return this.#byStanzaId.get(ref) ?? (author ? this.#byId.get(idKey(author, ref)) : this.messages.findLast((one) => one.id === ref));
  }

  /** A receipt is for one message; who has displayed one has seen all before it. */
  delivered(id: string, state: "received" | "read") {
    for (let at = this.messages.findLastIndex((one) => one.author.own && (one.id === id || one.stanzaId === id)); at >= 0; at--) {
      const one = this.messages[at]!;
      if (one.delivery === "read" && state === "read") return;
      if (one.author.own && one.delivery !== "failed" && one.delivery !== "read") one.delivery = state;
      if (state === "received") return;
    }
  }

  /** Keeps memory and page small: what leaves at the head can be had from the archive again. Gives how many have left. */
  trim(max = MESSAGES_MAX) {
    const over = this.messages.length - max;
    if (over <= 0) return 0;
    for (const message of this.messages.splice(0, over)) this.#forget(message);
    this.complete = false;
    this.oldest = this.messages.find((one) => one.stanzaId)?.stanzaId;
    return over;
  }

  /** Forgets all but what has not left yet. */
  clear() {
    const waiting = this.messages.filter((one) => one.delivery === "sending" || one.delivery === "failed");
    this.messages = [];
    this.#byStanzaId.clear();
    this.#byId.clear();
    this.#early = [];
    this.complete = false;
    this.oldest = this.newest = undefined;
    for (const message of waiting) {
      this.messages.push(message);
      this.#index(message);
    }
  }

  #known(content: Content) {
    return (content.stanzaId && this.#byStanzaId.get(content.stanzaId)) || (content.id && this.#byId.get(idKey(content.author, content.id))) || undefined;
  }

  /** The same message has come again, by an archive, a carbon or as a room's echo. */
  #confirm(message: Message, content: Content) {
    message.stanzaId ??= content.stanzaId;
    if (message.delivery === "sending" || message.delivery === "failed") {
      message.delivery = "sent";
      message.author = content.author;
    }
    this.#index(message);
    this.#settle();
  }

  #index(message: Message) {
    if (message.stanzaId) this.#byStanzaId.set(message.stanzaId, message);
    if (message.id) this.#byId.set(idKey(message.author, message.id), message);
  }

  #forget(message: Message) {
    if (message.stanzaId) this.#byStanzaId.delete(message.stanzaId);
    if (message.id) this.#byId.delete(idKey(message.author, message.id));
  }

  /** Applies what refers to a message, or keeps it until the message is there: archives are read backwards. */
  #refer(content: Content) {
    if (this.#apply(content)) return;
    this.#early.push(content);
    this.#early.sort((one, other) => one.time - other.time);
    if (this.#early.length > EARLY_MAX) this.#early.shift();
  }

  #settle() {
    if (this.#early.length > 0) this.#early = this.#early.filter((content) => !this.#apply(content));
  }

  #apply(content: Content): boolean {
    switch (content.kind) {
      case "text": {
        // Only the sender may correct (XEP-0308 5).
        const message = this.#byId.get(idKey(content.author, content.replaces!));
        if (!message || message.author.key !== content.author.key) return false;
        if (!message.retracted && this.#isNewest(message, "", content.time)) Object.assign(message, { text: content.text, file: content.file, edited: true });
        return true;
      }
      case "reactions": {
        const message = this.find(content.to);
        if (!message) return false;
        if (this.#isNewest(message, content.author.key, content.time)) this.#react(message, content.author, content.emojis);
        return true;
      }
      case "retraction": {
        const message = this.find(content.of);
        if (!message) return false;
        if (!content.moderated && message.author.key !== content.author.key) return true;
        Object.assign(message, { retracted: { reason: content.reason, moderated: content.moderated }, text: "", file: undefined, reactions: new Map() });
        return true;
      }
      default:
        return true;
    }
  }

  /** What was missed may come after what is newer: the last word of each author counts. */
  #isNewest(message: Message, what: string, time: number) {
    const times = (message.changedAt ??= new Map());
    if (time < (times.get(what) ?? 0) || (times.size >= REACTORS_MAX && !times.has(what))) return false;
    times.set(what, time);
    return true;
  }

  #react(message: Message, author: Author, emojis: string[]) {
    if (message.retracted) return;
    for (const [emoji, authors] of message.reactions) {
      const rest = authors.filter(({ key }) => key !== author.key);
      if (rest.length > 0) message.reactions.set(emoji, rest);
      else message.reactions.delete(emoji);
    }
    for (const emoji of emojis) {
      const authors = message.reactions.get(emoji) ?? [];
      if ((authors.length === 0 && message.reactions.size >= REACTIONS_MAX) || authors.length >= REACTORS_MAX) continue;
      message.reactions.set(emoji, [...authors, author]);
    }
  }
}

const idKey = (author: Author, id: string) => `${author.own ? "" : author.key}\n${id}`;
