// As much of XMLHttpRequest as Strophe.js asks of a browser for BOSH, and NchanSubscriber, over Node's own HTTP: connections
// stay and are used again, two at a time.

import http from "node:http";
import https from "node:https";
import { DOMParser } from "@xmldom/xmldom";

const pools = {
  "http:": new http.Agent({ keepAlive: true, maxSockets: 2 }),
  "https:": new https.Agent({ keepAlive: true, maxSockets: 2 }),
};

globalThis.XMLHttpRequest ??= class {
  readyState = 0;
  status = 0;
  responseText = "";
  headers = {};
  answered = {};

  #become(state) {
    this.readyState = state;
    this.onreadystatechange?.();
  }

  open(method, url) {
    [this.method, this.url] = [method, new URL(url)];
    this.#become(1);
  }

  setRequestHeader(name, value) {
    this.headers[name] = value;
  }

  getAllResponseHeaders() {
    return "";
  }

  getResponseHeader(name) {
    return this.answered[name.toLowerCase()] ?? null;
  }

  get responseXML() {
    return this.readyState === 4 ? new DOMParser().parseFromString(this.responseText, "text/xml") : null;
  }

  send(data) {
    const { request } = this.url.protocol === "https:" ? https : http;
    const headers = { ...this.headers, ...(data == null ? {} : { "Content-Length": Buffer.byteLength(data) }) };
    this.request = request(this.url, { method: this.method, agent: pools[this.url.protocol], headers }, (answer) => {
      [this.status, this.answered] = [answer.statusCode, answer.headers];
      answer.setEncoding("utf8");
      answer.on("data", (piece) => (this.responseText += piece));
      answer.on("end", () => this.#become(4));
    });
    this.request.on("error", () => {
      this.status = 0;
      this.#become(4);
    });
    this.request.end(data ?? undefined);
  }

  abort() {
    this.request?.destroy();
  }
};
