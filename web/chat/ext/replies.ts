/** Replies (XEP-0461), with a quotation for clients without them. */

import * as fallback from "./fallback";
import { attr, first, x, type Node } from "../xmpp/xml";

const NS = "urn:xmpp:reply:0";
const QUOTED_MAX = 200;

/** The elements of a reply, and its body. */
export function write(to: string, id: string, quoted: string, body: string): { body: string; nodes: Node[] } {
  const lines = [...quoted].slice(0, QUOTED_MAX).join("").split("\n").slice(0, 3);
  const quotation = lines.map((line) => `> ${line}\n`).join("");
  return { body: quotation + body, nodes: [x("reply", { xmlns: NS, to, id }), fallback.write(NS, [...quotation].length)] };
}

export const read = (message: Element) => attr(first(message, "reply", NS), "id");
export const strip = (message: Element, body: string) => (read(message) ? fallback.without(message, NS, body) : body);
