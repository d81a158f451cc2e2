/** Archives of users and of rooms (XEP-0313), by pages (XEP-0059). */

import * as delay from "./delay";
import { FORWARD } from "./carbons";
import * as forms from "./forms";
import type { Session } from "../xmpp/session";
import { bare } from "../xmpp/jid";
import { attr, first, newId, textOf, x } from "../xmpp/xml";

export const NS = "urn:xmpp:mam:2";
const RSM = "http://jabber.org/protocol/rsm";

export interface Entry {
  id: string;
  message: Element;
  time: number;
}

export interface Page {
  entries: Entry[];
  /** There is nothing beyond this page in the direction of the question. */
  complete: boolean;
  /** The place of the last entry, also of those that are not shown. */
  last?: string;
  first?: string;
}

export interface Question {
  /** The room, or nothing for the user's own archive. */
  room?: string;
  with?: string;
  before?: string;
  after?: string;
  max: number;
}

export class Archive {
  #open = new Map<string, { from: string; max: number; entries: Entry[] }>();

  constructor(private session: Session) {}

  async page(question: Question): Promise<Page> {
    const queryid = newId();
    const from = question.room ?? this.session.bare;
    const entries: Entry[] = [];
    this.#open.set(queryid, { from, max: question.max, entries });
    const set = x("set", { xmlns: RSM },
      x("max", {}, String(question.max)),
      question.after !== undefined && x("after", {}, question.after),
      question.after === undefined && x("before", {}, question.before ?? ""));
    try {
      const query = x("query", { xmlns: NS, queryid }, forms.submit(NS, question.with ? { with: question.with } : {}), set);
      const fin = first(await this.session.iq("set", question.room, query), "fin", NS);
      const result = first(fin, "set", RSM);
      return { entries, complete: attr(fin, "complete") === "true", last: textOf(result, "last"), first: textOf(result, "first") };
    } finally {
      this.#open.delete(queryid);
    }
  }

  /** Takes an entry of an open page: whether the message was one. Nobody else may send entries of an archive. */
  take(message: Element): boolean {
    const result = first(message, "result", NS);
    if (!result) return false;
    const page = this.#open.get(attr(result, "queryid") ?? "");
    const forwarded = first(result, "forwarded", FORWARD);
    const inner = first(forwarded, "message", "jabber:client");
    if (page && forwarded && inner && bare(attr(message, "from") ?? page.from) === page.from && page.entries.length < page.max) {
      page.entries.push({ id: attr(result, "id") ?? "", message: inner, time: delay.read(forwarded) ?? Date.now() });
    }
    return true;
  }
}
