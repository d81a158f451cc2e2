/** What all parts of the page share: the session, the conversations, and what is looked at. */

import { Archive } from "../ext/archive";
import type { Invitation } from "../ext/invitations";
import type { Service } from "../ext/upload";
import { Conversation, Person, Room } from "../store/conversation";
import { Observable } from "../store/observable";
import { bare } from "../xmpp/jid";
import type { Session } from "../xmpp/session";

/** Strangers may write, too: of conversations with them, as many are kept. */
const STRANGERS_MAX = 300;
const INVITATIONS_MAX = 50;
const REQUESTS_MAX = 100;

export class App extends Observable {
  conversations = new Map<string, Conversation>();
  selected?: Conversation;
  /** The last message that was read in each conversation, as the user's account has it. */
  displayed = new Map<string, string>();
  hasDisplayed = false;
  invitations: Invitation[] = [];
  /** Who asks to become a contact. */
  requests = new Set<string>();
  services: { rooms?: string; upload?: Service } = {};
  /** What went wrong, or was done, for a moment. */
  notice?: string;
  archive: Archive;
  #noticeTimer?: ReturnType<typeof setTimeout>;

  constructor(readonly session: Session, readonly isGuest: boolean, readonly guestName: string) {
    super();
    this.archive = new Archive(session);
  }

  get me() {
    return this.session.bare;
  }

  /** The key of a conversation: occupants of rooms have addresses of their own. */
  keyOf = (jid: string) => (this.conversations.get(bare(jid)) instanceof Room && jid.includes("/") ? jid : bare(jid));

  person(jid: string): Person {
    const key = this.keyOf(jid);
    const known = this.conversations.get(key);
    if (known instanceof Person) return known;
    const person = new Person(key);
    person.isPrivate = key.includes("/");
    person.readId = this.displayed.get(key);
    this.conversations.set(key, person);
    const strangers = [...this.conversations.values()].filter((one) => one instanceof Person && !one.contact && one !== this.selected);
    if (strangers.length > STRANGERS_MAX) this.conversations.delete(strangers.sort((a, b) => a.activeAt - b.activeAt)[0]!.jid);
    this.changed();
    return person;
  }

  room(jid: string): Room {
    const known = this.conversations.get(bare(jid));
    if (known instanceof Room) return known;
    const room = new Room(bare(jid));
    room.readId = this.displayed.get(room.jid);
    this.conversations.set(room.jid, room);
    this.changed();
    return room;
  }

  get rooms() {
    return [...this.conversations.values()].filter((one): one is Room => one instanceof Room);
  }

  get people() {
    return [...this.conversations.values()].filter((one): one is Person => one instanceof Person);
  }

  invited(invitation: Invitation) {
    const known = this.conversations.get(invitation.room);
    if (known instanceof Room && known.state === "in") return;
    this.invitations = [...this.invitations.filter((one) => one.room !== invitation.room), invitation].slice(-INVITATIONS_MAX);
    this.changed();
  }

  requested(jid: string) {
    if (this.requests.size < REQUESTS_MAX) this.requests.add(jid);
    this.changed();
  }

  tell(notice: string) {
    clearTimeout(this.#noticeTimer);
    this.notice = notice;
    this.#noticeTimer = setTimeout(() => this.untell(), 8000);
    this.changed();
  }

  untell() {
    this.notice = undefined;
    this.changed();
  }

  get unread() {
    return [...this.conversations.values()].reduce((sum, one) => sum + one.unread, 0);
  }
}
