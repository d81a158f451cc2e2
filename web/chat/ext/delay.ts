/** When a message was sent, if that was not now (XEP-0203). */

import { attr, first } from "../xmpp/xml";

export function read(parent: Element): number | undefined {
  const time = Date.parse(attr(first(parent, "delay", "urn:xmpp:delay"), "stamp") ?? "");
  return Number.isNaN(time) ? undefined : time;
}
