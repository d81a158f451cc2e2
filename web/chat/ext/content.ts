/** What a message says, over all extensions. */

import { bare, resource } from "../xmpp/jid";
import { attr, textOf } from "../xmpp/xml";
import * as corrections from "./corrections";
import * as delay from "./delay";
import * as ids from "./ids";
import * as markers from "./markers";
import * as oob from "./oob";
import * as reactions from "./reactions";
import * as replies from "./replies";
import * as retraction from "./retraction";

/** As much text of one message is kept. */
const TEXT_MAX = 20_000;

/** Where a message was found. An archive gives its id and the time. */
export interface Found {
  id?: string;
  time?: number;
}

/** Somebody who said something: in a room by nick and occupant id, otherwise by bare JID. */
export interface Author {
  name: string;
  /** What does not change with the nick, if anything does not. */
  key: string;
  own: boolean;
}

interface Common {
  author: Author;
  /** The id of the archive in which the conversation is. */
  stanzaId?: string;
  /** The sender's own id. */
  id?: string;
  time: number;
}

export type Content = Common &
  (
    | { kind: "text"; text: string; replyTo?: string; file?: string; replaces?: string; isMarkable: boolean }
    | { kind: "reactions"; to: string; emojis: string[] }
    | { kind: "retraction"; of: string; moderated: boolean; reason?: string }
    | { kind: "tombstone" }
    | { kind: "subject"; text: string }
    | { kind: "other" }
  );

/**
 * Reads a message of a conversation. `archive` is the address whose stanza-ids may be believed: the room's, or the user's own.
 */
export function read(message: Element, author: Author, archive: string, found: Found = {}): Content {
  const common: Common = {
    author,
    stanzaId: found.id ?? ids.stanzaId(message, archive),
    id: (ids.readOrigin(message) ?? attr(message, "id"))?.slice(0, 200),
    time: found.time ?? delay.read(message) ?? Date.now(),
  };
  const retracted = retraction.read(message);
  if (retracted) return { ...common, kind: "retraction", of: retracted.id, moderated: retracted.moderated, reason: retracted.reason };
  if (retraction.isTombstone(message)) return { ...common, kind: "tombstone" };
  const reacted = reactions.read(message);
  if (reacted) return { ...common, kind: "reactions", ...reacted };
  const body = textOf(message, "body");
  if (body === undefined) {
    const subject = textOf(message, "subject");
    return subject === undefined ? { ...common, kind: "other" } : { ...common, kind: "subject", text: subject.slice(0, 1000) };
  }
  const file = oob.read(message);
  const text = replies.strip(message, body).slice(0, TEXT_MAX);
  return { ...common, kind: "text", text, replyTo: replies.read(message), file: file && file === text.trim() ? file : undefined, replaces: corrections.read(message), isMarkable: markers.isWanted(message) };
}

/** The author of a message in a room. */
export function occupant(message: Element, nick: string, ownId: string | undefined): Author {
  const name = resource(attr(message, "from") ?? "").slice(0, 200);
  const id = ids.occupant(message);
  return { name, key: id ?? `nick ${name}`, own: id && ownId ? id === ownId : name === nick };
}

/** The author of a message between two. */
export function person(message: Element, own: string, keyOf: (jid: string) => string): Author {
  const from = attr(message, "from") ?? own;
  const jid = bare(from) === own ? own : keyOf(from);
  return { name: jid, key: jid, own: jid === own };
}
