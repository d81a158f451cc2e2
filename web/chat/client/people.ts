/** Contacts: who they are, and requests to become one (RFC 6121). */

import * as roster from "../ext/roster";
import { Person, Room } from "../store/conversation";
import { x } from "../xmpp/xml";
import type { App } from "./app";

export class People {
  constructor(private app: App) {}

  async load() {
    for (const contact of await roster.list(this.app.session)) this.changed(contact);
  }

  changed(contact: roster.Contact) {
    if (contact.jid === "" || !contact.jid.includes("@")) return;
    const known = this.app.conversations.get(contact.jid);
    if (known instanceof Room) return;
    if (contact.subscription === "remove") {
      if (known instanceof Person) known.contact = undefined;
    } else this.app.person(contact.jid).contact = contact;
    known?.changed();
    this.app.changed();
  }

  /** Asks somebody to become a contact. */
  async add(jid: string, name: string) {
    await roster.set(this.app.session, jid, { name: name || undefined });
    this.#presence(jid, "subscribe");
  }

  async remove(person: Person) {
    await roster.set(this.app.session, person.jid, { subscription: "remove" });
    this.app.conversations.delete(person.jid);
    if (this.app.selected === person) this.app.selected = undefined;
    this.app.changed();
  }

  /** Answers somebody's request. Who is accepted is asked as well, so that both see each other. */
  answer(jid: string, isWelcome: boolean) {
    this.app.requests.delete(jid);
    this.#presence(jid, isWelcome ? "subscribed" : "unsubscribed");
    const known = this.app.conversations.get(jid);
    if (isWelcome && !(known instanceof Person && /to|both/.test(known.contact?.subscription ?? ""))) this.#presence(jid, "subscribe");
    this.app.changed();
  }

  /** A new session: nobody is known to be there. */
  reset() {
    for (const person of this.app.people) person.resources.clear();
  }

  #presence(to: string, type: string) {
    this.app.session.send(x("presence", { xmlns: "jabber:client", to, type }));
  }
}
