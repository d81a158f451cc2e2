// A subscriber of Mercure as pages have it: `node mercure.mjs LIBRARY URL [HEADERS]`. Prints a line of JSON for each event, and for the end.
// LIBRARY is `eventsource` (what browsers do) or `fetch` (@microsoft/fetch-event-source). Both come back by themselves.
import { EventSource } from "eventsource";

const [library, url, headers = "{}"] = process.argv.slice(2);
const own = JSON.parse(headers);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const event = ({ id, lastEventId, type, event, data }) => say({ id: id ?? lastEventId, type: type ?? (event || "message"), data });

if (library === "eventsource") {
  const ask = (address, init) => fetch(address, { ...init, headers: { ...init.headers, ...own } });
  const source = new EventSource(url, { fetch: ask });
  source.onopen = () => say({ open: true });
  source.onerror = ({ code }) => source.readyState === EventSource.CLOSED && (say({ refused: code }), process.exit(0));
  for (const type of ["message", "changed", "gap", "expired"]) source.addEventListener(type, event);
} else {
  globalThis.window = globalThis;
  const { fetchEventSource } = await import("@microsoft/fetch-event-source");
  await fetchEventSource(url, {
    headers: own,
    openWhenHidden: true,
    async onopen(response) {
      if (!response.ok) throw (say({ refused: response.status }), process.exit(0));
      say({ open: true, last: response.headers.get("last-event-id") });
    },
    onmessage: event,
    // By itself it takes the end for the end.
    onclose() { throw new Error("closed"); },
    onerror: () => 50,
  });
}
