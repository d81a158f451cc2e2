/** Conversations: with a person, or in a room. */

import type { State } from "../ext/states";
import type { Contact } from "../ext/roster";
import type { Occupant } from "../ext/rooms";
import { local } from "../xmpp/jid";
import { Observable } from "./observable";
import { Timeline, type Message } from "./timeline";

const TYPING_MS = 30_000;
const TYPING_MAX = 20;
/** Beyond these a room's occupants are counted, but not listed. */
export const OCCUPANTS_MAX = 5000;

export abstract class Conversation extends Observable {
  abstract readonly kind: "person" | "room";
  timeline = new Timeline();
  unread = 0;
  /** The first message that was new when the user came to look. */
  newFrom?: number;
  isMentioned = false;
  /** What is written and has not been sent. */
  draft = "";
  replyTo?: Message;
  edits?: Message;
  /** The last sign of life, by which conversations are sorted. */
  activeAt = 0;
  /** The newest page of the archive has been asked for. */
  isLoaded = false;
  isLoading = false;
  /** The position of what was missed, until it has been fetched. */
  gap?: number;
  problem?: string;
  /** The archive's id of the last message that the user has read, from another client. */
  readId?: string;
  typing = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(readonly jid: string) {
    super();
  }

  abstract get name(): string;

  types(name: string, state: State) {
    clearTimeout(this.typing.get(name));
    this.typing.delete(name);
    if (state === "composing" && this.typing.size < TYPING_MAX) {
      this.typing.set(name, setTimeout(() => (this.typing.delete(name), this.changed()), TYPING_MS));
    }
    this.changed();
  }

  /** Begins to fetch what was missed: what comes live meanwhile stands behind it. */
  open() {
    this.gap ??= this.timeline.messages.findLastIndex((one) => one.delivery !== "sending" && one.delivery !== "failed") + 1;
  }

  trim(max?: number) {
    const over = this.timeline.trim(max);
    if (this.gap !== undefined) this.gap = Math.max(this.gap - over, 0);
  }

  get last(): Message | undefined {
    return this.timeline.messages.at(-1);
  }
}

export class Person extends Conversation {
  readonly kind = "person";
  contact?: Contact;
  /** The availability of each of the person's clients. */
  resources = new Map<string, string>();
  /** An occupant of a room, who is known by the room's address and a nick. */
  isPrivate = false;

  get name() {
    return this.contact?.name || (this.isPrivate ? this.jid.slice(this.jid.indexOf("/") + 1) : local(this.jid) || this.jid);
  }

  /** Whether the person may know when the user is there. */
  get isTrusted() {
    return /from|both/.test(this.contact?.subscription ?? "");
  }

  get show(): "available" | "away" | "unavailable" {
    const all = [...this.resources.values()];
    return all.some((one) => one === "" || one === "chat") ? "available" : all.length > 0 ? "away" : "unavailable";
  }
}

export class Room extends Conversation {
  readonly kind = "room";
  title = "";
  nick = "";
  subject = "";
  password?: string;
  state: "out" | "joining" | "in" = "out";
  /** Why the user is not in it. */
  refusal?: string;
  needsPassword = false;
  isBookmarked = false;
  hasArchive = false;
  canModerate = false;
  isMembersOnly = false;
  self?: Occupant;
  occupants = new Map<string, Occupant>();
  unlisted = 0;
  /** How to set the room up if it does not exist yet. */
  settings?: Record<string, string>;
  /** The newest message that came live, by the archive's id. */
  live?: string;

  get name() {
    return this.title || local(this.jid) || this.jid;
  }
}
