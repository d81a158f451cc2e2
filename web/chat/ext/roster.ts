/** Contacts and requests to become one (RFC 6121 2 and 3). */

import type { Session } from "../xmpp/session";
import { bare } from "../xmpp/jid";
import { all, attr, first, x } from "../xmpp/xml";

export const NS = "jabber:iq:roster";
const CONTACTS_MAX = 5000;

export interface Contact {
  jid: string;
  name: string;
  subscription: string;
  asked: boolean;
}

export const read = (query: Element): Contact[] =>
  all(query, "item").slice(0, CONTACTS_MAX).map((item) => ({
    jid: bare(attr(item, "jid") ?? ""),
    name: (attr(item, "name") ?? "").slice(0, 100),
    subscription: attr(item, "subscription") ?? "none",
    asked: attr(item, "ask") === "subscribe",
  }));

export async function list(session: Session): Promise<Contact[]> {
  const query = first(await session.iq("get", undefined, x("query", { xmlns: NS })), "query", NS);
  return query ? read(query) : [];
}

export const set = (session: Session, jid: string, attrs: { name?: string; subscription?: "remove" }) =>
  session.iq("set", undefined, x("query", { xmlns: NS }, x("item", { jid, ...attrs })));
