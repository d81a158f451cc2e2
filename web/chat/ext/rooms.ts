/** Rooms (XEP-0045), as an occupant sees them. */

import type { Session } from "../xmpp/session";
import { resource, bare } from "../xmpp/jid";
import { all, attr, first, textOf, x } from "../xmpp/xml";
import * as forms from "./forms";
import * as ids from "./ids";

export const NS = "http://jabber.org/protocol/muc";
export const USER = `${NS}#user`;
const OWNER = `${NS}#owner`;
const ADMIN = `${NS}#admin`;
const CONFIG = `${NS}#roomconfig`;

export type Role = "moderator" | "participant" | "visitor" | "none";
export type Affiliation = "owner" | "admin" | "member" | "none" | "outcast";

export interface Occupant {
  nick: string;
  id?: string;
  /** The real bare JID, where the room shows it. */
  jid?: string;
  role: Role;
  affiliation: Affiliation;
  show: string;
}

/** What a presence of a room says. */
export interface Seen extends Occupant {
  gone: boolean;
  codes: Set<string>;
  newNick?: string;
  reason?: string;
  alternate?: string;
  isDestroyed: boolean;
}

export function read(presence: Element): Seen {
  const user = first(presence, "x", USER);
  const item = first(user, "item");
  const destroyed = first(user, "destroy");
  const jid = attr(item, "jid");
  return {
    nick: resource(attr(presence, "from") ?? "").slice(0, 200),
    id: ids.occupant(presence),
    jid: jid && bare(jid),
    role: (attr(item, "role") ?? "none") as Role,
    affiliation: (attr(item, "affiliation") ?? "none") as Affiliation,
    show: textOf(presence, "show") ?? "",
    gone: attr(presence, "type") === "unavailable",
    codes: new Set(user ? all(user, "status").map((one) => attr(one, "code") ?? "") : []),
    newNick: attr(item, "nick"),
    reason: (textOf(item, "reason") ?? textOf(destroyed, "reason"))?.slice(0, 300),
    alternate: destroyed && bare(attr(destroyed, "jid") ?? ""),
    isDestroyed: destroyed !== undefined,
  };
}

export const join = (to: string, history: number, password: string | undefined, caps: ReturnType<typeof x> | undefined) =>
  x("presence", { xmlns: "jabber:client", to }, x("x", { xmlns: NS }, x("history", { maxstanzas: String(history) }), password !== undefined && x("password", {}, password)), caps);

export const leave = (to: string) => x("presence", { xmlns: "jabber:client", to, type: "unavailable" });

/** Opens a room that was just made: as it is, or with these settings where the service has them. */
export async function open(session: Session, room: string, settings?: Record<string, string>) {
  if (!settings) return session.iq("set", room, x("query", { xmlns: OWNER }, x("x", { xmlns: forms.NS, type: "submit" })));
  const known = forms.read(first(await session.iq("get", room, x("query", { xmlns: OWNER })), "query", OWNER));
  const fields = Object.fromEntries(Object.entries(settings).filter(([name]) => known.has(name)));
  return session.iq("set", room, x("query", { xmlns: OWNER }, forms.submit(CONFIG, fields)));
}

export const setAffiliation = (session: Session, room: string, jid: string, affiliation: Affiliation) =>
  session.iq("set", room, x("query", { xmlns: ADMIN }, x("item", { jid, affiliation })));

export const kick = (session: Session, room: string, nick: string) => session.iq("set", room, x("query", { xmlns: ADMIN }, x("item", { nick, role: "none" })));

/** Why a room does not let somebody in, in plain words. */
export function words(condition: string, text: string) {
  const known: Record<string, string> = {
    "not-authorized": "This room asks for a password.",
    forbidden: "You are banned from this room.",
    "item-not-found": "There is no such room, or it is locked while its owner sets it up. Try again later.",
    "not-allowed": "You may not create rooms here. Ask for the address of an existing one.",
    "registration-required": "Only members may enter. Ask somebody in the room to invite you.",
    "service-unavailable": "The room is full. Try again later.",
    "not-acceptable": "This room does not accept your name. Choose another one.",
    "remote-server-not-found": "There is no such server. Check the address of the room.",
    "resource-constraint": "The server has reached a limit. Try again later.",
    conflict: "Somebody in the room has this name already. Choose another one.",
  };
  return known[condition] ?? (text || `The room refused (${condition}).`);
}
