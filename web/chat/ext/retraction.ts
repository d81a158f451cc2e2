/** Retraction (XEP-0424), and that by moderators of a room (XEP-0425). */

import * as fallback from "./fallback";
import { attr, first, textOf, x, type Node } from "../xmpp/xml";

const NS = "urn:xmpp:message-retract:1";
export const MODERATE = "urn:xmpp:message-moderate:1";
const TEXT = "This message was taken back, but this client shows it all the same.";

export const write = (id: string): Node[] => [x("retract", { xmlns: NS, id }), fallback.write(NS), x("body", {}, TEXT)];
export const moderate = (id: string) => x("moderate", { xmlns: MODERATE, id }, x("retract", { xmlns: NS }));

export interface Retraction {
  id: string;
  moderated: boolean;
  reason?: string;
}

export function read(message: Element): Retraction | undefined {
  const retract = first(message, "retract", NS);
  const id = attr(retract, "id");
  if (!retract || !id) return undefined;
  return { id, moderated: first(retract, "moderated", MODERATE) !== undefined, reason: textOf(retract, "reason")?.slice(0, 300) };
}

/** What an archive has in place of a message that was retracted. */
export const isTombstone = (message: Element) => first(message, "retracted", NS) !== undefined;
