// As much of XMLHttpRequest as Strophe.js asks of a browser for BOSH, over Node's own HTTP: connections
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
  responseXML = null;
  headers = {};

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

  send(data) {
    const { request } = this.url.protocol === "https:" ? https : http;
    const headers = { ...this.headers, "Content-Length": Buffer.byteLength(data) };
    this.request = request(this.url, { method: this.method, agent: pools[this.url.protocol], headers }, (answer) => {
      this.status = answer.statusCode;
      answer.setEncoding("utf8");
      answer.on("data", (piece) => (this.responseText += piece));
      answer.on("end", () => {
        this.responseXML = new DOMParser().parseFromString(this.responseText, "text/xml");
        this.#become(4);
      });
    });
    this.request.on("error", () => {
      this.status = 0;
      this.#become(4);
    });
    this.request.end(data);
  }

  abort() {
    this.request?.destroy();
  }
};
