/** Invitations to rooms: direct ones (XEP-0249) and those by the room (XEP-0045 7.8). */

import { attr, first, textOf, x } from "../xmpp/xml";
import { bare, isAddress } from "../xmpp/jid";
import { USER } from "./rooms";

const NS = "jabber:x:conference";

export interface Invitation {
  room: string;
  from: string;
  password?: string;
  reason?: string;
}

export const direct = (room: string, password?: string) => x("x", { xmlns: NS, jid: room, password });
export const mediated = (to: string) => x("x", { xmlns: USER }, x("invite", { to }));

export function read(message: Element): Invitation | undefined {
  const from = attr(message, "from") ?? "";
  const invite = first(first(message, "x", USER), "invite");
  if (invite) return { room: bare(from), from: bare(attr(invite, "from") ?? from), password: textOf(first(message, "x", USER), "password"), reason: textOf(invite, "reason")?.slice(0, 300) };
  const conference = first(message, "x", NS);
  const room = bare(attr(conference, "jid") ?? "");
  return conference && isAddress(room) ? { room, from: bare(from), password: attr(conference, "password"), reason: attr(conference, "reason")?.slice(0, 300) } : undefined;
}
