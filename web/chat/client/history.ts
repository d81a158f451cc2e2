/** What the archives have: the newest page, older ones by scrolling, and what was missed while the connection was lost. */

import * as content from "../ext/content";
import * as invitations from "../ext/invitations";
import type { Entry, Page } from "../ext/archive";
import { Conversation, Person, Room } from "../store/conversation";
import { MESSAGES_MAX } from "../store/timeline";
import { bare } from "../xmpp/jid";
import { StanzaError } from "../xmpp/session";
import { attr } from "../xmpp/xml";
import type { App } from "./app";

const PAGE = 50;
/** So many pages are fetched for what was missed; beyond them only the newest page is. */
const PAGES_MAX = 10;
/** Reactions and the like take entries of a page: so many pages are fetched until there is something to show. */
const TRIES = 4;

export class History {
  /** The place in the user's archive up to which nothing is missing, and the newest one that was seen live. */
  #newest?: string;
  #live?: string;
  #isBehind = false;
  #hasOwn = true;

  constructor(private app: App) {}

  /** A live message of the user's archive. While something is missing, it does not move the place to go on from. */
  saw(stanzaId: string | undefined) {
    if (!stanzaId) return;
    this.#live = stanzaId;
    if (!this.#isBehind) this.#newest = stanzaId;
  }

  sawInRoom(room: Room, stanzaId: string) {
    room.live = stanzaId;
    if (room.gap === undefined) room.timeline.newest = stanzaId;
  }

  /** A new session begins: something may be missing. */
  lost() {
    if (!this.#isBehind) this.#live = undefined;
    this.#isBehind = true;
    for (const person of this.app.people) person.open();
  }

  /** Fetches what was missed by people's conversations, or the newest messages of all at first. What fails with the connection is made up for in the next. */
  async catchUp() {
    if (!this.#isBehind) return;
    try {
      if (!(await this.#readOn())) await this.#beginAnew();
    } catch (error) {
      if (!(error instanceof StanzaError)) return;
      // The place is too old, or there is no archive.
      await this.#beginAnew().catch(() => {});
    }
  }

  /** Reads on from the place before: whether that was all. */
  async #readOn(): Promise<boolean> {
    if (this.#newest === undefined) return false;
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      const page = await this.app.archive.page({ after: this.#newest, max: 2 * PAGE });
      this.#distribute(page.entries, true);
      if (page.last !== undefined) this.#newest = page.last;
      if (page.complete || page.last === undefined) return this.#caughtUp();
    }
    return false;
  }

  async #beginAnew() {
    if (this.#newest !== undefined) for (const one of this.app.people) this.#forget(one);
    for (const one of this.app.people) one.gap = 0;
    try {
      const page = await this.app.archive.page({ max: 2 * PAGE });
      this.#distribute(page.entries, false);
      this.#newest = page.last ?? this.#newest;
    } catch (error) {
      if (!(error instanceof StanzaError)) throw error;
      this.#hasOwn = false;
    }
    this.#caughtUp();
  }

  #caughtUp() {
    this.#isBehind = false;
    this.#newest = this.#live ?? this.#newest;
    for (const person of this.app.people) person.gap = undefined;
    return true;
  }

  /** The newest page of a room, or what was missed since. */
  async catchUpRoom(room: Room) {
    if (!room.hasArchive) {
      room.isLoaded = room.timeline.complete = true;
      return;
    }
    const { timeline } = room;
    if (room.gap === undefined) room.live = undefined;
    room.open();
    try {
      for (let pages = 0; timeline.newest !== undefined; pages++) {
        if (pages === PAGES_MAX) this.#forget(room);
        else {
          const page = await this.app.archive.page({ room: room.jid, after: timeline.newest, max: 2 * PAGE });
          this.#put(room, page.entries, true);
          timeline.newest = page.last ?? timeline.newest;
          if (page.complete || page.last === undefined) break;
        }
      }
    } catch (error) {
      // What fails with the connection is made up for in the next.
      if (!(error instanceof StanzaError)) return;
      this.#forget(room);
    }
    room.gap = undefined;
    if (timeline.newest === undefined) await this.older(room);
    timeline.newest = room.live ?? timeline.newest;
  }

  /** Fetches the page before the oldest message. */
  async older(conversation: Conversation) {
    const { timeline } = conversation;
    const isFirst = !conversation.isLoaded;
    if (conversation.isLoading || (timeline.complete && !isFirst) || !this.app.session.online) return;
    // Whether a room has an archive, and lets the user read it, is known once the user is in it.
    if (conversation instanceof Room && conversation.state !== "in") return;
    if (conversation instanceof Person ? !this.#hasOwn : !(conversation as Room).hasArchive) {
      conversation.isLoaded = timeline.complete = true;
      return;
    }
    if (timeline.messages.length + PAGE > MESSAGES_MAX) return;
    conversation.isLoading = true;
    conversation.changed();
    try {
      const before = timeline.messages.length;
      for (let tries = 0; tries < TRIES && !timeline.complete && timeline.messages.length < before + PAGE / 3; tries++) {
        const where = conversation instanceof Room ? { room: conversation.jid } : { with: conversation.jid };
        const page: Page = await this.app.archive.page({ ...where, before: timeline.oldest, max: PAGE });
        this.#put(conversation, page.entries, false, 0);
        if (page.first !== undefined) timeline.oldest = page.first;
        if (timeline.newest === undefined) timeline.newest = page.last;
        if (page.complete || page.entries.length === 0) timeline.complete = true;
      }
      conversation.problem = undefined;
      if (isFirst) this.#countUnread(conversation);
    } catch (error) {
      conversation.problem = `Older messages could not be fetched. ${(error as Error).message}`;
    } finally {
      conversation.isLoaded = true;
      conversation.isLoading = false;
      conversation.changed();
    }
  }

  /** Entries of the user's archive, each to its conversation. */
  #distribute(entries: Entry[], isNew: boolean) {
    const touched = new Set<Conversation>();
    for (const entry of entries) {
      if (attr(entry.message, "type") === "groupchat" || invitations.read(entry.message)) continue;
      const [from, to] = [attr(entry.message, "from") ?? this.app.me, attr(entry.message, "to") ?? this.app.me];
      const peer = bare(from) === this.app.me ? to : from;
      if (this.app.conversations.get(this.app.keyOf(peer)) instanceof Room) continue;
      const person = this.app.person(peer);
      person.gap ??= 0;
      this.#put(person, [entry], isNew);
      person.timeline.oldest ??= entry.id;
      touched.add(person);
    }
    if (!isNew) touched.forEach((one) => this.#countUnread(one));
    this.app.changed();
  }

  /** Puts entries in, which follow each other in the archive, from a position on: that of what is missing, if no other. */
  #put(conversation: Conversation, entries: Entry[], isNew: boolean, from?: number) {
    let at = from ?? conversation.gap ?? conversation.timeline.messages.length;
    for (const { id, message, time } of entries) {
      const author = conversation instanceof Room ? content.occupant(message, conversation.nick, conversation.self?.id) : content.person(message, this.app.me, this.app.keyOf);
      const said = content.read(message, author, conversation.jid, { id, time });
      if (said.kind === "retraction" && said.moderated && attr(message, "from")?.includes("/")) continue;
      const put = conversation.timeline.insert(said, at);
      at = put.next;
      if (!put.message) continue;
      conversation.activeAt = Math.max(conversation.activeAt, time);
      if (isNew && !author.own) conversation.unread++;
    }
    if (from === undefined) conversation.gap = at;
    conversation.changed();
  }

  /** After a login: what came after that which another client has shown. */
  #countUnread(conversation: Conversation) {
    const { messages } = conversation.timeline;
    if (conversation === this.app.selected || !this.app.hasDisplayed) return;
    // Nobody is sure to have read a room that was never looked at.
    if (conversation.readId === undefined && conversation instanceof Room) return;
    const read = messages.findLastIndex((one) => one.stanzaId === conversation.readId || one.author.own);
    conversation.unread = messages.slice(read + 1).filter((one) => !one.author.own).length;
    conversation.changed();
    this.app.changed();
  }

  #forget(conversation: Conversation) {
    conversation.timeline.clear();
    conversation.isLoaded = false;
  }
}
