// A subscriber of Nchan as pages have it, NchanSubscriber of npm: `node nchan.mjs TRANSPORT URL [OPTIONS]`. Prints a line of JSON for each
// message, connection and loss. TRANSPORT is `longpoll`, `eventsource` or `websocket`. It comes back by itself.
import { createRequire } from "node:module";
import { EventSource } from "eventsource";
import { WebSocket } from "ws";
import "./xhr.mjs";

// What a browser has beside these.
Object.assign(globalThis, { window: globalThis, EventSource, WebSocket, addEventListener() {}, removeEventListener() {} });
globalThis.FileReader = class extends EventTarget {
  async readAsText(blob) {
    this.result = await blob.text();
    this.dispatchEvent(new Event("loadend"));
  }
};
const NchanSubscriber = createRequire(import.meta.url)("nchan");

const [transport, url, options = "{}"] = process.argv.slice(2);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const subscriber = new NchanSubscriber(url, { subscriber: transport, reconnectTimeout: 200, ...JSON.parse(options) });
subscriber.on("transportNativeCreated", (native, name) => name === "websocket" && (native.binaryType = "blob"));
subscriber.on("message", async (data, meta) => {
  const text = typeof data === "string" ? data : [...new Uint8Array(await data.arrayBuffer())];
  say({ data: text, id: meta.id, type: meta["content-type"] });
});
subscriber.on("connect", () => say({ connected: true }));
subscriber.on("disconnect", () => say({ lost: true }));
subscriber.on("error", (code) => say({ error: typeof code === "number" ? code : String(code?.message ?? code) }));
subscriber.start();
