/** Where messages are written. Enter sends, Shift and Enter begins a line, the up arrow corrects the last message. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { TEXT_BYTES_MAX, WAITING_MAX } from "../client/sending";
import type { Conversation } from "../store/conversation";
import { useChanges, useClient } from "./hooks";
import { IconButton } from "./icons";

const FILES_MAX = 10;

export function Composer({ conversation }: { conversation: Conversation }) {
  const client = useClient();
  useChanges(conversation);
  const [, changed] = useState(0);
  const [problem, setProblem] = useState("");
  const [progress, setProgress] = useState<number>();
  const text = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const stop = useRef<AbortController>(undefined);
  const { draft, edits, replyTo } = conversation;

  useEffect(() => {
    // On a phone the keyboard would cover what is to be read.
    if (matchMedia("(hover: hover)").matches) text.current?.focus();
    return () => stop.current?.abort();
  }, []);
  // The box is as high as the text, up to what the style allows.
  useLayoutEffect(() => {
    const box = text.current!;
    box.style.height = "auto";
    box.style.height = `${box.scrollHeight}px`;
  });

  function write(value: string) {
    conversation.draft = value;
    client.sending.types(conversation, value.trim() === "");
    changed((count) => count + 1);
  }
  function send() {
    const said = conversation.draft.trim();
    if (said === "") return;
    const over = new TextEncoder().encode(said).length - TEXT_BYTES_MAX;
    if (over > 0) return setProblem(`This is too long by ${over} bytes. Send it in parts, or as a file.`);
    if (client.sending.isFull) return setProblem(`${WAITING_MAX} messages wait for a connection. Wait until they have left.`);
    setProblem("");
    client.sending.text(conversation, said);
    text.current?.focus();
  }
  function cancel() {
    if (conversation.edits) conversation.draft = "";
    conversation.edits = conversation.replyTo = undefined;
    conversation.changed();
    text.current?.focus();
  }
  function keys(event: KeyboardEvent) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && (edits || replyTo)) cancel();
    else if (event.key === "ArrowUp" && draft === "" && !event.altKey) {
      const last = conversation.timeline.messages.findLast((one) => one.author.own && !one.retracted && !one.file && one.delivery !== "failed");
      if (!last?.id) return;
      event.preventDefault();
      Object.assign(conversation, { edits: last, draft: last.text });
      conversation.changed();
    }
  }
  async function files(all: Iterable<File>) {
    setProblem("");
    for (const file of [...all].slice(0, FILES_MAX)) {
      stop.current = new AbortController();
      setProgress(0);
      try {
        await client.sending.file(conversation, file, setProgress, stop.current.signal);
      } catch (error) {
        if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
        break;
      } finally {
        setProgress(undefined);
      }
    }
  }
  const hasFiles = client.app.services.upload !== undefined;

  return (
    <form class="composer" onSubmit={(event) => (event.preventDefault(), send())}
      onDragOver={(event) => hasFiles && event.preventDefault()}
      onDrop={(event) => hasFiles && event.dataTransfer?.files.length && (event.preventDefault(), void files(event.dataTransfer.files))}>
      {(edits || replyTo) && (
        <div class="about">
          <span><b>{edits ? "Correct" : `Reply to ${replyTo!.author.own ? "yourself" : replyTo!.author.name.slice(0, 40)}`}</b> {(edits ?? replyTo)!.text.slice(0, 120)}</span>
          <IconButton icon="close" label="Cancel" onClick={cancel} />
        </div>
      )}
      {progress !== undefined && (
        <div class="about"><label>Sending the file <progress value={progress} max={1} /></label><IconButton icon="close" label="Stop" onClick={() => stop.current?.abort()} /></div>
      )}
      {problem && <p class="problem" role="alert">{problem}</p>}
      <div class="box">
        {hasFiles && (
          <>
            <IconButton icon="attach" label="Send a file" disabled={progress !== undefined} onClick={() => picker.current?.click()} />
            <input ref={picker} type="file" hidden multiple aria-label="File" onChange={(event) => (void files([...(event.currentTarget.files ?? [])]), (event.currentTarget.value = ""))} />
          </>
        )}
        <textarea ref={text} rows={1} value={draft} aria-label={`Message to ${conversation.name}`} placeholder="Message" dir="auto"
          onInput={(event) => write(event.currentTarget.value)} onKeyDown={keys}
          onPaste={(event) => hasFiles && event.clipboardData?.files.length && (event.preventDefault(), void files(event.clipboardData.files))} />
        <button class="icon-button send" aria-label="Send" title="Send" disabled={draft.trim() === ""}><svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="M4 12l16-8-6 16-3-6.500-7-1.500z" /></svg></button>
      </div>
    </form>
  );
}
