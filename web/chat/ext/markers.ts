/** Read markers (XEP-0333): the receiver has seen the message. */

import { attr, first, x } from "../xmpp/xml";

const NS = "urn:xmpp:chat-markers:0";

export const markable = () => x("markable", { xmlns: NS });
export const displayed = (id: string) => x("displayed", { xmlns: NS, id });
export const isWanted = (message: Element) => first(message, "markable", NS) !== undefined;
export const read = (message: Element) => attr(first(message, "displayed", NS), "id");
