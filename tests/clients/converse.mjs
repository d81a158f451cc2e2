// Runs Converse.js in Chromium for `actor_converse.py`, on the page that docs/chat-page.md shows. Commands and answers are lines of JSON.
import { X509Certificate, createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const DIST = join(HERE, "node_modules/converse.js/dist");
const TYPES = { ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".wasm": "application/wasm", ".svg": "image/svg+xml" };
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** The page of the documentation, for the server under test. */
function documented(websocket, domain) {
  const text = readFileSync(join(HERE, "../../docs/chat-page.md"), "utf8");
  const [, page] = text.split("\n## Converse.js\n")[1].match(/```html\n(.*?)```/s);
  const own = page.replace("wss://example.org:5443/xmpp-websocket", websocket).replaceAll("example.org", domain);
  if (!own.includes(websocket)) throw new Error("docs/chat-page.md names another WebSocket than this test expects");
  return own;
}

/** A web server with the page and Converse.js's own files. */
async function serve(html) {
  const server = createServer(({ url }, answer) => {
    const path = normalize(decodeURIComponent(new URL(url, "http://localhost").pathname));
    if (path === "/") return answer.writeHead(200, { "Content-Type": "text/html" }).end(html);
    // Beside the page is only what docs/chat-page.md asks for.
    if (!path.startsWith("/dist/") && path !== "/curve25519_compiled.wasm") return answer.writeHead(404).end();
    const file = createReadStream(join(DIST, path.replace(/^\/dist\//, "")));
    file.on("open", () => answer.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" }));
    file.on("error", () => answer.writeHead(404).end()).pipe(answer);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

let browser, server, page, timeout;
let sessions = 0;
const printed = [], missing = [];

/** The part of the page that shows a room, and where one writes there. */
const chat = (room) => page.locator(`converse-muc[jid="${room}"]`);
const box = (room) => chat(room).locator("textarea.chat-textarea");

/** Follow a link within the page, also where it is already. */
const follow = (hash) =>
  page.evaluate((hash) => {
    history.replaceState(null, "", location.pathname);
    location.hash = hash;
  }, hash);

const commands = {
  /** Start the browser, open the page and log in by its form. */
  async login({ websocket, domain, certificate, name, password, patience }) {
    timeout = patience * 1000;
    server = await serve(documented(websocket, domain));
    const key = new X509Certificate(readFileSync(certificate)).publicKey.export({ type: "spki", format: "der" });
    browser = await chromium.launch({
      executablePath: "/usr/bin/chromium",
      args: [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync",
        // The server's certificate is the only one that it trusts without an authority.
        `--ignore-certificate-errors-spki-list=${createHash("sha256").update(key).digest("base64")}`,
      ],
      timeout,
    });
    page = await browser.newPage();
    page.setDefaultTimeout(timeout);
    page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => (sessions += /^<(enabled|resumed) /.test(payload))));
    page.on("console", (line) => printed.push(line.text()));
    page.on("pageerror", (error) => printed.push(String(error)));
    const address = `http://127.0.0.1:${server.address().port}/`;
    page.on("response", (answer) => answer.status() >= 400 && answer.url().startsWith(address) && missing.push(answer.url()));
    await page.goto(address);
    await page.fill("input[name=jid]", name);
    await page.fill("input[name=password]", password);
    await page.click("converse-login-form [type=submit]");
  },
  /** Enter a room by its address, as a link does. It asks for a nick where it has not registered one. */
  async enter({ room, nick }) {
    await follow(`#converse/room?jid=${room}`);
    if (nick) {
      await chat(room).locator("input[name=nick]").fill(nick);
      await chat(room).locator("input[name=join]").click();
    }
    await box(room).waitFor();
  },
  /** Leave a room by its menu. */
  async leave({ room }) {
    await chat(room).locator(".chatbox-title__buttons .dropdown-toggle").click();
    await chat(room).locator(".close-chatbox-button:visible").click();
    await page.locator(".modal.show [type=submit]").click();
    await chat(room).waitFor({ state: "detached" });
  },
  async say({ room, body }) {
    await box(room).fill(body);
    await box(room).press("Enter");
  },
  /** The lines of a room with their authors, as they are on the page. */
  async lines({ room }) {
    const lines = await chat(room).locator(".chat-msg").evaluateAll((found) =>
      found.map((one) => [".chat-msg__author", ".chat-msg__text"].map((part) => one.querySelector(part)?.textContent.trim())));
    // It names an author once for several lines.
    lines.forEach((line, at) => (line[0] ??= lines[at - 1]?.[0]));
    return lines;
  },
  /** All text of a room. */
  async text({ room }) {
    return await chat(room).innerText();
  },
  /** How many sessions it has begun or resumed (stream management). */
  async sessions() {
    return sessions;
  },
  /** Addresses that the page has asked its web server for in vain. */
  async missing() {
    return missing;
  },
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const command = JSON.parse(line);
  try {
    say({ id: command.id, value: (await commands[command.do](command)) ?? null });
  } catch (error) {
    say({ id: command.id, failed: String(error), printed });
  }
}).on("close", async () => {
  await browser?.close();
  process.exit(0);
});
