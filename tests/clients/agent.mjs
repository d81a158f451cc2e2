// Hosts any number of @xmpp/client sessions for the tests. Reads one JSON
// command a line on standard input, writes answers and events as JSON lines.
// A stanza travels as [name, attributes, ...children].

import readline from "node:readline";
import { client, xml } from "@xmpp/client";

const sessions = new Map();

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const toTree = (el) => [
  el.name,
  el.attrs,
  ...el.children.map((c) => (typeof c === "string" ? c : toTree(c))),
];

const fromTree = ([name, attrs, ...children]) =>
  xml(name, attrs, ...children.map((c) => (typeof c === "string" ? c : fromTree(c))));

function open({ session, service, domain, username, password, resource, mechanism, starttls, sasl2 }) {
  const userAgent = xml("user-agent", { id: globalThis.crypto.randomUUID() });
  const xmpp = client({
    service,
    domain,
    resource,
    timeout: 10_000,
    // PLAIN unless a test asks for another one: the library's SCRAM is written
    // in JavaScript and takes most of a second.
    credentials: async (authenticate, mechanisms, fast) => {
      const chosen = mechanism ?? "PLAIN";
      if (!mechanisms.includes(chosen)) throw new Error(`${chosen} is not offered`);
      const token = await fast?.fetch();
      await authenticate({ username, password, token }, chosen, userAgent);
    },
  });
  xmpp.reconnect.stop();
  // The library begins to wait for the server's header when its own is written (0.14.0). A server
  // that was quicker has answered by then, and with SASL 2 no other header comes.
  const opens = xmpp.open.bind(xmpp);
  xmpp.open = (options) =>
    Promise.race([opens(options), new Promise((resolve) => xmpp.once("open", resolve))]);
  xmpp.prependListener("element", (el) => {
    if (!el.is("features", "http://etherx.jabber.org/streams")) return;
    xmpp.statesOffered = el.getChild("csi", "urn:xmpp:csi:0") !== undefined;
    xmpp.managementOffered = el.getChild("sm", "urn:xmpp:sm:3") !== undefined;
    // The library takes STARTTLS whenever it is offered: hide the offer.
    if (!starttls) el.children = el.children.filter((c) => c.name !== "starttls");
    // It takes SASL 2, too, and then a resource is not the test's to choose.
    if (!sasl2) el.children = el.children.filter((c) => c.name !== "authentication");
  });
  xmpp.on("send", (el) => {
    if (el.name === "auth" || el.name === "authenticate") xmpp.shown = el.attrs.mechanism;
  });
  // The library's IQ caller takes its answers away before its stream management
  // counts them (0.14.0), so `h` would be too low at a resume: count them here.
  xmpp.prependListener("element", (el) => {
    if (!xmpp.streamManagement.enabled || el.name !== "iq") return;
    const { id, type } = el.attrs;
    if ((type === "result" || type === "error") && xmpp.iqCaller.handlers.has(id)) {
      xmpp.streamManagement.inbound += 1;
    }
  });
  xmpp.iqCallee.set("jabber:iq:roster", "query", () => ({}));
  xmpp.iqCallee.set("urn:xmpp:blocking", "block", () => ({}));
  xmpp.iqCallee.set("urn:xmpp:blocking", "unblock", () => ({}));
  xmpp.iqCallee.set("urn:xmpp:jingle:1", "jingle", () => ({}));
  xmpp.on("stanza", (el) => say({ session, stanza: toTree(el) }));
  xmpp.on("disconnect", () => say({ session, status: "disconnect" }));
  xmpp.on("error", (error) => say({ session, error: String(error) }));
  sessions.set(session, xmpp);
  return xmpp;
}

const commands = {
  async login(command) {
    const xmpp = open(command);
    const jid = await xmpp.start();
    // Enabling stream management follows binding (XEP-0198 3), and the library
    // says "online" before it. A stanza that came along with <enabled/> would not
    // be counted by it, so nothing may be sent before.
    const sm = xmpp.streamManagement;
    const deadline = Date.now() + 5_000;
    while (xmpp.managementOffered && !sm.enabled && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return {
      jid: jid.toString(),
      secure: xmpp.isSecure(),
      managed: sm.enabled,
      states: xmpp.statesOffered,
    };
  },
  async send({ session, tree }) {
    const xmpp = sessions.get(session);
    const el = fromTree(tree);
    try {
      await xmpp.send(el);
    } catch (error) {
      if (!xmpp.streamManagement.id) throw error;
    }
  },
  async iq({ session, tree }) {
    return toTree(await sessions.get(session).iqCaller.request(fromTree(tree), 10_000));
  },
  async drop({ session }) {
    const { socket } = sessions.get(session);
    // A TLS session of the library wraps the socket of node.
    // A WebSocket of node can only be closed; its stream has not ended by that (RFC 7395 3.6).
    const inner = socket.socket ?? socket;
    inner.destroy ? inner.destroy() : inner.close();
  },
  async resume({ session }) {
    const xmpp = sessions.get(session);
    const before = xmpp.streamManagement.id;
    if (xmpp.status !== "disconnect") {
      await new Promise((resolve) => xmpp.once("disconnect", resolve));
    }
    const done = new Promise((resolve) => {
      xmpp.streamManagement.once("resumed", () => resolve(true));
      xmpp.once("online", () => resolve(false));
    });
    await xmpp.reconnect.reconnect();
    const resumed = await done;
    return resumed && before === xmpp.streamManagement.id;
  },
  // Node's own client of HTTP, as web clients have it.
  async http({ method, url, headers, body }) {
    const answer = await fetch(url, { method, headers, body: body == null ? undefined : Buffer.from(body, "base64") });
    const bytes = Buffer.from(await answer.arrayBuffer()).toString("base64");
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body: bytes };
  },
  // The mechanism that the client has shown last.
  async shown({ session }) {
    return sessions.get(session).shown;
  },
  async close({ session }) {
    const xmpp = sessions.get(session);
    sessions.delete(session);
    if (xmpp && xmpp.status !== "offline" && xmpp.socket) await xmpp.stop();
  },
};

process.on("unhandledRejection", (error) => say({ unhandled: String(error) }));

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const command = JSON.parse(line);
  try {
    say({ id: command.id, value: (await commands[command.do](command)) ?? null });
  } catch (error) {
    const { condition, type } = error;
    say({ id: command.id, failed: String(error), name: error.name, condition, type });
  }
}).on("close", () => process.exit(0));
