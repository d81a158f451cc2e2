/** Typing (XEP-0085). */

import { x } from "../xmpp/xml";

const NS = "http://jabber.org/protocol/chatstates";
export type State = "active" | "composing" | "paused" | "inactive" | "gone";

export const write = (state: State) => x(state, { xmlns: NS });
export const read = (message: Element) => [...message.children].find((child) => child.namespaceURI === NS)?.localName as State | undefined;
