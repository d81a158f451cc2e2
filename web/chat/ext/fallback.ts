/** Text that is there for clients without an extension (XEP-0428). Ranges count characters, not UTF-16 units. */

import { all, attr, first, x } from "../xmpp/xml";

const NS = "urn:xmpp:fallback:0";

export const write = (of: string, end?: number) =>
  x("fallback", { xmlns: NS, for: of }, end === undefined ? x("body") : x("body", { start: "0", end: String(end) }));

/** The body without what is there for clients that lack this extension. */
export function without(message: Element, of: string, body: string): string {
  for (const fallback of all(message, "fallback", NS)) {
    const range = first(fallback, "body");
    if (attr(fallback, "for") !== of || !range) continue;
    const characters = [...body];
    const [start, end] = [Number(attr(range, "start") ?? 0), Number(attr(range, "end") ?? characters.length)];
    if (start >= 0 && end >= start) characters.splice(start, end - start);
    return characters.join("");
  }
  return body;
}
