/** What the page has to know of its server, from `chat.json` beside it. */

export interface Config {
  /** The domain of names that are typed without one. */
  domain: string;
  /** The WebSocket of XMPP. */
  websocket: string;
  /** The domain of guests. */
  guests: string;
}

export async function load(): Promise<Config> {
  const answer = await fetch("chat.json", { cache: "no-cache" });
  const given = answer.ok ? ((await answer.json()) as Partial<Config>) : {};
  const domain = given.domain ?? location.hostname;
  const url = new URL(given.websocket ?? "xmpp-websocket", location.href);
  url.protocol = url.protocol.replace(/^http/, "ws");
  url.hash = "";
  return { domain, websocket: url.href, guests: given.guests ?? domain };
}

const KEPT = "throng-chat";

/** Somebody who stays logged in. */
export interface Kept {
  jid: string;
  token?: string;
  agent: string;
}

export function kept(): Kept | undefined {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "") as Kept;
  } catch {
    return undefined;
  }
}

export function keep(one: Kept | undefined) {
  try {
    if (one) localStorage.setItem(KEPT, JSON.stringify(one));
    else localStorage.removeItem(KEPT);
  } catch {
    // A browser may refuse to keep anything; then the user logs in again.
  }
}
