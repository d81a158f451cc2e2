/** What the user says. It leaves once: what a lost connection kept back is sent again after the archive was asked for it. */

import * as corrections from "../ext/corrections";
import * as hints from "../ext/hints";
import * as ids from "../ext/ids";
import * as markers from "../ext/markers";
import * as oob from "../ext/oob";
import * as reactions from "../ext/reactions";
import * as receipts from "../ext/receipts";
import * as replies from "../ext/replies";
import * as retraction from "../ext/retraction";
import * as states from "../ext/states";
import * as displayed from "../ext/displayed";
import { upload } from "../ext/upload";
import type { Author, Content } from "../ext/content";
import { Person, Room, type Conversation } from "../store/conversation";
import type { Message } from "../store/timeline";
import { newId, x, type Node } from "../xmpp/xml";
import type { StanzaError } from "../xmpp/session";
import type { App } from "./app";

/** As much may wait for a connection. */
export const WAITING_MAX = 100;
/** As long as servers take it without a word, in bytes of the text. */
export const TEXT_BYTES_MAX = 10_000;
const TYPING_EVERY_MS = 10_000;

interface Waiting {
  conversation: Conversation;
  stanza: Node;
  /** The session in which it was sent last. */
  generation: number;
}

export class Sending {
  #waiting = new Map<string, Waiting>();
  #typedAt = 0;
  #typesIn?: Conversation;
  #pauses?: ReturnType<typeof setTimeout>;

  constructor(private app: App) {}

  get isFull() {
    return this.#waiting.size >= WAITING_MAX;
  }

  text(conversation: Conversation, text: string, file?: string) {
    const { edits, replyTo } = conversation;
    conversation.draft = "";
    conversation.edits = conversation.replyTo = undefined;
    this.#typesIn = undefined;
    if (edits) return this.#correct(conversation, edits, text);
    const id = newId();
    const nodes: Node[] = [ids.origin(id), states.write("active")];
    let body = text;
    const ref = replyTo && refOf(conversation, replyTo);
    if (replyTo && ref) {
      const to = conversation instanceof Room ? `${conversation.jid}/${replyTo.author.name}` : replyTo.author.key;
      const reply = replies.write(to, ref, replyTo.text, text);
      body = reply.body;
      nodes.push(...reply.nodes);
    }
    if (file) nodes.push(oob.write(file));
    if (!(conversation instanceof Room)) nodes.push(receipts.request(), markers.markable());
    conversation.timeline.send({ kind: "text", author: this.#author(conversation), id, time: Date.now(), text, file, replyTo: ref, isMarkable: false });
    conversation.activeAt = Date.now();
    this.#send(conversation, id, x("body", {}, body), ...nodes);
    this.app.changed();
  }

  #correct(conversation: Conversation, message: Message, text: string) {
    const id = newId();
    const said: Content = { kind: "text", author: this.#author(conversation), id, time: Date.now(), text, replaces: message.id, isMarkable: false };
    conversation.timeline.insert({ ...said, author: message.author });
    this.#send(conversation, id, x("body", {}, text), corrections.write(message.id!), ids.origin(id));
  }

  react(conversation: Conversation, message: Message, emoji: string) {
    const ref = refOf(conversation, message);
    if (!ref) return;
    const author = this.#author(conversation);
    const own = [...message.reactions].filter(([, authors]) => authors.some((one) => one.own)).map(([one]) => one);
    const emojis = own.includes(emoji) ? own.filter((one) => one !== emoji) : [...own, emoji].slice(-5);
    const id = newId();
    conversation.timeline.insert({ kind: "reactions", author, id, time: Date.now(), to: ref, emojis });
    this.#send(conversation, id, reactions.write(ref, emojis), hints.store());
  }

  retract(conversation: Conversation, message: Message) {
    const ref = refOf(conversation, message);
    if (!ref) return;
    const id = newId();
    conversation.timeline.insert({ kind: "retraction", author: message.author, id, time: Date.now(), of: ref, moderated: false });
    this.#send(conversation, id, ...retraction.write(ref), hints.store());
  }

  async moderate(room: Room, message: Message) {
    if (!message.stanzaId) return;
    try {
      await this.app.session.iq("set", room.jid, retraction.moderate(message.stanzaId));
    } catch (error) {
      this.app.tell(`The message could not be removed. ${(error as Error).message}`);
    }
  }

  /** The user presses keys; `isOver` when the text is empty again. */
  types(conversation: Conversation, isOver: boolean) {
    clearTimeout(this.#pauses);
    if (isOver) {
      if (this.#typesIn === conversation) this.#state(conversation, "active");
      this.#typesIn = undefined;
      return;
    }
    if (this.#typesIn !== conversation || Date.now() - this.#typedAt > TYPING_EVERY_MS) {
      this.#state(conversation, "composing");
      [this.#typesIn, this.#typedAt] = [conversation, Date.now()];
    }
    this.#pauses = setTimeout(() => {
      if (this.#typesIn === conversation) this.#state(conversation, "paused");
      this.#typesIn = undefined;
    }, TYPING_EVERY_MS);
  }

  /** Tells the sender that a message has come. */
  receipt(to: string, id: string) {
    this.#plain(x("message", { xmlns: "jabber:client", to, type: "chat", id: newId() }, receipts.received(id), hints.store()));
  }

  /** Tells the sender, and the user's other clients, what has been read. */
  read(conversation: Conversation, message: Message) {
    // Strangers learn nothing of the user.
    if (conversation instanceof Person && message.id && message.isMarkable && conversation.isTrusted) {
      const marker = markers.displayed(message.id);
      this.#plain(x("message", { xmlns: "jabber:client", to: conversation.jid, type: "chat", id: newId() }, marker, hints.store()));
    }
    if (!message.stanzaId || this.app.isGuest || message.stanzaId === conversation.readId) return;
    conversation.readId = message.stanzaId;
    displayed.publish(this.app.session, conversation.jid, message.stanzaId, conversation instanceof Room ? conversation.jid : this.app.me).catch(() => {});
  }

  async file(conversation: Conversation, file: File, onProgress: (part: number) => void, signal: AbortSignal) {
    if (!this.app.services.upload) throw new Error("This server takes no files.");
    const url = await upload(this.app.session, this.app.services.upload, file, onProgress, signal);
    const { draft, edits, replyTo } = conversation;
    conversation.edits = conversation.replyTo = undefined;
    this.text(conversation, url, url);
    Object.assign(conversation, { draft, edits, replyTo });
  }

  /** The server has it. In a room it counts when the room has sent it back. */
  acked(stanza: Node) {
    const waiting = this.#waiting.get(stanza.attrs.id ?? "");
    if (!waiting) return;
    if (!(waiting.conversation instanceof Room) || !stanza.children.some((one) => typeof one !== "string" && one.name === "body")) this.#waiting.delete(stanza.attrs.id!);
    if (waiting.conversation instanceof Room) return;
    const message = waiting.conversation.timeline.messages.findLast((one) => one.id === stanza.attrs.id);
    if (message?.delivery === "sending") message.delivery = "sent";
    waiting.conversation.changed();
  }

  /** It has come back, or was found in an archive. */
  arrived(id: string | undefined) {
    if (id) this.#waiting.delete(id);
  }

  failed(id: string, error: StanzaError) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    const conversation = waiting?.conversation;
    const message = conversation?.timeline.messages.findLast((one) => one.id === id);
    if (message) Object.assign(message, { delivery: "failed", problem: words(error) });
    else if (conversation) this.app.tell(words(error));
    conversation?.changed();
  }

  /** After a new session has caught up: sends again what is in no archive. Receivers know a message by its id. */
  resend(which: (conversation: Conversation) => boolean) {
    const { generation } = this.app.session;
    for (const [id, waiting] of this.#waiting) {
      const { conversation, stanza } = waiting;
      if (!which(conversation) || waiting.generation === generation) continue;
      waiting.generation = generation;
      const message = conversation.timeline.messages.findLast((one) => one.id === id);
      if (message && message.delivery !== "sending") this.#waiting.delete(id);
      else this.#plain(stanza);
    }
  }

  /** Sends what has failed again, at the user's wish. */
  again(conversation: Conversation, message: Message) {
    message.problem = undefined;
    const at = conversation.timeline.messages.indexOf(message);
    if (at >= 0) conversation.timeline.messages.splice(at, 1);
    this.text(conversation, message.text, message.file);
  }

  #send(conversation: Conversation, id: string, ...children: Node[]) {
    const type = conversation instanceof Room ? "groupchat" : "chat";
    const stanza = x("message", { xmlns: "jabber:client", to: conversation.jid, type, id }, ...children);
    const { session } = this.app;
    const leaves = session.online || session.isResumable;
    this.#waiting.set(id, { conversation, stanza, generation: leaves ? session.generation : -1 });
    this.#plain(stanza);
    conversation.changed();
  }

  #state(conversation: Conversation, state: states.State) {
    if (!this.app.session.online || (conversation instanceof Room && conversation.state !== "in")) return;
    const type = conversation instanceof Room ? "groupchat" : "chat";
    this.#plain(x("message", { xmlns: "jabber:client", to: conversation.jid, type, id: newId() }, states.write(state), hints.noStore()));
  }

  #plain(stanza: Node) {
    this.app.session.send(stanza);
  }

  #author(conversation: Conversation): Author {
    if (!(conversation instanceof Room)) return { name: this.app.me, key: this.app.me, own: true };
    return { name: conversation.nick, key: conversation.self?.id ?? `nick ${conversation.nick}`, own: true };
  }
}

/** The id by which others know a message: in rooms that of the room (XEP-0444 4.2, XEP-0461 3.1). */
const refOf = (conversation: Conversation, message: Message) => (conversation instanceof Room ? message.stanzaId : message.id);

function words({ condition, text }: StanzaError) {
  const known: Record<string, string> = {
    "item-not-found": "There is nobody by this address.",
    "service-unavailable": "The message was not delivered: there is nobody by this address, or they do not take messages from you.",
    "remote-server-not-found": "There is no such server. Check the address.",
    forbidden: "You may not write here. Ask a moderator for voice.",
    "not-acceptable": "You are not in this room any more. Enter it again.",
    "policy-violation": "The server took this for too much. Wait a moment, then send it again.",
    "resource-constraint": "The server took this for too much. Wait a moment, then send it again.",
  };
  return known[condition] ?? (text || `The message was not delivered (${condition}).`);
}
