// XMPP in a page: independent clients in the form that they publish for browsers, by WebSocket (RFC 7395) and BOSH (XEP-0124, XEP-0206),
// from another origin.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { until, world } from "./world.mjs";

export const own = await world();
const { http, openBlank, test } = own;

const { resolve } = createRequire(import.meta.url);

/** A page with clients of strophe.js and of @xmpp/client. */
async function clients() {
  const page = await openBlank();
  await page.addScriptTag({ path: join(dirname(resolve("strophe.js")), "strophe.umd.min.js") });
  await page.addScriptTag({ path: join(dirname(resolve("@xmpp/client/package.json")), "dist/xmpp.min.js") });
  await page.evaluate((http) => {
    globalThis.clients = {};
    globalThis.heard = {};
    globalThis.states = {};
    const note = (name, state) => (states[name] ??= []).push(state);
    globalThis.strophe = (name, url) => {
      heard[name] = [];
      const connection = new Strophe.Connection(url.replace("HTTP", `127.0.0.1:${http}`));
      connection.addHandler((stanza) => {
        const body = stanza.getElementsByTagName("body")[0];
        if (body) heard[name].push([stanza.getAttribute("from").split("/")[0], body.textContent]);
        return true;
      }, null, "message");
      connection.connect(`${name}@localhost`, "password", (status) => {
        note(name, Object.entries(Strophe.Status).find(([, code]) => code === status)[0]);
        if (status === Strophe.Status.CONNECTED) connection.send($pres());
      });
      clients[name] = {
        how: () => connection._sasl_mechanism?.mechname,
        send: (to, body) => connection.send($msg({ to: `${to}@localhost`, type: "chat" }).c("body").t(body)),
        ping: () => new Promise((done) => connection.sendIQ($iq({ type: "get", to: "localhost" }).c("ping", { xmlns: "urn:xmpp:ping" }), () => done(true), () => done(false))),
        end: () => connection.disconnect("done"),
      };
    };
    globalThis.xmppjs = (name, url) => {
      heard[name] = [];
      const { client, xml } = XMPP;
      const xmpp = client({ service: url.replace("HTTP", `127.0.0.1:${http}`), domain: "localhost", username: name, password: "password" });
      xmpp.reconnect.stop();
      xmpp.on("error", (error) => note(name, String(error)));
      xmpp.on("offline", () => note(name, "DISCONNECTED"));
      xmpp.on("stanza", (stanza) => stanza.is("message") && stanza.getChild("body") && heard[name].push([stanza.attrs.from.split("/")[0], stanza.getChildText("body")]));
      xmpp.on("online", async () => {
        await xmpp.send(xml("presence"));
        note(name, "CONNECTED");
      });
      clients[name] = {
        send: (to, body) => xmpp.send(xml("message", { to: `${to}@localhost`, type: "chat" }, xml("body", {}, body))),
        ping: () => xmpp.iqCaller.get(xml("ping", "urn:xmpp:ping"), "localhost").then(() => true, () => false),
        end: () => xmpp.stop(),
      };
      xmpp.start().catch((error) => note(name, String(error)));
    };
  }, http);
  return page;
}

test("strophe.js and @xmpp/client log in from a page of another origin, by WebSocket and BOSH, and hear each other", async () => {
  const page = await clients();
  await page.evaluate(() => {
    strophe("romeo", "ws://HTTP/xmpp-websocket");
    strophe("juliet", "http://HTTP/http-bind");
    xmppjs("nurse", "ws://HTTP/xmpp-websocket");
  });
  const names = ["romeo", "juliet", "nurse"];
  const states = () => page.evaluate(() => states);
  const all = (state) => until(async () => `${state}: ${JSON.stringify(await states())}`, async () => {
    const now = await states();
    return names.every((name) => now[name]?.includes(state));
  });
  await all("CONNECTED");
  // By the browser's own digests, where passwords are not shown (RFC 5802).
  for (const name of ["romeo", "juliet"]) assert.match(await page.evaluate((name) => clients[name].how(), name), /^SCRAM-SHA-/);
  const text = "But soft, what light <through> yonder w\u00efndow \u{1f319} breaks? " + "x".repeat(9000);
  await page.evaluate(async ([names, text]) => {
    for (const from of names) for (const to of names) if (from !== to) await clients[from].send(to, text);
  }, [names, text]);
  for (const name of names) {
    await until(async () => `${name} hears two: ${JSON.stringify(await page.evaluate(() => heard))}`, () => page.evaluate((name) => heard[name].length >= 2, name));
    const expected = names.filter((other) => other !== name).map((other) => [`${other}@localhost`, text]);
    assert.deepEqual((await page.evaluate((name) => heard[name], name)).sort(), expected.sort());
    assert.equal(await page.evaluate((name) => clients[name].ping(), name), true);
  }
  await page.evaluate(() => Promise.all(Object.values(clients).map((one) => one.end())));
  await all("DISCONNECTED");
});
