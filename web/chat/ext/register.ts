/** A new account (XEP-0077), with an invitation if there is one (XEP-0445). */

import { StanzaError } from "../xmpp/session";
import { Socket } from "../xmpp/socket";
import { all, attr, first, newId, x, type Node } from "../xmpp/xml";

const REGISTER = "jabber:iq:register";
const PARS = "urn:xmpp:pars:0";

export async function register(url: string, domain: string, user: string, password: string, invitation?: string) {
  const socket = new Socket(url, domain);
  const ask = async (type: string, payload: Node) => {
    const id = newId();
    socket.send(x("iq", { xmlns: "jabber:client", type, to: domain, id }, payload));
    const answer = await socket.next();
    if (attr(answer, "type") === "result") return answer;
    throw new Error(words(StanzaError.of(answer)));
  };
  try {
    await socket.open();
    if (invitation) await ask("set", x("preauth", { xmlns: PARS, token: invitation }));
    const query = first(await ask("get", x("query", { xmlns: REGISTER })), "query", REGISTER);
    const wanted = query ? [...query.children].filter((one) => one.namespaceURI === REGISTER).map((one) => one.localName) : [];
    const more = wanted.filter((name) => !["username", "password", "instructions", "registered"].includes(name));
    if (more.length > 0 || (query && all(query, "x", "jabber:x:data").length > 0 && !wanted.includes("username"))) {
      throw new Error("This server asks for more than a name and a password. Create the account with another client or on the server's own page.");
    }
    await ask("set", x("query", { xmlns: REGISTER }, x("username", {}, user), x("password", {}, password)));
  } finally {
    socket.close();
  }
}

function words({ condition, text }: StanzaError) {
  const known: Record<string, string> = {
    conflict: "This name is taken. Choose another one.",
    "not-acceptable": "The server does not accept this name or password. Choose others.",
    "not-allowed": "The server creates no accounts now.",
    "item-not-found": "This invitation is unknown or has been used.",
    "resource-constraint": "Too many accounts were created here. Try again later.",
    "jid-malformed": "A name may have letters, digits, dots and dashes.",
  };
  return (condition === "conflict" || !text ? known[condition] : undefined) ?? (text || `The server refused (${condition}).`);
}
