// The way between the chat page and its server: it hands out the published form of the page, and passes the WebSocket on. It can be cut,
// as networks are, for a moment or until further notice.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";

const DIST = new URL("../../web/dist/chat/", import.meta.url);
const FILES = { "/": ["index.html", "text/html"], "/chat.js": ["chat.js", "text/javascript"], "/chat.css": ["chat.css", "text/css"] };

/** Of the same length: a frame says how long it is. */
const forget = (bytes) => Buffer.from(bytes.toString("latin1").replace(/resume=(["'])(true|1)/g, (_, mark, word) => `resume=${mark}${word === "1" ? "0" : "none"}`), "latin1");

export class ChatFront {
  /** Whether new connections get through. */
  isOpen = true;
  /** The server's word that a session can be resumed (XEP-0198 3) gets lost on the way: each connection begins a new one. */
  forgets = false;
  /** Sessions that were resumed. */
  resumed = 0;
  #sockets = new Set();

  /** `to` is the port of a server with a WebSocket, and `config` what the page is told. */
  static async before(to, config) {
    const front = new ChatFront();
    const server = (front.server = createServer((request, answer) => {
      const file = FILES[new URL(request.url, "http://x").pathname];
      if (request.url === "/chat.json") return answer.setHeader("Content-Type", "application/json").end(JSON.stringify(config));
      if (!file) return answer.writeHead(404).end();
      answer.setHeader("Content-Type", `${file[1]}; charset=utf-8`).end(readFileSync(new URL(file[0], DIST)));
    }));
    server.on("upgrade", (request, socket, head) => {
      if (!front.isOpen) return socket.destroy();
      const behind = connect(to, "127.0.0.1", () => {
        const fields = request.rawHeaders.flatMap((name, at, all) => (at % 2 ? [] : [`${name}: ${all[at + 1]}`]));
        behind.write(`${[`${request.method} ${request.url} HTTP/1.1`, ...fields].join("\r\n")}\r\n\r\n`);
        behind.write(head);
        socket.pipe(behind);
        behind.on("data", (bytes) => {
          if (bytes.includes("<resumed")) front.resumed++;
          socket.write(front.forgets ? forget(bytes) : bytes);
        });
        behind.on("end", () => socket.end());
      });
      for (const [one, other] of [[socket, behind], [behind, socket]]) {
        front.#sockets.add(one);
        one.on("error", () => {}).on("close", () => (front.#sockets.delete(one), other.destroy()));
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    front.url = `http://127.0.0.1:${server.address().port}/`;
    return front;
  }

  /** All connections are lost; with `isOpen` false new ones are, too, until it is true again. */
  cut(isOpen = true) {
    this.isOpen = isOpen;
    for (const socket of this.#sockets) socket.destroy();
  }

  close() {
    this.cut(false);
    this.server.close();
    this.server.closeAllConnections();
  }
}
