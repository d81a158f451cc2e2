/** The page: the door, or the conversations beside the one that is looked at. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Client } from "../client/client";
import { keep, kept, type Config } from "../config";
import { isAddress } from "../xmpp/jid";
import { ConversationView } from "./conversation";
import { ClientContext, useChanges, useClient } from "./hooks";
import { Login, start } from "./login";
import { Sidebar } from "./sidebar";
import { IconButton } from "./icons";

export function Page({ config }: { config: Config }) {
  const [client, setClient] = useState<Client>();
  const [why, setWhy] = useState("");
  const [isComing, setComing] = useState(() => kept() !== undefined);
  const [invitation] = useState(() => new URLSearchParams(location.hash.slice(1)).get("invite") ?? undefined);

  const come = useCallback((one: Client) => {
    setComing(false);
    setClient(one);
    // An address of this page may name a room: #room@conference.example.org
    const room = decodeURIComponent(location.hash.slice(1));
    if (isAddress(room)) void one.visit(room);
  }, []);

  useEffect(() => {
    const known = kept();
    if (!known) return;
    start(config, { ...known, keep: true }).then(come, (error: Error) => {
      setWhy(error.message === "unreachable" ? "The server cannot be reached. Check your connection, then try again." : error.message);
      setComing(false);
    });
  }, [config]);

  const leave = useCallback(() => {
    keep(undefined);
    client?.end();
    setWhy("");
    setClient(undefined);
  }, [client]);

  if (isComing) return <main class="door"><p role="status">One moment …</p></main>;
  if (!client) return <Login config={config} why={why} invitation={invitation} onClient={come} />;
  return <ClientContext.Provider value={client}><Main onLeave={leave} onEnded={(why) => (client.end(why), setWhy(why), setClient(undefined))} /></ClientContext.Provider>;
}

function Main({ onLeave, onEnded }: { onLeave: () => void; onEnded: (why: string) => void }) {
  const client = useClient();
  const { app } = client;
  useChanges(app);
  const { selected } = app;
  const { status } = app.session;

  useEffect(() => {
    const { unread } = app;
    document.title = `${unread > 0 ? `(${unread > 99 ? "99+" : unread}) ` : ""}${selected ? `${selected.name.slice(0, 60)} – ` : ""}Chat`;
  });
  useEffect(() => {
    if (status.state === "ended" && status.why) onEnded(status.why);
  }, [status]);

  // Alt and an arrow go to the next conversation.
  const keys = useRef((event: KeyboardEvent) => {
    if (!event.altKey || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    event.preventDefault();
    const buttons = [...document.querySelectorAll<HTMLElement>(".conversation-link")];
    const at = buttons.findIndex((one) => one.getAttribute("aria-current") === "true");
    const to = event.key === "ArrowDown" ? at + 1 : Math.max(at, 0) - 1;
    buttons.at(to % buttons.length)?.click();
  });
  useEffect(() => {
    addEventListener("keydown", keys.current);
    return () => removeEventListener("keydown", keys.current);
  }, []);

  return (
    <div class={`page ${selected ? "has-selected" : ""}`}>
      <Sidebar onLeave={onLeave} />
      {selected ? <ConversationView key={selected.jid} conversation={selected} /> : <main class="nothing"><p>Choose a conversation, or begin a new one with +.</p></main>}
      <div class="banners" role="status">
        {status.state === "waiting" && <p class="banner">Not connected. {status.why} Trying again by itself. <button type="button" class="link" onClick={() => app.session.retryNow()}>Try now</button></p>}
        {status.state === "connecting" && <p class="banner">Connecting …</p>}
        {app.notice && <p class="banner">{app.notice} <IconButton icon="close" label="Close" onClick={() => app.untell()} /></p>}
      </div>
    </div>
  );
}
