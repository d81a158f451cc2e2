/** Data that the user's own account keeps (XEP-0163, XEP-0223). */

import type { Session } from "../xmpp/session";
import { all, attr, first, x, type Node } from "../xmpp/xml";
import * as forms from "./forms";

const NS = "http://jabber.org/protocol/pubsub";
const EVENT = "http://jabber.org/protocol/pubsub#event";
const OPTIONS = "http://jabber.org/protocol/pubsub#publish-options";

export async function items(session: Session, node: string): Promise<Element[]> {
  const answer = await session.iq("get", undefined, x("pubsub", { xmlns: NS }, x("items", { node })));
  const list = first(first(answer, "pubsub", NS), "items");
  return list ? all(list, "item") : [];
}

export const publish = (session: Session, node: string, id: string, payload: Node) =>
  session.iq("set", undefined,
    x("pubsub", { xmlns: NS },
      x("publish", { node }, x("item", { id }, payload)),
      x("publish-options", {}, forms.submit(OPTIONS, {
        "pubsub#persist_items": "true",
        "pubsub#max_items": "max",
        "pubsub#send_last_published_item": "never",
        "pubsub#access_model": "whitelist",
      }))));

export const retract = (session: Session, node: string, id: string) =>
  session.iq("set", undefined, x("pubsub", { xmlns: NS }, x("retract", { node, notify: "true" }, x("item", { id }))));

/** The node and the items of an event. */
export function event(message: Element): { node: string; items: Element } | undefined {
  const list = first(first(message, "event", EVENT), "items");
  return list && { node: attr(list, "node") ?? "", items: list };
}
