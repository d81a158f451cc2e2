/** A conversation: who it is with, what was said, and what is being written. */

import { useState } from "preact/hooks";
import { Person, Room, type Conversation } from "../store/conversation";
import { Avatar } from "./avatar";
import { Composer } from "./composer";
import { Invite } from "./dialogs";
import { useChanges, useClient } from "./hooks";
import { IconButton } from "./icons";
import { Log } from "./log";
import { Members } from "./members";

const WIDE = matchMedia("(min-width: 1000px)");

export function ConversationView({ conversation }: { conversation: Conversation }) {
  const client = useClient();
  useChanges(conversation, client.app);
  const [hasMembers, setMembers] = useState(WIDE.matches);
  const [isInviting, setInviting] = useState(false);
  const room = conversation instanceof Room ? conversation : undefined;
  const person = conversation instanceof Person ? conversation : undefined;
  const count = room ? room.occupants.size + room.unlisted : 0;

  return (
    <>
      <main class="conversation" aria-label={`Conversation: ${conversation.name}`}>
        <header>
          <IconButton icon="back" label="Back to the conversations" class="narrow" onClick={() => client.select(undefined)} />
          <Avatar name={conversation.name} of={conversation.jid} show={person && !person.isPrivate ? person.show : undefined} />
          <div class="what">
            <h1 title={conversation.jid}>{conversation.name}</h1>
            <p class="quiet" title={room?.subject}>{room ? room.subject || room.jid : `${conversation.jid}${person!.isPrivate ? "" : ` · ${words[person!.show]}`}`}</p>
          </div>
          {room?.state === "in" && <IconButton icon="invite" label="Invite" onClick={() => setInviting(true)} />}
          {room && <IconButton icon="people" label={`Who is here: ${count}`} aria-expanded={hasMembers} onClick={() => setMembers(!hasMembers)} />}
          {room && <IconButton icon="leave" label="Leave the room" onClick={() => client.rooms.leave(room)} />}
          {person?.contact && <IconButton icon="remove" label="Remove this contact" onClick={() => void (confirm(`Remove ${person.jid} from your contacts?`) && client.people.remove(person).catch((error: Error) => client.app.tell(error.message)))} />}
        </header>
        <Log conversation={conversation} />
        <Typing conversation={conversation} />
        {room && room.state !== "in" ? <Door room={room} /> : <Composer conversation={conversation} />}
      </main>
      {room && hasMembers && <Members room={room} onClose={() => setMembers(false)} />}
      {room && isInviting && <Invite room={room} onClose={() => setInviting(false)} />}
    </>
  );
}

const words = { available: "here", away: "away", unavailable: "not here" };

function Typing({ conversation }: { conversation: Conversation }) {
  const names = [...conversation.typing.keys()].map((name) => name.slice(0, 40));
  const who = names.length > 3 ? `${names.length} people are` : names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)} are` : `${names[0]} is`;
  return <p class="typing" aria-live="off">{names.length > 0 && <>{who} typing <span class="dots" aria-hidden="true"><i /><i /><i /></span></>}</p>;
}

/** In place of the composer, while the user is not in the room. */
function Door({ room }: { room: Room }) {
  const client = useClient();
  if (room.state === "joining") return <p class="room-door" role="status">Entering …</p>;
  function submit(event: SubmitEvent) {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const password = data.get("password");
    if (password !== null) room.password = String(password);
    room.nick = String(data.get("nick")).trim() || client.nick;
    void client.visit(room.jid);
  }
  return (
    <form class="room-door" onSubmit={submit}>
      <p role="status">{room.refusal ?? "You are not in this room."}</p>
      <label>Your name here <input name="nick" defaultValue={room.nick || client.nick} maxLength={60} /></label>
      {room.needsPassword && <label>Password <input name="password" type="password" required maxLength={1000} autocomplete="off" /></label>}
      <button class="primary">Enter</button>
    </form>
  );
}
