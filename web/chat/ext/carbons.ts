/** What the user's other clients send and receive (XEP-0280). */

import { first, x } from "../xmpp/xml";

const NS = "urn:xmpp:carbons:2";
export const FORWARD = "urn:xmpp:forward:0";

export const enable = () => x("enable", { xmlns: NS });

/** The message in a carbon, which must come from the user's own address. */
export function read(message: Element): Element | undefined {
  const carbon = first(message, "received", NS) ?? first(message, "sent", NS);
  return first(first(carbon, "forwarded", FORWARD), "message", "jabber:client");
}
