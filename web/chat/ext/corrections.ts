/** Corrections (XEP-0308). */

import { attr, first, x } from "../xmpp/xml";

const NS = "urn:xmpp:message-correct:0";

export const write = (id: string) => x("replace", { xmlns: NS, id });
export const read = (message: Element) => attr(first(message, "replace", NS), "id");
