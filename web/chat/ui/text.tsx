/** Text of others: never as HTML. Addresses of the web become links; nothing else does. */

import { useState } from "preact/hooks";

const LINK = /\bhttps?:\/\/[^\s<>"]+/gi;
/** So much is shown at first, and so many links in one text. */
const SHOWN_MAX = 3000;
const LINKS_MAX = 50;

/** The address at the start of which a sentence may end: its last marks are the sentence's. */
function trimmed(url: string) {
  let end = url.replace(/[.,;:!?'*_]+$/, "");
  if (end.endsWith(")") && !end.includes("(")) end = end.slice(0, -1);
  return end;
}

export function safe(url: string): string | undefined {
  try {
    const { protocol, href } = new URL(url);
    return protocol === "https:" || protocol === "http:" ? href : undefined;
  } catch {
    return undefined;
  }
}

export function Text({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, SHOWN_MAX);
  const parts: (string | preact.JSX.Element)[] = [];
  let at = 0;
  for (const match of [...shown.matchAll(LINK)].slice(0, LINKS_MAX)) {
    const url = trimmed(match[0]);
    const href = safe(url);
    if (!href) continue;
    parts.push(shown.slice(at, match.index), <a href={href} target="_blank" rel="noopener noreferrer nofollow">{url}</a>);
    at = match.index + url.length;
  }
  parts.push(shown.slice(at));
  return (
    <>
      {parts}
      {shown.length < text.length && <>… <button type="button" class="link" onClick={() => setWhole(true)}>Show all</button></>}
    </>
  );
}

export const clock = (time: number) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

export function day(time: number) {
  const [date, now] = [new Date(time), new Date()];
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return date.toLocaleDateString([], { weekday: "long", day: "numeric", month: "long", year: date.getFullYear() === now.getFullYear() ? undefined : "numeric" });
}

/** A time as short as it can be. */
export function brief(time: number) {
  const date = new Date(time);
  if (date.toDateString() === new Date().toDateString()) return clock(time);
  return date.toLocaleDateString([], { day: "numeric", month: "short" });
}
