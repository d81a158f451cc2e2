/** Stream management (XEP-0198): what was handled on both sides, so that a lost connection loses nothing. */

import { attr, x, type Node } from "./xml";

export const SM = "urn:xmpp:sm:3";
/** As many stanzas may wait for the server's word before the oldest is given up. */
const UNACKED_MAX = 1000;

export class Management {
  /** The name of the session for resumption, if the server lets it be resumed. */
  id?: string;
  #handled = 0;
  #acked = 0;
  #unacked: Node[] = [];

  constructor(private onAcked: (stanza: Node) => void) {}

  static enable = () => x("enable", { xmlns: SM, resume: "true" });
  request = () => x("r", { xmlns: SM });
  answer = () => x("a", { xmlns: SM, h: String(this.#handled) });
  resume = () => x("resume", { xmlns: SM, previd: this.id, h: String(this.#handled) });

  enabled(frame: Element) {
    if (/^(true|1)$/.test(attr(frame, "resume") ?? "")) this.id = attr(frame, "id");
  }

  received() {
    this.#handled = (this.#handled + 1) >>> 0;
  }

  sent(stanza: Node) {
    this.#unacked.push(stanza);
    if (this.#unacked.length > UNACKED_MAX) {
      this.#unacked.shift();
      this.#acked = (this.#acked + 1) >>> 0;
    }
  }

  /** The server has handled this many. Numbers begin anew after 2^32 - 1. */
  acked(frame: Element) {
    const count = (Number(attr(frame, "h")) - this.#acked) >>> 0;
    if (count > this.#unacked.length) return;
    this.#acked = (this.#acked + count) >>> 0;
    for (const stanza of this.#unacked.splice(0, count)) this.onAcked(stanza);
  }

  /** What the server has not handled. */
  get waiting(): readonly Node[] {
    return this.#unacked;
  }
}
