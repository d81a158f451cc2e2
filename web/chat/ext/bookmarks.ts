/** Rooms that the user keeps (XEP-0402). */

import type { Session } from "../xmpp/session";
import { bare, isAddress } from "../xmpp/jid";
import { all, attr, first, textOf, x } from "../xmpp/xml";
import * as pubsub from "./pubsub";

export const NS = "urn:xmpp:bookmarks:1";
const BOOKMARKS_MAX = 500;

export interface Bookmark {
  jid: string;
  name: string;
  nick?: string;
  autojoin: boolean;
}

function read(item: Element): Bookmark | undefined {
  const jid = bare(attr(item, "id") ?? "");
  const conference = first(item, "conference", NS);
  if (!conference || !isAddress(jid)) return undefined;
  return { jid, name: (attr(conference, "name") ?? "").slice(0, 100), nick: textOf(conference, "nick"), autojoin: /^(true|1)$/.test(attr(conference, "autojoin") ?? "") };
}

export const list = async (session: Session) =>
  (await pubsub.items(session, NS)).map(read).filter((one): one is Bookmark => one !== undefined).slice(0, BOOKMARKS_MAX);

/** The changes in an event of the user's own account. */
export const changes = (items: Element) => ({
  kept: all(items, "item").map(read).filter((one): one is Bookmark => one !== undefined),
  removed: all(items, "retract").map((one) => bare(attr(one, "id") ?? "")),
});

export const keep = (session: Session, { jid, name, nick, autojoin }: Bookmark) =>
  pubsub.publish(session, NS, jid, x("conference", { xmlns: NS, name: name || undefined, autojoin: String(autojoin) }, nick !== undefined && x("nick", {}, nick)));

export const remove = (session: Session, jid: string) => pubsub.retract(session, NS, jid);
