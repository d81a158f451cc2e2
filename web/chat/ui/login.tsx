/** The door: log in, create an account, or come as a guest. */

import { useEffect, useState } from "preact/hooks";
import { Client } from "../client/client";
import { keep, type Config } from "../config";
import { register } from "../ext/register";
import { complete, isAddress } from "../xmpp/jid";
import type { Account } from "../xmpp/sasl";
import { offers, type Offers } from "../xmpp/session";

type Way = "login" | "register" | "guest";
const BUTTONS: Record<Way, string> = { login: "Log in", register: "Create account", guest: "Come in" };

export function Login({ config, why, invitation, onClient }: { config: Config; why: string; invitation?: string; onClient: (client: Client) => void }) {
  const [way, setWay] = useState<Way>(invitation ? "register" : "login");
  const [problem, setProblem] = useState(why);
  const [isBusy, setBusy] = useState(false);
  const [offered, setOffered] = useState<Offers>({ register: false, guests: false, tokens: false });

  useEffect(() => {
    const fail = (error: Error) => setProblem(error.message === "unreachable" ? unreachable : error.message);
    const own = offers(config.websocket, config.domain).then((one) => (setOffered((all) => ({ ...all, ...one, guests: all.guests || one.guests })), one));
    own.catch(fail);
    if (config.guests !== config.domain) offers(config.websocket, config.guests).then(({ guests }) => setOffered((all) => ({ ...all, guests })), () => {});
  }, [config]);

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const given = (name: string) => String(data.get(name) ?? "");
    setBusy(true);
    setProblem("");
    try {
      onClient(await enter(given));
    } catch (error) {
      setProblem((error as Error).message === "unreachable" ? unreachable : (error as Error).message);
      setBusy(false);
    }
  }

  async function enter(given: (name: string) => string): Promise<Client> {
    const name = given("name").trim();
    if (way === "guest") return start(config, { guestOf: config.guests }, name);
    const jid = complete(name, config.domain);
    if (!isAddress(jid)) throw new Error("This is not a name. Names have letters, digits, dots and dashes.");
    const password = given("password");
    if (way === "register") {
      if (password !== given("again")) throw new Error("The two passwords differ. Type them again.");
      await register(config.websocket, jid.split("@")[1]!, jid.split("@")[0]!, password, invitation);
    }
    const isKept = given("keep") === "on";
    return start(config, { jid, password, keep: isKept, agent: isKept ? agent() : undefined });
  }

  const hasPassword = way !== "guest";
  return (
    <main class="door">
      <form onSubmit={submit} aria-busy={isBusy}>
        <h1>Chat <span class="quiet">at {config.domain}</span></h1>
        <label>{way === "guest" ? "Your name" : "Name"}
          <input name="name" key={way === "guest" ? "guest" : "user"} required maxLength={way === "guest" ? 60 : 1000} autocomplete={hasPassword ? "username" : "nickname"} autocapitalize="none" spellcheck={false} autofocus />
        </label>
        {hasPassword && <label>Password
          <input name="password" type="password" required maxLength={1000} autocomplete={way === "login" ? "current-password" : "new-password"} />
        </label>}
        {way === "register" && <label>Password again
          <input name="again" type="password" required maxLength={1000} autocomplete="new-password" />
        </label>}
        {hasPassword && offered.tokens && <label class="check"><input name="keep" type="checkbox" /> Stay logged in on this device</label>}
        <p class="problem" role="alert">{problem}</p>
        <button class="primary" disabled={isBusy}>{isBusy ? "One moment …" : BUTTONS[way]}</button>
        <p class="ways">
          {way !== "login" && <button type="button" class="link" onClick={() => setWay("login")}>Log in instead</button>}
          {way !== "register" && (offered.register || invitation) && <button type="button" class="link" onClick={() => setWay("register")}>Create an account</button>}
          {way !== "guest" && offered.guests && <button type="button" class="link" onClick={() => setWay("guest")}>Come as a guest</button>}
        </p>
      </form>
    </main>
  );
}

const unreachable = "The server cannot be reached. Check your connection, then try again.";
/** A name of this browser, by which the server knows the token of one device from that of another. */
const agent = () => crypto.randomUUID();

/** Logs in, and keeps the token if the user wants that. */
export async function start(config: Config, account: Account, guestName = ""): Promise<Client> {
  const client = new Client(config.websocket, account, guestName);
  if ("jid" in account && (account.keep || account.token)) {
    client.onToken = (token) => keep(token ? { jid: account.jid, token, agent: account.agent! } : undefined);
  }
  try {
    await client.app.session.start();
  } catch (error) {
    client.end();
    throw error;
  }
  return client;
}
