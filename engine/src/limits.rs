//! Every bound of the engine in one place, with the relations between them checked at compile time.
//!
//! Structural bounds are constants; those an operator may turn are fields of [`Settings`](crate::settings::Settings).

/// Longest localpart, domainpart or resourcepart of a JID in bytes (RFC 7622 3.2, 3.3, 3.4).
pub const JID_PART_BYTES_MAX: usize = 1023;

/// Most characters of a localpart or resourcepart that are allowed between certain neighbours only (RFC 5892 A.1 to A.6):
/// joiners, the middle dot of Catalan, geresh. Each costs a walk through the whole part.
pub const JID_CONTEXT_MAX: usize = 8;

/// Longest SASL message in bytes, decoded: PLAIN with every part at its bound (RFC 4616 2), which is also room for any
/// SCRAM message (RFC 5802 7).
pub const SASL_MESSAGE_BYTES_MAX: usize =
    (2 * JID_PART_BYTES_MAX + 1) + 1 + JID_PART_BYTES_MAX + 1 + PASSWORD_BYTES_MAX;

/// Longest client nonce of SCRAM in bytes (RFC 5802 5.1); clients send 16 to 64.
pub const SCRAM_CLIENT_NONCE_BYTES_MAX: usize = 256;

/// Fewest PBKDF2 iterations of a new account (RFC 7677 4, RFC 5802 5.1).
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// PBKDF2 iterations of a new account, unless the operator says otherwise.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 10_000;

/// Most PBKDF2 iterations of an account: bounds what one PLAIN login can cost.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

/// Longest salt of an account in bytes; new ones have 16.
pub const SCRAM_SALT_BYTES_MAX: usize = 64;

const _: () = assert!(SCRAM_ITERATIONS_MIN <= SCRAM_ITERATIONS_DEFAULT);
const _: () = assert!(SCRAM_ITERATIONS_DEFAULT <= SCRAM_ITERATIONS_MAX);
// The length stands in one byte of the account's record.
const _: () = assert!(SCRAM_SALT_BYTES_MAX <= u8::MAX as usize);

/// Smallest stanza limit that a server may set (RFC 6120 13.12): 10,000 bytes.
pub const STANZA_BYTES_FLOOR: usize = 10_000;

/// Longest language tag of a stream that is kept, in bytes (RFC 5646 4.4.1 asks for 35).
pub const LANG_BYTES_MAX: usize = 35;

/// Bytes of one element before a resource is bound: room for the longest SASL message in base64, and for little else.
pub const PREAUTH_BYTES_MAX: usize = 16_384;

const _: () = assert!(SASL_MESSAGE_BYTES_MAX.div_ceil(3) * 4 + 256 <= PREAUTH_BYTES_MAX);

/// Jobs of a shard that are handed out at once. Of those that wait, the one asked for last goes first: when logins come
/// faster than they can be checked, those who began just now can still be served before they lose patience, and those
/// who have gone cost nothing.
pub const JOBS_UNDER_WAY_MAX: usize = 16;

/// Questions of a shard about users who are kept elsewhere that are under way at once. With so many, logins are refused at once.
pub const OUTSIDE_ASKS_MAX: usize = 4_096;

/// Jobs of a shard that may wait beyond twice as many as it has connections. With so many waiting, changes of password are
/// refused with `<resource-constraint/>`.
pub const JOBS_WAITING_SPARE: usize = 1_024;

/// Invitations of a user who may not make accounts, those that are used up or revoked included until their time is over: so this is also
/// how many a user can make in that time.
pub const INVITATIONS_USER_MAX: usize = 20;

/// The same of a user who may ([`Settings::inviters`](crate::settings::Settings::inviters)).
pub const INVITATIONS_INVITER_MAX: usize = 1_000;

/// Rows of one actor's invitations that a step of the sweep reads. Of more, the next round has the rest.
pub const INVITATIONS_SWEPT_MAX: u32 = 4 * INVITATIONS_INVITER_MAX as u32;

/// Uses of one invitation at the most.
pub const INVITATION_USES_MAX: u32 = 1_000_000;

/// Uses of one invitation that have begun and are not over, at the most.
pub const INVITATION_CLAIMS_MAX: usize = 64;

/// Of those who came by one invitation, so many are noted.
pub const INVITATION_JOINED_MAX: usize = 8;

/// Seconds for which an invitation is kept when its time is over: longer than anybody may take to register who has shown it in time
/// (XEP-0445 4).
pub const INVITATION_KEPT_S: u64 = 3_600;

/// Longest time for which an invitation is good, seconds.
pub const INVITATION_LIFE_S_MAX: u64 = 366 * 86_400;

/// Seconds after which a use that has begun is looked into, if this process has begun it. One of another process is at once.
pub const INVITATION_CLAIM_S: u64 = 600;

/// How often one request to register has an earlier use looked into that was broken off.
pub const INVITATION_AGAIN_MAX: u8 = 8;

/// Random bytes of an invitation's token (XEP-0379 7.1 asks for 80 bits).
pub const INVITATION_TOKEN_BYTES: usize = 16;

/// Invitations of one actor that wait for rows, and accounts that wait to be told of: more are refused.
pub const INVITATIONS_WAITING_MAX: usize = 128;

/// Administrators are told of accounts that wait for approval this often at most, seconds.
pub const APPLICANTS_TOLD_S: u32 = 600;

/// Clients of an account that may have tokens (XEP-0484): of more, those that were not used for longest have none any more.
pub const TOKEN_CLIENTS_MAX: usize = 16;

/// Seconds for which a token is good: a phone that was away for a month shows the password again.
pub const TOKEN_LIFE_S: u64 = 30 * 86_400;

/// Seconds before its end from which on a token that is shown is replaced (XEP-0484 3.5).
pub const TOKEN_ROTATES_S: u64 = 23 * 86_400;

/// How exactly it is known when a client has used its token last, seconds: not each login writes a row.
pub const TOKEN_USED_S: u64 = 6 * 3_600;

const _: () = assert!(TOKEN_ROTATES_S < TOKEN_LIFE_S && TOKEN_USED_S < TOKEN_LIFE_S - TOKEN_ROTATES_S);

/// Longest text of a client's `<tag/>` in bytes, which becomes part of its resource (XEP-0386 2.2).
pub const BIND_TAG_BYTES_MAX: usize = 256;

/// Longest `previd` in bytes that is looked at before the client has authenticated (XEP-0198 5).
pub const PREVID_BYTES_MAX: usize = 64;

/// Requests of a connection that are answered before it has authenticated, and as many again before it has a session:
/// registration (XEP-0077), and stream management that comes too early (XEP-0198 3). Attempts to authenticate and
/// refused resources have limits of their own.
pub const EARLY_REQUESTS_MAX: u8 = 20;

/// Resources that a client may ask for in vain after the first one that was refused (RFC 6120 7.7.3: 5 to 10).
pub const BIND_RETRIES_MAX: u8 = 10;

/// Changes of password of an account in a row, each of which costs a derivation of keys for the bytes of one stanza.
pub const PASSWORD_CHANGES_MAX: u32 = 5;

/// Milliseconds until an account may change its password once more.
pub const PASSWORD_CHANGE_MS: u32 = 10_000;

/// Pairs of address and account with a login that succeeded lately, of a shard; 12 bytes each as far as they are needed.
pub const KNOWN_PAIRS_MAX: usize = 1 << 17;

/// Stanzas that wait for one user's state to be loaded; more are answered with `<resource-constraint/>`.
pub const PARKED_STANZAS_MAX: usize = 1_000;

/// Bytes of what waits for a component that leave as one send, but for one stanza that is longer.
pub const COMPONENT_FEED_BYTES: usize = 64 << 10;

/// One sender (bare JID) has at most this part of what may wait for a component: who floods a slow one leaves room for others.
pub const COMPONENT_SENDER_PART: usize = 16;

/// What a stanza that waits for a component costs beside its bytes and addresses.
pub const COMPONENT_STANZA_BYTES: usize = 160;

/// Milliseconds after which a stanza that a component does not take goes back with an error, and after which its connection is cut if it
/// takes nothing of what is under way.
pub const COMPONENT_WAIT_MS: u64 = 10_000;

/// Stanzas of a component that are under way to others before it is no longer read from.
pub const COMPONENT_IN_FLIGHT_MAX: u32 = 1_024;

/// Bytes of these since all of them were last known to be durable; then it is not read from until they are.
pub const COMPONENT_IN_FLIGHT_BYTES: usize = 1 << 20;

/// Milliseconds that a component has to show that it is there, when another connection has shown its secret, too.
pub const COMPONENT_CHALLENGE_MS: u64 = 10_000;

/// Longest content of `<handshake/>` that is looked at, bytes: SHA-1 in hexadecimal digits (XEP-0114 3).
pub const HANDSHAKE_BYTES: usize = 40;

/// Bounds of the XML scanner (`wire`). The size of a stanza is a run-time setting and is passed to
/// [`Scanner::scan`](crate::wire::scanner::Scanner::scan); these are the structural ones.
pub mod wire {
    /// Default of the run-time limit on one stanza, in bytes (RFC 6120 13.12 asks for at least 10,000).
    pub const MAX_STANZA_BYTES_DEFAULT: usize = 262_144;
    /// Bytes of one stream header: what a peer may send before it is known.
    pub const MAX_HEADER_BYTES: usize = 4_096;
    /// Bytes of one XML declaration (`<?xml ... ?>`).
    pub const MAX_DECLARATION_BYTES: usize = 128;
    /// Elements open at once, the stanza's root included.
    pub const MAX_DEPTH: usize = 64;
    /// Attributes of one element, namespace declarations included.
    pub const MAX_ATTRIBUTES: usize = 64;
    /// Bytes of one qualified name (prefix, colon, local part).
    pub const MAX_NAME_BYTES: usize = 256;
    /// Bytes of one namespace name as written.
    pub const MAX_NAMESPACE_BYTES: usize = 256;
    /// Namespace declarations in scope at once inside one stanza, and on one stream header.
    pub const MAX_DECLARATIONS: usize = 64;
    /// Bytes that the declarations of a stream's header may add to a copy of a stanza that uses all of them. Clients
    /// declare nothing there but the stream's own prefix.
    pub const MAX_HEADER_DECLARED_BYTES: usize = 256;
    /// Direct children of one stanza.
    pub const MAX_CHILDREN: usize = 512;

    // The scanner keeps indices of declarations in a byte, with 255 for "none", marks the stream's own
    // prefixes in a word of 64 bits, and keeps offsets in 32 bits.
    const _: () = assert!(MAX_DECLARATIONS <= 64 && MAX_ATTRIBUTES < 255 && MAX_DEPTH < 255);
    const _: () = assert!(MAX_NAME_BYTES < u16::MAX as usize && MAX_STANZA_BYTES_DEFAULT >= 10_000);
    const _: () = assert!(MAX_DECLARATION_BYTES < MAX_HEADER_BYTES);
}

// Requests that are read into a tree (`extension::xml`).

/// Elements that a request to the server may have whatever its length.
pub const PAYLOAD_ELEMENTS_SPARE: usize = 64;

/// Bytes of a request for each further element. An element costs a hundred times as much in a tree as its four bytes do
/// on the way of a message; clients' requests have some thirty bytes for each.
pub const PAYLOAD_ELEMENT_BYTES: usize = 16;

// Roster (RFC 6121 2).

/// Most contacts that a roster lists.
pub const ROSTER_ITEMS_MAX: usize = 2_000;

/// Most unanswered subscription requests from people who are not listed; further ones are denied.
pub const ROSTER_PENDING_MAX: usize = 200;

/// Most bytes of a roster's rows with their contacts' JIDs: what a cached roster may cost.
pub const ROSTER_BYTES_MAX: usize = 1 << 20;

/// Longest name of an item in bytes (RFC 6121 2.3.3).
pub const ROSTER_NAME_BYTES_MAX: usize = 512;

/// Most groups of an item.
pub const ROSTER_GROUPS_MAX: usize = 32;

/// Longest name of a group in bytes (RFC 6121 2.3.3).
pub const ROSTER_GROUP_BYTES_MAX: usize = 256;

/// Longest subscription request that is kept whole for delivery at login, in bytes; of a longer one only its kind and
/// sender are kept (RFC 6121 3.1.3).
pub const ROSTER_REQUEST_BYTES_MAX: usize = 2_048;

const _: () = assert!(
    ROSTER_NAME_BYTES_MAX + ROSTER_GROUPS_MAX * (ROSTER_GROUP_BYTES_MAX + 2) + ROSTER_REQUEST_BYTES_MAX
        <= ROSTER_BYTES_MAX / 64,
    "one item is a small part of a roster"
);

// Presence (RFC 6121 4).

/// Longest inner XML of an available presence in bytes.
pub const PRESENCE_PAYLOAD_BYTES_MAX: usize = 8_192;

// Fair work: what one session may set off beside messages.

/// Work that a session may set off each second, on average, in bytes: of rows written and read for it, and [`WORK_EACH`] more for each
/// row and letter.
pub const WORK_BYTES_PER_S: u64 = 1 << 20;

/// What a row or a letter costs beside its bytes.
pub const WORK_EACH: u64 = 256;

/// What an element of a request costs beside its bytes, from the ninth on: in a tree, and looked at, it takes three microseconds on an
/// idle host and twelve beside other work. A session keeps a shard busy with them for one part in a hundred.
pub const WORK_PER_ELEMENT: u64 = 1_024;

/// Elements that a request may have for [`WORK_EACH`]: most have fewer.
pub const WORK_ELEMENTS_USUAL: usize = 8;

/// Milliseconds of such work that a session may have ahead before it is not read from: a login with the largest roster, four times.
pub const WORK_AHEAD_MS: u32 = 8_000;

/// Subscriptions that are asked for again, and ends of subscriptions that are told again, when a resource becomes available. The rest
/// has its turn at the next one.
pub const ROSTER_AGAIN_MAX: usize = 100;

const _: () = assert!(
    2 * (ROSTER_BYTES_MAX as u64 + ROSTER_ITEMS_MAX as u64 * WORK_EACH)
        <= WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000,
    "a login with the largest roster does not wait"
);
const _: () = assert!(PRIVATE_BYTES_MAX as u64 * 4 <= WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000);

// Private XML (XEP-0049) and last activity (XEP-0012).

/// Most elements of private XML of a user.
pub const PRIVATE_ELEMENTS_MAX: usize = 128;

/// Most bytes of private XML of a user.
pub const PRIVATE_BYTES_MAX: usize = 512 << 10;

/// Longest namespace and name of an element of private XML together, in bytes.
pub const PRIVATE_KEY_BYTES_MAX: usize = 1_024;

/// Most bytes of all bookmarks of a user together, as one element (XEP-0048): some 500 of them.
pub const BOOKMARKS_BYTES_MAX: usize = 128 << 10;

/// Longest status that is kept of a user's last unavailable presence, in bytes; a longer one is cut.
pub const LAST_STATUS_BYTES_MAX: usize = 256;

/// Longest vCard (XEP-0054), in bytes: a photo of 90 KB, in base64.
pub const VCARD_BYTES_MAX: usize = 128 << 10;

/// Longest text of each kind that is passed on of a report to the operator (XEP-0377), in bytes; a longer one is cut.
pub const REPORT_TEXT_BYTES_MAX: usize = 512;

/// Reports of one account that are kept. A further one takes the place of the account's oldest, if that is [`REPORTS_USER_S`] old; otherwise
/// it is left out.
pub const REPORTS_USER_MAX: usize = 20;

/// Seconds in which one account can have so many kept.
pub const REPORTS_USER_S: u64 = 86_400;

/// Reports of a domain's accounts that are kept, whatever the operator says: a row has 7 KB at the most, and all are read at once.
pub const REPORTS_MAX: u32 = 5_000;

/// Requests with reports of a domain that wait until its reports are read: those of more are left out.
pub const REPORTS_WAITING_MAX: usize = 128;

/// Administrators are told of reports this often at most, seconds.
pub const REPORTS_TOLD_S: u32 = 600;

/// Domains whose reports are looked at for such that are too old, in a second.
pub const REPORTS_DOMAINS_A_SECOND: usize = 64;

const _: () = assert!(BOOKMARKS_BYTES_MAX <= NODE_ITEM_BYTES_MAX && BOOKMARKS_BYTES_MAX <= PRIVATE_BYTES_MAX);

// Nodes and their items (XEP-0060).

/// Most nodes of an actor.
pub const NODES_MAX: usize = 256;

/// Most bytes of an actor's directory: names and configuration of all nodes. As much for those affiliated with one node or subscribed
/// to it.
pub const NODE_DIRECTORY_BYTES_MAX: usize = 64 << 10;

/// Longest name of a node in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 512;

/// Longest id of an item in bytes: a bare JID of a room and more.
pub const NODE_ID_BYTES_MAX: usize = 1_024;

/// Longest title, type, description or roster group in a node's configuration, bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 256;

/// Most roster groups that a node's configuration names.
pub const NODE_GROUPS_MAX: usize = 16;

/// Most items of a node: `max` in its configuration.
pub const NODE_ITEMS_MAX: u32 = 1_000;

/// What a shard keeps in memory of nodes of a service at which something was published lately, so that the next publication reads nothing,
/// bytes.
pub const KNOWN_NODES_BYTES_MAX: usize = 8 << 20;

/// Most items of such a node of which it is known whether one has a certain id.
pub const KNOWN_IDS_MAX: usize = 256;

/// Most bytes of an item's payload: room for an avatar (XEP-0084) in base64.
pub const NODE_ITEM_BYTES_MAX: usize = 192 << 10;

/// Most bytes of an item's row.
pub const NODE_ITEM_ROW_BYTES_MAX: usize = NODE_ITEM_BYTES_MAX + NODE_ID_BYTES_MAX + 64;

/// Most bytes of all items of an actor.
pub const NODE_BYTES_MAX: u64 = 8 << 20;

/// Most who are affiliated with a node, and most who are subscribed to it.
pub const NODE_AFFILIATES_MAX: usize = 500;

/// Items that one answer may hold, and their bytes: what is left out is asked for by pages (XEP-0059).
pub const NODE_PAGE_ITEMS_MAX: u32 = 256;

/// Bytes of items after which an answer is full.
pub const NODE_PAGE_BYTES_MAX: u32 = 256 << 10;

/// Items that one request may name.
pub const NODE_ASKED_ITEMS_MAX: usize = 32;

/// Payload that a notification has at most for each of many receivers, bytes; of a larger item they are told its id (XEP-0060 7.1.2.2).
pub const NODE_NOTIFIED_BYTES_MAX: usize = 64 << 10;

/// What one notification of many is charged at the most: as much as a session may owe.
pub const NODE_NOTIFY_WORK_MAX: u64 = WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000;

/// Nodes of a publish-subscribe service that a user may have subscribed to, together with those that it has made.
pub const NODE_MEMBERSHIPS_MAX: u32 = 1_000;

/// Bytes of the rows that say so.
pub const NODE_MEMBERSHIPS_BYTES_MAX: u32 = 256 << 10;

/// Bytes that a row of who is subscribed to a node, or affiliated with it, has at most: two addresses, or an address and a node.
pub const MEMBERSHIP_BYTES: u32 = 4_096;

/// Subscribers that a node of a service may have, with those who want to be.
pub const NODE_SUBSCRIBERS_MAX: u32 = 1_000_000;

/// Owners that a node of a service may have.
pub const NODE_OWNERS_MAX: usize = 16;

/// Subscribers of a node that are read, and told, at once. As many are told of in one answer to an owner.
pub const NODE_TOLD_AT_ONCE: u32 = 1_024;

/// Requests of one user, or by HTTP of one network, that wait for their turn at a node of a service. As many places are kept there for
/// requests with the operator's token.
pub const NODE_WAITING_PER_USER_MAX: usize = 100;

const _: () = assert!(NODE_OWNERS_MAX <= u8::MAX as usize);
const _: () =
    assert!(NODE_AFFILIATES_MAX + NODE_OWNERS_MAX <= NODE_TOLD_AT_ONCE as usize, "one answer lists those affiliated");
const _: () = assert!(NODE_WAITING_PER_USER_MAX * 8 <= PARKED_STANZAS_MAX);
const _: () = assert!(NODE_ITEM_BYTES_MAX < wire::MAX_STANZA_BYTES_DEFAULT && NODE_ID_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(NODE_GROUPS_MAX <= u8::MAX as usize && NODE_AFFILIATES_MAX <= u16::MAX as usize);

// Interests of clients (XEP-0115, XEP-0060 9.2).

/// Nodes that a client may be interested in; of more, those that sort first count.
pub const INTERESTS_MAX: usize = 64;

/// Bytes of their names.
pub const INTERESTS_BYTES_MAX: usize = 4_096;

/// Capabilities that a shard remembers beside those of the sessions it has.
pub const CAPABILITIES_SPARE_MAX: usize = 1_024;

/// Milliseconds after which a client may be asked again what a hash of capabilities stands for.
pub const CAPABILITIES_ASK_MS: u64 = 30_000;

/// Milliseconds that such a question waits for its answer before other clients are asked the same.
pub const CAPABILITIES_ANSWER_MS: u64 = 2_000;

const _: () = assert!(CAPABILITIES_ANSWER_MS * 8 < CAPABILITIES_ASK_MS, "others first");

/// Contacts whose last items are asked for at once for one session.
pub const LAST_ITEMS_CONTACTS: usize = 16;

/// Sessions of a shard for which contacts are asked at once; others wait their turn.
pub const LAST_ITEMS_SESSIONS: usize = 16;

/// Users of a shard whose nodes are read at once for sessions that have become available.
pub const LAST_ITEMS_READS: usize = 32;

/// Bytes of items that one user's nodes bring a session that has become available.
pub const LAST_ITEMS_BYTES: u32 = 512 << 10;

/// Milliseconds after which contacts that have not answered for their nodes are not waited for.
pub const LAST_ITEMS_MS: u64 = 30_000;

// In-band registration (XEP-0077).

/// Longest password in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// Requests of the server's own to one client whose answers are waited for; with more of them the earliest is given up.
pub const ASKED_MAX: usize = 8;

// Bytestreams (XEP-0065).

/// Activations of one user's bytestreams that the proxy has not answered yet.
pub const ACTIVATIONS_USER_MAX: usize = 4;

/// Those of a shard's users together.
pub const ACTIVATIONS_MAX: usize = 256;

// Ad-hoc commands (XEP-0050).

/// Open command sessions of one user; of more the oldest give way.
pub const ADHOC_SESSIONS_USER_MAX: usize = 4;

/// Open command sessions of a shard's users together.
pub const ADHOC_SESSIONS_MAX: usize = 10_000;

/// Seconds after which a command session is over.
pub const ADHOC_SESSION_S: u32 = 600;

/// Commands of a shard's users that are being carried out at once.
pub const ADHOC_ORDERS_MAX: usize = 16;

/// JIDs that one command may name.
pub const ADHOC_JIDS_MAX: usize = 100;

/// Rows of a list that a command asks for.
pub const ADHOC_ROWS_MAX: usize = 200;

/// Reports of a page of a list that a command asks for.
pub const ADHOC_REPORTS_MAX: usize = 50;

/// Bytes of an option's name or value that a command sets.
pub const ADHOC_KNOB_BYTES_MAX: usize = 1_024;

/// Bytes of a text that administrators send to users.
pub const ADHOC_TEXT_BYTES_MAX: usize = 8_192;

/// Bytes of the text that accounts are sent when they are made: it is an option, whose value has a bound.
pub const ADHOC_WELCOME_BYTES_MAX: usize = 1_000;

/// Seconds without anything from a client after which its session is listed as idle (XEP-0133 4.17).
pub const ADHOC_IDLE_S: u64 = 300;

// Announcements.

/// Announcements of a shard that may be under way.
pub const ANNOUNCEMENTS_MAX: usize = 4;

/// Sessions of a shard that are told per millisecond.
pub const ANNOUNCE_SESSIONS_MS: u64 = 20;

/// Bytes that they are told per millisecond.
pub const ANNOUNCE_BYTES_MS: u64 = 16 << 10;

/// Milliseconds for which a turn makes up at the most: a turn tells 2,000 sessions, or 1.6 MB.
pub const ANNOUNCE_STEP_MS: u64 = 100;

/// Bytes that wait for a shard's connections beyond which nobody more is told until they have been taken.
pub const ANNOUNCE_WAITING_MAX: usize = 64 << 20;

// Archive queries (XEP-0313).

/// Messages of a page at the most (XEP-0313 4.3.1).
pub const ARCHIVE_PAGE_MAX: usize = 100;

/// Bytes of a page: of its results, which end with the one that would go beyond; one always comes. A query begins when there is room
/// for so much in what its session leaves unread and unacknowledged, so that a page holds up no live message.
pub const ARCHIVE_PAGE_BYTES_MAX: usize = 32 << 10;

/// Ids that a query may ask for.
pub const ARCHIVE_IDS_MAX: usize = ARCHIVE_PAGE_MAX;

/// Elements of a query: its ids, and the form around them.
pub const ARCHIVE_QUERY_ELEMENTS_MAX: usize = ARCHIVE_IDS_MAX + 64;

/// Bytes of a query: its ids, a JID and its own id, with room for what clients add.
pub const ARCHIVE_QUERY_BYTES_MAX: usize = 16 << 10;

/// Bytes of the `id` of a message that retracts another one (XEP-0424), for the other one to become a tombstone: it is kept beside the
/// archive. Ids are UUIDs or shorter.
pub const RETRACTION_ID_BYTES_MAX: usize = 512;

/// Bytes of the id by which a client tells results apart (XEP-0313 4.2): each result repeats it. Half a kilobyte is many times what
/// clients send.
pub const ARCHIVE_QUERYID_BYTES_MAX: usize = 512;

/// Bytes of an archive that a query looks through at the most. With messages found it ends there, and the client may go on.
pub const ARCHIVE_SCAN_BYTES_MAX: usize = 4 << 20;

/// Bytes of an archive that are read to say how many messages match (XEP-0059 2.7): with more, it is not said.
pub const ARCHIVE_COUNT_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(ARCHIVE_COUNT_BYTES_MAX <= ARCHIVE_SCAN_BYTES_MAX, "a count is no dearer than a query");

/// Answers in turn that a user's sessions may wait for; each is a query of one stanza.
pub const PACED_WAITING_MAX: usize = 16;

// Push notifications (XEP-0357).

/// Services that a user may have named; of more, the one goes that was named longest ago.
pub const PUSH_REGISTRATIONS_MAX: usize = 8;

/// Longest node of a service in bytes.
pub const PUSH_NODE_BYTES_MAX: usize = 512;

/// Longest form that goes along with each publication, in bytes as it is sent.
pub const PUSH_OPTIONS_BYTES_MAX: usize = 1_024;

/// Most of a message's text that a service is told, where the operator lets it be told, bytes.
pub const PUSH_BODY_BYTES_MAX: usize = 256;

/// Users of a shard about whom services are told at once, or were told lately. Of further ones nobody is told until there is room.
pub const PUSH_USERS_MAX: usize = 1 << 16;

/// Services of a shard that are told at once, or were told lately.
pub const PUSH_SERVICES_MAX: usize = 4_096;

/// Publications of a shard that one service may leave unanswered at first. Each that it takes allows one more.
pub const PUSH_WINDOW_MIN: u16 = 4;

/// Publications of a shard that one service may leave unanswered at the most.
pub const PUSH_WINDOW_MAX: u16 = 1_024;

/// Milliseconds after which a publication without an answer has failed.
pub const PUSH_ANSWER_MS: u64 = 30_000;

/// Publications in a row that may fail for reasons that may pass; then the registration ends.
pub const PUSH_FAILURES_MAX: u8 = 16;

/// Seconds without publications after the first failure. Each further one doubles them.
pub const PUSH_BACKOFF_S: u64 = 60;

/// Seconds without publications at the most.
pub const PUSH_BACKOFF_S_MAX: u64 = 3_600;

const _: () = assert!(PUSH_WINDOW_MIN > 0 && PUSH_WINDOW_MIN <= PUSH_WINDOW_MAX && PUSH_REGISTRATIONS_MAX <= 16);
// Their lengths stand in two bytes of the row.
const _: () = assert!(PUSH_NODE_BYTES_MAX + PUSH_OPTIONS_BYTES_MAX <= u16::MAX as usize);

/// The beginning of a text, of so many bytes at most, cut between characters.
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut len = text.len().min(bytes_max);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// Longest name of an uploaded file in bytes (XEP-0363): what file systems of clients take.
pub const UPLOAD_NAME_BYTES_MAX: usize = 255;

/// Longest content type of an uploaded file in bytes.
pub const UPLOAD_TYPE_BYTES_MAX: usize = 127;

/// Most slots of one user that may be used at one time: all of them are in one row.
pub const UPLOAD_SLOTS_MAX: u16 = 1_000;

// The length stands in one byte of a slot's token.
const _: () = assert!(UPLOAD_TYPE_BYTES_MAX <= u8::MAX as usize);

/// Longest head of an HTTP request in bytes, its empty line included (RFC 9112 2.3, RFC 6585 5).
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Header fields that a request may have.
pub const HTTP_HEADERS_MAX: usize = 64;

/// Longest address of a request in bytes (RFC 9110 4.1 asks for 8,000 where pages are long; here paths are short).
pub const HTTP_TARGET_BYTES_MAX: usize = 2 << 10;

/// Longest line of a chunk, its extensions and its end included, and of a trailer field, bytes (RFC 9112 7.1).
pub const HTTP_CHUNK_LINE_BYTES_MAX: usize = 1 << 10;

/// Most of what a proxy has written instead of its client's address that the log shows, characters.
pub const FORWARDED_CHARS_MAX: usize = 64;

/// Requests of one connection that are answered; with the last one it ends.
pub const HTTP_REQUESTS_MAX: u8 = 100;

/// Of a channel in memory that takes half of its shard's room, this part of that half gives way at once: its oldest items.
pub const IN_MEMORY_SLACK: usize = 8;

/// Longest message of a WebSocket for which a shard keeps memory when there is none, bytes.
pub const WEBSOCKET_MEMORY_BYTES: usize = 64 << 10;

const _: () = assert!(HTTP_TARGET_BYTES_MAX < HTTP_HEAD_BYTES_MAX && HTTP_CHUNK_LINE_BYTES_MAX < HTTP_HEAD_BYTES_MAX);

// BOSH (XEP-0124).

/// Longest body of a request in bytes: the longest stanza that servers take by default, and as much beside it.
pub const BOSH_BODY_BYTES_MAX: usize = 512 << 10;

/// Requests of a shard whose bodies are on their way and longer than what is taken before a login: with more, such a request is refused.
pub const BOSH_LONG_BODIES_MAX: usize = 128;

/// Longest time for which a request may wait for its answer, seconds.
pub const BOSH_WAIT_S_MAX: u32 = 60;

/// Seconds after which the connection's shard answers a request itself: longer than any session lets one wait.
pub const BOSH_ANSWER_S_MAX: u32 = BOSH_WAIT_S_MAX + 30;

/// Requests that a session may keep waiting.
pub const BOSH_HOLD_MAX: u8 = 1;

/// Seconds for which a session may be without a request; and one that polls.
pub const BOSH_INACTIVITY_S: u32 = 30;
/// The same of one that polls (XEP-0124 12): longer by more than [`BOSH_POLLING_S`].
pub const BOSH_INACTIVITY_POLLING_S: u32 = 60;

/// Seconds that have to be between two requests without content (XEP-0124 11, 12).
pub const BOSH_POLLING_S: u32 = 2;

/// Longest pause that a client may ask for, seconds (XEP-0124 10).
pub const BOSH_PAUSE_S_MAX: u32 = 120;

/// How often requests of a session may come again until there is a new one (XEP-0124 14.3).
pub const BOSH_REPEATS_MAX: u8 = 10;

/// A client that has not acknowledged an answer for so long is told of it, milliseconds (XEP-0124 9.2).
pub const BOSH_REPORT_MS: u64 = 1_000;

/// Bytes of a session's requests that wait until what came before them has been looked at.
pub const BOSH_QUEUE_BYTES_MAX: usize = 2 * BOSH_BODY_BYTES_MAX;

/// Seconds for which a shard remembers, since it was asked for last, where a session has gone that began there: longer than a session
/// can be silent.
pub const BOSH_FORWARD_S: u32 = 300;

/// Longest value of `content` in bytes (XEP-0124 7.1).
pub const BOSH_CONTENT_BYTES_MAX: usize = 80;

/// Bytes that are kept of what a client sends behind a request whose answer waits.
pub const HTTP_BEHIND_BYTES_MAX: usize = 8 << 10;

const _: () = assert!(BOSH_FORWARD_S > BOSH_ANSWER_S_MAX + BOSH_PAUSE_S_MAX + BOSH_INACTIVITY_POLLING_S);
const _: () = assert!(BOSH_INACTIVITY_POLLING_S - BOSH_INACTIVITY_S > BOSH_POLLING_S);
const _: () = assert!(BOSH_PAUSE_S_MAX > BOSH_INACTIVITY_POLLING_S && BOSH_ANSWER_S_MAX > BOSH_WAIT_S_MAX);
const _: () = assert!(wire::MAX_STANZA_BYTES_DEFAULT < BOSH_BODY_BYTES_MAX && PREAUTH_BYTES_MAX < BOSH_BODY_BYTES_MAX);

// Notifications.

/// Longest name of a channel of notifications, bytes.
pub const NOTIFY_NAME_BYTES_MAX: usize = 128;

/// Most channels that one request asks for.
pub const NOTIFY_CHANNELS_MAX: usize = 16;

/// Most prefixes that one request asks for.
pub const NOTIFY_PREFIXES_PER_REQUEST_MAX: usize = 4;

/// A request that asks for several prefixes stands at so many feeds at the most: one of each prefix at each shard.
pub const NOTIFY_FEEDS_PER_REQUEST_MAX: usize = 128;

/// Most separators in a prefix: so an item is told to that many feeds and one, twice if there are private channels among them.
pub const NOTIFY_PREFIX_PARTS_MAX: usize = 8;

/// As so many requests of its address counts a request that waits, for each prefix: whoever publishes below that is charged for it.
pub const NOTIFY_REQUESTS_PER_PREFIX: usize = 16;

/// Prefixes for which the requests of one address wait at a shard.
pub const NOTIFY_PREFIXES_PER_ADDRESS_MAX: usize = 16;

/// Prefixes for which the requests of a shard wait.
pub const NOTIFY_PREFIXES_MAX: usize = 1_024;

/// Prefixes of which a home has feeds, for each shard that may watch some: twice as many as those can.
pub const NOTIFY_FEEDS_PER_SHARD_MAX: usize = 2 * NOTIFY_PREFIXES_MAX;

/// Items that a feed knows by their numbers, for who comes back or takes them slowly.
pub const NOTIFY_FEED_ITEMS_MAX: usize = 4_096;

/// The same of all feeds of a home. If it is reached, each has the same share.
pub const NOTIFY_FEED_ITEMS_ALL_MAX: usize = 65_536;

/// Longest content of an item that is published by HTTP, bytes. In XML it may become a third longer.
pub const NOTIFY_BODY_BYTES_MAX: usize = 32 << 10;

/// Most items that are published at once, as a batch: one page for who reads them.
pub const NOTIFY_BATCH_ITEMS_MAX: usize = NOTIFY_PAGE_ITEMS_MAX as usize;

/// Longest batch, bytes.
pub const NOTIFY_BATCH_BYTES_MAX: usize = 64 << 10;

/// Longest content type of such an item, bytes.
pub const NOTIFY_TYPE_BYTES_MAX: usize = 128;

/// Longest `Idempotency-Key`, bytes.
pub const NOTIFY_KEY_BYTES_MAX: usize = 64;

/// Longest time that a request waits for items, seconds.
pub const NOTIFY_WAIT_S_MAX: u32 = 300;

/// Most items that a channel keeps which is made by a publication over HTTP: as many of the longest as a node has room for.
pub const NOTIFY_ITEMS_MAX: u32 = 150;

/// Items that are read at once for all channels of one request.
pub const NOTIFY_PAGE_ITEMS_MAX: u32 = 64;
/// The same in bytes.
pub const NOTIFY_PAGE_BYTES_MAX: u32 = 128 << 10;

/// Subscribers of a channel that are told at once; between that the shard does other work.
pub const NOTIFY_TOLD_AT_ONCE: usize = 128;

/// Subscribers of a channel that go to its home, so that it tells them itself. Each costs a send and no letter: more are told sooner by
/// several shards.
pub const NOTIFY_AT_HOME_MAX: u32 = 64;

/// A shard takes connections of others until it has twice as many that wait as the one that sends them, and so many more.
pub const NOTIFY_FOLLOWERS_AHEAD: u32 = 4_096;

/// A home that takes no more of them is not tried for so long, seconds.
pub const NOTIFY_STAY_S: u32 = 60;

/// Channels of which a shard knows that, and to which it sends connections in one second.
pub const NOTIFY_STAYS_MAX: usize = 4_096;

/// Items of a channel that a shard holds until all of its subscribers have them. Who has missed more reads it. A batch is not more: else
/// each of a crowd would read it.
pub const NOTIFY_RECENT_MAX: usize = NOTIFY_BATCH_ITEMS_MAX;
/// The same in bytes.
pub const NOTIFY_RECENT_BYTES_MAX: usize = 128 << 10;

/// Channels of a home that others may watch.
pub const NOTIFY_WATCHED_MAX: usize = 200_000;

/// Addresses of which a shard counts what they wait for, and publish.
pub const NOTIFY_ADDRESSES_MAX: usize = 65_536;

/// A shard says so often of each channel that it watches it still, seconds.
pub const NOTIFY_RENEW_S: u32 = 30;

/// A shard that has not said so for this time does not watch it any more, seconds.
pub const NOTIFY_FORGET_S: u32 = 120;

/// Subscribers have a sign of life after so many seconds of silence.
pub const NOTIFY_HEARTBEAT_S: u32 = 15;

/// The home of a channel has answered after this time, or what was asked is lost, seconds.
pub const NOTIFY_ANSWER_S: u32 = 10;

/// An address makes a channel in so many milliseconds in the long run.
pub const NOTIFY_MAKE_MS: u64 = 10_000;

/// So many it may make at once.
pub const NOTIFY_MADE_AT_ONCE: u64 = 10;

/// So many who are told count as one publication.
pub const NOTIFY_TOLD_PER_PUBLICATION: u32 = 16;

/// Longest body by which a page registers for pushes, bytes.
pub const NOTIFY_PUSH_BODY_BYTES_MAX: usize = 4 << 10;

/// Longest address at which a push service takes pushes, bytes.
pub const NOTIFY_PUSH_ENDPOINT_BYTES_MAX: usize = 1_024;

/// Longest content of a push, bytes: with the header of RFC 8188 (21), the sender's key in it (65), the delimiter (1) and the tag (16) it has
/// the 4,096 that any push service takes (RFC 8291 4, RFC 8030 7.2).
pub const NOTIFY_PUSH_BYTES_MAX: usize = 4_096 - 21 - 65 - 1 - 16;

/// Most push services that an operator names.
pub const NOTIFY_PUSH_SERVICES_MAX: usize = 16;

/// Pushes of a shard to one push service that are under way.
pub const NOTIFY_PUSH_UNDER_WAY_MAX: usize = 256;

/// Registrations that are read at once.
pub const NOTIFY_PUSH_PAGE: u32 = 64;

/// Bytes of registrations that are read at once to look for those that are over.
pub const NOTIFY_PUSH_ENDS_BYTES_MAX: u32 = 32 << 10;

/// Channels of which a shard has a round to go, or an item that waits for one.
pub const NOTIFY_PUSH_ROUNDS_MAX: usize = 4_096;

/// Channels of which a shard knows that they have no registrations, or when they were told last.
pub const NOTIFY_PUSH_CHANNELS_MAX: usize = 65_536;

/// Pages of which a home knows that they listen.
pub const NOTIFY_PUSH_LISTENING_MAX: usize = 65_536;

/// A round that finds a push service full looks again after so long, milliseconds.
pub const NOTIFY_PUSH_AGAIN_MS: u64 = 100;

/// And gives up on what that service gets after so long without any progress, milliseconds.
pub const NOTIFY_PUSH_PATIENCE_MS: u64 = 30_000;

/// Longest form by which an update of Mercure is published, bytes: content of which each byte is escaped, and 8 KiB for the rest.
pub const MERCURE_FORM_BYTES_MAX: usize = 3 * NOTIFY_BODY_BYTES_MAX + (8 << 10);

/// Longest URI template by which topics are selected, bytes: what is longer matches no topic but itself.
pub const MERCURE_TEMPLATE_BYTES_MAX: usize = NOTIFY_NAME_BYTES_MAX;

/// Most variables of one. Each is held against the whole topic.
pub const MERCURE_TEMPLATE_VARIABLES_MAX: usize = 8;

/// Most channels to which one connection of Centrifugo's protocol subscribes.
pub const CENTRIFUGO_CHANNELS_MAX: usize = 128;

/// So many of these count as one request that waits, for the address.
pub const CENTRIFUGO_CHANNELS_PER_WAITING: usize = NOTIFY_CHANNELS_MAX;

/// Longest message of commands, bytes; before the first one was answered, [`PREAUTH_BYTES_MAX`].
pub const CENTRIFUGO_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Commands of one connection that wait for homes of channels at once, those that subscribe not among them.
pub const CENTRIFUGO_WAITING_MAX: usize = 32;

/// Questions of one connection to homes that have not answered, also for commands that do not wait any more.
pub const CENTRIFUGO_QUESTIONS_MAX: u16 = (CENTRIFUGO_CHANNELS_MAX + CENTRIFUGO_WAITING_MAX) as u16;

/// Of these, questions for what was published: of commands for it, and of subscriptions that go on where they were.
pub const CENTRIFUGO_HISTORIES_MAX: usize = 2;
/// See [`CENTRIFUGO_HISTORIES_MAX`]. Others wait until one is answered, and until the client takes what there is.
pub const CENTRIFUGO_RECOVERIES_MAX: usize = 4;

/// A client is pinged so often, seconds; it has to have answered by the next time.
pub const CENTRIFUGO_PING_S: u32 = 25;

const _: () =
    assert!(CENTRIFUGO_CHANNELS_MAX <= u8::MAX as usize && NOTIFY_BODY_BYTES_MAX < CENTRIFUGO_MESSAGE_BYTES_MAX);
const _: () = assert!(NOTIFY_JWT_BYTES_MAX < PREAUTH_BYTES_MAX && PREAUTH_BYTES_MAX < CENTRIFUGO_MESSAGE_BYTES_MAX);

/// Longest token (RFC 7519) that is read, bytes; in the address of a request [`HTTP_TARGET_BYTES_MAX`] is less.
pub const NOTIFY_JWT_BYTES_MAX: usize = 4 << 10;

/// Channels, or beginnings of channels, in each of the two lists of a token.
pub const NOTIFY_JWT_PATTERNS_MAX: usize = 64;

/// Longest `kid` of a key or a token, bytes.
pub const NOTIFY_JWT_KID_BYTES_MAX: usize = 128;

/// Longest `jti` of a token, bytes.
pub const NOTIFY_JWT_JTI_BYTES_MAX: usize = 128;

/// Keys that tokens are held against. Each token is held against one.
pub const NOTIFY_JWT_KEYS_MAX: usize = 16;

/// Longest file of keys, bytes.
pub const NOTIFY_JWT_KEYS_BYTES_MAX: usize = 64 << 10;

/// Longest file of tokens that were taken back, bytes.
pub const NOTIFY_JWT_REVOKED_BYTES_MAX: usize = 4 << 20;

/// What a shard keeps of the tokens that it has verified, in two halves of which the older one goes, bytes.
pub const NOTIFY_JWT_KNOWN_BYTES_MAX: usize = 8 << 20;

/// A signature that is wrong takes so much of its address' time, milliseconds: ten a second in the long run.
pub const NOTIFY_JWT_WRONG_MS: u64 = 100;

/// An address that is ahead of that by so much has none verified, milliseconds: fifty at once.
pub const NOTIFY_JWT_WRONG_AHEAD_MS: u64 = 5_000;

/// Questions of a shard about channels to whoever the operator has named that are under way at once. With so many, more are refused at once.
pub const NOTIFY_INQUIRIES_MAX: usize = 4_096;

/// Bytes of requests that a shard holds until these are answered.
pub const NOTIFY_HELD_BYTES_MAX: usize = 16 << 20;

/// Of these, bytes of one address.
pub const NOTIFY_HELD_BYTES_PER_ADDRESS_MAX: usize = 1 << 20;

/// A request is held for so long at most, seconds. Whoever asks for the shard has given up before that.
pub const NOTIFY_HELD_S: u32 = 70;

/// What a shard keeps of the answers, in two halves of which the older one goes, bytes.
pub const NOTIFY_DECISIONS_BYTES_MAX: usize = 4 << 20;

/// What was denied is asked again after this time, milliseconds.
pub const NOTIFY_DENIED_MS: u64 = 5_000;

/// What was allowed is so for no longer than this, seconds.
pub const NOTIFY_PERMIT_S_MAX: u32 = 86_400;

/// An address that is ahead of its share of questions by so much has none asked, milliseconds.
pub const NOTIFY_ASKED_AHEAD_MS: u64 = 10_000;

/// Longest `sub` of a token that is told as the name of a subscriber, bytes.
pub const NOTIFY_SUBJECT_BYTES_MAX: usize = 128;

/// Names of subscribers that a shard reports of a channel, and that are told to who asks. Others count, and are not named.
pub const NOTIFY_WHO_MAX: usize = 1_000;

/// Names that subscribers are told of a channel while they come and go. With more, they are told how many subscribe.
pub const NOTIFY_WHO_TOLD_MAX: usize = 100;

/// Of one channel, changes of who subscribes are said so often at the most: by a shard to the home, by the home to a shard, and to a
/// subscriber; milliseconds.
pub const NOTIFY_WHO_MS: u64 = 1_000;

/// Subscribers of a channel that a shard tells of changes in a second, in the long run: of more, each is told more rarely.
pub const NOTIFY_WHO_TOLD_PER_S: u64 = 10_000;

/// Who has been answered a long poll is there for so long at least, and no more than twice that, unless it asks again; milliseconds.
pub const NOTIFY_AWAY_MS: u64 = 5_000;

/// Those of a shard of whom that is known. Others are gone with their answer.
pub const NOTIFY_AWAY_MAX: usize = 131_072;

/// Channels for which nobody waits any more at a shard, and of which it says so a second time, in case that the first letter is lost. If there are
/// more, homes find out when they have heard nothing for [`NOTIFY_FORGET_S`].
pub const NOTIFY_EMPTY_MAX: usize = 16_384;

/// Channels of which a shard says who subscribes, or sees who is gone, in one turn.
pub const NOTIFY_WHO_AT_ONCE: usize = 1_024;

const _: () = assert!(NOTIFY_SUBJECT_BYTES_MAX <= u8::MAX as usize && NOTIFY_WHO_TOLD_MAX <= NOTIFY_WHO_MAX);
const _: () = assert!(NOTIFY_WHO_MS < NOTIFY_AWAY_MS && NOTIFY_AWAY_MS < NOTIFY_RENEW_S as u64 * 1_000);
const _: () = assert!(NOTIFY_JWT_BYTES_MAX < HTTP_HEAD_BYTES_MAX);
const _: () = assert!(MERCURE_FORM_BYTES_MAX + HTTP_HEAD_BYTES_MAX < NOTIFY_HELD_BYTES_PER_ADDRESS_MAX);
const _: () = assert!(
    NOTIFY_ITEMS_MAX as u64 * (NOTIFY_BODY_BYTES_MAX as u64 * 4 / 3 + 1_024) <= NODE_BYTES_MAX
        && NOTIFY_ITEMS_MAX <= NODE_ITEMS_MAX
);
const _: () = assert!(NOTIFY_NAME_BYTES_MAX <= NODE_NAME_BYTES_MAX && NOTIFY_KEY_BYTES_MAX + 2 <= NODE_ID_BYTES_MAX);
