/** What the user has read, for all of the user's clients (XEP-0490). */

import type { Session } from "../xmpp/session";
import { bare } from "../xmpp/jid";
import { all, attr, first, x } from "../xmpp/xml";
import * as pubsub from "./pubsub";

export const NS = "urn:xmpp:mds:displayed:0";
const SID = "urn:xmpp:sid:0";

/** The id of the last message that was read in each conversation. */
export const read = (items: Element[]): [string, string][] =>
  items.flatMap((item) => {
    const id = attr(first(first(item, "displayed", NS), "stanza-id", SID), "id");
    return id ? [[bare(attr(item, "id") ?? ""), id] as [string, string]] : [];
  });

export const list = async (session: Session) => new Map(read(await pubsub.items(session, NS)));
export const changes = (items: Element) => read(all(items, "item"));

export const publish = (session: Session, conversation: string, id: string, by: string) =>
  pubsub.publish(session, NS, conversation, x("displayed", { xmlns: NS }, x("stanza-id", { xmlns: SID, id, by })));
