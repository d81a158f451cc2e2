// The chat page in rooms, at the service that the server announces.
import assert from "node:assert/strict";
import { ChatFront } from "./chat_front.mjs";
import { backEnd, Person, roomsAt, unique } from "./chat_world.mjs";
import { sleep, until, world } from "./world.mjs";

export const own = await world();
const { begin, end } = own;
let back, front, service;
own.begin = async () => {
  await begin();
  back = await backEnd(own);
  service = await roomsAt(back);
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
const test = (what, run) => own.test(what, (context) => (service ? run(context) : context.skip("the server announces no rooms")));

/** Two people in a new room. */
async function pair(options) {
  const [romeo, juliet] = [await new Person(front).open(options), await new Person(front).open(options)];
  await romeo.register(unique("romeo"));
  await juliet.register(unique("juliet"));
  const room = unique("garden");
  await romeo.enter(room);
  await juliet.enter(room);
  return { romeo, juliet, room };
}

const here = (person, count) => person.button(`Who is here: ${count}`).waitFor();

test("two people in a room see who is there, what is said in one order, typing, reactions, replies, corrections", async () => {
  const { romeo, juliet } = await pair();
  for (const one of [romeo, juliet]) await here(one, 2);
  await romeo.page.getByRole("complementary").getByText(`${romeo.name} (you)`).waitFor();
  await juliet.box().pressSequentially("Go");
  await romeo.page.locator(".typing", { hasText: juliet.name }).waitFor();
  await juliet.say("Good pilgrim");
  for (let at = 0; at < 10; at++) await Promise.all([romeo.say(`romeo ${at}`), juliet.say(`juliet ${at}`)]);
  await until("all of it", async () => (await romeo.texts()).length === 21 && (await romeo.log().locator(".is-sending").count()) === 0);
  await juliet.hasTexts(await romeo.texts(), "all occupants see one order");
  await romeo.use("Good pilgrim", "React");
  await romeo.button("thumbs up").click();
  await juliet.button("thumbs up: 1").waitFor();
  await romeo.use("Good pilgrim", "Reply");
  await romeo.say("Have not saints lips?");
  await juliet.message("Have not").locator("blockquote", { hasText: "Good pilgrim" }).waitFor();
  await romeo.box().press("ArrowUp");
  await romeo.say("Have not saints lips, and holy palmers too?");
  await juliet.hears("Have not saints lips, and holy palmers too?");
  await romeo.use("palmers", "Take back");
  await juliet.log().getByText("This message was taken back.").waitFor();
  await juliet.say(`Ay, ${romeo.name}, lips`);
  await romeo.log().locator(".is-mention").waitFor();
  await Promise.all([romeo.close(), juliet.close()]);
});

for (const forgets of [false, true]) test(`a network that is cut, for a moment and for longer, loses nothing and doubles nothing in a room${forgets ? ", where no session is resumed" : ""}`, async () => {
  Object.assign(front, { forgets, resumed: 0 });
  const { romeo, juliet } = await pair();
  const count = (one) => one.texts().then((all) => all.length);
  for (let round = 0; round < 3; round++) {
    if (round) front.cut();
    await Promise.all([romeo.say(`romeo ${round}`), juliet.say(`juliet ${round}`)]);
    for (const one of [romeo, juliet]) await until("all of it", async () => (await count(one)) === 2 * (round + 1));
  }
  front.cut(false);
  for (const one of [romeo, juliet]) {
    await one.page.getByText("Not connected.").waitFor();
    await one.say(`${one.name} without a network`);
  }
  await sleep(500);
  front.cut(true);
  for (const one of [romeo, juliet]) await until(async () => `all of it: ${await one.texts()}`, async () => (await count(one)) === 8 && (await one.log().locator(".is-sending").count()) === 0, 60);
  await juliet.hasTexts(await romeo.texts(), "one order");
  assert.equal(new Set(await romeo.texts()).size, 8);
  for (const one of [romeo, juliet]) await here(one, 2);
  await Promise.all([romeo.close(), juliet.close()]);
  assert.equal(front.resumed === 0, forgets);
});

test("a room is entered again after a login, with its history by scrolling, and what is new is counted", async () => {
  const { romeo, juliet, room } = await pair();
  const said = Array.from({ length: 90 }, (_, at) => `line ${at}`);
  for (const text of said) await romeo.say(text);
  await juliet.hears("line 89");
  await until("all have left", async () => (await romeo.log().locator(".is-sending").count()) === 0);
  await juliet.close();
  await romeo.say("behind her back");
  const again = await new Person(front).open();
  await again.login(juliet.name);
  await again.isIn();
  await again.page.locator(".conversation-link", { hasText: room }).locator(".badge", { hasText: "1" }).waitFor();
  await again.look(room);
  await again.hears("behind her back");
  await until(async () => `all of it: ${(await again.texts()).length}`, async () => {
    await again.log().evaluate((log) => (log.scrollTop = 0));
    return (await again.texts()).length >= 91;
  });
  await again.hasTexts([...said, "behind her back"]);
  await Promise.all([romeo.close(), again.close()]);
});

test("a room for the invited lets in who is invited, and nobody else", async () => {
  const [romeo, juliet, tybalt] = await Promise.all(["romeo", "juliet", "tybalt"].map(async (name) => {
    const one = await new Person(front).open();
    await one.register(unique(name));
    return one;
  }));
  const room = unique("tomb");
  await romeo.enter(room, true);
  await romeo.say("Who comes here?");
  await tybalt.button("New conversation").click();
  await tybalt.page.getByText("A room", { exact: true }).click();
  await tybalt.page.getByLabel("Name of the room").fill(room);
  await tybalt.button("Enter or make it").click();
  await tybalt.page.getByText("Only members may enter.").waitFor();
  await romeo.button("Invite", true).click();
  await romeo.page.getByLabel("Name or address").fill(juliet.name);
  await romeo.page.getByRole("dialog").getByRole("button", { name: "Invite", exact: true }).click();
  await romeo.page.getByText("was invited.").waitFor();
  await juliet.button("Enter", true).click();
  await juliet.hears("Who comes here?");
  await juliet.say("It is I.");
  await romeo.hears("It is I.");
  await romeo.page.locator(".member", { hasText: juliet.name }).hover();
  await romeo.button(`Send ${juliet.name} out`).click();
  await juliet.page.getByText("You were sent out of this room.").waitFor();
  for (const one of [romeo, juliet, tybalt]) await one.close();
});

test("a guest comes by the address of a room, is heard, and keeps nothing", async (context) => {
  const { romeo, juliet, room } = await pair();
  const nurse = await new Person(front).open({}, `#${room}@${service}`);
  await nurse.button("Log in", true).waitFor();
  await sleep(300);
  if (!(await nurse.button("Come as a guest").isVisible())) return context.skip("the server takes no guests");
  await nurse.guest("Nurse");
  await nurse.box().waitFor();
  await nurse.say("Madam!");
  for (const one of [romeo, juliet]) await one.hears("Madam!");
  await here(romeo, 3);
  assert.equal(await nurse.page.evaluate(() => localStorage.length), 0);
  // Who closes the page is gone at once.
  await nurse.page.goto("about:blank");
  await here(romeo, 2);
  await nurse.close();
  await Promise.all([romeo.close(), juliet.close()]);
});

for (const [width, colorScheme] of [[320, "dark"], [900, "light"], [1400, "dark"]]) {
  test(`nobody is kept out of rooms, and nothing lies beside the window: ${width} pixels, ${colorScheme}`, async () => {
    const { romeo, juliet } = await pair({ viewport: { width, height: 640 }, colorScheme });
    await juliet.say(`${romeo.name}: ${"w".repeat(300)}`);
    await romeo.hears(`${romeo.name}: ${"w".repeat(300)}`);
    await romeo.isFine("a room");
    const toggle = romeo.button("Who is here: 2");
    if ((await toggle.getAttribute("aria-expanded")) === "false") await toggle.click();
    await romeo.page.getByRole("complementary").waitFor();
    await romeo.isFine("who is here");
    if (width < 1000) await romeo.button("Close the list").click();
    await romeo.button("Invite", true).click();
    await romeo.isFine("an invitation");
    await romeo.button("Close", true).click();
    await Promise.all([romeo.close(), juliet.close()]);
  });
}
