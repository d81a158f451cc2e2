/** A message, with what can be done about it. */

import { Component } from "preact";
import { useState } from "preact/hooks";
import { Room, type Conversation } from "../store/conversation";
import type { Message } from "../store/timeline";
import { mentions } from "../client/incoming";
import { Avatar } from "./avatar";
import { useClient } from "./hooks";
import { IconButton } from "./icons";
import { clock, safe, Text } from "./text";

const EMOJIS = ["👍", "❤️", "😂", "🎉", "😮", "😢", "🙏", "👎"];
const NAMES: Record<string, string> = { "👍": "thumbs up", "❤️": "heart", "😂": "laughing", "🎉": "party", "😮": "surprised", "😢": "sad", "🙏": "thanks", "👎": "thumbs down" };
const IMAGE = /\.(png|jpe?g|gif|webp|avif)$/i;

interface Props {
  conversation: Conversation;
  message: Message;
  isTogether: boolean;
  state: string;
}

/** Of a thousand messages only those that have changed are shown again. */
export class MessageView extends Component<Props> {
  override shouldComponentUpdate(next: Props) {
    const { message, isTogether, state } = this.props;
    return message !== next.message || isTogether !== next.isTogether || state !== next.state;
  }

  override render() {
    return <Shown {...this.props} />;
  }
}

function Shown({ conversation, message, isTogether }: Props) {
  const client = useClient();
  const [isPicking, setPicking] = useState(false);
  // A thousand messages have no buttons but those of the one that somebody points at, or that has the focus.
  const [isPointed, setPointed] = useState(false);
  const [isFocused, setFocused] = useState(false);
  const { author, retracted, text } = message;
  const room = conversation instanceof Room ? conversation : undefined;
  const name = author.own ? "You" : room ? author.name : conversation.name;
  const isEmote = text.startsWith("/me ");
  const isMention = room !== undefined && !author.own && mentions(text, room.nick);
  const canRefer = room ? message.stanzaId !== undefined : message.id !== undefined;
  const isFailed = message.delivery === "failed";
  const isWaiting = message.delivery === "sending";

  function keys(event: KeyboardEvent) {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey || retracted) return;
    const does: Record<string, () => void> = { r: reply, "+": () => setPicking(true), ...(author.own ? { e: edit, Delete: takeBack } : {}) };
    const action = does[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
  function compose(change: Partial<Conversation>) {
    Object.assign(conversation, { edits: undefined, replyTo: undefined }, change);
    conversation.changed();
    document.querySelector<HTMLElement>(".composer textarea")?.focus();
  }
  const reply = () => canRefer && compose({ replyTo: message });
  const edit = () => compose({ edits: message, draft: text });
  const takeBack = () => {
    if (confirm("Take this message back? Others may have read it already.")) client.sending.retract(conversation, message);
  };
  const react = (emoji: string) => {
    setPicking(false);
    client.sending.react(conversation, message, emoji);
  };

  return (
    <article class={`message ${author.own ? "is-own" : ""} ${isTogether ? "is-together" : ""} ${isMention ? "is-mention" : ""} ${isFailed ? "is-failed" : ""}`} tabIndex={-1} onKeyDown={keys}
      onPointerEnter={() => setPointed(true)} onPointerLeave={() => setPointed(false)}
      onFocusIn={() => setFocused(true)} onFocusOut={(event) => setFocused(event.currentTarget.contains(event.relatedTarget as Node | null))} aria-label={`${name}, ${clock(message.time)}`}>
      {!author.own && (isTogether ? <span class="avatar-space" /> : <Avatar name={name} of={room ? author.key : conversation.jid} />)}
      <div class="bubble-frame">
        {!isTogether && !author.own && room && <p class="author">{name.slice(0, 80)}</p>}
        <div class="bubble">
          {message.replyTo && <Quote conversation={conversation} to={message.replyTo} />}
          {retracted
            ? <p class="text quiet">{retracted.moderated ? "A moderator removed this message." : "This message was taken back."}{retracted.reason && ` ${retracted.reason}`}</p>
            : message.file ? <FileView client={client} url={message.file} />
            : <p class={`text ${isEmote ? "is-emote" : ""}`} dir="auto">{isEmote ? <>{name} <Text text={text.slice(4)} /></> : <Text text={text} />}</p>}
          <p class="meta">
            {message.edited && !retracted && <span>edited</span>}
            <time dateTime={new Date(message.time).toISOString()} title={new Date(message.time).toLocaleString()}>{clock(message.time)}</time>
            {author.own && <Ticks delivery={message.delivery} />}
          </p>
        </div>
        {message.reactions.size > 0 && (
          <div class="reactions">
            {[...message.reactions].map(([emoji, authors]) => (
              <button type="button" key={emoji} aria-pressed={authors.some((one) => one.own)} title={authors.slice(0, 20).map((one) => (one.own ? "You" : one.name)).join(", ")}
                aria-label={`${NAMES[emoji] ?? emoji}: ${authors.length}`} onClick={() => react(emoji)}>{emoji} {authors.length}</button>
            ))}
          </div>
        )}
        {isFailed && (
          <p class="problem">{message.problem ?? "It was not delivered."} <button type="button" class="link" onClick={() => client.sending.again(conversation, message)}>Send again</button></p>
        )}
        {(isPointed || isFocused) && !isPicking && !retracted && !isFailed && !isWaiting && (
          <div class="tools" role="group" aria-label="This message">
            {canRefer && <IconButton icon="smile" label="React" onClick={() => setPicking(true)} />}
            {canRefer && <IconButton icon="reply" label="Reply" onClick={reply} />}
            {author.own && !message.file && message.id && <IconButton icon="edit" label="Correct" onClick={edit} />}
            {author.own && canRefer && <IconButton icon="remove" label="Take back" onClick={takeBack} />}
            {!author.own && room?.canModerate && room.self?.role === "moderator" && message.stanzaId && <IconButton icon="remove" label="Remove as a moderator" onClick={() => void client.sending.moderate(room, message)} />}
          </div>
        )}
        {isPicking && (
          <div class="picker" role="group" aria-label="Reactions" onKeyDown={(event) => event.key === "Escape" && setPicking(false)}
            onFocusOut={(event) => event.currentTarget.contains(event.relatedTarget as Node | null) || setPicking(false)}>
            {EMOJIS.map((emoji, at) => <button type="button" key={emoji} ref={at === 0 ? focus : undefined} aria-label={NAMES[emoji]} onClick={() => react(emoji)}>{emoji}</button>)}
          </div>
        )}
      </div>
    </article>
  );
}

const focus = (button: HTMLElement | null) => button?.focus();

function Quote({ conversation, to }: { conversation: Conversation; to: string }) {
  const message = conversation.timeline.find(to);
  return (
    <blockquote>
      {message ? <><b>{message.author.own ? "You" : conversation instanceof Room ? message.author.name.slice(0, 60) : conversation.name}</b> {message.retracted ? "message taken back" : message.text.slice(0, 140)}</> : "an older message"}
    </blockquote>
  );
}

const DELIVERY = { sending: ["◌", "waiting to be sent"], sent: ["✓", "sent"], received: ["✓✓", "received"], read: ["✓✓", "read"], failed: ["!", "not delivered"] } as const;

function Ticks({ delivery = "sent" }: { delivery?: Message["delivery"] }) {
  const [sign, words] = DELIVERY[delivery];
  return <span class={`ticks is-${delivery}`} title={words}><span aria-hidden="true">{sign}</span><span class="hidden">{words}</span></span>;
}

/** A file. Pictures from the user's own server are shown; those from elsewhere would tell that server who looks, so they wait for a click. */
function FileView({ client, url }: { client: ReturnType<typeof useClient>; url: string }) {
  const [isShown, setShown] = useState(false);
  const [isBroken, setBroken] = useState(false);
  const href = safe(url);
  if (!href) return <p class="text"><Text text={url} /></p>;
  const { hostname, pathname } = new URL(href);
  const name = decodeName(pathname);
  const isImage = IMAGE.test(pathname);
  const own = client.app.services.upload?.jid;
  const isNear = hostname === location.hostname || (own !== undefined && (hostname === own || own.endsWith(`.${hostname}`)));
  return (
    <div class="file">
      {isImage && !isBroken && (isNear || isShown) && (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow"><img src={href} alt={name} loading="lazy" referrerpolicy="no-referrer" onError={() => setBroken(true)} /></a>
      )}
      {isImage && !isNear && !isShown && <button type="button" class="link" onClick={() => setShown(true)}>Show the picture from {hostname}</button>}
      {(!isImage || isBroken || !isNear) && <a href={href} target="_blank" rel="noopener noreferrer nofollow">{name}</a>}
    </div>
  );
}

function decodeName(path: string) {
  const name = path.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(name).slice(0, 100) || "file";
  } catch {
    return name.slice(0, 100);
  }
}
