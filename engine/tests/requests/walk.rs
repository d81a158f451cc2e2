//! Every kind of request that a session can send: stream management, messages, presence, and IQs of
//! each feature.

/// A request.
pub(super) struct Request {
    pub(super) name: &'static str,
    /// Sent before, without being counted.
    pub(super) before: fn() -> Vec<String>,
    pub(super) text: fn() -> String,
    /// The limit that applies to repetitions of the request, in words.
    pub(super) bound: &'static str,
}

/// The requests that cause the most bytes per byte sent, at least ten, with their limits.
pub(super) const WORST: &[(&str, f64)] = &[
    ("archive: a query, a page of long messages", 1_900.0),
    ("presence: first available", 1_300.0),
    // Once per account: each of 100 contacts writes a roster version that names its history, twice.
    ("account: remove", 1_250.0),
    ("vcard: get", 820.0),
    ("pep: publish a bookmark beside a large one", 750.0),
    ("presence: available", 650.0),
    ("stream: end", 570.0),
    ("private: get", 520.0),
    ("vcard: set, no photo any more", 490.0),
    ("blocking: unblock", 450.0),
    ("room: get the avatar", 500.0),
    ("pep: items", 420.0),
    ("vcard: set, a small photo that becomes the avatar", 345.0),
    ("presence: unavailable", 310.0),
    ("blocking: the list", 300.0),
    ("private: set, one small behind one large", 250.0),
    ("blocking: one more", 150.0),
    ("presence: with capabilities", 160.0),
    ("presence: available, long", 115.0),
    ("pep: publish an avatar", 110.0),
    ("room: list 20 hats", 110.0),
    ("roster: get", 96.0),
    ("room: the configuration", 85.0),
    ("roster: get, known version", 83.0),
    ("push: enable, one more behind 8", 75.0),
    ("archive: preferences", 40.0),
];

/// Limit of the bytes per byte sent for every other request.
pub(super) const OTHERS_MOST: f64 = 40.0;

const OUTBOUND: &str = "in_flight_max; nothing is stored";
const STORED: &str = "in_flight_bytes_max; the receiver's limits on waiting messages";
const ANSWER: &str = "outbound_bytes_soft: the server reads nothing from a client that does not read";

const PAGE: &str = "one at a time a user; 100 messages, 32 KiB a page; 4 MiB looked through; 16 wait";

const ROOM: &str = "1 MiB of work per second; a sixteenth of what the room sends counts";

const CAVE: &str = "cave@conference.localhost";
const ENTER: &str = "<presence to='cave@conference.localhost/m'><x xmlns='http://jabber.org/protocol/muc'/></presence>";
const OWN: &str = "<iq type='set' id='0' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>";

fn at_room(kind: &str, payload: &str) -> String {
    format!("<iq type='{kind}' id='1' to='{CAVE}'>{payload}</iq>")
}

/// A command about the hat with a name, or about all.
fn hat(command: &str, name: &str) -> String {
    let form = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:hats:commands</value></field><field var='hats#uri'><value>urn:{name}</value></field><field var='hats#title'><value>{name}</value></field></x>"
    );
    let form = if name.is_empty() { "" } else { &form };
    at_room(
        "set",
        &format!(
            "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:{command}'>{form}</command>"
        ),
    )
}

/// Creates hats.
fn hats(count: usize) -> String {
    (0..count).map(|n| hat("create", &format!("{n:0200}"))).collect()
}

fn room_avatar(base64_bytes: usize) -> String {
    at_room(
        "set",
        &format!("<vCard xmlns='vcard-temp'><PHOTO><BINVAL>{}</BINVAL></PHOTO></vCard>", "A".repeat(base64_bytes)),
    )
}

fn to_oneself(bytes: usize) -> String {
    format!("<message to='mallory@localhost' type='chat'>{}</message>", body(bytes))
}

fn body(bytes: usize) -> String {
    format!("<body>{}</body>", "m".repeat(bytes))
}

macro_rules! requests {
    ($($name:literal, [$($before:expr),*], $text:expr, $bound:expr;)*) => {
        /// All requests in table order.
        pub(super) const REQUESTS: &[Request] =
            &[$(Request { name: $name, before: || vec![$(String::from($before)),*], text: || String::from($text), bound: $bound }),*];
    };
}

requests! {
    "stream: white space", [], " ", "nothing is done";
    "stream: end", [], "</stream:stream>", "a login each";
    "sm: enable", [], "<enable xmlns='urn:xmpp:sm:3' resume='true'/>", "once a session";
    "sm: ask for an acknowledgement", ["<enable xmlns='urn:xmpp:sm:3'/>"], "<r xmlns='urn:xmpp:sm:3'/>", ANSWER;
    "sm: acknowledge", ["<enable xmlns='urn:xmpp:sm:3'/>"], "<a xmlns='urn:xmpp:sm:3' h='0'/>", "nothing is answered";
    "message: chat to a friend", [], format!("<message to='friend001@localhost' type='chat'>{}</message>", body(100)), STORED;
    "message: chat to oneself", [], format!("<message to='mallory@localhost' type='chat'>{}</message>", body(100)), STORED;
    "message: chat to a session", [], format!("<message to='friend001@localhost/r' type='chat'>{}</message>", body(100)), STORED;
    "message: chat to a user who is away", [], format!("<message to='away@localhost' type='chat'>{}</message>", body(100)), STORED;
    "message: chat to nobody", [], format!("<message to='nobody@localhost' type='chat'>{}</message>", body(100)), ANSWER;
    "message: chat, empty", [], "<message to='friend001@localhost' type='chat'/>", STORED;
    "message: normal to an absent session", [], format!("<message to='bob@localhost/x'>{}</message>", body(100)), ANSWER;
    "message: headline", [], format!("<message to='friend001@localhost' type='headline'>{}</message>", body(100)), OUTBOUND;
    "message: a chat state", [], "<message to='friend001@localhost' type='chat'><active xmlns='http://jabber.org/protocol/chatstates'/></message>", OUTBOUND;
    "message: error", [], "<message to='friend001@localhost/r' type='error'/>", OUTBOUND;
    "message: groupchat", [], "<message to='friend001@localhost' type='groupchat'/>", ANSWER;
    "message: to another server", [], "<message to='a@elsewhere.example'/>", ANSWER;
    "message: to a component that is away", [], format!("<message to='x@away.localhost' type='chat'>{}</message>", body(100)), ANSWER;
    "message: to the server", [], "<message to='localhost'/>", ANSWER;
    "presence: first available", ["<presence type='unavailable'/>"], "<presence/>", "contacts: 2,000 a roster";
    "presence: available", [], "<presence/>", "contacts: 2,000 a roster";
    "presence: available, long", [], format!("<presence><status>{}</status></presence>", "s".repeat(1_000)), "contacts, and 8,192 bytes of payload";
    "presence: unavailable", [], "<presence type='unavailable'/>", "contacts: 2,000 a roster";
    "presence: directed", [], "<presence to='bob@localhost'/>", "1,000 addresses are remembered a session";
    "presence: directed, to a session", [], "<presence to='bob@localhost/r'/>", "1,000 addresses are remembered a session";
    "presence: probe", [], "<presence type='probe' to='friend001@localhost'/>", OUTBOUND;
    "presence: probe of a stranger", [], "<presence type='probe' to='bob@localhost'/>", OUTBOUND;
    "presence: subscribe", [], "<presence type='subscribe' to='bob@localhost'/>", "2,000 contacts; 200 unanswered requests of others";
    "presence: subscribe to a user who is away", [], "<presence type='subscribe' to='away@localhost'/>", "2,000 contacts; 200 unanswered requests of others";
    "presence: subscribe to nobody", [], "<presence type='subscribe' to='nobody@localhost'/>", "2,000 contacts";
    "presence: subscribe to a component that is away", [], "<presence type='subscribe' to='x@away.localhost'/>", "2,000 contacts";
    "presence: subscribe again", ["<presence type='subscribe' to='bob@localhost'/>"], "<presence type='subscribe' to='bob@localhost'/>", "in_flight_max";
    "presence: subscribed, unasked", [], "<presence type='subscribed' to='bob@localhost'/>", "2,000 contacts";
    "presence: unsubscribe", [], "<presence type='unsubscribe' to='friend001@localhost'/>", "in_flight_max";
    "presence: unsubscribed", [], "<presence type='unsubscribed' to='friend001@localhost'/>", "in_flight_max";
    "presence: subscribe with a token", [], "<presence type='subscribe' to='bob@localhost'><preauth xmlns='urn:xmpp:pars:0' token='aaaaaaaaaaaaaaaaaaaaaaaaaamjxwe'/></presence>", "as without; one read of the receiver's, 128 of which wait";
    "roster: get", [], "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>", "1 MiB a roster; outbound_bytes_max";
    "roster: get, known version", [], "<iq type='get' id='1'><query xmlns='jabber:iq:roster' ver='400'/></iq>", "32 pushes";
    "roster: set, a new contact", [], "<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='new@localhost' name='n'/></query></iq>", "2,000 contacts";
    "roster: set, a known contact", [], "<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='friend001@localhost' name='n'/></query></iq>", "one row; a push a session";
    "roster: remove", [], "<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='friend001@localhost' subscription='remove'/></query></iq>", "2,000 contacts";
    "private: set", [], format!("<iq type='set' id='1'><query xmlns='jabber:iq:private'><x xmlns='x'>{}</x></query></iq>", "v".repeat(1_000)), "128 elements, 512 KiB a user";
    "private: set, one small behind one large", [large_private()], "<iq type='set' id='1'><query xmlns='jabber:iq:private'><y xmlns='y'>v</y></query></iq>", "128 elements, 512 KiB a user";
    "private: set, bookmarks", [], "<iq type='set' id='1'><query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'><conference jid='r@c'/></storage></query></iq>", BOOKMARKS;
    "private: get", [large_private()], "<iq type='get' id='1'><query xmlns='jabber:iq:private'><x xmlns='x'/></query></iq>", "512 KiB a user; outbound_bytes_max";
    "blocking: the list", [format!("<iq type='set' id='0'><block xmlns='urn:xmpp:blocking'>{}</block></iq>", strangers(500))], "<iq type='get' id='1'><blocklist xmlns='urn:xmpp:blocking'/></iq>", "1,000 addresses, 64 KiB a user; outbound_bytes_max";
    "blocking: block a stranger", [], format!("<iq type='set' id='1'><block xmlns='urn:xmpp:blocking'>{}</block></iq>", strangers(1)), "1,000 addresses, 64 KiB a user";
    "blocking: block a friend and report", [], "<iq type='set' id='1'><block xmlns='urn:xmpp:blocking'><item jid='friend001@localhost'><report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'/></item></block></iq>", "10 reports a request, 20 kept of an account; a line a second of the log";
    "blocking: one more", [format!("<iq type='set' id='0'><block xmlns='urn:xmpp:blocking'>{}</block></iq>", strangers(500))], "<iq type='set' id='1'><block xmlns='urn:xmpp:blocking'><item jid='one@more'/></block></iq>", "1,000 addresses, 64 KiB a user";
    "blocking: unblock", ["<iq type='set' id='0'><block xmlns='urn:xmpp:blocking'><item jid='localhost'/></block></iq>"], "<iq type='set' id='1'><unblock xmlns='urn:xmpp:blocking'/></iq>", "contacts: 2,000 a roster";
    "carbons: enable", [], "<iq type='set' id='1'><enable xmlns='urn:xmpp:carbons:2'/></iq>", "a bit a session";
    "push: enable", [], push_enable(1, 1_000), "8 services a user, 1,024 bytes of options each";
    "push: enable, one more behind 8", [push_enable(1, 1_000), push_enable(2, 1_000), push_enable(3, 1_000), push_enable(4, 1_000), push_enable(5, 1_000), push_enable(6, 1_000), push_enable(7, 1_000), push_enable(8, 1_000)], push_enable(9, 1), "8 services a user, 1,024 bytes of options each";
    "push: disable", [push_enable(1, 1_000)], "<iq type='set' id='1'><disable xmlns='urn:xmpp:push:0' jid='bob@localhost'/></iq>", "one row";
    "push: an answer that nobody waits for", [], "<iq type='result' id='push-1-0-x' to='localhost'/>", "a letter each, which is paid for";
    "vcard: set", [], vcard(1_000), "128 KiB a user; each contact counted where the photo is another one";
    "vcard: set, a small photo that becomes the avatar", [], vcard_with(SMALL_PNG), "1 MiB of work per second, each contact counted";
    "vcard: set, no photo any more", [vcard_with(SMALL_PNG)], "<iq type='set' id='1'><vCard xmlns='vcard-temp'/></iq>", "1 MiB of work per second, each contact counted";
    "vcard: get", [vcard(20_000)], "<iq type='get' id='1'><vCard xmlns='vcard-temp'/></iq>", "128 KiB; outbound_bytes_max";
    "vcard: get that of a user who is away", [], "<iq type='get' id='1' to='away@localhost'><vCard xmlns='vcard-temp'/></iq>", "128 KiB; outbound_bytes_max; cached_users_max";
    "services: all", [], "<iq type='get' id='1' to='localhost'><services xmlns='urn:xmpp:extdisco:2'/></iq>", ANSWER;
    "services: credentials", [], "<iq type='get' id='1' to='localhost'><credentials xmlns='urn:xmpp:extdisco:2'><service host='turn.example' type='turn'/></credentials></iq>", ANSWER;
    "disco: the server", [], "<iq type='get' id='1' to='localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", ANSWER;
    "disco: the own account", [], "<iq type='get' id='1'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", ANSWER;
    "disco: a friend's account", [], "<iq type='get' id='1' to='friend001@localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", ANSWER;
    "disco: a stranger's account", [], "<iq type='get' id='1' to='away@localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", "cached_users_max";
    "disco: items", [], "<iq type='get' id='1' to='localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>", ANSWER;
    "last: the server", [], "<iq type='get' id='1' to='localhost'><query xmlns='jabber:iq:last'/></iq>", ANSWER;
    "last: a friend", [], "<iq type='get' id='1' to='friend001@localhost'><query xmlns='jabber:iq:last'/></iq>", ANSWER;
    "last: a user who is away", [], "<iq type='get' id='1' to='away@localhost'><query xmlns='jabber:iq:last'/></iq>", "cached_users_max";
    "ping: the server", [], "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", ANSWER;
    "ping: a session", [], "<iq type='get' id='1' to='friend001@localhost/r'><ping xmlns='urn:xmpp:ping'/></iq>", OUTBOUND;
    "ping: an account", [], "<iq type='get' id='1' to='bob@localhost'><ping xmlns='urn:xmpp:ping'/></iq>", ANSWER;
    "time", [], "<iq type='get' id='1' to='localhost'><time xmlns='urn:xmpp:time'/></iq>", ANSWER;
    "version", [], "<iq type='get' id='1' to='localhost'><query xmlns='jabber:iq:version'/></iq>", ANSWER;
    "session", [], "<iq type='set' id='1'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>", ANSWER;
    "account: get", [], "<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>", ANSWER;
    "account: change the password", [], CHANGE, "JOBS_UNDER_WAY_MAX at once, JOBS_WAITING_SPARE waiting a shard";
    "account: change the password again", [CHANGE], CHANGE, "JOBS_UNDER_WAY_MAX at once, JOBS_WAITING_SPARE waiting a shard";
    "account: remove", [], "<iq type='set' id='1'><query xmlns='jabber:iq:register'><remove/></query></iq>", "once an account";
    "archive: the form", [], "<iq type='get' id='1'><query xmlns='urn:xmpp:mam:2'/></iq>", ANSWER;
    "archive: a query, nothing there", [], "<iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'/></iq>", PAGE;
    "archive: a query, a page of long messages", [to_oneself(9_000), to_oneself(9_000), to_oneself(9_000), to_oneself(9_000)], "<iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'/></iq>", PAGE;
    "archive: a query with a peer", [to_oneself(50)], "<iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field><field var='with'><value>mallory@localhost</value></field></x></query></iq>", PAGE;
    "archive: a query by time", [to_oneself(50)], "<iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field><field var='start'><value>1970-01-01T00:00:00.001Z</value></field></x></query></iq>", PAGE;
    "archive: metadata", [to_oneself(50)], "<iq type='get' id='1'><metadata xmlns='urn:xmpp:mam:2'/></iq>", PAGE;
    "archive: preferences", [], "<iq type='set' id='1'><prefs xmlns='urn:xmpp:mam:2' default='roster'><never><jid>a@b</jid></never></prefs></iq>", "1,000 JIDs and 64 KiB a user; 2,000 contacts";
    "pep: publish to all friends", [], PUBLISH, NODES;
    "pep: publish an avatar", [avatar_data()], AVATAR, NODES;
    "pep: publish a bookmark", [], BOOKMARK, BOOKMARKS;
    "pep: publish a bookmark beside a large one", [large_bookmark()], BOOKMARK, BOOKMARKS;
    "pep: publish, long", [], format!("<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item id='1'><x xmlns='y'>{}</x></item></publish></pubsub></iq>", "x".repeat(1_000)), NODES;
    "pep: publish in the place of an item", [PUBLISH], PUBLISH, NODES;
    "pep: retract", [PUBLISH], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><retract node='n'><item id='1'/></retract></pubsub></iq>", NODES;
    "pep: items", [large_item()], "<iq type='get' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq>", "256 KiB an answer; 1 MiB of work per second";
    "pep: items of a friend", [], "<iq type='get' id='1' to='friend001@localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq>", "one request at a time for an account; 256 KiB an answer, which the asker pays for";
    "pep: items of a stranger", [], "<iq type='get' id='1' to='bob@localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq>", "one request at a time for an account";
    "pep: items of nobody", [], "<iq type='get' id='1' to='nobody@localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq>", ANSWER;
    "pep: create", [], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='n'/></pubsub></iq>", NODES;
    "pep: configure", [PUBLISH], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='n'><x xmlns='jabber:x:data' type='submit'><field var='pubsub#max_items'><value>5</value></field></x></configure></pubsub></iq>", NODES;
    "pep: get the configuration", [PUBLISH], "<iq type='get' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='n'/></pubsub></iq>", ANSWER;
    "pep: affiliate", [PUBLISH], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><affiliations node='n'><affiliation jid='bob@localhost' affiliation='member'/></affiliations></pubsub></iq>", "500 a node";
    "pep: purge", [PUBLISH], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><purge node='n'/></pubsub></iq>", NODES;
    "pep: delete", [PUBLISH], "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='n'/></pubsub></iq>", NODES;
    "pep: subscriptions", [], "<iq type='get' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><subscriptions/></pubsub></iq>", ANSWER;
    "pep: nodes of a friend", [], "<iq type='get' id='1' to='friend001@localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>", "one request at a time for an account";
    "adhoc: a command that is not for users", [], "<iq type='set' id='1' to='localhost'><command xmlns='http://jabber.org/protocol/commands' node='http://jabber.org/protocol/admin#announce'/></iq>", ANSWER;
    "adhoc: the list of commands", [], "<iq type='get' id='1' to='localhost'><query xmlns='http://jabber.org/protocol/disco#items' node='http://jabber.org/protocol/commands'/></iq>", ANSWER;
    "pubsub: create", [], CREATE, "pubsub_nodes_max a user";
    "pubsub: publish", [CREATE], at_service("publish node='n'><item id='1'><x xmlns='y'/></item></publish"), "one at a time a node; each subscriber is paid for";
    "pubsub: subscribe", [CREATE], SUBSCRIBE, "1,000 nodes a user";
    "pubsub: subscribe to nothing", [], SUBSCRIBE, "1,000 nodes a user; the row goes again";
    "pubsub: unsubscribe", [CREATE, SUBSCRIBE], at_service("unsubscribe node='n' jid='mallory@localhost'/"), ANSWER;
    "pubsub: items", [CREATE], at_service("items node='n'/").replace("'set'", "'get'"), "256 KiB an answer, which the asker pays for";
    "pubsub: own subscriptions", [CREATE, SUBSCRIBE], at_service("subscriptions/").replace("'set'", "'get'"), ANSWER;
    "pubsub: the nodes", [CREATE], "<iq type='get' id='1' to='pubsub.localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>", "256 nodes a page";
    "pubsub: affiliate", [CREATE], at_service("affiliations node='n'><affiliation jid='bob@localhost' affiliation='member'/></affiliations").replace("pubsub'>", "pubsub#owner'>"), "500 a node, 32 a request";
    "pubsub: delete", [CREATE, SUBSCRIBE], at_service("delete node='n'/").replace("pubsub'>", "pubsub#owner'>"), "one at a time a node; each subscriber is paid for";
    "pubsub: approve", [CREATE], "<message to='pubsub.localhost'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field><field var='pubsub#node'><value>n</value></field><field var='pubsub#subscriber_jid'><value>bob@localhost</value></field><field var='pubsub#allow'><value>1</value></field></x></message>", "in_flight_max; one at a time a node";
    "room: enter again", [ENTER, OWN], ENTER, ROOM;
    "room: leave", [ENTER, OWN], "<presence type='unavailable' to='cave@conference.localhost/m'/>", ROOM;
    "room: a message", [ENTER, OWN], format!("<message type='groupchat' to='{CAVE}'>{}</message>", body(100)), ROOM;
    "room: its information", [ENTER, OWN], at_room("get", "<query xmlns='http://jabber.org/protocol/disco#info'/>"), ROOM;
    "room: the configuration", [ENTER, OWN], at_room("get", "<query xmlns='http://jabber.org/protocol/muc#owner'/>"), ROOM;
    "room: affiliate", [ENTER, OWN], at_room("set", "<query xmlns='http://jabber.org/protocol/muc#admin'><item jid='bob@localhost' affiliation='member'/></query>"), "100 a request; a list of 5,000";
    "room: register", [ENTER, OWN], at_room("set", "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#register</value></field><field var='muc#register_roomnick'><value>n</value></field></x></query>"), "one nick a user; 50 requests wait for admins";
    "room: create a hat beside 20", [ENTER, OWN, hats(20)], hat("create", "new"), "32 KiB a room, all in one row, whose bytes are charged";
    "room: list 20 hats", [ENTER, OWN, hats(20)], hat("list", ""), ROOM;
    "room: set the avatar", [ENTER, OWN], room_avatar(1_000), "64 KiB a room";
    "room: get the avatar", [ENTER, OWN, room_avatar(20_000)], at_room("get", "<vCard xmlns='vcard-temp'/>"), "64 KiB an answer, which the asker pays for";
    "rooms: the directory", [ENTER, OWN], "<iq type='get' id='1' to='conference.localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>", "500 rooms a page";
    "rooms: search", [ENTER, OWN], "<iq type='get' id='1' to='conference.localhost'><search xmlns='urn:xmpp:channel-search:0:search'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:channel-search:0:search-params</value></field><field var='q'><value>cave</value></field></x></search></iq>", "2,000 rooms a request, whose bytes are charged";
    "adhoc: an invitation", [], "<iq type='set' id='1' to='localhost'><command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite'/></iq>", "20 in invitation_seconds, one row each";
    "upload: a slot", [], SLOT, "upload_slots_max in upload_slot_seconds; one row a user";
    "upload: another slot", [SLOT], SLOT, "upload_slots_max in upload_slot_seconds; one row a user";
    "disco: the upload service", [], "<iq type='get' id='1' to='upload.localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", ANSWER;
    "bytestreams: the address of the proxy", [], "<iq type='get' id='1' to='proxy.localhost'><query xmlns='http://jabber.org/protocol/bytestreams'/></iq>", ANSWER;
    "bytestreams: an activation", [], "<iq type='set' id='1' to='proxy.localhost'><query xmlns='http://jabber.org/protocol/bytestreams' sid='s'><activate>bob@localhost/r</activate></query></iq>", "4 under way a user; bytestreams_per_user_max";
    "disco: the proxy of bytestreams", [], "<iq type='get' id='1' to='proxy.localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>", ANSWER;
    "presence: with capabilities", [], "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='AAAAAAAAAAAAAAAAAAAAAAAAAAA='/></presence>", "contacts: 2,000 a roster; one question for each hash";
    "iq: unknown to the server", [], "<iq type='get' id='1'><x xmlns='y'/></iq>", ANSWER;
    "iq: unknown to an account", [], "<iq type='get' id='1' to='bob@localhost'><x xmlns='y'/></iq>", ANSWER;
    "iq: to a session", [], "<iq type='get' id='1' to='bob@localhost/r'><x xmlns='y'/></iq>", OUTBOUND;
    "iq: to nobody", [], "<iq type='get' id='1' to='nobody@localhost'><x xmlns='y'/></iq>", ANSWER;
    "iq: result", [], "<iq type='result' id='1'/>", "nothing is done";
    "iq: without an id", [], "<iq type='get'/>", ANSWER;
}

const CHANGE: &str = "<iq type='set' id='1'><query xmlns='jabber:iq:register'><username>mallory</username><password>other</password></query></iq>";

const SLOT: &str = "<iq type='get' id='1' to='upload.localhost'><request xmlns='urn:xmpp:http:upload:0' filename='photo.jpg' size='23456' content-type='image/jpeg'/></iq>";

/// Items with addresses of nobody.
fn strangers(count: usize) -> String {
    (0..count).map(|n| format!("<item jid='stranger{n:03}@localhost'/>")).collect()
}

/// The beginning of an image in base64, and its SHA-1.
const SMALL_PNG: &str = "iVBORw0KGgox";

fn avatar_data() -> String {
    format!(
        "<iq type='set' id='0'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:avatar:data'><item id='ca68aba2fbec4e7a3e58af7d39c0142c0041780c'><data xmlns='urn:xmpp:avatar:data'>{SMALL_PNG}</data></item></publish><publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field><field var='pubsub#access_model'><value>open</value></field></x></publish-options></pubsub></iq>"
    )
}

const AVATAR: &str = "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:avatar:metadata'><item id='ca68aba2fbec4e7a3e58af7d39c0142c0041780c'><metadata xmlns='urn:xmpp:avatar:metadata'><info id='ca68aba2fbec4e7a3e58af7d39c0142c0041780c' type='image/png' bytes='9'/></metadata></item></publish></pubsub></iq>";

const BOOKMARKS: &str = "128 KiB of bookmarks a user, written to two more places; 1 MiB of work per second";

const BOOKMARK: &str = "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:bookmarks:1'><item id='r@c'><conference xmlns='urn:xmpp:bookmarks:1'/></item></publish></pubsub></iq>";

/// A bookmark of 20 KB.
fn large_bookmark() -> String {
    let name = "v".repeat(20_000);
    format!(
        "<iq type='set' id='0'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:bookmarks:1'><item id='large@c'><conference xmlns='urn:xmpp:bookmarks:1'><nick>{name}</nick></conference></item></publish><publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field><field var='pubsub#access_model'><value>whitelist</value></field><field var='pubsub#max_items'><value>max</value></field></x></publish-options></pubsub></iq>"
    )
}

/// A vCard with a photo of this many bytes.
fn vcard(bytes: usize) -> String {
    vcard_with(&"v".repeat(bytes))
}

fn vcard_with(photo: &str) -> String {
    format!("<iq type='set' id='0'><vCard xmlns='vcard-temp'><PHOTO><BINVAL>{photo}</BINVAL></PHOTO></vCard></iq>")
}

const NODES: &str = "256 nodes, 8 MiB a user; 1 MiB of work per second, each contact counted";

const CREATE: &str = "<iq type='set' id='0' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='n'/></pubsub></iq>";
const SUBSCRIBE: &str = "<iq type='set' id='1' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><subscribe node='n' jid='mallory@localhost'/></pubsub></iq>";

/// A request to the publish-subscribe service.
fn at_service(inside: &str) -> String {
    format!(
        "<iq type='set' id='1' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'><{inside}></pubsub></iq>"
    )
}

const PUBLISH: &str = "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item id='1'><x xmlns='y'/></item></publish></pubsub></iq>";

/// An item of 20 KB.
fn large_item() -> String {
    format!(
        "<iq type='set' id='0'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item id='1'><x xmlns='y'>{}</x></item></publish></pubsub></iq>",
        "v".repeat(20_000)
    )
}

/// Private XML of 20 KB.
fn large_private() -> String {
    format!(
        "<iq type='set' id='0'><query xmlns='jabber:iq:private'><x xmlns='x'>{}</x></query></iq>",
        "v".repeat(20_000)
    )
}

fn push_enable(node: usize, bytes: usize) -> String {
    let secret = "s".repeat(bytes.saturating_sub(200));
    format!(
        "<iq type='set' id='1'><enable xmlns='urn:xmpp:push:0' jid='bob@localhost' node='{node}'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
         <field var='secret'><value>{secret}</value></field></x></enable></iq>"
    )
}
