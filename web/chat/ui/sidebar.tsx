/** All conversations, with what is new in them. */

import { useState } from "preact/hooks";
import { Person, Room, type Conversation } from "../store/conversation";
import { Avatar } from "./avatar";
import { NewConversation } from "./dialogs";
import { useChanges, useClient } from "./hooks";
import { IconButton } from "./icons";
import { brief } from "./text";

/** As many conversations are shown of each kind. */
const SHOWN_MAX = 300;

export function Sidebar({ onLeave }: { onLeave: () => void }) {
  const client = useClient();
  const { app } = client;
  useChanges(app);
  const [isNew, setNew] = useState(false);
  const [permission, setPermission] = useState(() => ("Notification" in globalThis ? Notification.permission : "denied"));
  const byActivity = (a: Conversation, b: Conversation) => b.activeAt - a.activeAt || a.name.localeCompare(b.name);
  const me = app.isGuest ? app.guestName : app.me;

  return (
    <nav class="sidebar" aria-label="Conversations">
      <header>
        <h1>Chat</h1>
        {permission === "default" && <IconButton icon="bell" label="Show notifications" onClick={() => void Notification.requestPermission().then(setPermission)} />}
        <IconButton icon="add" label="New conversation" onClick={() => setNew(true)} />
      </header>
      <div class="scrolls">
        {[...app.requests].map((jid) => (
          <div class="asks" key={jid}>
            <p><b>{jid}</b> wants to be your contact.</p>
            <button type="button" class="primary" onClick={() => client.people.answer(jid, true)}>Accept</button>
            <button type="button" onClick={() => client.people.answer(jid, false)}>Decline</button>
          </div>
        ))}
        {app.invitations.map((one) => (
          <div class="asks" key={one.room}>
            <p><b>{one.from}</b> invites you to the room <b>{one.room}</b>.{one.reason && ` “${one.reason}”`}</p>
            <button type="button" class="primary" onClick={() => void client.visit(one.room, { password: one.password })}>Enter</button>
            <button type="button" onClick={() => ((app.invitations = app.invitations.filter((other) => other !== one)), app.changed())}>Decline</button>
          </div>
        ))}
        <List title="Rooms" empty="No rooms yet. Enter or make one with +." all={app.rooms.sort(byActivity)} />
        <List title="People" empty="Nobody yet. Write to somebody with +." all={app.people.sort(byActivity)} />
      </div>
      <footer>
        <Avatar name={client.nick} show={app.session.online ? "available" : "unavailable"} />
        <span class="me" title={me}>{me}</span>
        <IconButton icon="leave" label="Log out" onClick={onLeave} />
      </footer>
      {isNew && <NewConversation onClose={() => setNew(false)} />}
    </nav>
  );
}

function List({ title, empty, all }: { title: string; empty: string; all: Conversation[] }) {
  return (
    <section>
      <h2>{title}</h2>
      {all.length === 0 ? <p class="quiet">{empty}</p> : <ul>{all.slice(0, SHOWN_MAX).map((one) => <Entry key={one.jid} conversation={one} />)}</ul>}
    </section>
  );
}

function Entry({ conversation }: { conversation: Conversation }) {
  const client = useClient();
  useChanges(conversation);
  const { last, name, unread } = conversation;
  const isCurrent = client.app.selected === conversation;
  const who = last && (last.author.own ? "You: " : conversation instanceof Room ? `${last.author.name}: ` : "");
  const text = conversation.typing.size > 0 ? "typing …" : last ? who + (last.retracted ? "message taken back" : last.file ? "file" : last.text.slice(0, 100)) : conversation instanceof Room ? conversation.subject : "";
  const show = conversation instanceof Person && !conversation.isPrivate ? conversation.show : undefined;
  return (
    <li>
      <button type="button" class="conversation-link" aria-current={isCurrent} onClick={() => client.select(conversation)}>
        <Avatar name={name} of={conversation.jid} show={show} />
        <span class="what">
          <span class="row"><span class="name">{name}{show && <span class="hidden">, {show}</span>}</span>{last && <time>{brief(last.time)}</time>}</span>
          <span class="row"><span class={`last ${conversation.typing.size > 0 ? "is-typing" : ""}`}>{text}</span>{unread > 0 && <span class={`badge ${conversation.isMentioned || show ? "is-strong" : ""}`}>{unread > 99 ? "99+" : unread}<span class="hidden"> new</span></span>}</span>
        </span>
      </button>
    </li>
  );
}
