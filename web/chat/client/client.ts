/** The client: a session, what the user sees of it, and what the user can do. */

import * as carbons from "../ext/carbons";
import * as disco from "../ext/disco";
import * as displayed from "../ext/displayed";
import type { Invitation } from "../ext/invitations";
import * as upload from "../ext/upload";
import { Person, type Conversation, type Room } from "../store/conversation";
import type { Message } from "../store/timeline";
import { domain } from "../xmpp/jid";
import type { Account } from "../xmpp/sasl";
import { Session, StanzaError } from "../xmpp/session";
import { x } from "../xmpp/xml";
import { App } from "./app";
import { History } from "./history";
import * as incoming from "./incoming";
import { People } from "./people";
import { nickOf, Rooms } from "./rooms";
import { Sending } from "./sending";

/** Services of a domain that are looked at. */
const SERVICES_MAX = 20;

export class Client {
  readonly app: App;
  readonly history: History;
  readonly sending: Sending;
  readonly people: People;
  readonly rooms: Rooms;
  onToken: (token: string | undefined) => void = () => {};
  /** The message that was read last, by its key. */
  #readKeys = new WeakMap<Conversation, number>();

  constructor(url: string, account: Account, guestName = "") {
    const session = new Session(url, account);
    this.app = new App(session, "guestOf" in account, guestName);
    this.history = new History(this.app);
    this.sending = new Sending(this.app);
    this.people = new People(this.app);
    this.rooms = new Rooms(this);
    session.onStanza = (element) => incoming.stanza(this, element);
    session.onAcked = (stanza) => this.sending.acked(stanza);
    session.onStatus = () => this.app.changed();
    session.onToken = (token) => this.onToken(token);
    session.onBegin = (resumed) => void (resumed ? this.#resumed() : this.#begin());
    addEventListener("focus", this.#looked);
    document.addEventListener("visibilitychange", this.#looked);
  }

  get nick() {
    return this.app.guestName || nickOf(this.app.me);
  }

  async #begin() {
    const { app, history, people, rooms } = this;
    const isAgain = app.conversations.size > 0;
    if (!app.isGuest) history.lost();
    people.reset();
    const caps = (rooms.caps = await disco.caps());
    const again = isAgain ? rooms.enterAgain() : undefined;
    const own = app.isGuest ? [] : [people.load(), app.session.iq("set", undefined, carbons.enable()), this.#loadDisplayed()];
    await Promise.allSettled([...own, this.#discover()]);
    app.session.send(x("presence", { xmlns: "jabber:client" }, caps));
    app.changed();
    if (!app.isGuest) {
      // Rooms come beside it: a room that does not answer must not keep people waiting.
      rooms.load().catch(() => {});
      await history.catchUp();
    }
    this.#resend();
    await again;
  }

  /** Nothing was lost, but what was asked may not have been answered. */
  async #resumed() {
    const behind = this.app.rooms.filter((room) => room.state === "in" && room.gap !== undefined);
    await Promise.all([...behind.map((room) => this.history.catchUpRoom(room)), this.app.isGuest || this.history.catchUp()]);
    this.#resend();
  }

  /** What an archive may have is not sent again before the archive has been read. */
  #resend() {
    this.sending.resend((one) => one.gap === undefined && (one instanceof Person || (one as Room).state === "in"));
  }

  async #loadDisplayed() {
    try {
      this.app.displayed = await displayed.list(this.app.session);
    } catch (error) {
      // Nothing has been read yet, or the server keeps no such thing.
      if (!(error instanceof StanzaError) || error.condition !== "item-not-found") return;
    }
    this.app.hasDisplayed = true;
    for (const [jid, id] of this.app.displayed) {
      const known = this.app.conversations.get(jid);
      if (known) known.readId ??= id;
    }
  }

  /** Finds the services of the user's domain, or of the one that the page is for. */
  async #discover() {
    const { session, services } = this.app;
    const items = (await disco.items(session, domain(session.jid))).slice(0, SERVICES_MAX);
    await Promise.allSettled(items.map(async ({ jid }) => {
      const { identities, features, form } = await disco.info(session, jid);
      if (identities.some(({ category, type }) => category === "conference" && type === "text")) services.rooms ??= jid;
      if (features.has(upload.NS)) services.upload ??= { jid, bytesMax: Number(form.get("max-file-size")) || undefined };
    }));
  }

  select(conversation: Conversation | undefined) {
    const { app } = this;
    if (app.selected && app.selected !== conversation) {
      this.sending.types(app.selected, true);
      app.selected.trim(200);
    }
    app.selected = conversation;
    if (conversation) {
      const { messages } = conversation.timeline;
      conversation.newFrom = conversation.unread > 0 ? messages.filter((one) => !one.author.own).at(-conversation.unread)?.key : undefined;
      if (!conversation.isLoaded && (conversation instanceof Person)) void this.history.older(conversation);
      this.read(conversation);
    }
    app.changed();
  }

  /** Opens a conversation with an address. */
  talkTo(jid: string) {
    const known = this.app.conversations.get(this.app.keyOf(jid));
    this.select(known ?? this.app.person(jid));
  }

  /** Enters a room and looks at it. */
  async visit(jid: string, options: Partial<Pick<Room, "nick" | "password" | "settings">> = {}) {
    const room = this.app.room(jid);
    Object.assign(room, options);
    this.app.invitations = this.app.invitations.filter((one) => one.room !== room.jid);
    this.select(room);
    await this.rooms.enter(room);
    if (room.state === "in") this.rooms.keep(room);
  }

  isLookedAt = (conversation: Conversation) => conversation === this.app.selected && !document.hidden && document.hasFocus();

  /** The user has seen the newest message of a conversation. */
  read(conversation: Conversation) {
    const had = conversation.unread > 0 || conversation.isMentioned;
    conversation.unread = 0;
    conversation.isMentioned = false;
    const last = conversation.timeline.messages.findLast((one) => !one.author.own);
    if (last && last.key !== this.#readKeys.get(conversation)) {
      this.#readKeys.set(conversation, last.key);
      if (this.app.session.online && last.stanzaId !== conversation.readId) this.sending.read(conversation, last);
    }
    if (had) this.app.changed();
    conversation.changed();
  }
  #looked = () => {
    const { selected } = this.app;
    if (selected && this.isLookedAt(selected)) this.read(selected);
  };

  /** Another client of the user has shown a message. */
  readElsewhere(jid: string, id: string) {
    this.app.displayed.set(jid, id);
    const conversation = this.app.conversations.get(jid);
    if (!conversation) return;
    conversation.readId = id;
    const at = conversation.timeline.messages.findLastIndex((one) => one.stanzaId === id || one.id === id);
    if (at < 0) return;
    conversation.unread = conversation.timeline.messages.slice(at + 1).filter((one) => !one.author.own).length;
    conversation.isMentioned &&= conversation.unread > 0;
    conversation.changed();
    this.app.changed();
  }

  invited(invitation: Invitation) {
    this.app.invited(invitation);
  }

  /** Shows a notification of the browser, if the user wants them. */
  notify(conversation: Conversation, message: Message) {
    if (!("Notification" in globalThis) || Notification.permission !== "granted") return;
    const title = conversation.kind === "room" ? `${message.author.name} in ${conversation.name}` : conversation.name;
    try {
      const shown = new Notification(title.slice(0, 100), { body: message.text.slice(0, 200), tag: conversation.jid });
      shown.onclick = () => (window.focus(), this.select(conversation), shown.close());
    } catch {
      // Some browsers of phones have the name, but refuse to be asked by a page.
    }
  }

  end(why = "") {
    removeEventListener("focus", this.#looked);
    document.removeEventListener("visibilitychange", this.#looked);
    this.rooms.end();
    this.app.session.end(why);
  }
}
