// What the tests of pages share: the browser that BROWSER names, servers of their own on loopback, fronts before them, and pages of
// another origin.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, firefox } from "playwright-core";
import { Front } from "./front.mjs";

export const { BROWSER, THRONG_BIN } = process.env;
const LAUNCH = {
  chromium: () =>
    chromium.launch({
      executablePath: "/usr/bin/chromium",
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    }),
  // As it is released, by WebDriver BiDi, and no build of Playwright's.
  firefox: () => firefox.launch({ channel: "moz-firefox", executablePath: "/usr/bin/firefox-esr" }),
};
const secret = "of all who issue tokens in this test, there is one";

/** The browser, once it has been launched. */
export let browser;

export async function launch() {
  browser = await LAUNCH[BROWSER]();
  console.log(`${BROWSER} ${browser.version()}`);
}

export const sleep = (ms) => new Promise((go) => setTimeout(go, ms));

/** Names of the ports that were chosen: while they are held, no other run chooses the same. */
const chosen = [];

/**
 * A loopback port that nothing listens on, and that no other run of these tests chooses while this one goes on. It is below those that
 * the kernel gives to connections and to whoever listens on any port, so that a server gets it again after a kill.
 */
async function freePort() {
  const [lowest] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s/).map(Number);
  const listens = async (...at) => {
    const one = createServer().listen(...at);
    return (await Promise.race([once(one, "listening"), once(one, "error")]).then(() => one.listening, () => false)) ? one : undefined;
  };
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * (Math.max(lowest, 20_000) - 10_000));
    const name = await listens(`\0throng-page-port-${port}`);
    const held = name && (await listens(port, "127.0.0.1"));
    held?.close();
    if (held) {
      name.unref();
      chosen.push(name);
      return port;
    }
    name?.close();
  }
}

/**
 * Seconds in which a page is back whose server starts slowly: Firefox waits up to 60 s between two WebSockets that fail. No other
 * condition gets less, because two browsers share the cores.
 */
export const BACK_S = 90;

export async function until(what, holds, seconds = BACK_S) {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `not within ${seconds} s: ${typeof what === "function" ? await what() : what}`);
    await sleep(100);
  }
}

/** A token for channels that begin with `own.` (RFC 7519). */
export function token(seconds, more = {}) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { exp: Math.floor(Date.now() / 1000) + seconds, subscribe: ["own.*"], publish: ["own.*"], ...more };
  const signed = `${part({ alg: "HS256" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** The same of somebody with a name, who may know those of others. */
export const issue = (sub) => token(600, { sub, presence: ["own.*"] });

/** A server of its own, and tests that come one after the other because they kill it. */
export async function world() {
  const folder = mkdtempSync(join(tmpdir(), "throng-page-"));
  const keys = join(folder, "keys.json");
  const users = join(folder, "users.csv");
  const fronts = [];
  const contexts = [];
  const servers = [];
  const [http, c2s] = [await freePort(), await freePort()];
  let blank, server;

  /** A server that lets pages publish and subscribe, once it listens. */
  async function serve(data, http, c2s, ...more) {
    const args = ["--data", join(folder, data), "--domain", "localhost", "--c2s", `127.0.0.1:${c2s}`, "--c2s-tls", "off", "--plain-auth"];
    // Browsers share the cores with everything else here: a login may take long.
    const web = ["--http", `127.0.0.1:${http}`, "--notify", "any", "--notify-publish-open", "--preauth-timeout-seconds", "300"];
    const child = spawn(THRONG_BIN, ["serve", ...args, ...web, "--shards", "2", ...more], { stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (log += bytes));
    servers.push(child);
    await until(() => `the server listens: ${log}`, () => log.includes("Next:"));
    return child;
  }

  /** The data folder of such a server. */
  const dataOf = (http) => join(folder, `data-${http}`);

  async function start() {
    const tokens = ["--notify-wildcards", "any", "--notify-occupancy", "any", "--notify-private", "own.", "--notify-jwt-keys", keys];
    server = await serve("data", http, c2s, "--notify-publications-per-second", "0", ...tokens);
  }

  /** The port of another server, with these options. */
  async function another(...more) {
    const [http, c2s] = [await freePort(), await freePort()];
    await serve(`data-${http}`, http, c2s, ...more);
    return http;
  }

  /** Ends the server as a crash does, or by another signal, and starts it again. */
  async function kill(signal = "SIGKILL") {
    server.kill(signal);
    await once(server, "exit");
    await start();
  }

  /** Publishes until it is known that it was. */
  async function publish(channel, data, key = crypto.randomUUID()) {
    for (;;) {
      try {
        const headers = { "Content-Type": "text/plain", "Idempotency-Key": key };
        if (channel.startsWith("own.")) headers.Authorization = `Bearer ${token(60)}`;
        const answer = await fetch(`http://127.0.0.1:${http}/n/${channel}`, { method: "POST", headers, body: String(data) });
        if (answer.status === 200) return await answer.json();
      } catch {
        // It is being started.
      }
      await sleep(20);
    }
  }

  /** A front that does this. A browser has one handshake of WebSocket at a time with an address (RFC 6455 4.1): one that hangs needs its own. */
  async function front(does = {}, address = "127.0.0.1") {
    const one = await Front.before(http, address);
    Object.assign(one.does, does);
    fronts.push(one);
    return one;
  }

  /** The origin of the empty page by this name of the machine. */
  const origin = (host = "127.0.0.1") => `http://${host}:${blank.address().port}`;

  /** A page in a context of its own, until the test ends. */
  async function newPage() {
    const context = await browser.newContext();
    contexts.push(context);
    return context.newPage();
  }

  /** An empty page of another origin than the server's. */
  async function openBlank(host) {
    const page = await newPage();
    await page.goto(`${origin(host)}/`);
    return page;
  }

  /** One with the module of this server. */
  async function open(url = `http://127.0.0.1:${http}`) {
    const page = await openBlank();
    await page.evaluate(async (url) => {
      Object.assign(globalThis, await import(`${url}/throng.js`));
      globalThis.subs = {};
      globalThis.follow = (name, channels, options = {}, own = {}) => {
        const sub = (subs[name] = { got: [], gaps: [], statuses: [], met: [] });
        // Who asks for it is refused where it is not told.
        if (options.meets) options.onOccupancy = (occupancy) => sub.met.push(occupancy);
        sub.subscription = new Throng(own).subscribe(channels, {
          ...options,
          onItem: (item) => sub.got.push(item.channel + " " + content(item)),
          onGap: (gap) => sub.gaps.push(gap),
          onStatus: ({ state, transport, error, retryMs }) =>
            sub.statuses.push({ state, transport, retryMs, status: error?.status, message: error?.message, at: Date.now() }),
        });
      };
    }, url);
    return page;
  }

  const begin = async () => {
    writeFileSync(keys, JSON.stringify({ keys: [{ kty: "oct", k: Buffer.from(secret).toString("base64url") }] }), { mode: 0o600 });
    writeFileSync(users, ["romeo", "juliet", "nurse"].map((name) => `${name},password\n`).join(""));
    execFileSync(THRONG_BIN, ["user", "import", users, "--domain", "localhost", "--data", join(folder, "data")]);
    await start();
    blank = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<!doctype html><title>blank</title>")).listen(0, "127.0.0.1");
    await once(blank, "listening");
  };

  /** After a test: what goes on in its pages would only take time. */
  const clear = async () => {
    await Promise.all(contexts.splice(0).map((one) => one.close()));
    fronts.splice(0).forEach((one) => one.close());
  };

  const end = async () => {
    blank?.close();
    for (const one of servers) {
      if (one.exitCode !== null || one.signalCode !== null) continue;
      one.kill("SIGTERM");
      await once(one, "exit");
    }
    rmSync(folder, { recursive: true, force: true });
  };

  const tests = [];
  const test = (what, run, more = {}) => tests.push({ what, run, ...more });
  return { another, begin, clear, dataOf, end, freePort, front, http, kill, newPage, open, openBlank, origin, publish, test, tests };
}

export const follow = (page, ...args) => page.evaluate((args) => globalThis.follow(...args), args);
export const got = (page, name = "a") => page.evaluate((name) => subs[name].got, name);
export const gaps = (page, name = "a") => page.evaluate((name) => subs[name].gaps, name);
export const statuses = (page, name = "a") => page.evaluate((name) => subs[name].statuses, name);
export const place = (page, name = "a") => page.evaluate((name) => subs[name].subscription.after, name);
export const isOpen = async (page, transport, name = "a") =>
  until(async () => `${transport} is open: ${JSON.stringify(await statuses(page, name))}`, async () => {
    const last = (await statuses(page, name)).at(-1);
    return last?.state === "open" && (!transport || last.transport === transport);
  });
export const has = (page, expected, name = "a") =>
  until(async () => `${expected.length} items: ${JSON.stringify([await got(page, name), await statuses(page, name)])}`, async () => (await got(page, name)).length >= expected.length)
    .then(async () => assert.deepEqual(await got(page, name), expected));
export const numbered = (channel, count) => Array.from({ length: count }, (_, at) => `${channel} ${at}`);
