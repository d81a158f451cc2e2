// Strophe.js over WebSocket or BOSH, as a page has it: logs in, sends what it reads from standard input, and
// writes what it hears as JSON lines.  node strophe.mjs URL JID PASSWORD

import readline from "node:readline";
import "./xhr.mjs";
import { Strophe, $iq, $msg, $pres } from "strophe.js";

// What the library says of itself is no report.
for (const level of ["debug", "log", "info", "warn"]) console[level] = console.error;

const [url, jid, password] = process.argv.slice(2);
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const names = Object.fromEntries(Object.entries(Strophe.Status).map(([name, code]) => [code, name.toLowerCase()]));
const connection = new Strophe.Connection(url);

connection.addHandler((stanza) => {
  const body = stanza.getElementsByTagName("body")[0];
  if (body) say({ from: stanza.getAttribute("from"), body: Strophe.getText(body) });
  return true;
}, null, "message");

connection.connect(jid, password, (status) => {
  if (names[status] === "connected") connection.send($pres());
  say({ status: names[status], jid: connection.jid, mechanism: connection._sasl_mechanism?.mechname });
  if (names[status] === "disconnected") process.exit(0);
});

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { to, body, ping } = JSON.parse(line);
  if (to) connection.send($msg({ to, type: "chat" }).c("body").t(body));
  if (ping) {
    const request = $iq({ type: "get", to: Strophe.getDomainFromJid(jid) }).c("ping", { xmlns: "urn:xmpp:ping" });
    connection.sendIQ(request, () => say({ pong: true }), () => say({ pong: false }));
  }
}).on("close", () => connection.disconnect("done"));
