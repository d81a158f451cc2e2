/** Receipts (XEP-0184): the receiver's client has the message. */

import { attr, first, x } from "../xmpp/xml";

const NS = "urn:xmpp:receipts";

export const request = () => x("request", { xmlns: NS });
export const received = (id: string) => x("received", { xmlns: NS, id });
export const isWanted = (message: Element) => first(message, "request", NS) !== undefined;
export const read = (message: Element) => attr(first(message, "received", NS), "id");
