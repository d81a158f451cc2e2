// A front before Throng, as proxies are that let something pass or not: it can refuse WebSocket, refuse or keep back server-sent
// events, lose answers, and fall silent. It speaks WebSocket itself, on the long polls of the server behind it.
import { once } from "node:events";
import { createServer, request } from "node:http";
import { WebSocketServer } from "ws";

export class Front {
  /** What it does: "pass", "refuse" (502), "keep" (bytes), "lose" (the answer to a POST) or "mute" (messages of a WebSocket). */
  does = { websocket: "pass", sse: "pass", poll: "pass", post: "pass" };
  /** The requests that have come: kind, method, address and header fields. */
  asked = [];
  #sockets = new Set();

  static async before(port, address = "127.0.0.1") {
    const front = new Front();
    front.behind = port;
    front.server = createServer((incoming, outgoing) => front.#request(incoming, outgoing));
    front.server.on("connection", (socket) => {
      front.#sockets.add(socket);
      socket.on("close", () => front.#sockets.delete(socket)).on("error", () => {});
    });
    const websockets = new WebSocketServer({ noServer: true });
    front.server.on("upgrade", (incoming, socket, head) => {
      front.#note("websocket", incoming);
      if (front.does.websocket === "keep") return;
      if (front.does.websocket === "mute") return websockets.handleUpgrade(incoming, socket, head, () => {});
      if (front.does.websocket !== "pass") return socket.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
      websockets.handleUpgrade(incoming, socket, head, (websocket) => front.#websocket(websocket, incoming.url));
    });
    front.server.listen(0, address);
    await once(front.server, "listening");
    front.url = `http://${address}:${front.server.address().port}`;
    return front;
  }

  /** How often it was asked in a way. */
  count(kind) {
    return this.asked.filter((one) => one.kind === kind).length;
  }

  /** All connections are lost. */
  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  close() {
    this.cut();
    this.server.close();
  }

  #note(kind, { method, url, headers }) {
    this.asked.push({ kind, method, url, headers, at: Date.now() });
  }

  #request(incoming, outgoing) {
    const events = incoming.headers.accept === "text/event-stream";
    const kind = incoming.method === "POST" ? "post" : events ? "sse" : incoming.url.startsWith("/n/") ? "poll" : "other";
    this.#note(incoming.method === "OPTIONS" ? "preflight" : kind, incoming);
    const does = this.does[incoming.method === "OPTIONS" ? "other" : kind] ?? "pass";
    if (typeof does === "object") return outgoing.writeHead(does.status, does.headers).end(does.body);
    if (does === "refuse") return outgoing.writeHead(502, { "Access-Control-Allow-Origin": "*" }).end();
    const { method, url: path, headers } = incoming;
    const on = request({ host: "127.0.0.1", port: this.behind, method, path, headers, agent: false }, (answer) => {
      if (does === "lose") {
        // A browser repeats by itself what was sent on a connection that ends without any answer.
        outgoing.writeHead(answer.statusCode, answer.headers);
        outgoing.flushHeaders();
        return void setTimeout(() => incoming.socket.destroy(), 20);
      }
      if (does === "keep") return void answer.on("data", () => {}).on("error", () => {});
      outgoing.writeHead(answer.statusCode, answer.headers);
      outgoing.flushHeaders();
      answer.on("data", (bytes) => outgoing.write(bytes)).on("end", () => outgoing.end()).on("error", () => incoming.socket.destroy());
      answer.on("close", () => answer.complete || incoming.socket.destroy());
    });
    on.on("error", () => incoming.socket.destroy());
    outgoing.on("close", () => on.destroy());
    incoming.pipe(on);
  }

  /** A WebSocket: each message is the answer to a long poll, and one without items breaks the silence. */
  async #websocket(websocket, url) {
    const { pathname, searchParams } = new URL(url, this.url);
    let after = searchParams.get("after");
    websocket.on("message", () => websocket.close(1003)).on("error", () => {});
    try {
      while (websocket.readyState === websocket.OPEN) {
        const place = after === null ? "" : `&after=${after}`;
        const answer = await fetch(`http://127.0.0.1:${this.behind}${pathname}?wait=1${place}`);
        if (this.does.silent) return;
        if (answer.status !== 200 && answer.status !== 204) break;
        const batch = answer.status === 200 ? await answer.json() : { items: [], gaps: [], after: answer.headers.get("Next-After") };
        after = batch.after;
        websocket.send(JSON.stringify(batch));
      }
    } catch {
      // The server behind has gone.
    }
    websocket.terminate();
  }
}
