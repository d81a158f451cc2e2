// The order of a conversation on the chat page: whatever comes live, from the archive, or twice, a timeline equals the archive.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const { buildSync } = createRequire(new URL("../../web/", import.meta.url))("esbuild");
const folder = mkdtempSync(join(tmpdir(), "throng-timeline-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const module = join(folder, "timeline.mjs");
buildSync({ entryPoints: [new URL("../../web/chat/store/timeline.ts", import.meta.url).pathname], bundle: true, format: "esm", outfile: module });
const { Timeline, MESSAGES_MAX } = await import(module);

const ROMEO = { name: "romeo", key: "romeo", own: true };
const JULIET = { name: "juliet", key: "juliet", own: false };

/** Numbers that look like chance, the same for a seed (mulberry32). */
function chance(seed) {
  return (below) => {
    let t = (seed += 0x6d2b79f5);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** An archive of texts, corrections, reactions and retractions, of which only the author's own count. */
function archive(below, count) {
  const entries = [];
  const texts = () => entries.filter(({ kind, replaces }) => kind === "text" && !replaces);
  for (let at = 0; at < count; at++) {
    const author = below(2) ? ROMEO : JULIET;
    const common = { author, stanzaId: `s${at}`, id: `i${at}`, time: at };
    const about = texts().length && texts()[below(texts().length)];
    const kind = about ? below(8) : 0;
    if (kind === 5) entries.push({ ...common, kind: "text", text: `corrected ${at}`, replaces: about.id });
    else if (kind === 6) entries.push({ ...common, kind: "reactions", to: about.stanzaId, emojis: ["a", "b", "c"].slice(0, below(4)) });
    else if (kind === 7) entries.push({ ...common, kind: "retraction", of: about.stanzaId, moderated: false });
    else entries.push({ ...common, kind: "text", text: `text ${at}` });
  }
  return entries;
}

/** What is shown of a timeline. */
const shown = ({ messages }) => messages.map(({ id, stanzaId, text, retracted, reactions }) =>
  ({ id, stanzaId, text, gone: retracted !== undefined, reactions: [...reactions].map(([emoji, authors]) => [emoji, authors.map(({ key }) => key).sort()]).sort() }));

test("what comes live, by pages backwards, after a gap, or twice makes the same timeline as the archive in order", () => {
  for (let seed = 0; seed < 2000; seed++) {
    const below = chance(seed);
    const entries = archive(below, 5 + below(60));
    const straight = new Timeline();
    for (const entry of entries) straight.insert(entry);

    const timeline = new Timeline();
    // Live up to a place, with own messages that wait for their echo; then a gap; then live again, while the gap is being fetched.
    const [begin, lost, back] = [0, 1, 2].map(() => below(entries.length + 1)).sort((a, b) => a - b);
    for (const entry of entries.slice(begin, lost)) {
      if (entry.author.own && entry.kind === "text" && !entry.replaces && below(2)) timeline.send({ ...entry, stanzaId: undefined });
      timeline.insert(entry);
    }
    const live = entries.slice(back);
    let gap = timeline.messages.length;
    const missed = entries.slice(Math.max(begin, lost - below(5)), Math.min(entries.length, back + below(5)));
    while (missed.length || live.length) {
      if (live.length && (!missed.length || below(2))) timeline.insert(live.shift());
      else gap = timeline.insert(missed.shift(), gap).next;
    }
    // The beginning comes by pages, which may overlap with what is there.
    for (let before = Math.min(begin + below(3), entries.length); before > 0; ) {
      const from = Math.max(0, before - 1 - below(9));
      let at = 0;
      for (const entry of entries.slice(from, before)) at = timeline.insert(entry, at).next;
      before = from;
    }
    const expected = shown(straight);
    assert.deepEqual(shown(timeline).map(({ id }) => id), expected.map(({ id }) => id), `order, seed ${seed}`);
    assert.deepEqual(shown(timeline), expected, `seed ${seed}`);
  }
});

test("only its author changes a message, and only a room moderates (XEP-0308 5, XEP-0424 5, XEP-0425 4)", () => {
  const timeline = new Timeline();
  const common = { id: "1", stanzaId: "s1", time: 0 };
  timeline.insert({ ...common, kind: "text", author: ROMEO, text: "mine" });
  // The same id of somebody else is another message.
  timeline.insert({ kind: "text", author: JULIET, id: "1", stanzaId: "s4", time: 0, text: "hers" });
  assert.deepEqual(timeline.messages.map(({ text }) => text), ["mine", "hers"]);
  timeline.insert({ kind: "text", author: JULIET, id: "2", time: 1, text: "changed", replaces: "1" });
  timeline.insert({ kind: "retraction", author: JULIET, id: "3", time: 2, of: "s1", moderated: false });
  assert.deepEqual(timeline.messages.map(({ text }) => text), ["mine", "changed"]);
  assert.deepEqual([timeline.messages[0].text, timeline.messages[0].retracted], ["mine", undefined]);
  timeline.insert({ kind: "retraction", author: { name: "", key: "nick ", own: false }, id: "5", time: 4, of: "s1", moderated: true, reason: "rude" });
  assert.deepEqual(timeline.messages[0].retracted, { moderated: true, reason: "rude" });
});

test("a flood of messages and of reactions keeps no more than what is shown", () => {
  const timeline = new Timeline();
  for (let at = 0; at < 2 * MESSAGES_MAX; at++) {
    timeline.insert({ kind: "text", author: JULIET, id: `i${at}`, stanzaId: `s${at}`, time: at, text: "x" });
    timeline.insert({ kind: "reactions", author: { name: "x", key: `x${at}`, own: false }, id: `r${at}`, time: at, to: "unknown", emojis: [`${at}`] });
    timeline.trim();
  }
  assert.equal(timeline.messages.length, MESSAGES_MAX);
  assert.deepEqual([timeline.oldest, timeline.complete], [`s${MESSAGES_MAX}`, false], "older ones can be had again");
  const last = timeline.messages.at(-1);
  for (let at = 0; at < 1000; at++) timeline.insert({ kind: "reactions", author: { name: "x", key: `y${at}`, own: false }, id: `q${at}`, time: at, to: last.stanzaId, emojis: [`${at % 50}`, "same"] });
  assert.ok(last.reactions.size <= 20);
  assert.ok([...last.reactions.values()].every((authors) => authors.length <= 200));
  assert.ok(timeline.find("s0") === undefined);
});

test("a receipt is for one message, a marker for all before it, and none for what has failed", () => {
  const timeline = new Timeline();
  for (let at = 0; at < 4; at++) timeline.insert({ kind: "text", author: at === 2 ? JULIET : ROMEO, id: `i${at}`, time: at, text: "x" });
  timeline.messages[0].delivery = "failed";
  timeline.delivered("i1", "received");
  assert.deepEqual(timeline.messages.map(({ delivery }) => delivery), ["failed", "received", undefined, "sent"]);
  timeline.delivered("i3", "read");
  timeline.delivered("i1", "received");
  assert.deepEqual(timeline.messages.map(({ delivery }) => delivery), ["failed", "read", undefined, "read"]);
});
