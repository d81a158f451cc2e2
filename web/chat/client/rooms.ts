/** Rooms: entering, leaving, who is there, bookmarks. */

import * as bookmarks from "../ext/bookmarks";
import * as disco from "../ext/disco";
import * as archive from "../ext/archive";
import * as invitations from "../ext/invitations";
import * as retraction from "../ext/retraction";
import * as rooms from "../ext/rooms";
import { OCCUPANTS_MAX, Room } from "../store/conversation";
import { StanzaError } from "../xmpp/session";
import { local, resource } from "../xmpp/jid";
import { attr, newId, x, type Node } from "../xmpp/xml";
import type { Client } from "./client";

const JOIN_MS = 30_000;
/** As many rooms are entered at the same time, and after a login in all. */
const AT_ONCE = 8;
const AUTOJOIN_MAX = 100;
const HISTORY_WITHOUT_ARCHIVE = 50;
/** A name that is taken gets as many underscores. */
const NICKS_MAX = 3;
/** After so long without a word from a room it is asked whether the user is still in it (XEP-0410). */
const SILENCE_MS = 10 * 60_000;

export class Rooms {
  caps?: Node;
  #entering = new Map<Room, { timer: ReturnType<typeof setTimeout>; done: () => void; nicks: number }>();
  #heard = new Map<Room, number>();
  #pings: ReturnType<typeof setInterval>;

  constructor(private client: Client) {
    this.#pings = setInterval(() => this.#ping(), 60_000);
  }

  get #app() {
    return this.client.app;
  }

  /** Enters the rooms that the user keeps. */
  async load() {
    const kept = await bookmarks.list(this.#app.session);
    for (const one of kept) this.#keep(one);
    this.#app.changed();
    await this.#enterAll(kept.filter(({ autojoin }) => autojoin).slice(0, AUTOJOIN_MAX).map(({ jid }) => this.#app.room(jid)));
  }

  /** After a new session: the user is in no room any more. */
  async enterAgain() {
    const were = this.#app.rooms.filter(({ state }) => state !== "out");
    for (const room of were) room.state = "out";
    await this.#enterAll(were);
  }

  async #enterAll(all: Room[]) {
    const queue = all.filter(({ state }) => state === "out");
    const worker = async () => {
      for (let room = queue.shift(); room; room = queue.shift()) await this.enter(room);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** Enters a room: done when the room has answered. */
  async enter(room: Room): Promise<void> {
    if (room.state !== "out") return;
    room.state = "joining";
    room.refusal = undefined;
    room.needsPassword = false;
    room.nick ||= this.client.nick;
    room.occupants.clear();
    room.unlisted = 0;
    room.changed();
    try {
      const info = await disco.info(this.#app.session, room.jid);
      room.title = info.identities[0]?.name || room.title;
      room.hasArchive = info.features.has(archive.NS);
      room.canModerate = info.features.has(retraction.MODERATE);
      room.isMembersOnly = info.features.has("muc_membersonly");
    } catch {
      // It does not exist yet, or does not say.
    }
    await new Promise<void>((done) => {
      const timer = setTimeout(() => this.#refused(room, "The room does not answer. Try again later."), JOIN_MS);
      this.#entering.set(room, { timer, done, nicks: 0 });
      this.#join(room);
    });
  }

  #join(room: Room) {
    this.#app.session.send(rooms.join(`${room.jid}/${room.nick}`, room.hasArchive ? 0 : HISTORY_WITHOUT_ARCHIVE, room.password, this.caps));
  }

  #refused(room: Room, why: string) {
    room.state = "out";
    room.refusal = why;
    room.self = undefined;
    this.#entered(room);
  }

  #entered(room: Room) {
    const entering = this.#entering.get(room);
    this.#entering.delete(room);
    clearTimeout(entering?.timer);
    entering?.done();
    room.changed();
    this.#app.changed();
  }

  async #isIn(room: Room, isNew: boolean) {
    room.state = "in";
    room.refusal = undefined;
    this.#entered(room);
    if (isNew) {
      try {
        await rooms.open(this.#app.session, room.jid, room.settings);
        const info = await disco.info(this.#app.session, room.jid);
        room.title = info.identities[0]?.name || room.title;
        room.hasArchive = info.features.has(archive.NS);
        room.isMembersOnly = info.features.has("muc_membersonly");
      } catch (error) {
        this.#app.tell(`The room was made, but not set up. ${(error as Error).message}`);
      }
    }
    await this.client.history.catchUpRoom(room);
    this.client.sending.resend((one) => one === room && room.gap === undefined);
    if (this.client.isLookedAt(room)) this.client.read(room);
    room.changed();
  }

  /** A presence from a room. */
  presence(room: Room, element: Element) {
    this.#heard.set(room, Date.now());
    if (attr(element, "type") === "error") return this.#error(room, StanzaError.of(element));
    const seen = rooms.read(element);
    const isSelf = seen.codes.has("110") || (seen.nick === room.nick && !seen.codes.has("303"));
    if (seen.gone) {
      if (!room.occupants.delete(seen.nick) && room.unlisted > 0) room.unlisted--;
      room.typing.delete(seen.nick);
      if (seen.codes.has("303") && seen.newNick && isSelf) room.nick = seen.newNick;
      else if (isSelf) this.#left(room, seen);
    } else {
      if (room.occupants.has(seen.nick) || room.occupants.size < OCCUPANTS_MAX) room.occupants.set(seen.nick, seen);
      else room.unlisted++;
      if (isSelf) {
        room.nick = seen.nick;
        room.self = seen;
        if (room.state !== "in") void this.#isIn(room, seen.codes.has("201"));
      }
    }
    room.changed();
  }

  #error(room: Room, error: StanzaError) {
    const entering = this.#entering.get(room);
    if (entering && error.condition === "conflict" && entering.nicks++ < NICKS_MAX) {
      room.nick += "_";
      return this.#join(room);
    }
    if (!entering) return this.#app.tell(rooms.words(error.condition, error.text));
    room.needsPassword = error.condition === "not-authorized";
    this.#refused(room, rooms.words(error.condition, error.text));
  }

  #left(room: Room, seen: rooms.Seen) {
    const has = (code: string) => seen.codes.has(code);
    const reason = seen.reason ? ` The reason: ${seen.reason}` : "";
    const why = seen.isDestroyed
      ? `This room was closed.${seen.alternate ? ` It goes on at ${seen.alternate}.` : ""}`
      : has("301") ? "You were banned from this room."
      : has("307") ? "You were sent out of this room."
      : has("321") || has("322") ? "This room is for members only now."
      : has("332") || has("333") ? "The room lost its connection to you. Enter it again."
      : "You have left this room.";
    room.occupants.clear();
    this.#refused(room, why + reason);
  }

  /** Leaves a room for good. */
  leave(room: Room) {
    if (room.state !== "out") this.#app.session.send(rooms.leave(`${room.jid}/${room.nick}`));
    this.#app.conversations.delete(room.jid);
    if (this.#app.selected === room) this.#app.selected = undefined;
    if (room.isBookmarked) bookmarks.remove(this.#app.session, room.jid).catch(() => {});
    this.#app.changed();
  }

  /** Keeps a room, so that all of the user's clients enter it. */
  keep(room: Room) {
    if (this.#app.isGuest) return;
    room.isBookmarked = true;
    bookmarks.keep(this.#app.session, { jid: room.jid, name: room.title, nick: room.nick, autojoin: true }).catch(() => (room.isBookmarked = false));
  }

  /** Bookmarks have changed, by another client or by this one. */
  bookmarked({ kept, removed }: ReturnType<typeof bookmarks.changes>) {
    for (const one of kept) {
      const room = this.#keep(one);
      if (one.autojoin && room.state === "out" && !room.refusal) void this.enter(room);
    }
    for (const jid of removed) {
      const room = this.#app.conversations.get(jid);
      if (room instanceof Room && room.isBookmarked) {
        room.isBookmarked = false;
        if (room !== this.#app.selected) this.leave(room);
      }
    }
  }

  #keep({ jid, name, nick }: bookmarks.Bookmark) {
    const room = this.#app.room(jid);
    room.isBookmarked = true;
    room.title ||= name;
    room.nick ||= nick ?? "";
    return room;
  }

  /** Invites somebody; into a room for members, by making them one. */
  async invite(room: Room, jid: string) {
    if (room.isMembersOnly && (room.self?.affiliation === "owner" || room.self?.affiliation === "admin")) {
      await rooms.setAffiliation(this.#app.session, room.jid, jid, "member");
    }
    const type = room.isMembersOnly ? invitations.mediated(jid) : invitations.direct(room.jid, room.password);
    this.#app.session.send(x("message", { xmlns: "jabber:client", to: room.isMembersOnly ? room.jid : jid, id: newId() }, type));
  }

  rename(room: Room, nick: string) {
    this.#app.session.send(x("presence", { xmlns: "jabber:client", to: `${room.jid}/${nick}` }));
  }

  setSubject(room: Room, subject: string) {
    this.#app.session.send(x("message", { xmlns: "jabber:client", to: room.jid, type: "groupchat", id: newId() }, x("subject", {}, subject)));
  }

  async kick(room: Room, nick: string) {
    await rooms.kick(this.#app.session, room.jid, nick);
  }

  async ban(room: Room, jid: string) {
    await rooms.setAffiliation(this.#app.session, room.jid, jid, "outcast");
  }

  end() {
    clearInterval(this.#pings);
  }

  #ping() {
    if (!this.#app.session.online) return;
    for (const room of this.#app.rooms) {
      if (room.state !== "in" || Date.now() - (this.#heard.get(room) ?? 0) < SILENCE_MS) continue;
      this.#heard.set(room, Date.now());
      this.#app.session.iq("get", `${room.jid}/${room.nick}`, x("ping", { xmlns: "urn:xmpp:ping" })).catch((error: unknown) => {
        // Other errors come from the other side of the ping, which is in the room then.
        if (!(error instanceof StanzaError) || error.condition !== "not-acceptable") return;
        room.state = "out";
        void this.enter(room);
      });
    }
  }
}

/** A nick for an address. */
export const nickOf = (jid: string) => local(jid) || resource(jid) || jid;
