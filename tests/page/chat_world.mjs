// What the tests of the chat page share: the server behind it, people with a browser window each, and what they do.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { client, xml } from "@xmpp/client";
import { WebSocket } from "ws";
import { ChatFront } from "./chat_front.mjs";
import { BACK_S, browser, until } from "./world.mjs";

// Node.js has none of its own before version 22.
globalThis.WebSocket ??= WebSocket;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PASSWORD = "a rose by any other name";
/** What browsers themselves say about a network that is cut is no error of the page. */
const OF_THE_NETWORK = /WebSocket connection to|can’t establish a connection|connection to .* was interrupted|ERR_INTERNET_DISCONNECTED|net::ERR_CONNECTION/;
/** Playwright's own pictures put a style into the page, which the page's policy forbids. */
const OF_THE_TEST = /blocked an inline style/;

/**
 * The server behind the page: CHAT_PEER names another one with open registration on loopback, as PORT or PORT,GUESTS. `own` starts Throng.
 */
export async function backEnd(own) {
  const [port, guests] = (process.env.CHAT_PEER ?? "").split(",");
  if (port) return { port: Number(port), guests, isPeer: true };
  const files = await own.freePort();
  const more = ["--open-registration", "--i-know", "--registrations-hourly-max", "100000", "--upload", `127.0.0.1:${files}`, "--upload-url", `https://localhost:${files}/`];
  return { port: await own.another(...more) };
}

/** Another client of somebody with an account. */
export async function another({ port }, username) {
  const xmpp = client({ service: `ws://127.0.0.1:${port}/xmpp-websocket`, domain: "localhost", username, password: PASSWORD });
  xmpp.on("error", () => {});
  await xmpp.start();
  return xmpp;
}

/** The service with rooms that a server announces, if it has one (XEP-0030, XEP-0045 6.1). */
export async function roomsAt({ port }) {
  const front = await ChatFront.before(port, { domain: "localhost" });
  const name = `looker${Math.random().toString(36).slice(2)}`;
  const account = await new Person(front).open();
  await account.register(name);
  await account.close();
  const xmpp = await another({ port }, name);
  try {
    const ask = (to, what) => xmpp.iqCaller.get(xml("query", `http://jabber.org/protocol/disco#${what}`), to);
    for (const { attrs } of (await ask("localhost", "items")).getChildren("item")) {
      const info = await ask(attrs.jid, "info").catch(() => undefined);
      if (info?.getChildren("identity").some((one) => one.attrs.category === "conference")) return attrs.jid;
    }
    return undefined;
  } finally {
    await xmpp.stop();
    front.close();
  }
}

/** Somebody with a window of a browser. */
export class Person {
  errors = [];

  constructor(front) {
    this.front = front;
  }

  async open(options = {}, hash = "") {
    this.context = await browser.newContext({ viewport: { width: 1100, height: 700 }, ...options });
    this.page = await this.context.newPage();
    this.page.setDefaultTimeout(BACK_S * 1000);
    const note = (text) => OF_THE_NETWORK.test(text) || OF_THE_TEST.test(text) || this.errors.push(text);
    this.page.on("console", (message) => ["error", "warning"].includes(message.type()) && note(message.text()));
    this.page.on("pageerror", (error) => note(`${error.message}\n${error.stack}`));
    this.page.on("dialog", (dialog) => dialog.accept());
    await this.page.goto(this.front.url + hash);
    return this;
  }

  /** Closes the window, in which nothing may have gone wrong. */
  async close() {
    await this.context.close();
    assert.deepEqual(this.errors, [], "the console");
  }

  button = (name, exact = false) => this.page.getByRole("button", { name, exact });
  log = () => this.page.getByRole("log");
  box = () => this.page.getByPlaceholder("Message", { exact: true });

  async register(name, keep = false) {
    await this.button("Create an account").click();
    await this.signUp(name, keep);
    await this.isIn();
  }

  async signUp(name, keep = false) {
    this.name = name;
    await this.page.getByLabel("Name").fill(name);
    await this.page.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await this.page.getByLabel("Password again").fill(PASSWORD);
    if (keep) await this.page.getByLabel("Stay logged in").check();
    await this.button("Create account", true).click();
  }

  async login(name, password = PASSWORD) {
    this.name = name;
    await this.page.getByLabel("Name").fill(name);
    await this.page.getByLabel("Password").fill(password);
    await this.page.getByLabel("Password").press("Enter");
  }

  async guest(name) {
    this.name = name;
    await this.button("Come as a guest").click();
    await this.page.getByLabel("Your name").fill(name);
    await this.button("Come in").click();
    await this.isIn();
  }

  isIn = () => this.page.getByRole("navigation", { name: "Conversations" }).waitFor();

  /** Begins a conversation with somebody. */
  async talkTo(name) {
    await this.button("New conversation").click();
    await this.page.getByLabel("Name or address").fill(name);
    await this.button("Begin").click();
    await this.box().waitFor();
  }

  /** Looks at a conversation of the list. */
  async look(name) {
    await this.page.locator(".conversation-link", { hasText: name }).click();
    await this.box().waitFor();
  }

  /** Enters a room, or makes it. */
  async enter(room, isPrivate = false) {
    await this.button("New conversation").click();
    await this.page.getByText("A room", { exact: true }).click();
    await this.page.getByLabel("Name of the room").fill(room);
    if (isPrivate) await this.page.getByLabel("If it is new").check();
    await this.button("Enter or make it").click();
    await this.box().waitFor();
  }

  async say(text) {
    await this.box().fill(text);
    await this.box().press("Enter");
  }

  hears = (text) => this.log().getByText(text, { exact: true }).first().waitFor();
  /** The texts of the conversation that is looked at. */
  texts = () => this.log().locator(".text").allTextContents();
  message = (text) => this.log().locator("article", { hasText: text });

  async hasTexts(expected, what = "all texts, each once, in order") {
    await until(async () => `${this.name}: ${what}: ${JSON.stringify([await this.texts(), expected])}`, async () => JSON.stringify(await this.texts()) === JSON.stringify(expected));
  }

  /** Does something by a message's tools. */
  async use(text, tool) {
    await this.message(text).hover();
    await this.message(text).getByRole("button", { name: tool, exact: true }).click();
  }

  /** Nobody is kept out (WCAG 2.2 AA and the best practices of axe), and nothing lies beyond the right border. */
  async isFine(where) {
    // The page's policy lets no script in but its own; this one is of the test.
    const found = await this.page.evaluate(`${AXE}; axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ target, failureSummary }) => target + " " + failureSummary).join(" | ")))`);
    assert.deepEqual(found, [], where);
    const { scroll, client } = await this.page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth }));
    assert.ok(scroll <= client, `${where}: ${scroll} pixels in ${client}`);
  }
}

export const unique = (name) => `${name}-${Math.random().toString(36).slice(2, 8)}`;

/** Two contacts who look at their conversation. */
export async function couple(front, options = {}) {
  const [romeo, juliet] = [await new Person(front).open(options), await new Person(front).open(options)];
  await romeo.register(unique("romeo"));
  await juliet.register(unique("juliet"));
  await romeo.talkTo(juliet.name);
  await juliet.button("Accept").click();
  await juliet.look(romeo.name);
  return [romeo, juliet];
}
