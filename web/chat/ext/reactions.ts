/** Reactions (XEP-0444): each message carries all of somebody's reactions to another one. */

import { all, attr, first, x } from "../xmpp/xml";

const NS = "urn:xmpp:reactions:0";
/** Of one person to one message. */
const REACTIONS_MAX = 5;
const BYTES_MAX = 32;

export const write = (id: string, emojis: string[]) => x("reactions", { xmlns: NS, id }, ...emojis.map((emoji) => x("reaction", {}, emoji)));

export function read(message: Element): { to: string; emojis: string[] } | undefined {
  const reactions = first(message, "reactions", NS);
  const to = attr(reactions, "id");
  if (!reactions || !to) return undefined;
  const emojis = all(reactions, "reaction").map((one) => (one.textContent ?? "").trim());
  return { to, emojis: [...new Set(emojis)].filter((one) => one !== "" && one.length <= BYTES_MAX).slice(0, REACTIONS_MAX) };
}
