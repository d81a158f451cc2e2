// All tests that take a browser, in that which BROWSER names, or one PART of them. Each part has a server of its own.
import { after, afterEach, before, describe, test } from "node:test";
import * as chat from "./chat.mjs";
import * as chatRooms from "./chat_rooms.mjs";
import * as items from "./items.mjs";
import * as states from "./states.mjs";
import * as without from "./without.mjs";
import { browser, launch } from "./world.mjs";
import * as xmpp from "./xmpp.mjs";

// A window that does not have the focus reads nothing, and a browser has one such window: what needs it comes one after the other.
const GROUPS = [{ chat, "chat in rooms": chatRooms }, { items }, { states }, { "without throng.js": without, xmpp }];

describe(process.env.BROWSER, { concurrency: 4 }, () => {
  before(launch);
  after(() => browser?.close());
  for (const group of GROUPS) {
    const parts = Object.entries(group).filter(([name]) => !process.env.PART || process.env.PART === name);
    if (parts.length === 0) continue;
    describe(parts.map(([name]) => name).join(", "), { concurrency: 1 }, () => {
      for (const [name, { own }] of parts) {
        describe(name, { concurrency: 1 }, () => {
          before(own.begin);
          after(own.end);
          afterEach(own.clear);
          for (const { what, run, ...more } of own.tests) test(what, { timeout: 300_000, ...more }, run);
        });
      }
    });
  }
});
