// What the dashboard promises: live data moves, zooming works to the second, marks appear, nothing is asked of another host, no
// errors, and it can be used by keyboard, in the dark and on a phone.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const THRONG = process.env.THRONG_BIN;
const folder = mkdtempSync(join(tmpdir(), "throng-dashboard-"));
const started = [];
let browser, http, c2s, address;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

function run(...args) {
  const child = spawn(THRONG, args, { stdio: ["ignore", "pipe", "pipe"] });
  child.log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (child.log += bytes));
  started.push(child);
  return child;
}

async function done(child) {
  if (child.exitCode === null) await once(child, "exit");
  assert.equal(child.exitCode, 0, child.log);
}

/** The address of the dashboard, with its token. */
async function dashboard() {
  const told = run("ctl", "dashboard", "--data", join(folder, "data"));
  await done(told);
  return told.log.trim();
}

async function until(what, holds, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `not within ${seconds} s: ${what}`);
    await new Promise((go) => setTimeout(go, 100));
  }
}

before(async () => {
  [http, c2s] = [await freePort(), await freePort()];
  const users = join(folder, "users.csv");
  writeFileSync(users, Array.from({ length: 200 }, (_, n) => `user${n},password\n`).join(""));
  await done(run("user", "import", users, "--domain", "localhost", "--data", join(folder, "data")));
  const server = run("serve", "--data", join(folder, "data"), "--c2s", `127.0.0.1:${c2s}`, "--c2s-tls", "off", "--plain-auth", "--admin-http", `127.0.0.1:${http}`, "--shards", "2");
  await until("the server listens", () => server.log.includes("Next:"));
  address = await dashboard();
  browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});

after(async () => {
  await browser?.close();
  for (const child of started.reverse()) {
    if (child.exitCode !== null) continue;
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

/** A page, and what went wrong on it. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("response", async (answer) => answer.ok() || wrong.push(`${answer.url()}: ${await answer.text()}`));
  page.on("request", (request) => new URL(request.url()).host === `127.0.0.1:${http}` || request.url().startsWith("data:") || wrong.push(`asks ${request.url()}`));
  await page.goto(address);
  await page.waitForFunction(() => Number(document.body.dataset.points) > 1, null, { timeout: 90000 });
  return { page, wrong };
}

const last = (page) => page.evaluate(() => Number(document.body.dataset.last));
const points = (page) => page.evaluate(() => Number(document.body.dataset.points));

test("live data moves, and what clients do is seen", { timeout: 900000 }, async () => {
  const { page, wrong } = await open();
  const before = await last(page);
  const load = run("load", "--quiet", "--to", `127.0.0.1:${c2s}`, "--auth", "plain", "--user-prefix", "user", "--password", "password", "--sessions", "100", "--pairs", "50", "--in-flight", "0", "--rate", "500", "--hold-s", "20", "--out", join(folder, "load.json"));
  await page.waitForFunction(() => document.getElementById("figure-sessions")?.textContent === "100", null, { timeout: 90000 });
  const legend = page.locator("article", { hasText: "Connections" }).first().locator(".u-legend .u-value");
  await until("the legend has the last figures, without a pointer", async () => (await legend.nth(1).textContent()) === "100");
  await until("time goes on", async () => (await last(page)) >= before + 3000);
  await page.locator("article", { hasText: "Stanzas" }).first().locator("summary").click();
  const most = () => page.locator("article", { hasText: "Stanzas" }).first().locator("details tr").nth(1).locator("td").last().textContent();
  // 500 messages a second, and what a hundred logins bring.
  let told;
  await until("the rate is told", async () => {
    told = Number((await most()).replaceAll(",", ""));
    return told > 400;
  }).catch((error) => assert.fail(`${error.message}: ${told}`));
  await done(load);
  assert.deepEqual(wrong, []);
});

test("a drag zooms to its time, to the second, and live comes back", { timeout: 900000 }, async () => {
  const { page, wrong } = await open();
  await page.getByRole("button", { name: "1 min" }).click();
  await until("a minute is shown", async () => (await points(page)) <= 61);
  const plot = page.locator("article .u-over").first();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + 40, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(() => document.getElementById("live").getAttribute("aria-pressed") === "false");
  await until("12 seconds are shown", async () => (await points(page)) >= 9 && (await points(page)) <= 15);
  const stood = await last(page);
  await new Promise((go) => setTimeout(go, 2500));
  assert.equal(await last(page), stood, "what was chosen stands still");
  await page.keyboard.press("-");
  await until("twice as much", async () => (await points(page)) > 15);
  await page.keyboard.press("l");
  await until("it moves again", async () => (await last(page)) > stood);
  assert.deepEqual(wrong, []);
});

test("what happened is marked, and nothing is wrong with a server at rest", { timeout: 900000 }, async () => {
  const { page, wrong } = await open();
  assert.match(await page.locator("#marks li").last().textContent(), /start: throng/);
  assert.match(await page.locator("#wrong-list").textContent(), /No problems found|CPU|memory|disk/);
  assert.deepEqual(wrong, []);
});

test("a knob that is turned is marked in each plot", { timeout: 900000 }, async () => {
  const { page, wrong } = await open();
  await done(run("ctl", "knob", "set", "log_level", "debug", "--for", "10m", "--data", join(folder, "data")));
  await until("the mark is there", async () => /knob: log_level/.test(await page.locator("#marks").textContent()));
  await done(run("ctl", "knob", "reset", "log_level", "--data", join(folder, "data")));
  assert.deepEqual(wrong, []);
});

test("it can be read in the dark, on a phone, and without seeing the plots", { timeout: 900000 }, async () => {
  const { page, wrong } = await open({ colorScheme: "dark", viewport: { width: 390, height: 800 }, hasTouch: true });
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(ground, "rgb(17, 20, 24)");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `nothing stands out of a phone's screen: ${wide}`);
  const labels = await page.locator("[role=img]").evaluateAll((plots) => plots.map((plot) => plot.getAttribute("aria-label")));
  assert.ok(labels.length >= 15 && labels.every((label) => /at most/.test(label)), labels.join("\n"));
  for (const button of await page.getByRole("button").all()) assert.ok((await button.textContent()).trim() !== "");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  assert.deepEqual(wrong, []);
});

/** Pictures of the last minute, of a server with something to do. */
test("pictures for the documentation", { skip: !process.env.SCREENSHOTS, timeout: 180000 }, async () => {
  const talk = (name, ...more) => run("load", "--quiet", "--to", `127.0.0.1:${c2s}`, "--auth", "plain", "--user-prefix", "user", "--password", "password", "--in-flight", "0", "--hold-s", "70", "--out", join(folder, `${name}.json`), ...more);
  const loads = [talk("pictures", "--sessions", "200", "--pairs", "80", "--rate", "800", "--presence-per-s", "20", "--offline-per-s", "3", "--flap-per-s", "3", "--storm-at-s", "30", "--storm-share", "0.3", "--storm-spread-s", "5")];
  const { page, wrong } = await open();
  await page.getByRole("button", { name: "1 min" }).click();
  const shot = (of, name, more) => of.screenshot({ path: join(process.env.SCREENSHOTS, `dashboard-${name}.png`), ...more });
  await new Promise((go) => setTimeout(go, 40000));
  await done(run("ctl", "knob", "set", "log_level", "debug", "--for", "10m", "--data", join(folder, "data")));
  await new Promise((go) => setTimeout(go, 15000));
  await shot(page, "light");
  // Further down, the shards' and the store's plots.
  await page.setViewportSize({ width: 1280, height: 1200 });
  await page.locator("article", { hasText: "Shard time split" }).first().evaluate((plot) => scrollTo(0, plot.offsetTop - document.querySelector("nav").offsetHeight - 8));
  await shot(page, "plots");
  if (process.env.SCREENSHOTS_WHOLE) await shot(page, "whole", { fullPage: true });
  const phone = await open({ colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true });
  await phone.page.getByRole("button", { name: "1 min" }).click();
  await new Promise((go) => setTimeout(go, 2500));
  await shot(phone.page, "phone-dark");
  if (process.env.SCREENSHOTS_WHOLE) await shot(phone.page, "phone-whole", { fullPage: true });
  for (const load of loads) await done(load);
  assert.deepEqual([...wrong, ...phone.wrong], []);
});

test("without the token nothing is told; the printed address and the form take it, and it leaves the address", { timeout: 900000 }, async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${http}/`);
  const form = page.locator("#token-form");
  await form.waitFor({ state: "visible" });
  assert.equal(await page.locator("article").count(), 0);
  // What was asked without the token is answered after it was given: the form stays away.
  const held = [];
  await page.route("**/api/**", (route, request) => (request.headers().authorization ? route.continue() : held.push(route)));
  await until("it asks without the token", () => held.length > 0);
  await page.getByLabel("Token").fill(address.split("#token=")[1]);
  await form.getByRole("button").click();
  for (const route of held) await route.continue();
  await page.waitForFunction(() => Number(document.body.dataset.points) > 1, null, { timeout: 90000 });
  await form.waitFor({ state: "hidden" });
  const { page: other, wrong } = await open();
  assert.equal(other.url(), `http://127.0.0.1:${http}/`);
  assert.deepEqual(wrong, []);
});
