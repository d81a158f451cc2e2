/** Service discovery (XEP-0030), and the page's own capabilities (XEP-0115). */

import type { Session } from "../xmpp/session";
import { all, attr, first, textOf, x, type Node } from "../xmpp/xml";
import * as forms from "./forms";

const INFO = "http://jabber.org/protocol/disco#info";
const ITEMS = "http://jabber.org/protocol/disco#items";
const CAPS = "http://jabber.org/protocol/caps";
const RSM = "http://jabber.org/protocol/rsm";
const ITEMS_MAX = 200;

export interface Info {
  identities: { category: string; type: string; name: string }[];
  features: Set<string>;
  form: Map<string, string>;
}

export async function info(session: Session, jid: string): Promise<Info> {
  const query = first(await session.iq("get", jid, x("query", { xmlns: INFO })), "query", INFO)!;
  const of = (name: string) => all(query, name).slice(0, ITEMS_MAX);
  const identities = of("identity").map((one) => ({ category: attr(one, "category") ?? "", type: attr(one, "type") ?? "", name: (attr(one, "name") ?? "").slice(0, 100) }));
  return { identities, features: new Set(of("feature").map((one) => attr(one, "var") ?? "")), form: forms.read(query) };
}

export interface Item {
  jid: string;
  name: string;
}

export async function items(session: Session, jid: string): Promise<Item[]> {
  const query = first(await session.iq("get", jid, x("query", { xmlns: ITEMS }, x("set", { xmlns: RSM }, x("max", {}, String(ITEMS_MAX))))), "query", ITEMS)!;
  return all(query, "item").slice(0, ITEMS_MAX).map((one) => ({ jid: (attr(one, "jid") ?? "").toLowerCase(), name: (textOf(one, "name") ?? attr(one, "name") ?? "").slice(0, 100) }));
}

/** What this page understands. Those with `+notify` ask the server for events (XEP-0163 4). */
const FEATURES = [
  CAPS, INFO, "http://jabber.org/protocol/chatstates", "http://jabber.org/protocol/muc", "jabber:x:conference", "jabber:x:oob", "urn:xmpp:bookmarks:1+notify",
  "urn:xmpp:chat-markers:0", "urn:xmpp:mds:displayed:0+notify", "urn:xmpp:message-correct:0", "urn:xmpp:message-retract:1", "urn:xmpp:ping", "urn:xmpp:reactions:0", "urn:xmpp:receipts",
  "urn:xmpp:reply:0",
].sort();
const NODE = "throng-chat-page";
const IDENTITY = ["client", "web", "", "Throng chat page"];

/** The element in presence that says it. */
export async function caps(): Promise<Node | undefined> {
  if (!crypto.subtle) return undefined;
  const said = [IDENTITY.join("/"), ...FEATURES].map((one) => `${one}<`).join("");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-1", new TextEncoder().encode(said)));
  return x("c", { xmlns: CAPS, hash: "sha-1", node: NODE, ver: btoa(String.fromCharCode(...hash)) });
}

/** The answer to somebody who asks what this page understands. */
export function answer(iq: Element): Node | undefined {
  const query = first(iq, "query", INFO);
  if (!query) return undefined;
  const [category, type, , name] = IDENTITY;
  return x("query", { xmlns: INFO, node: attr(query, "node") }, x("identity", { category, type, name }), ...FEATURES.map((one) => x("feature", { var: one })));
}
