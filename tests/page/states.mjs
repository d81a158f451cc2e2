// throng.js: who is here, refusals, tokens that end, back-off, errors of the application, and the example pages.
import assert from "node:assert/strict";
import { follow, gaps, got, has, isOpen, issue, numbered, sleep, statuses, token, until, world } from "./world.mjs";

export const own = await world();
const { front, http, kill, newPage, open, publish, test } = own;

test("who is here is told by every transport: names that come and go, also over a kill of the server", async () => {
  const [page, channel] = [await open(), "own.room"];
  const met = (name) => page.evaluate((name) => subs[name].met, name);
  const last = async (name) => (await met(name)).at(-1);
  const sees = (name, subscribers, who) =>
    until(async () => `${name} sees ${who}: ${JSON.stringify([await met(name), await statuses(page, name)])}`, async () => {
      const seen = await last(name);
      return seen?.subscribers === subscribers && JSON.stringify([...seen.who].sort()) === JSON.stringify(who);
    });
  const all = ["websocket", "sse", "poll"];
  for (const name of all) await follow(page, name, channel, { meets: true, transports: [name], pollSeconds: 1 }, { token: issue(name) });
  for (const name of all) await sees(name, 3, ["poll", "sse", "websocket"]);
  // Twice there is one name.
  for (const name of ["romeo", "again"]) await follow(page, name, channel, { transports: ["sse"] }, { token: issue("romeo") });
  for (const name of all) await sees(name, 5, ["poll", "romeo", "sse", "websocket"]);
  for (const name of all) {
    const joined = (await met(name)).flatMap(({ joined }) => joined);
    assert.equal(joined.filter((who) => who === "romeo").length, 1, JSON.stringify(await met(name)));
  }
  await page.evaluate(() => subs.again.subscription.close());
  for (const name of all) await sees(name, 4, ["poll", "romeo", "sse", "websocket"]);
  await kill();
  for (const name of all) await sees(name, 4, ["poll", "romeo", "sse", "websocket"]);
  await page.evaluate(() => subs.romeo.subscription.close());
  for (const name of all) await sees(name, 3, ["poll", "sse", "websocket"]);
  for (const name of all) {
    const met_ = await met(name);
    assert.deepEqual(met_.at(-1).more, false);
    assert.ok(met_.some(({ left }) => left.includes("romeo")), JSON.stringify(met_));
    assert.deepEqual(await got(page, name), [], "it is no item");
  }
  // A token that does not grant it.
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  await follow(page, "no", channel, { meets: true }, { token: `${none}.${none}.` });
  await until("it is closed", async () => (await statuses(page, "no")).at(-1)?.state === "closed");
});

test("a refusal ends a subscription, a request to wait holds it, and a token is shown", async () => {
  const [page, proxy] = [await open(), await front({ websocket: "refuse", sse: "refuse" })];
  const url = `${proxy.url}/n/`;
  await follow(page, "no", "bad!name", {}, { url });
  await until("it is closed", async () => (await statuses(page, "no")).at(-1)?.state === "closed");
  const last = (await statuses(page, "no")).at(-1);
  assert.ok(last.status === 400 && last.message.includes("name of a channel"), JSON.stringify(last));
  await assert.rejects(follow(page, "none", "a/b"), /TypeError/);
  await assert.rejects(follow(page, "none", ".."), /TypeError/);
  await assert.rejects(follow(page, "none", ["a", "b"], { after: "1" }), /TypeError/);
  const headers = { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After", "Retry-After": "3" };
  proxy.does.poll = { status: 429, headers, body: "too many" };
  await follow(page, "held", "held", { transports: ["poll"] }, { url });
  await until("it waits", async () => (await statuses(page, "held")).at(-1)?.state === "waiting");
  const asked = Date.now();
  assert.ok((await statuses(page, "held")).at(-1).retryMs >= 3000);
  proxy.does.poll = "pass";
  await isOpen(page, "poll", "held");
  assert.ok(Date.now() - asked > 2500, "not before it was to");
  // Header fields where a page may send them; WebSockets have it in the address.
  Object.assign(proxy.does, { websocket: "pass", sse: "pass" });
  for (const transport of ["websocket", "sse", "poll"]) await follow(page, transport, "token", { transports: [transport] }, { url, token: "t+k" });
  const shown = (kind) => proxy.asked.filter((one) => one.kind === kind && one.url.includes("/n/token")).map((one) => [one.headers.authorization, one.url.split("?")[1] ?? ""])[0];
  await until("all have asked", () => shown("websocket") && shown("sse") && shown("poll"));
  assert.deepEqual(shown("websocket"), [undefined, "access_token=t%2Bk"]);
  assert.deepEqual(shown("sse"), ["Bearer t+k", ""]);
  assert.deepEqual(shown("poll"), ["Bearer t+k", "wait=1"]);
});

test("when a token ends a new one is asked for, and it goes on where it was, by every transport; an old one ends it", async () => {
  const page = await open();
  const issued = { websocket: 0, sse: 0, poll: 0 };
  await page.exposeFunction("issue", (transport) => {
    issued[transport]++;
    return token(2);
  });
  await page.evaluate((transports) => {
    for (const transport of transports) {
      follow(transport, "own.x", { after: "0", transports: [transport], pollSeconds: 20 }, { token: () => issue(transport) });
    }
  }, Object.keys(issued));
  await follow(page, "fixed", "own.x", { transports: ["sse"] }, { token: token(2) });
  let count = 0;
  await until(() => JSON.stringify(issued), async () => {
    // Fewer than are kept while one waits for its next attempt.
    await publish("own.x", count++);
    await sleep(200);
    return Object.values(issued).every((times) => times >= 3);
  }, 60);
  for (const name of Object.keys(issued)) {
    // The event at the end of a stream is no item, and what was published meanwhile comes with the next token.
    await has(page, numbered("own.x", count), name);
    assert.deepEqual(await gaps(page, name), [], name);
    assert.ok((await statuses(page, name)).every(({ state }) => state !== "closed"), name);
  }
  assert.ok((await statuses(page, "sse")).some(({ message }) => /events has ended/.test(message)));
  await until("it is closed", async () => (await statuses(page, "fixed")).at(-1).state === "closed");
  assert.equal((await statuses(page, "fixed")).at(-1).status, 401);
});

test("nobody is hammered: attempts become rare, none while offline, and the end is one", async () => {
  const proxy = await front();
  const page = await open();
  const context = page.context();
  let attempts = [];
  page.on("request", (request) => request.url().startsWith(proxy.url) && attempts.push(Date.now()));
  await follow(page, "a", "calm", { transports: ["sse"], after: "0" }, { url: `${proxy.url}/n/` });
  await isOpen(page, "sse");
  await context.setOffline(true);
  proxy.cut();
  await until("it waits", async () => (await statuses(page)).at(-1).state === "waiting");
  assert.ok((await statuses(page)).at(-1).retryMs >= 60_000);
  attempts = [];
  await publish("calm", 0);
  await sleep(2500);
  assert.deepEqual(attempts, []);
  await context.setOffline(false);
  const online = Date.now();
  await has(page, ["calm 0"]);
  assert.ok(Date.now() - online < 5000, "it does not wait for its time");
  // Nothing listens: bounds double, so that the sum of ten is far from what a fixed second would be.
  proxy.does.sse = "refuse";
  attempts = [];
  proxy.cut();
  await sleep(8000);
  assert.ok(attempts.length >= 1 && attempts.length <= 12, `${attempts.length} attempts in 8 s`);
  const waits = (await statuses(page)).filter(({ state }) => state === "waiting").map(({ retryMs }) => retryMs);
  assert.ok(new Set(waits).size > 1 && waits.every((ms) => ms <= 91_000), `drawn at random: ${waits}`);
  await page.evaluate(() => subs.a.subscription.close());
  assert.equal((await statuses(page)).at(-1).state, "closed");
  proxy.does.sse = "pass";
  [attempts] = [[]];
  await publish("calm", 1);
  await sleep(2000);
  assert.deepEqual([attempts, await got(page)], [[], ["calm 0"]]);
});

test("the application's own errors lose nothing, and it may end at any item and continue there", async () => {
  const page = await open();
  for (let at = 0; at < 5; at++) await publish("app", at);
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  const parts = await page.evaluate(async () => {
    const throng = new Throng();
    const take = (after, most) => new Promise((go) => {
      const got = [];
      const subscription = throng.subscribe("app", {
        after,
        transports: ["poll"],
        onItem(item) {
          got.push(item.data);
          if (got.length === most) subscription.close();
          if (got.length === most) setTimeout(() => go([got, subscription.after]), 300);
          throw new Error(`own ${item.data}`);
        },
      });
    });
    const first = await take("0", 2);
    return [first, await take(first[1], 3)];
  });
  assert.deepEqual(parts, [[["0", "1"], "2"], [["2", "3", "4"], "5"]]);
  await until("they are told", () => wrong.length === 5);
  assert.deepEqual(wrong, ["own 0", "own 1", "own 2", "own 3", "own 4"]);
});

test("the examples work as files, as the documentation says", async () => {
  const example = async (name) => {
    const page = await newPage();
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    await page.goto(`${new URL(`../../web/examples/${name}`, import.meta.url)}?server=http://127.0.0.1:${http}`);
    await until("it is open", async () => /open/.test(await page.locator("#status").textContent()));
    return { page, wrong };
  };
  const [romeo, juliet] = [await example("chat.html"), await example("chat.html")];
  await until("both are here", async () => /^2 here$/.test(await romeo.page.locator("#here").textContent()));
  await romeo.page.getByPlaceholder("Name").fill("Romeo");
  await romeo.page.getByPlaceholder("Message").fill("But soft");
  await until("it is seen who writes", async () => (await juliet.page.locator("#typing").textContent()).includes("Romeo"));
  await romeo.page.getByRole("button").click();
  for (const { page } of [romeo, juliet, await example("chat.html")]) {
    await until("it is said", async () => /Romeo: But soft$/.test(await page.locator("#said").textContent()));
  }
  const [maker, reader] = [await example("prices.html"), await example("prices.html")];
  await maker.page.getByRole("button").click();
  await until("a price is shown", async () => /\d\.\d\d/.test(await reader.page.locator("#rows").textContent()));
  const [draws, sees] = [await example("whiteboard.html"), await example("whiteboard.html")];
  const box = await draws.page.locator("canvas").boundingBox();
  await draws.page.mouse.move(box.x + 50, box.y + 50);
  await draws.page.mouse.down();
  await draws.page.mouse.move(box.x + 200, box.y + 120, { steps: 10 });
  await draws.page.mouse.up();
  const ink = (page) => page.evaluate(() => document.querySelector("canvas").getContext("2d").getImageData(0, 0, 800, 500).data.filter((byte) => byte).length);
  await until("the stroke is seen", async () => (await ink(sees.page)) > 100);
  await sees.page.getByRole("button", { name: "Wipe" }).click();
  await until("both are wiped", async () => (await ink(sees.page)) + (await ink(draws.page)) === 0);
  for (const { wrong } of [romeo, juliet, maker, reader, draws, sees]) assert.deepEqual(wrong, []);
});
