/** Files (XEP-0363): the server gives an address to put it at, and one to get it from. */

import type { Session } from "../xmpp/session";
import { all, attr, first, x } from "../xmpp/xml";

export const NS = "urn:xmpp:http:upload:0";
/** Header fields that a server may ask for (XEP-0363 5). */
const FIELDS = ["authorization", "cookie", "expires"];

export interface Service {
  jid: string;
  bytesMax?: number;
}

/** Puts a file there, and gives its address. */
export async function upload(session: Session, service: Service, file: File, onProgress: (part: number) => void, signal: AbortSignal): Promise<string> {
  if (service.bytesMax !== undefined && file.size > service.bytesMax) {
    throw new Error(`This file has ${size(file.size)}, and the server takes ${size(service.bytesMax)} at most. Choose a smaller one.`);
  }
  const name = file.name.slice(-100) || "file";
  const type = file.type || "application/octet-stream";
  const request = x("request", { xmlns: NS, filename: name, size: String(file.size), "content-type": type });
  const slot = first(await session.iq("get", service.jid, request), "slot", NS);
  const put = first(slot, "put");
  const [to, from] = [attr(put, "url"), attr(first(slot, "get"), "url")];
  if (!put || !to || !from) throw new Error("The server gave no place for the file. Try again later.");
  const fields = all(put, "header").map((one) => [attr(one, "name") ?? "", one.textContent ?? ""] as const);
  await send(to, file, type, fields.filter(([name]) => FIELDS.includes(name.toLowerCase())), onProgress, signal);
  return from;
}

/** `fetch` does not tell how much has left. */
function send(url: string, file: File, type: string, fields: (readonly [string, string])[], onProgress: (part: number) => void, signal: AbortSignal) {
  return new Promise<void>((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.setRequestHeader("Content-Type", type);
    for (const [name, value] of fields) if (name.toLowerCase() !== "cookie") request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onload = () => (request.status >= 200 && request.status < 300 ? done() : failed(new Error(`The server did not take the file (status ${request.status}). Try again later.`)));
    request.onerror = () => failed(new Error("The file could not be sent. Check your connection and try again."));
    request.onabort = () => failed(new DOMException("", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

export function size(bytes: number) {
  const units = ["bytes", "KB", "MB", "GB"];
  const power = Math.min(Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1024)), units.length - 1);
  return `${(bytes / 1024 ** power).toFixed(power > 0 && bytes / 1024 ** power < 10 ? 1 : 0)} ${units[power]}`;
}
