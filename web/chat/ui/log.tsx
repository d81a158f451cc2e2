/** What was said, the newest at the bottom. Scrolling up fetches older messages. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Conversation } from "../store/conversation";
import { MESSAGES_MAX, type Message } from "../store/timeline";
import { useClient } from "./hooks";
import { IconButton } from "./icons";
import { MessageView } from "./message";
import { day } from "./text";

/** So near to an end of the log is at it, in pixels. */
const NEAR = 80;
const OLDER_AT = 400;
/** Messages of one author within this time stand together. */
const TOGETHER_MS = 5 * 60_000;

export function Log({ conversation }: { conversation: Conversation }) {
  const client = useClient();
  const ref = useRef<HTMLDivElement>(null);
  const was = useRef({ atEnd: true, height: 0, first: -1 });
  const [atEnd, setAtEnd] = useState(true);
  const { messages, complete } = conversation.timeline;
  const isFull = messages.length + 50 > MESSAGES_MAX;

  // What is looked at stays where it is, whatever comes above it.
  useLayoutEffect(() => {
    const log = ref.current!;
    const { atEnd, height, first } = was.current;
    if (atEnd) log.scrollTop = log.scrollHeight;
    else if (messages[0] && messages[0].key !== first) log.scrollTop += log.scrollHeight - height;
    was.current = { atEnd, height: log.scrollHeight, first: messages[0]?.key ?? -1 };
  });
  useEffect(() => {
    const log = ref.current!;
    if (log.scrollHeight <= log.clientHeight + OLDER_AT) void client.history.older(conversation);
  });
  useEffect(() => {
    const log = ref.current!;
    const toEnd = () => {
      if (was.current.atEnd) log.scrollTop = log.scrollHeight;
      was.current.height = log.scrollHeight;
    };
    // Pictures come later than the message that they belong to, and keyboards of phones take room.
    log.addEventListener("load", toEnd, true);
    const sizes = new ResizeObserver(toEnd);
    sizes.observe(log);
    return () => {
      log.removeEventListener("load", toEnd, true);
      sizes.disconnect();
    };
  }, []);

  function scrolled() {
    const log = ref.current!;
    was.current.atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    was.current.height = log.scrollHeight;
    setAtEnd(was.current.atEnd);
    if (log.scrollTop < OLDER_AT) void client.history.older(conversation);
    if (was.current.atEnd && client.isLookedAt(conversation)) client.read(conversation);
  }

  function toEnd() {
    was.current.atEnd = true;
    ref.current!.scrollTop = ref.current!.scrollHeight;
  }

  // Arrows go from message to message.
  function keys(event: KeyboardEvent) {
    if (event.altKey || event.ctrlKey || event.metaKey || !(event.target as HTMLElement).matches(".log, article")) return;
    const all = [...ref.current!.querySelectorAll<HTMLElement>("article")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowUp: at < 0 ? all.length - 1 : at - 1, ArrowDown: at < 0 ? all.length : at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all[Math.max(to, 0)]?.focus();
  }

  return (
    <div class="log-frame">
      <div class="log" ref={ref} role="log" aria-label="Messages" aria-busy={conversation.isLoading} tabIndex={0} onScroll={scrolled} onKeyDown={keys}>
        <div class="lines">
          {conversation.problem && <p class="problem">{conversation.problem}</p>}
          {conversation.isLoading && <p class="quiet">Fetching older messages …</p>}
          {complete && conversation.isLoaded && <p class="quiet">{messages.length === 0 ? "Nothing has been said yet." : "This is the beginning."}</p>}
          {isFull && !complete && <p class="quiet">This page shows the last {MESSAGES_MAX} messages.</p>}
          {lines(conversation, messages)}
        </div>
      </div>
      {!atEnd && <IconButton icon="down" label="To the newest message" class="to-end" onClick={toEnd} />}
    </div>
  );
}

function lines(conversation: Conversation, messages: Message[]) {
  const shown = [];
  let before: Message | undefined;
  for (const message of messages) {
    const isNewDay = !before || new Date(before.time).toDateString() !== new Date(message.time).toDateString();
    if (isNewDay) shown.push(<p class="day" key={`day ${message.key}`}><span>{day(message.time)}</span></p>);
    if (message.key === conversation.newFrom) shown.push(<p class="day is-new" key="new"><span>New</span></p>);
    const isTogether = !isNewDay && before?.author.key === message.author.key && message.time - before.time < TOGETHER_MS && message.key !== conversation.newFrom;
    shown.push(<MessageView key={message.key} conversation={conversation} message={message} isTogether={isTogether} state={stateOf(message)} />);
    before = message;
  }
  return shown;
}

/** What a message looks like depends on this: it is shown again when this changes. */
const stateOf = (message: Message) =>
  [message.text, message.delivery, message.problem, message.edited, message.retracted?.reason, message.retracted !== undefined, message.stanzaId !== undefined,
    ...[...message.reactions].map(([emoji, authors]) => emoji + authors.length + authors.some((one) => one.own))].join("\n");
