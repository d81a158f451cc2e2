/**
 * Notification channels of a Throng server: subscribe and publish from a page.
 *
 * A subscription uses WebSocket where it passes, else server-sent events, else long polls. It comes
 * back by itself and continues where it was, so that each item of a channel that keeps its items
 * comes once and in order. What can no longer be had is reported as a gap.
 */
/** An item as the server hands it out. */
export interface Item {
    /** The channel. */
    channel: string;
    /** Its number in the channel, which grows. */
    id: string;
    /** Its id as an item of the node (XEP-0060); absent in binary messages. */
    item?: string;
    /** Its key, if it has one: it replaces the item before with this key. */
    key?: string;
    /** When it was published (RFC 3339). */
    time: string;
    /** Its content type; absent, as is `data`, if the node keeps no content. */
    type?: string;
    /** Its content; see {@link content}. */
    data?: string;
    /** `data` is Base64, because the content is not text. */
    base64?: boolean;
    /** Its content instead of `data`, if it came as a binary message; see {@link bytes}. */
    bytes?: Uint8Array;
}
/** Items of a channel that can no longer be had. */
export interface Gap {
    /** The channel, or the prefix with its `*`. */
    channel: string;
    /** They are behind this id; absent if that is not known. Of a prefix it is a place. */
    after?: string;
}
/** Who subscribes to a channel. */
export interface Occupancy {
    /** The channel. */
    channel: string;
    /** How many connections, this one among them. */
    subscribers: number;
    /** Names of those whose tokens have one (`sub`), each once; none in channels that need no token. */
    who: string[];
    /** Those who were not there before. */
    joined: string[];
    /** Those who have left since. */
    left: string[];
    /** There are more names: with so many, none are told, or some by long poll. */
    more: boolean;
}
/** A way to receive items. */
export type Transport = "websocket" | "sse" | "poll";
/** How a subscription is. */
export interface Status {
    /**
     * `connecting`: a transport is tried. `open`: items come. `waiting`: the connection is lost, and
     * the next attempt is due in `retryMs`. `closed`: nothing comes any more.
     */
    state: "connecting" | "open" | "waiting" | "closed";
    /** The transport that is tried, or in use. */
    transport?: Transport;
    /** Why it waits or is closed; absent if the application has closed it. */
    error?: ThrongError;
    /** The time until the next attempt, ms; a page that is shown or online again tries sooner. */
    retryMs?: number;
}
/** What a subscription calls. */
export interface Handlers {
    /** An item has come. */
    onItem(item: Item): void;
    /** Items are missing: load the state of the channel anew if it matters. */
    onGap?(gap: Gap): void;
    /**
     * Subscribers have come or gone, at most once a second; by long poll it is asked for with each.
     * The server has to tell it of all channels of the subscription (`notify_occupancy`), and a token
     * to grant it where one is needed (`presence`); otherwise the subscription is refused.
     */
    onOccupancy?(occupancy: Occupancy): void;
    /** The connection has changed. */
    onStatus?(status: Status): void;
}
/** How to subscribe. */
export interface SubscribeOptions extends Handlers {
    /**
     * The place to begin from: what {@link Subscription.after} was, or `"0"` for all that is kept.
     * Default: what is published from now on.
     */
    after?: string;
    /** The id of this page's registration for pushes ({@link Throng.push}): while it listens it is sent none. */
    push?: string;
    /** Transports in the order in which they are tried. Default: all. */
    transports?: Transport[];
    /** The longest time until a transport has said where it begins, ms. Default: 10,000. */
    openMs?: number;
    /** The longest silence of a connection, ms; the server breaks it every 15 to 19 s. Default: 30,000. */
    silenceMs?: number;
    /** The time that a long poll waits, s, at most 300. Default: 50. */
    pollSeconds?: number;
    /** Items come as bytes, without Base64, where WebSocket passes: see {@link bytes}. Default: false. */
    binary?: boolean;
}
/** How to publish. */
export interface PublishOptions {
    /** Content type. Default: by the content; see {@link Throng.publish}. */
    type?: string;
    /**
     * Key by which the server knows a repetition, 1 to 64 visible characters. Default: a random one.
     * `null`: none, as live channels require; then this module repeats nothing whose outcome is
     * unknown.
     */
    key?: string | null;
    /** What it is a value of, 1 to 64 visible characters: it replaces the item before with this key. */
    itemKey?: string;
    /** The longest time for all repetitions, ms. Default: 60,000. */
    timeoutMs?: number;
}
/** What came of a publication. */
export interface Published {
    /** The channel. */
    channel: string;
    /** The number of the item. */
    id: string;
    /** An earlier attempt with the same key had been successful. */
    repeated: boolean;
    /** How many wait for the channel, if the publisher may know it. */
    subscribers?: number;
}
/** A registration for pushes. */
export interface Registered {
    /** The channel. */
    channel: string;
    /** Its id, for {@link SubscribeOptions.push} and {@link Throng.unpush}. */
    push: string;
    /** Until when it holds (RFC 3339), unless it is made again. */
    until: string;
}
/** How to reach a server. */
export interface Options {
    /**
     * The address of `/n/`. Default: on the server from which this module was loaded, else of the page.
     */
    url?: string | URL;
    /**
     * An access token, or a function that gives one before each attempt. It is sent as
     * `Authorization: Bearer`, and to WebSockets, which take no header, as `access_token` in the query.
     */
    token?: string | (() => string | Promise<string>);
}
/** A subscription. */
export interface Subscription {
    /** The place behind the last item that came; undefined as long as it is not known. */
    readonly after: string | undefined;
    /** How it is. */
    readonly status: Status;
    /** Ends it. No handler is called afterwards, but for the one that is told of the end. */
    close(): void;
}
/** A refusal, or a loss of connection. */
export declare class ThrongError extends Error {
    /** The status of the answer; 0 if there was none. */
    readonly status: number;
    /** The time after which the server wants to be asked again, ms. */
    readonly retryMs: number;
    name: string;
    constructor(message: string, 
    /** The status of the answer; 0 if there was none. */
    status?: number, 
    /** The time after which the server wants to be asked again, ms. */
    retryMs?: number);
}
/** The content of an item: parsed JSON, bytes, or text. Of a binary message, text is what its type calls so. */
export declare function content(item: Item): unknown;
/** The content of an item as bytes, however it has come. */
export declare function bytes(item: Item): Uint8Array;
/** A server. */
export declare class Throng {
    #private;
    constructor(options?: Options);
    /**
     * Subscribes to one to 16 channels. `news.*` is all whose names begin with `news.`, as far as the
     * server lets it (`notify_wildcards`).
     * @throws TypeError if a name cannot be one.
     */
    subscribe(channels: string | string[], options: SubscribeOptions): Subscription;
    /**
     * Publishes. A string is sent as text, a `Blob`, `ArrayBuffer` or view as it is, and anything else
     * as JSON. It is repeated with its key until the outcome is known; publications that are under way
     * at the same time have no order.
     * @throws ThrongError if it was refused, or if the outcome is not known in time.
     */
    publish(channel: string, data: unknown, options?: PublishOptions): Promise<Published>;
    /**
     * Registers for pushes of a channel, which this service worker gets while no page listens. The
     * browser asks the user if it has to. Call it at each start of the page: it renews the registration.
     * @throws ThrongError if it was refused; what the browser throws if it or the user does not allow it.
     */
    push(channel: string, { pushManager }: ServiceWorkerRegistration): Promise<Registered>;
    /** Ends a registration for pushes, by its id. */
    unpush(channel: string, push: string): Promise<void>;
}
