// The chat page between two people: what they say, over networks that are cut and servers that are killed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { xml } from "@xmpp/client";
import { ChatFront } from "./chat_front.mjs";
import { another, backEnd, couple, Person, unique } from "./chat_world.mjs";
import { sleep, THRONG_BIN, until, world } from "./world.mjs";

export const own = await world();
const { test } = own;
const { begin, end } = own;
let back, front;
own.begin = async () => {
  await begin();
  back = await backEnd(own);
  front = await ChatFront.before(back.port, { domain: "localhost", guests: back.guests });
};
const { clear } = own;
own.clear = async () => {
  Object.assign(front, { forgets: false, isOpen: true });
  await clear();
};
own.end = async () => {
  front?.close();
  await end();
};
const ofThrong = { skip: process.env.CHAT_PEER !== undefined && "of Throng" };

test("the server has the page, if it is wanted, with the domain that was asked for", async () => {
  const port = await own.another("--chat-page", "--open-registration", "--i-know");
  const at = (path, on = port) => fetch(`http://127.0.0.1:${on}${path}`);
  for (const [path, name] of [["/", "index.html"], ["/chat.js", "chat.js"], ["/chat.css", "chat.css"]]) {
    const answer = await at(path);
    assert.equal(await answer.text(), readFileSync(new URL(`../../web/dist/chat/${name}`, import.meta.url), "utf8"), path);
    assert.equal((await at(path, own.http)).status, 404, path);
  }
  assert.equal((await at("/")).headers.get("content-security-policy"), "frame-ancestors 'none'");
  assert.deepEqual(await (await at("/chat.json")).json(), { domain: "localhost" });
  const romeo = await new Person({ url: `http://127.0.0.1:${port}/` }).open();
  await romeo.register(unique("romeo"));
  await romeo.close();
}, ofThrong);

test("an invitation opens a closed door, once", async () => {
  const port = await own.another("--registration", "invite");
  const said = execFileSync(THRONG_BIN, ["invite", "--domain", "localhost", "--data", own.dataOf(port)], { encoding: "utf8" });
  const [, token] = said.match(/preauth=([\w-]+)/) ?? assert.fail(said);
  const through = await ChatFront.before(port, { domain: "localhost" });
  const romeo = await new Person(through).open({}, `#invite=${token}`);
  await romeo.signUp(unique("romeo"));
  await romeo.isIn();
  const late = await new Person(through).open({}, `#invite=${token}`);
  await late.signUp(unique("tybalt"));
  await late.page.getByText("invitation is unknown").waitFor();
  await late.close();
  await romeo.close();
  through.close();
}, ofThrong);

test("two people become contacts, write, see each other typing, and what has come and was read", async () => {
  const [romeo, juliet] = await couple(front);
  await romeo.say("But soft!");
  await juliet.hears("But soft!");
  // What is not looked at is not read: of two windows only one has the focus.
  await juliet.page.bringToFront();
  await romeo.log().getByText("read", { exact: true }).waitFor({ state: "attached" });
  await juliet.box().pressSequentially("It");
  await romeo.page.locator(".typing", { hasText: "is typing" }).waitFor();
  await juliet.say("It is my lady.");
  await romeo.hears("It is my lady.");
  await until("nobody types", async () => (await romeo.page.locator(".typing").textContent()) === "");
  await romeo.page.getByText("· here").waitFor();
  await juliet.page.getByText("· here").waitFor();
  for (const one of [romeo, juliet]) {
    await one.hasTexts(["But soft!", "It is my lady."]);
    await one.close();
  }
});

test("reactions, replies, corrections and retractions are seen on both sides", async () => {
  const [romeo, juliet] = await couple(front);
  await romeo.say("Wherefore art thou?");
  await juliet.hears("Wherefore art thou?");
  await juliet.use("Wherefore", "React");
  await juliet.button("heart").click();
  await romeo.button("heart: 1").waitFor();
  await juliet.button("heart: 1").click();
  await until("the heart is gone", async () => (await romeo.button("heart: 1").count()) === 0);
  await juliet.use("Wherefore", "Reply");
  await juliet.say("Here!");
  await romeo.message("Here!").locator("blockquote", { hasText: "Wherefore art thou?" }).waitFor();
  assert.ok(!(await romeo.message("Here!").locator(".text").textContent()).includes(">"), "the quotation for other clients is not shown (XEP-0461 3.2)");
  await romeo.box().press("ArrowUp");
  await romeo.say("Where art thou?");
  await juliet.hears("Where art thou?");
  await juliet.message("Where art").getByText("edited").waitFor();
  await romeo.use("Where art", "Take back");
  await juliet.log().getByText("This message was taken back.").waitFor();
  for (const one of [romeo, juliet]) {
    await one.hasTexts(["This message was taken back.", "Here!"]);
    await one.close();
  }
});

test("text is only text: markup, scripts and odd addresses do nothing, and long texts are cut", async () => {
  const [romeo, juliet] = await couple(front);
  const texts = ["<img src=x onerror=alert(1)><b>bold</b>", "javascript:alert(1) data:text/html,x", "]]>&lt;/body>\u0000\u0008 \ud800 end", "x".repeat(9_000)];
  for (const text of texts) await romeo.say(text);
  await romeo.say("see https://example.org/a_(b)?c=d&e=%22, http://user@[::1]:1/ and (https://example.net/).");
  await until("all have come", async () => (await juliet.texts()).length === 5);
  const shown = await juliet.texts();
  assert.deepEqual(shown.slice(0, 2), texts.slice(0, 2));
  assert.equal(shown[2], "]]>&lt;/body>\ufffd\ufffd \ufffd end", "what XML cannot carry (1.0 2.2)");
  assert.ok(shown[3].length < 3100 && shown[3].endsWith("Show all"), shown[3].slice(-20));
  assert.equal(await juliet.log().locator(".text img, .text b, .text script").count(), 0);
  const links = await juliet.log().locator(".text a").evaluateAll((all) => all.map(({ href, rel, target }) => [href, rel, target]));
  const safe = ["noopener noreferrer nofollow", "_blank"];
  assert.deepEqual(links, ["https://example.org/a_(b)?c=d&e=%22", "http://user@[::1]:1/", "https://example.net/"].map((href) => [href, ...safe]));
  await juliet.log().getByText("Show all").click();
  await until("it is whole", async () => (await juliet.texts())[3].length === 9_000);
  await romeo.box().fill("y".repeat(10_001));
  await romeo.box().press("Enter");
  await romeo.page.getByText("This is too long by 1 bytes.").waitFor();
  await Promise.all([romeo.close(), juliet.close()]);
});

for (const forgets of [false, true]) test(`a network that is cut for a moment loses nothing and doubles nothing${forgets ? ", where no session is resumed" : ""}`, async () => {
  Object.assign(front, { forgets, resumed: 0 });
  const [romeo, juliet] = await couple(front);
  const said = [];
  for (let round = 0; round < 4; round++) {
    for (const [one, other] of [[romeo, juliet], [juliet, romeo]]) {
      const text = `${one.name} ${round}`;
      said.push(text);
      if (round % 2) front.cut();
      await one.say(text);
      if (!(round % 2)) front.cut();
      await other.hears(text);
      await one.hears(text);
    }
  }
  for (const one of [romeo, juliet]) {
    await one.hasTexts(said);
    await until("all have left", async () => (await one.log().locator(".ticks.is-sending").count()) === 0);
    await one.close();
  }
  assert.equal(front.resumed === 0, forgets);
});

for (const forgets of [false, true]) test(`what is written while the network is away leaves when it is back, and what was missed comes${forgets ? ", where no session is resumed" : ""}`, async () => {
  Object.assign(front, { forgets, resumed: 0 });
  const [romeo, juliet] = await couple(front);
  await romeo.say("before");
  await juliet.hears("before");
  front.cut(false);
  for (const one of [romeo, juliet]) await one.page.getByText("Not connected.").waitFor();
  await romeo.say("one");
  await romeo.say("two");
  await juliet.say("three");
  assert.deepEqual(await romeo.texts(), ["before", "one", "two"]);
  await romeo.log().getByText("waiting to be sent").first().waitFor({ state: "attached" });
  front.cut(true);
  for (const one of [romeo, juliet]) {
    // Alone, each may click; the page also comes back by itself.
    await until("everything is there", async () => (await one.texts()).length === 4);
    assert.deepEqual([...(await one.texts())].sort(), ["before", "one", "three", "two"]);
    await until("all have left", async () => (await one.log().locator(".ticks.is-sending").count()) === 0);
    await one.page.getByText("Not connected.").waitFor({ state: "detached" });
  }
  await Promise.all([romeo.close(), juliet.close()]);
  assert.equal(front.resumed === 0, forgets);
});

test("who reads the history by scrolling has each message once, in order", async () => {
  const [romeo, juliet] = await couple(front);
  const count = 130;
  const said = Array.from({ length: count }, (_, at) => `line ${at}`);
  for (const text of said) await romeo.say(text);
  await juliet.hears(`line ${count - 1}`);
  await juliet.page.bringToFront();
  await romeo.log().getByText("read", { exact: true }).first().waitFor({ state: "attached" });
  await juliet.close();
  const again = await new Person(front).open();
  await again.login(juliet.name);
  await again.isIn();
  await again.look(romeo.name);
  await again.hears(`line ${count - 1}`);
  assert.ok((await again.texts()).length < count, "not all at once");
  await until(async () => `all of it: ${(await again.texts()).length}`, async () => {
    await again.log().evaluate((log) => (log.scrollTop = 0));
    return (await again.texts()).length >= count;
  });
  await again.hasTexts(said);
  await again.page.getByText("This is the beginning.").waitFor();
  await again.button("To the newest message").click();
  assert.equal(await again.page.title(), `${romeo.name} – Chat`);
  await Promise.all([romeo.close(), again.close()]);
});

test("new messages are counted in the list and in the title until they are looked at, over logins", async () => {
  const [romeo, juliet] = await couple(front);
  await juliet.talkTo(unique("nurse"));
  for (const text of ["one", "two"]) await romeo.say(text);
  await until("two are new", async () => (await juliet.page.title()).startsWith("(2) "));
  await juliet.look(romeo.name);
  await juliet.log().getByText("New", { exact: true }).waitFor();
  await until("none is new", async () => !(await juliet.page.title()).startsWith("("));
  await romeo.log().getByText("read", { exact: true }).first().waitFor({ state: "attached" });
  await juliet.close();
  await romeo.say("three");
  const again = await new Person(front).open();
  await again.login(juliet.name);
  await until(async () => `one is new: ${await again.page.title()}`, async () => (await again.page.title()) === "(1) Chat");
  await Promise.all([romeo.close(), again.close()]);
});

test("who stays logged in needs no password after the page was loaded again, and none is kept", async () => {
  const [romeo, juliet] = [await new Person(front).open(), await new Person(front).open()];
  await romeo.register(unique("romeo"), true);
  await juliet.register(unique("juliet"));
  await romeo.talkTo(juliet.name);
  await romeo.say("still here");
  const kept = await romeo.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(kept.includes("token") && !kept.includes("rose"), kept);
  for (let times = 0; times < 2; times++) {
    await romeo.page.reload();
    await romeo.isIn();
  }
  await romeo.look(juliet.name);
  await romeo.hears("still here");
  await romeo.button("Log out").click();
  await romeo.button("Log in", true).waitFor();
  assert.equal(await romeo.page.evaluate(() => localStorage.length), 0);
  await Promise.all([romeo.close(), juliet.close()]);
}, ofThrong);

test("a file is sent with its progress and shown as a picture, and one of another server only on a click", async () => {
  // The server has made its certificate itself.
  const [romeo, juliet] = await couple(front, { ignoreHTTPSErrors: true });
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64");
  await romeo.page.locator("input[type=file]").setInputFiles({ name: "red dot.png", mimeType: "image/png", buffer: png });
  await until("it is a picture", () => juliet.log().locator(".file img").evaluate((image) => image.naturalWidth === 10));
  const url = "https://elsewhere.example/secret.png";
  const other = await another(back, romeo.name);
  await other.send(xml("message", { to: `${juliet.name}@localhost`, type: "chat" }, xml("body", {}, url), xml("x", "jabber:x:oob", xml("url", {}, url))));
  await juliet.button("Show the picture from elsewhere.example").waitFor();
  assert.equal(await juliet.log().locator("img").count(), 1);
  // A carbon shows the user what another client has sent (XEP-0280).
  await romeo.button("Show the picture from elsewhere.example").waitFor();
  await other.stop();
  await Promise.all([romeo.close(), juliet.close()]);
}, ofThrong);

test("a wrong password, a taken name and an unknown person have their words", async () => {
  const romeo = await new Person(front).open();
  await romeo.login(unique("nobody"), "wrong");
  await romeo.page.getByText("The name or the password is wrong.").waitFor();
  await romeo.register(unique("romeo"));
  const other = await new Person(front).open();
  await other.button("Create an account").click();
  await other.page.getByLabel("Name").fill(romeo.name);
  await other.page.getByLabel("Password", { exact: true }).fill("one");
  await other.page.getByLabel("Password again").fill("two");
  await other.button("Create account", true).click();
  await other.page.getByText("The two passwords differ.").waitFor();
  await other.page.getByLabel("Password again").fill("one");
  await other.button("Create account", true).click();
  await other.page.getByText("This name is taken.").waitFor();
  await romeo.talkTo(unique("nobody"));
  await romeo.say("Anybody?");
  await romeo.log().getByText("there is nobody by this address").waitFor();
  await romeo.button("Send again").waitFor();
  front.cut(false);
  await other.page.reload();
  await other.page.getByText("The server cannot be reached.").waitFor();
  front.cut(true);
  await Promise.all([romeo.close(), other.close()]);
});

test("keys do all of it: log in, go to the other conversation, correct, answer, read", async () => {
  const [romeo, juliet] = await couple(front);
  await juliet.say("one");
  await juliet.say("two");
  await romeo.hears("two");
  const { keyboard } = romeo.page;
  await romeo.page.keyboard.press("Shift+Tab");
  await romeo.log().focus();
  await keyboard.press("ArrowUp");
  await keyboard.press("ArrowUp");
  assert.ok((await romeo.page.evaluate(() => document.activeElement.textContent)).includes("one"));
  await keyboard.press("r");
  await romeo.page.getByText("Reply to").waitFor();
  await keyboard.type("to one");
  await keyboard.press("Shift+Enter");
  await keyboard.type("in two lines");
  await keyboard.press("Enter");
  await juliet.message("to one").locator("blockquote", { hasText: "one" }).waitFor();
  await keyboard.press("ArrowUp");
  await romeo.page.getByText("Correct", { exact: true }).first().waitFor();
  await keyboard.press("Escape");
  await until("it is empty", async () => (await romeo.box().inputValue()) === "");
  await romeo.talkTo(unique("nurse"));
  await keyboard.press("Alt+ArrowDown");
  await romeo.page.getByRole("main", { name: juliet.name }).waitFor();
  await Promise.all([romeo.close(), juliet.close()]);
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [320, 800, 1400]) {
    test(`nobody is kept out, and nothing lies beside the window: ${width} pixels, ${colorScheme}`, async () => {
      const options = { viewport: { width, height: 640 }, colorScheme };
      const romeo = await new Person(front).open(options);
      await romeo.button("Create an account").waitFor();
      await romeo.isFine("the door");
      await romeo.button("Create an account").click();
      await romeo.isFine("a new account");
      await romeo.page.reload();
      await romeo.register(unique("romeo"));
      await romeo.isFine("nothing yet");
      await romeo.button("New conversation").click();
      await romeo.isFine("a new conversation");
      await romeo.page.getByText("A room", { exact: true }).click();
      await romeo.isFine("a new room");
      await romeo.button("Close").click();
      const juliet = await new Person(front).open(options);
      await juliet.register(unique("juliet-with-a-very-long-name-that-goes-on-and-on"));
      await juliet.talkTo(romeo.name);
      await juliet.say(`${"w".repeat(300)} https://example.org/${"x".repeat(300)}`);
      await romeo.button("Accept").waitFor();
      await romeo.isFine("asked");
      await romeo.button("Accept").click();
      await romeo.look(juliet.name);
      await romeo.use("www", "React");
      await romeo.isFine("reactions to choose");
      await romeo.button("heart").click();
      await romeo.use("www", "Reply");
      await romeo.say("an answer");
      await juliet.hears("an answer");
      await juliet.isFine("a conversation");
      await romeo.isFine("a conversation, the other side");
      front.cut(false);
      await romeo.page.getByText("Not connected.").waitFor();
      await romeo.isFine("without a connection");
      front.cut(true);
      await Promise.all([romeo.close(), juliet.close()]);
    });
  }
}

test("a server that was killed is found again, with all that was written meanwhile, once", async () => {
  const through = await ChatFront.before(own.http, { domain: "localhost" });
  const [romeo, juliet] = [await new Person(through).open(), await new Person(through).open()];
  await romeo.login("romeo", "password");
  await juliet.login("juliet", "password");
  await romeo.isIn();
  await juliet.isIn();
  await romeo.talkTo("juliet");
  await romeo.say("before");
  await juliet.look("romeo");
  await juliet.hears("before");
  const killed = own.kill();
  await sleep(100);
  await romeo.say("while it is away");
  await juliet.say("me, too");
  await killed;
  for (const one of [romeo, juliet]) {
    await until(async () => `three: ${await one.texts()}`, async () => (await one.texts()).length >= 3, 90);
    await until("all have left", async () => (await one.log().locator(".ticks.is-sending").count()) === 0);
  }
  await romeo.say("after");
  await juliet.hears("after");
  for (const one of [romeo, juliet]) assert.deepEqual([...(await one.texts())].sort(), ["after", "before", "me, too", "while it is away"]);
  await Promise.all([romeo.close(), juliet.close()]);
  through.close();
}, ofThrong);
