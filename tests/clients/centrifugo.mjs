// A client of Centrifugo as pages have it: `node centrifugo.mjs URL OPTIONS`. Reads a command of JSON per line, and prints a line of JSON for
// each event and result. OPTIONS: `token`, `channels` (each with the options of newSubscription).
import { createInterface } from "node:readline";
import { Centrifuge } from "centrifuge";
import WebSocket from "ws";

const [url, given] = process.argv.slice(2);
const { token, channels = {}, renewed = {} } = JSON.parse(given);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const client = new Centrifuge(url, {
  websocket: WebSocket, token: token ?? "", minReconnectDelay: 20, maxReconnectDelay: 200,
  getToken: renewed.connection ? async () => (say({ event: "getToken" }), renewed.connection) : null,
});
for (const event of ["connected", "connecting", "disconnected", "error", "subscribed", "publication", "join", "leave"])
  client.on(event, (context) => say({ ...context, event, error: context.error?.code }));

for (const [name, options] of Object.entries(channels)) {
  const fresh = renewed[name];
  const subscription = client.newSubscription(name, {
    ...options, minResubscribeDelay: 20, maxResubscribeDelay: 200,
    ...(fresh ? { getToken: async () => (say({ event: "getToken", of: name }), fresh) } : {}),
  });
  for (const event of ["subscribed", "subscribing", "unsubscribed", "publication", "join", "leave", "error"])
    subscription.on(event, (context) => say({ ...context, event, of: name, error: context.error?.code }));
  subscription.subscribe();
}
client.connect();

for await (const line of createInterface({ input: process.stdin })) {
  const { call, channel, ...rest } = JSON.parse(line);
  const subscription = channel && client.getSubscription(channel);
  const calls = {
    publish: () => client.publish(channel, rest.data),
    history: () => client.history(channel, rest),
    presence: () => client.presence(channel),
    presenceStats: () => client.presenceStats(channel),
    rpc: () => client.rpc("x", {}),
    unsubscribe: async () => subscription.unsubscribe(),
    subscribe: async () => subscription.subscribe(),
    burst: () => {
      client.startBatching();
      const all = rest.data.map((data) => client.publish(channel, data));
      client.stopBatching();
      return Promise.all(all);
    },
  };
  try {
    say({ result: (await calls[call]()) ?? {} });
  } catch (error) {
    say({ result: { refused: error.code ?? String(error) } });
  }
}
process.exit(0);
