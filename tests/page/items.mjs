// throng.js: each item once and in order over kills of the server and by what passes, and publications that are repeated.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { BACK_S, follow, gaps, got, has, isOpen, numbered, place, sleep, statuses, until, world } from "./world.mjs";

export const own = await world();
const { front, http, kill, open, publish, test } = own;

test("the server has the module, for pages of any origin, and says when it is the same", async () => {
  const url = `http://127.0.0.1:${http}/throng.js`;
  const answer = await fetch(url, { headers: { Origin: "https://page.example" } });
  assert.equal(await answer.text(), readFileSync(new URL("../../web/dist/throng.js", import.meta.url), "utf8"));
  assert.equal(answer.headers.get("content-type"), "text/javascript; charset=utf-8");
  assert.equal(answer.headers.get("access-control-allow-origin"), "*");
  const again = await fetch(url, { headers: { "If-None-Match": answer.headers.get("etag") } });
  assert.deepEqual([again.status, await again.text()], [304, ""]);
});

test("each item once and in order over kills of the server, by every transport, and published by a page", async () => {
  const count = 60;
  const page = await open();
  const proxy = await front();
  const url = `${proxy.url}/n/`;
  await follow(page, "own", "k.a,k.b".split(","), { after: "0" });
  await follow(page, "websocket", ["k.a", "k.b"], { after: "0", silenceMs: 8000 }, { url });
  await follow(page, "sse", ["k.a", "k.b"], { after: "0", transports: ["sse"] });
  await follow(page, "poll", ["k.a", "k.b"], { after: "0", transports: ["poll"], pollSeconds: 3 });
  await isOpen(page, "websocket", "websocket");
  for (const name of ["sse", "poll"]) await isOpen(page, name, name);
  await sleep(200);
  await kill();
  const published = page.evaluate(async (count) => {
    const throng = new Throng();
    const all = [];
    for (let at = 0; at < count; at++) {
      for (const channel of ["k.a", "k.b"]) all.push((await throng.publish(channel, String(at))).channel);
      await new Promise((go) => setTimeout(go, 40));
    }
    return all.length;
  }, count);
  const opened = async (name, times) =>
    until(`${name} is open, ${times} times`, async () => (await statuses(page, name)).filter(({ state, transport }) => state === "open" && transport === name).length >= times, BACK_S);
  for (let kills = 0; kills < 3; kills++) {
    await sleep(900);
    // The others may come before they are back.
    if (kills === 2) for (const name of ["sse", "websocket"]) await opened(name, 2);
    await kill();
  }
  assert.equal(await published, 2 * count);
  for (const name of ["own", "websocket", "sse", "poll"]) {
    await until(name, async () => (await got(page, name)).length >= 2 * count, BACK_S);
    const all = await got(page, name);
    for (const channel of ["k.a", "k.b"]) assert.deepEqual(all.filter((item) => item.startsWith(channel)), numbered(channel, count), name);
    assert.deepEqual(await gaps(page, name), [], name);
    assert.equal(await place(page, name), `${count},${count}`, name);
  }
  // They were lost, and came back. Polls ask too rarely to show it.
  for (const name of ["sse", "websocket"]) await opened(name, 3);
});

test("who comes late or comes back has the last item of each key, by each transport, and no gap", async () => {
  const page = await open();
  await page.evaluate(async () => {
    const throng = new Throng();
    for (let at = 0; at < 20; at++) await throng.publish("keyed", String(at), { itemKey: at % 2 ? "odd" : "even" });
    await throng.publish("keyed", "no key");
  });
  for (const transport of ["websocket", "sse", "poll"]) {
    for (const after of ["0", "1"]) {
      const all = await page.evaluate(([transport, after]) => new Promise((done) => {
        const [items, gaps] = [[], []];
        const subscription = new Throng().subscribe("keyed", {
          after,
          transports: [transport],
          onGap: (gap) => gaps.push(gap),
          onItem: ({ key, data }) => {
            items.push([key ?? null, data]);
            if (data === "no key") done([items, gaps, subscription.after]);
          },
        });
      }), [transport, after]);
      assert.deepEqual(all, [[["even", "18"], ["odd", "19"], [null, "no key"]], [], "21"], `${transport} after ${after}`);
    }
  }
});

test("a prefix is all channels that begin so, by each transport, over lost connections; a kill of the server is a gap", async () => {
  const one = await front();
  const page = await open(one.url);
  const ways = ["websocket", "sse", "poll"];
  for (const way of ways) {
    await follow(page, way, ["wide.*", "beside"], { transports: [way], binary: true });
    await isOpen(page, way, way);
  }
  const expected = [];
  for (let number = 0; number < 12; number++) {
    const channel = `wide.${number % 4}`;
    await publish(channel, number);
    expected.push(`${channel} ${number}`);
    if (number % 3 === 2) one.cut();
  }
  const sorted = (items) => items.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
  for (const way of ways) {
    await until(`all by ${way}`, async () => (await got(page, way)).length >= expected.length, 40);
    // Each channel has its order, and they have none among each other. Without a type of text, content is bytes there.
    assert.deepEqual(sorted(await got(page, way)), sorted(expected), way);
    assert.deepEqual(await gaps(page, way), [], way);
    assert.match(await place(page, way), /^[0-9a-z]+\.[0-9a-z]+,0$/, "one number of each thread");
  }
  await kill();
  for (const way of ways) {
    await until(`a gap by ${way}`, async () => (await gaps(page, way)).some(({ channel }) => channel === "wide.*"), 40);
    await isOpen(page, way, way);
  }
  await publish("wide.new", "behind it");
  for (const way of ways) await until(`${way} goes on`, async () => (await got(page, way)).at(-1) === "wide.new behind it");
});

test("binary messages have the bytes that were published, and the same places as text", async () => {
  const page = await open();
  const told = await page.evaluate(async () => {
    const throng = new Throng();
    const all = new Uint8Array(70_000 / 5).map((_, at) => at);
    const sent = [all, "gr\u00fc\u00df", { n: 1 }, new Uint8Array(0), "\ufeffwith a mark"];
    for (const [at, data] of sent.entries()) await throng.publish("binary.page", data, { itemKey: `k${at}` });
    const read = (options) =>
      new Promise((done) => {
        const items = [];
        const subscription = throng.subscribe("binary.page", {
          after: "0",
          ...options,
          onItem: (item) => {
            items.push(item);
            if (items.length < sent.length) return;
            setTimeout(() => {
              const { after } = subscription;
              subscription.close();
              done({ items, after });
            }, 100);
          },
        });
      });
    const show = ({ items, after }) => ({
      after,
      binary: items.every((item) => item.bytes instanceof Uint8Array && item.data === undefined),
      items: items.map((item) => ({ id: item.id, key: item.key, type: item.type, time: item.time, bytes: [...bytes(item)] })),
      contents: items.slice(1).map((item) => (content(item) instanceof Uint8Array ? [...content(item)] : content(item))),
    });
    return { binary: show(await read({ binary: true })), text: show(await read({})), all: [...all] };
  });
  assert.equal(told.binary.binary, true);
  assert.equal(told.text.binary, false);
  assert.deepEqual(told.binary.items, told.text.items);
  assert.deepEqual(told.binary.items[0].bytes, told.all);
  assert.equal(told.binary.after, told.text.after);
  assert.deepEqual(told.binary.contents, ["gr\u00fc\u00df", { n: 1 }, [], "\ufeffwith a mark"]);
});

test("what passes is used: WebSocket, else events, else polls; also where events are kept back", async () => {
  const cases = [
    ["websocket", {}],
    ["sse", { websocket: "refuse" }],
    ["poll", { websocket: "refuse", sse: "refuse" }],
    ["poll", { websocket: "refuse", sse: "keep" }],
    ["poll", { websocket: "keep", sse: "keep" }, "127.0.0.2"],
  ];
  const page = await open();
  await Promise.all(cases.map(async ([transport, does, address], at) => {
    const [proxy, name, channel] = [await front(does, address), `case ${at}`, `way.${at}`];
    await publish(channel, 0);
    await follow(page, name, channel, { after: "0", openMs: 3000, pollSeconds: 2 }, { url: `${proxy.url}/n/` });
    await isOpen(page, transport, name);
    await publish(channel, 1);
    await has(page, numbered(channel, 2), name);
    // It continues there, and what was refused is left alone for now.
    const [websockets, events] = [proxy.count("websocket"), proxy.count("sse")];
    proxy.cut();
    await publish(channel, 2);
    await has(page, numbered(channel, 3), name);
    await isOpen(page, transport, name);
    if (transport !== "websocket") assert.equal(proxy.count("websocket"), websockets, name);
    if (transport === "poll") assert.equal(proxy.count("sse"), events, name);
    assert.deepEqual(await gaps(page, name), [], name);
  }));
});

test("a silent connection is given up; who is open knows the place, so that nothing is lost though nothing has come", async () => {
  const [page, proxy] = [await open(), await front()];
  const url = `${proxy.url}/n/`;
  await publish("silent", 0);
  await follow(page, "a", "silent", { after: "0", silenceMs: 7000 }, { url });
  await follow(page, "kept", "silent", { silenceMs: 2000, transports: ["sse"], openMs: 1000 }, { url });
  await has(page, ["silent 0"]);
  // A server that is silent for 2 s is left.
  await isOpen(page, "sse", "kept");
  assert.equal(await place(page, "kept"), "1");
  await until("the silent stream is left", async () => proxy.count("sse") >= 2);
  assert.match((await statuses(page, "kept")).find(({ state }) => state === "waiting").message, /silent/);
  // The last poll behind the WebSocket is answered to nobody.
  proxy.does.silent = true;
  await publish("silent", 1);
  await until("the silent WebSocket is left", async () => (await statuses(page)).some(({ message }) => /silent/.test(message)));
  proxy.does.silent = false;
  await has(page, ["silent 0", "silent 1"]);
  await has(page, ["silent 1"], "kept");
  assert.deepEqual([await gaps(page), await gaps(page, "kept")], [[], []]);
  // The server itself says at once where a WebSocket begins, and continues there after its end.
  await follow(page, "new", ["silent", "other"], { transports: ["websocket"] });
  await isOpen(page, "websocket", "new");
  assert.deepEqual([await place(page, "new"), await got(page, "new")], ["2,0", []]);
  await kill();
  await publish("other", 0);
  await has(page, ["other 0"], "new");
  assert.deepEqual([await gaps(page, "new"), await place(page, "new")], [[], "2,1"]);
  // A proxy that answers the handshake and keeps back what the server says.
  proxy.does.websocket = "mute";
  await follow(page, "mute", "other", { transports: ["websocket", "sse"], openMs: 3000 }, { url });
  await isOpen(page, "sse", "mute");
  assert.deepEqual((await statuses(page, "mute")).map(({ state, transport }) => `${state} ${transport}`), ["connecting websocket", "connecting sse", "open sse"]);
});

test("items that are no longer kept are a gap, behind the place", async () => {
  const page = await open();
  for (let at = 0; at < 105; at++) await publish("short", at);
  for (const transport of ["sse", "poll"]) {
    await follow(page, transport, ["short", "none"], { after: "2,0", transports: [transport], pollSeconds: 2 });
    await until("all that is kept", async () => (await got(page, transport)).length >= 100);
    assert.deepEqual(await got(page, transport), numbered("short", 105).slice(5), transport);
    assert.deepEqual(await gaps(page, transport), [{ channel: "short", after: "2" }], transport);
  }
});

test("a publication is repeated with its key until it is known; without a key it is not", async () => {
  const [page, proxy] = [await open(), await front({ post: "lose" })];
  const url = `${proxy.url}/n/`;
  const sent = page.evaluate((url) => new Throng({ url }).publish("once", { n: 1 }), url);
  await until("it was repeated", () => proxy.count("post") >= 2);
  proxy.does.post = "pass";
  assert.deepEqual(await sent, { channel: "once", id: "1", repeated: true, subscribers: 0 });
  const posts = proxy.asked.filter(({ kind }) => kind === "post").map(({ headers }) => headers["idempotency-key"]);
  assert.match(posts[0], /^[0-9a-f]{32}$/);
  assert.equal(new Set(posts).size, 1, "all by one key");
  const failed = (options) => page.evaluate(async ([url, options]) => {
    try {
      return await new Throng({ url }).publish("twice", "x", options);
    } catch (error) {
      return [error.name, error.status];
    }
  }, [url, options]);
  proxy.does.post = "lose";
  const before = proxy.count("post");
  assert.deepEqual(await failed({ key: null }), ["ThrongError", 0]);
  assert.equal(proxy.count("post"), before + 1);
  assert.deepEqual(await failed({ timeoutMs: 10 }), ["ThrongError", 0], "the time has an end");
  proxy.does.post = "pass";
  assert.deepEqual(await failed({ key: "a b" }), ["ThrongError", 400], "a refusal is final");
  const kinds = await page.evaluate(async (url) => {
    const throng = new Throng({ url });
    const all = [];
    const has = (count) => new Promise((go) => throng.subscribe("kinds", { after: "0", onItem: (item) => all.push([item.type, content(item)]) === count && go() }));
    await throng.publish("kinds", "text");
    await throng.publish("kinds", { a: [1] });
    await throng.publish("kinds", new Uint8Array([0, 255]));
    await throng.publish("kinds", "<b/>", { type: "text/html" });
    await has(4);
    return all.map(([type, value]) => [type, value instanceof Uint8Array ? [...value] : value]);
  }, url);
  assert.deepEqual(kinds, [["text/plain", "text"], ["application/json", { a: [1] }], ["application/octet-stream", [0, 255]], ["text/html", "<b/>"]]);
});
