/** What archives should do with a message (XEP-0334). */

import { x } from "../xmpp/xml";

const NS = "urn:xmpp:hints";

export const store = () => x("store", { xmlns: NS });
export const noStore = () => x("no-store", { xmlns: NS });
