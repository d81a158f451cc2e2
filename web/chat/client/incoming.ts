/** What comes in, to where it belongs. */

import * as bookmarks from "../ext/bookmarks";
import * as carbons from "../ext/carbons";
import * as content from "../ext/content";
import * as disco from "../ext/disco";
import * as displayed from "../ext/displayed";
import * as invitations from "../ext/invitations";
import * as markers from "../ext/markers";
import * as pubsub from "../ext/pubsub";
import * as receipts from "../ext/receipts";
import * as roster from "../ext/roster";
import * as states from "../ext/states";
import { Room, type Conversation } from "../store/conversation";
import type { Message } from "../store/timeline";
import { bare } from "../xmpp/jid";
import { StanzaError } from "../xmpp/session";
import { attr, first, textOf, x } from "../xmpp/xml";
import type { Client } from "./client";

export function stanza(client: Client, element: Element) {
  if (element.localName === "message") message(client, element);
  else if (element.localName === "presence") presence(client, element);
  else if (element.localName === "iq") request(client, element);
}

function message(client: Client, element: Element) {
  const { app } = client;
  if (app.archive.take(element)) return;
  const from = attr(element, "from") ?? app.me;
  if (bare(from) === app.me && !attr(element, "from")?.includes("/")) {
    const event = pubsub.event(element);
    if (event) return own(client, event);
    const copy = carbons.read(element);
    if (copy) return talk(client, copy, true);
  }
  if (attr(element, "type") === "error") return client.sending.failed(attr(element, "id") ?? "", StanzaError.of(element));
  if (attr(element, "type") === "groupchat") return inRoom(client, element);
  const invitation = invitations.read(element);
  if (invitation) return client.invited(invitation);
  talk(client, element, false);
}

/** An event of the user's own account. */
function own(client: Client, { node, items }: { node: string; items: Element }) {
  if (node === bookmarks.NS) client.rooms.bookmarked(bookmarks.changes(items));
  if (node === displayed.NS) for (const [jid, id] of displayed.changes(items)) client.readElsewhere(jid, id);
}

function inRoom(client: Client, element: Element) {
  const from = attr(element, "from") ?? "";
  const room = client.app.conversations.get(bare(from));
  if (!(room instanceof Room)) return;
  const author = content.occupant(element, room.nick, room.self?.id);
  const said = content.read(element, author, room.jid);
  if (said.kind === "subject" && said.stanzaId === undefined) {
    room.subject = said.text;
    return room.changed();
  }
  if (said.kind === "subject") room.subject = said.text;
  const state = states.read(element);
  if (state && !author.own) room.types(author.name, state);
  if (said.kind === "retraction" && said.moderated && from.includes("/")) return;
  if (said.stanzaId) client.history.sawInRoom(room, said.stanzaId);
  if (author.own) client.sending.arrived(attr(element, "id"));
  came(client, room, said);
}

/** A message between two, of which `isCopy` was sent to or by another client of the user. */
function talk(client: Client, element: Element, isCopy: boolean) {
  const { app } = client;
  if (attr(element, "type") === "groupchat" || attr(element, "type") === "error" || attr(element, "type") === "headline") return;
  const from = attr(element, "from") ?? app.me;
  const author = content.person(element, app.me, app.keyOf);
  const peer = author.own ? (attr(element, "to") ?? app.me) : from;
  const said = content.read(element, author, app.me);
  client.history.saw(said.stanzaId);
  // A sign without content makes no conversation.
  const known = app.conversations.get(app.keyOf(peer));
  if (!known && said.kind !== "text") return;
  // What a room itself tells its members is no conversation either.
  if (known instanceof Room) return;
  const person = app.person(peer);
  const state = states.read(element);
  if (!author.own && state) person.types(person.name, state);
  const [received, seen] = [receipts.read(element), markers.read(element)];
  if (received && !author.own) person.timeline.delivered(received, "received");
  if (seen && !author.own) person.timeline.delivered(seen, "read");
  // Another client of the user has shown it.
  if (seen && author.own) client.readElsewhere(person.jid, seen);
  const id = attr(element, "id");
  if (!author.own && !isCopy && id && said.kind === "text" && receipts.isWanted(element) && person.isTrusted) client.sending.receipt(from, id);
  came(client, person, said);
}

function came(client: Client, conversation: Conversation, said: content.Content) {
  const { message } = conversation.timeline.insert(said);
  if (message) {
    conversation.activeAt = Math.max(conversation.activeAt, said.time);
    if (!message.author.own) news(client, conversation, message);
    client.app.changed();
  }
  conversation.trim();
  conversation.changed();
}

function news(client: Client, conversation: Conversation, message: Message) {
  conversation.typing.delete(message.author.name);
  if (client.isLookedAt(conversation)) return client.read(conversation);
  conversation.unread++;
  const isMention = conversation instanceof Room && mentions(message.text, conversation.nick);
  conversation.isMentioned ||= isMention;
  if (isMention || !(conversation instanceof Room)) client.notify(conversation, message);
}

/** Whether a text has a name as a word. */
export function mentions(text: string, name: string) {
  const [all, own] = [text.toLowerCase(), name.toLowerCase()];
  const isWord = (c: string | undefined) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);
  for (let at = own ? all.indexOf(own) : -1; at >= 0; at = all.indexOf(own, at + 1)) {
    if (!isWord(all[at - 1]) && !isWord(all[at + own.length])) return true;
  }
  return false;
}

function presence(client: Client, element: Element) {
  const { app } = client;
  const from = attr(element, "from") ?? "";
  const type = attr(element, "type");
  const known = app.conversations.get(bare(from));
  if (known instanceof Room) return client.rooms.presence(known, element);
  if (bare(from) === app.me) return;
  if (type === "subscribe") {
    // Whom the user has asked may ask back.
    const isAsked = known?.kind === "person" && app.person(from).contact;
    if (isAsked && (isAsked.asked || /to|both/.test(isAsked.subscription))) return client.people.answer(bare(from), true);
    return app.requested(bare(from));
  }
  if (type !== undefined && type !== "unavailable") return;
  if (!(known && known.kind === "person")) return;
  const person = app.person(from);
  if (type === "unavailable") person.resources.delete(from);
  else if (person.resources.size < 50) person.resources.set(from, textOf(element, "show") ?? "");
  person.changed();
  app.changed();
}

/** Questions of the server and of others. */
function request(client: Client, element: Element) {
  const [from, id, type] = [attr(element, "from"), attr(element, "id"), attr(element, "type")];
  if (type !== "get" && type !== "set") return;
  const answer = (...children: Parameters<typeof x>[2][]) => client.app.session.send(x("iq", { xmlns: "jabber:client", type: "result", to: from, id }, ...children));
  const pushed = first(element, "query", roster.NS);
  if (type === "set" && pushed && (from === undefined || bare(from) === client.app.me)) {
    for (const contact of roster.read(pushed)) client.people.changed(contact);
    return answer();
  }
  if (type === "get" && first(element, "ping", "urn:xmpp:ping")) return answer();
  const info = type === "get" && disco.answer(element);
  if (info) return answer(info);
  const error = x("error", { type: "cancel" }, x("service-unavailable", { xmlns: "urn:ietf:params:xml:ns:xmpp-stanzas" }));
  client.app.session.send(x("iq", { xmlns: "jabber:client", type: "error", to: from, id }, error));
}
