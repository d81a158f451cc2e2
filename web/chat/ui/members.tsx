/** Who is in a room. */

import { useState } from "preact/hooks";
import type { Occupant } from "../ext/rooms";
import type { Room } from "../store/conversation";
import { Avatar } from "./avatar";
import { useChanges, useClient } from "./hooks";
import { IconButton } from "./icons";

/** As many are shown at first, and more at a time. */
const SHOWN = 200;
const ROLES = ["moderator", "participant", "visitor", "none"];

export function Members({ room, onClose }: { room: Room; onClose: () => void }) {
  useChanges(room);
  const [shown, setShown] = useState(SHOWN);
  const all = [...room.occupants.values()].sort((a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || a.nick.localeCompare(b.nick));
  return (
    <aside class="members" aria-label="Who is here">
      <header><h2>Here: {all.length + room.unlisted}</h2><IconButton icon="close" label="Close the list" onClick={onClose} /></header>
      <ul class="scrolls" tabIndex={0} aria-label="People in this room">
        {all.slice(0, shown).map((one) => <Member key={one.nick} room={room} occupant={one} />)}
        {all.length > shown && <li><button type="button" class="link" onClick={() => setShown(shown + SHOWN)}>Show more</button></li>}
        {room.unlisted > 0 && <li class="quiet">and {room.unlisted} more</li>}
      </ul>
    </aside>
  );
}

function Member({ room, occupant }: { room: Room; occupant: Occupant }) {
  const client = useClient();
  const isSelf = occupant.nick === room.nick;
  const mayModerate = room.self?.role === "moderator" && !isSelf;
  const mayBan = mayModerate && (room.self?.affiliation === "owner" || room.self?.affiliation === "admin") && occupant.jid !== undefined;
  const tried = (promise: Promise<unknown>) => void promise.catch((error: Error) => client.app.tell(`The room refused. ${error.message}`));
  const role = occupant.affiliation === "owner" ? "owner" : occupant.affiliation === "admin" ? "admin" : occupant.role === "moderator" ? "moderator" : occupant.role === "visitor" ? "may not write" : "";
  const show = occupant.show === "" || occupant.show === "chat" ? "available" : "away";
  return (
    <li class="member">
      <Avatar name={occupant.nick} of={occupant.id ?? `nick ${occupant.nick}`} show={show} />
      <span class="what">
        <span class="name">{occupant.nick.slice(0, 80)}{isSelf && " (you)"}</span>
        {(role || occupant.jid) && <span class="quiet">{[role, occupant.jid].filter(Boolean).join(" · ")}</span>}
      </span>
      {!isSelf && (
        <span class="tools">
          <IconButton icon="reply" label={`Write to ${occupant.nick}`} onClick={() => client.talkTo(occupant.jid ?? `${room.jid}/${occupant.nick}`)} />
          {mayModerate && <IconButton icon="leave" label={`Send ${occupant.nick} out`} onClick={() => tried(client.rooms.kick(room, occupant.nick))} />}
          {mayBan && <IconButton icon="remove" label={`Ban ${occupant.nick}`} onClick={() => confirm(`Ban ${occupant.jid} from this room?`) && tried(client.rooms.ban(room, occupant.jid!))} />}
        </span>
      )}
    </li>
  );
}
