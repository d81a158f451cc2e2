/** Ids by which others refer to a message (XEP-0359), and who said it in a room (XEP-0421). */

import { all, attr, first, x } from "../xmpp/xml";
import { bare } from "../xmpp/jid";

const SID = "urn:xmpp:sid:0";
const OCCUPANT = "urn:xmpp:occupant-id:0";

export const origin = (id: string) => x("origin-id", { xmlns: SID, id });
export const readOrigin = (message: Element) => attr(first(message, "origin-id", SID), "id");

/** The id that this archive gave. Whether it may be believed depends on who delivers the message. */
export const stanzaId = (message: Element, by: string) =>
  attr(all(message, "stanza-id", SID).find((one) => bare(attr(one, "by") ?? "") === by), "id");
export const occupant = (stanza: Element) => attr(first(stanza, "occupant-id", OCCUPANT), "id");
