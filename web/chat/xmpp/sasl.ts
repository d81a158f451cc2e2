/** Logins: SASL (RFC 6120 6), and tokens that spare the password (XEP-0388, XEP-0484). */

import { Scram, hmac } from "./scram";
import type { Socket } from "./socket";
import { all, attr, first, newId, textOf, x } from "./xml";

const SASL = "urn:ietf:params:xml:ns:xmpp-sasl";
const SASL2 = "urn:xmpp:sasl:2";
const FAST = "urn:xmpp:fast:0";
const FAST_MECHANISM = "HT-SHA-256-NONE";

/** A user who logs in. `token` stands for the password of one who stays logged in. */
export interface User {
  jid: string;
  password?: string;
  token?: string;
  /** The name of this browser: each has a token of its own. */
  agent?: string;
  keep?: boolean;
}

export type Account = User | { guestOf: string };

/** A login that was refused: another attempt with the same words is in vain. */
export class Refused extends Error {}

const encoder = new TextEncoder();
const encode = (text: string) => btoa(String.fromCharCode(...encoder.encode(text)));
const decode = (text: string) => new TextDecoder().decode(Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0)));

/** Mechanisms that a stream offers, of both profiles. */
export const mechanisms = (features: Element) =>
  all(first(features, "mechanisms", SASL) ?? features, "mechanism", SASL).map((one) => one.textContent ?? "");

/** Whether a token may stand for a password. */
export function hasTokens(features: Element) {
  const inline = first(first(first(features, "authentication", SASL2), "inline"), "fast", FAST);
  return crypto.subtle !== undefined && inline !== undefined && all(inline, "mechanism").some((one) => one.textContent === FAST_MECHANISM);
}

/** One mechanism: what it says first, and what it answers. */
interface Exchange {
  name: string;
  /** In Base64, for it may be bytes. */
  first: string;
  answer(challenge: string): Promise<string>;
  /** Whether the server has shown that it is the right one. */
  verify(last: string): Promise<boolean>;
}

function choose(offered: string[], user: string, password: string): Exchange {
  // Browsers have the cryptography on pages by https and of this machine only.
  for (const hash of crypto.subtle ? ["SHA-512", "SHA-256", "SHA-1"] : []) {
    if (!offered.includes(`SCRAM-${hash}`)) continue;
    const scram = new Scram(hash, user, password, newId());
    return { name: `SCRAM-${hash}`, first: encode(scram.first()), answer: (it) => scram.final(it), verify: (it) => scram.verify(it) };
  }
  if (!offered.includes("PLAIN")) {
    throw new Refused(crypto.subtle ? "The server offers no kind of login that this page knows." : "Open this page by https: without it this browser cannot log in.");
  }
  return single("PLAIN", encode(`\0${user}\0${password}`));
}

const single = (name: string, first: string): Exchange => ({ name, first, answer: async () => "", verify: async () => true });

/**
 * Logs in, and opens the stream anew if the profile wants that. Gives the features of the stream that has a user, and the next token.
 */
export async function authenticate(socket: Socket, features: Element, account: Account, user: string): Promise<{ features: Element; token?: string }> {
  if ("jid" in account && (account.token || account.keep) && hasTokens(features)) return byTokens(socket, first(features, "authentication", SASL2)!, account, user);
  if ("jid" in account && account.password === undefined) throw new Refused("Log in again: this server no longer keeps you logged in.");
  const exchange = "guestOf" in account ? single("ANONYMOUS", "") : choose(mechanisms(features), user, account.password!);
  socket.send(x("auth", { xmlns: SASL, mechanism: exchange.name }, exchange.first));
  const { success, shown } = await converse(socket, exchange, (text) => socket.send(x("response", { xmlns: SASL }, text)));
  if (!(await exchange.verify(shown ?? decode(success.textContent ?? "")))) throw new Refused("This is not the server that knows your password.");
  return { features: await socket.open() };
}

/** By XEP-0388, where a token may stand for the password and a new one comes with the success. */
async function byTokens(socket: Socket, sasl2: Element, account: User, user: string) {
  const exchange = account.token ? await tokenExchange(user, account.token) : choose(all(sasl2, "mechanism").map((one) => one.textContent ?? ""), user, account.password!);
  socket.send(
    x("authenticate", { xmlns: SASL2, mechanism: exchange.name },
      x("initial-response", {}, exchange.first),
      x("user-agent", { id: account.agent }, x("software", {}, "Throng chat page")),
      account.token ? x("fast", { xmlns: FAST }) : x("request-token", { xmlns: FAST, mechanism: FAST_MECHANISM })),
  );
  const { success, shown } = await converse(socket, exchange, (text) => socket.send(x("response", { xmlns: SASL2 }, text)));
  // A token's answer is bytes, not text: it is compared as the server wrote it.
  const data = textOf(success, "additional-data") ?? "";
  if (!(await exchange.verify(account.token ? data : (shown ?? decode(data))))) throw new Refused("This is not the server that knows your password.");
  const token = attr(first(success, "token", FAST), "token") ?? account.token;
  return { features: await socket.next(), token };
}

/** HT-SHA-256-NONE: both sides show that they know the token. */
async function tokenExchange(user: string, token: string): Promise<Exchange> {
  const shown = async (who: string) => String.fromCharCode(...(await hmac("SHA-256", encoder.encode(token), encoder.encode(who))));
  const [initiator, responder] = [await shown("Initiator"), btoa(await shown("Responder"))];
  return { ...single(FAST_MECHANISM, ""), first: btoa(`${atob(encode(user))}\0${initiator}`), verify: async (last) => last.trim() === responder };
}

async function converse(socket: Socket, exchange: Exchange, respond: (text: string) => void): Promise<{ success: Element; shown?: string }> {
  let shown: string | undefined;
  for (;;) {
    const frame = await socket.next();
    if (frame.localName === "success") return { success: frame, shown };
    if (frame.localName !== "challenge") throw refusal(frame);
    const challenge = decode(frame.textContent ?? "");
    // The server's last message comes with the success, or as a challenge before it (RFC 6120 6.3.10).
    if (challenge.startsWith("v=")) shown = challenge;
    respond(shown === undefined ? encode(await exchange.answer(challenge)) : "");
  }
}

function refusal(frame: Element) {
  const condition = frame.firstElementChild?.localName ?? "";
  const own = [...frame.children].find((child) => child.localName === "text")?.textContent?.slice(0, 300);
  if (condition === "temporary-auth-failure") return new Error(own ?? "The server cannot check logins now. Try again later.");
  const words: Record<string, string> = {
    "not-authorized": "The name or the password is wrong.",
    "credentials-expired": "Log in again: you were logged in for a long time.",
    "account-disabled": "This account is disabled. Ask the operator of the server.",
  };
  const known = condition === "account-disabled" ? (own ?? words[condition]) : (words[condition] ?? own);
  return new Refused(known ?? `The server refused the login (${condition || "no reason given"}).`);
}
