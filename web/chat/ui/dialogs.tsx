/** Beginning conversations: with a person, in a room that exists, or in a new one. And inviting others. */

import { useEffect, useState } from "preact/hooks";
import * as disco from "../ext/disco";
import type { Room } from "../store/conversation";
import { complete, domain, isAddress } from "../xmpp/jid";
import { Dialog } from "./dialog";
import { useClient } from "./hooks";

type Kind = "person" | "room";

export function NewConversation({ onClose }: { onClose: () => void }) {
  const client = useClient();
  const [kind, setKind] = useState<Kind>(client.app.isGuest ? "room" : "person");
  return (
    <Dialog title="New conversation" onClose={onClose}>
      <fieldset class="choice">
        <legend class="hidden">With whom</legend>
        {(["person", "room"] as const).map((one) => (
          <label key={one}><input type="radio" name="kind" checked={kind === one} onChange={() => setKind(one)} />{one === "person" ? "A person" : "A room"}</label>
        ))}
      </fieldset>
      {kind === "person" ? <WithPerson onClose={onClose} /> : <InRoom onClose={onClose} />}
    </Dialog>
  );
}

function WithPerson({ onClose }: { onClose: () => void }) {
  const client = useClient();
  const { app } = client;
  const [problem, setProblem] = useState("");
  async function submit(event: SubmitEvent) {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const jid = complete(String(data.get("name")), domain(app.me));
    if (!isAddress(jid)) return setProblem("This is not an address. It looks like juliet@example.org.");
    if (jid === app.me) return setProblem("This is your own address.");
    try {
      if (data.get("contact") === "on") await client.people.add(jid, "");
      client.talkTo(jid);
      onClose();
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <form onSubmit={submit}>
      <label>Name or address<input name="name" required maxLength={2000} autocapitalize="none" spellcheck={false} autofocus placeholder={`juliet@${domain(app.me)}`} /></label>
      {!app.isGuest && <label class="check"><input name="contact" type="checkbox" defaultChecked /> Ask to become contacts, so that you see when the other is there</label>}
      <p class="problem" role="alert">{problem}</p>
      <button class="primary">Begin</button>
    </form>
  );
}

function InRoom({ onClose }: { onClose: () => void }) {
  const client = useClient();
  const { app } = client;
  const service = app.services.rooms;
  const [known, setKnown] = useState<disco.Item[]>();
  const [problem, setProblem] = useState("");

  useEffect(() => {
    if (service) disco.items(app.session, service).then(setKnown, () => setKnown([]));
  }, [service]);

  function enter(jid: string, settings?: Record<string, string>) {
    void client.visit(jid, { settings });
    onClose();
  }
  function submit(event: SubmitEvent) {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const typed = String(data.get("name")).trim();
    if (!typed.includes("@") && !service) return setProblem("This server has no rooms. Type the address of a room, such as garden@rooms.example.org.");
    const jid = complete(typed.replace(/\s+/g, "-"), service ?? "");
    if (!isAddress(jid)) return setProblem("A room's name has letters, digits, dots and dashes.");
    const isPrivate = data.get("private") === "on";
    enter(jid, {
      "muc#roomconfig_roomname": typed.split("@")[0]!,
      "muc#roomconfig_persistentroom": "1",
      "muc#roomconfig_membersonly": isPrivate ? "1" : "0",
      "muc#roomconfig_publicroom": isPrivate ? "0" : "1",
      "muc#roomconfig_whois": isPrivate ? "anyone" : "moderators",
      "muc#roomconfig_enablelogging": "1",
    });
  }
  return (
    <>
      <form onSubmit={submit}>
        <label>Name of the room<input name="name" required maxLength={2000} autocapitalize="none" spellcheck={false} autofocus placeholder="garden" /></label>
        <label class="check"><input name="private" type="checkbox" /> If it is new: only people who are invited may enter</label>
        <p class="problem" role="alert">{problem}</p>
        <button class="primary">Enter or make it</button>
      </form>
      {service && (
        <section class="known">
          <h3>Rooms at {service}</h3>
          {known === undefined ? <p class="quiet">One moment …</p> : known.length === 0 ? <p class="quiet">There is none yet.</p> : (
            <ul>{known.map((one) => <li key={one.jid}><button type="button" class="known-room" onClick={() => enter(one.jid)}><b>{one.name || one.jid.split("@")[0]}</b> <span class="quiet">{one.jid}</span></button></li>)}</ul>
          )}
        </section>
      )}
    </>
  );
}

export function Invite({ room, onClose }: { room: Room; onClose: () => void }) {
  const client = useClient();
  const [problem, setProblem] = useState("");
  const link = `${location.origin}${location.pathname}#${room.jid}`;
  async function submit(event: SubmitEvent) {
    event.preventDefault();
    const jid = complete(String(new FormData(event.currentTarget as HTMLFormElement).get("name")), domain(client.app.me));
    if (!isAddress(jid)) return setProblem("This is not an address. It looks like juliet@example.org.");
    try {
      await client.rooms.invite(room, jid);
      client.app.tell(`${jid} was invited.`);
      onClose();
    } catch (error) {
      setProblem(`The invitation was refused. ${(error as Error).message}`);
    }
  }
  return (
    <Dialog title={`Invite to ${room.name.slice(0, 60)}`} onClose={onClose}>
      <form onSubmit={submit}>
        <label>Name or address<input name="name" required maxLength={2000} autocapitalize="none" spellcheck={false} autofocus list="contacts" /></label>
        <datalist id="contacts">{client.app.people.slice(0, 100).map(({ jid }) => <option key={jid} value={jid} />)}</datalist>
        <p class="problem" role="alert">{problem}</p>
        <button class="primary">Invite</button>
      </form>
      <p class="quiet">Or send this link: <a href={link}>{link}</a></p>
    </Dialog>
  );
}
