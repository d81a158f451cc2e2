/** The address of a file that a message is about (XEP-0066). */

import { first, textOf, x } from "../xmpp/xml";

const NS = "jabber:x:oob";

export const write = (url: string) => x("x", { xmlns: NS }, x("url", {}, url));
export const read = (message: Element) => textOf(first(message, "x", NS), "url")?.slice(0, 2000);
