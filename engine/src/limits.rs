//! Every limit of the engine in one place, with the relations between them checked at compile time.
//!
//! Structural limits are constants; those that an operator can change are fields of
//! [`Settings`](crate::settings::Settings).
//!
//! This file has over 1,000 lines because it is one table.

/// Maximum length of a localpart, domainpart or resourcepart of a JID in bytes (RFC 7622 3.2, 3.3,
/// 3.4).
pub const JID_PART_BYTES_MAX: usize = 1023;

/// Maximum number of characters in a localpart or resourcepart that are only allowed between
/// certain neighbours (RFC 5892 A.1 to A.6): joiners, the middle dot of Catalan, geresh. Each costs
/// a pass over the whole part.
pub const JID_CONTEXT_MAX: usize = 8;

/// Maximum length of a decoded SASL message in bytes: PLAIN with every part of maximum length (RFC
/// 4616 2), which also fits any SCRAM message (RFC 5802 7).
pub const SASL_MESSAGE_BYTES_MAX: usize =
    (2 * JID_PART_BYTES_MAX + 1) + 1 + JID_PART_BYTES_MAX + 1 + PASSWORD_BYTES_MAX;

/// Maximum length of a SCRAM client nonce in bytes (RFC 5802 5.1); clients send 16 to 64.
pub const SCRAM_CLIENT_NONCE_BYTES_MAX: usize = 256;

/// Minimum PBKDF2 iterations of a new account (RFC 7677 4, RFC 5802 5.1).
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// Default PBKDF2 iterations of a new account.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 10_000;

/// Maximum PBKDF2 iterations of an account: bounds the cost of one PLAIN login.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

/// Maximum length of an account's salt in bytes; new ones have 16.
pub const SCRAM_SALT_BYTES_MAX: usize = 64;

const _: () = assert!(SCRAM_ITERATIONS_MIN <= SCRAM_ITERATIONS_DEFAULT);
const _: () = assert!(SCRAM_ITERATIONS_DEFAULT <= SCRAM_ITERATIONS_MAX);
// The length has one byte in the account's record.
const _: () = assert!(SCRAM_SALT_BYTES_MAX <= u8::MAX as usize);

/// Minimum stanza limit that a server may set (RFC 6120 13.12): 10,000 bytes.
pub const STANZA_BYTES_FLOOR: usize = 10_000;

/// Maximum length of a stream's language tag that is kept, in bytes (RFC 5646 4.4.1 asks for 35).
pub const LANG_BYTES_MAX: usize = 35;

/// Bytes of one element before a resource is bound: enough for the longest SASL message in base64,
/// and little else.
pub const PREAUTH_BYTES_MAX: usize = 16_384;

const _: () = assert!(SASL_MESSAGE_BYTES_MAX.div_ceil(3) * 4 + 256 <= PREAUTH_BYTES_MAX);

/// Jobs of a shard in progress at once. Of those that wait, the newest is started first. When
/// logins arrive faster than they can be checked, the newest ones can still be served before their
/// clients time out, and those of departed clients cost nothing.
pub const JOBS_UNDER_WAY_MAX: usize = 16;

/// Queries of a shard to external user back ends in progress at once. At the limit, logins are
/// refused at once.
pub const OUTSIDE_ASKS_MAX: usize = 4_096;

/// Jobs of a shard that may wait in addition to twice the number of its connections. At the limit,
/// changes of password are refused with `<resource-constraint/>`.
pub const JOBS_WAITING_SPARE: usize = 1_024;

/// Invitations of a user without the right to create accounts. Used and revoked ones count until
/// they expire, so this is also the number that a user can create in that time.
pub const INVITATIONS_USER_MAX: usize = 20;

/// The same for a user with that right
/// ([`Settings::inviters`](crate::settings::Settings::inviters)).
pub const INVITATIONS_INVITER_MAX: usize = 1_000;

/// Rows of one actor's invitations that one step of the sweep reads. The next round handles the
/// rest.
pub const INVITATIONS_SWEPT_MAX: u32 = 4 * INVITATIONS_INVITER_MAX as u32;

/// Maximum number of uses of one invitation.
pub const INVITATION_USES_MAX: u32 = 1_000_000;

/// Maximum number of unfinished uses of one invitation.
pub const INVITATION_CLAIMS_MAX: usize = 64;

/// Number of users that are recorded per invitation, of those that joined with it.
pub const INVITATION_JOINED_MAX: usize = 8;

/// Seconds for which an expired invitation is kept: longer than a registration may take that
/// presented it in time (XEP-0445 4).
pub const INVITATION_KEPT_S: u64 = 3_600;

/// Maximum lifetime of an invitation, seconds.
pub const INVITATION_LIFE_S_MAX: u64 = 366 * 86_400;

/// Seconds after which an unfinished use is checked, if this process began it. One of another
/// process is checked at once.
pub const INVITATION_CLAIM_S: u64 = 600;

/// How often one registration request has an earlier, interrupted use checked.
pub const INVITATION_AGAIN_MAX: u8 = 8;

/// Random bytes of an invitation's token (XEP-0379 7.1 asks for 80 bits).
pub const INVITATION_TOKEN_BYTES: usize = 16;

/// Operations on one actor's invitations that wait for rows, and accounts that wait to be
/// announced; more are refused.
pub const INVITATIONS_WAITING_MAX: usize = 128;

/// Minimum interval between notices to administrators about accounts that wait for approval,
/// seconds.
pub const APPLICANTS_TOLD_S: u32 = 600;

/// Clients per account that may have tokens (XEP-0484); above that the least recently used ones
/// lose theirs.
pub const TOKEN_CLIENTS_MAX: usize = 16;

/// Lifetime of a token in seconds: a phone that was offline for a month uses the password again.
pub const TOKEN_LIFE_S: u64 = 30 * 86_400;

/// Remaining lifetime in seconds below which a token is replaced when it is used (XEP-0484 3.5).
pub const TOKEN_ROTATES_S: u64 = 23 * 86_400;

/// Resolution in seconds of the time at which a client last used its token: not every login writes
/// a row.
pub const TOKEN_USED_S: u64 = 6 * 3_600;

const _: () = assert!(TOKEN_ROTATES_S < TOKEN_LIFE_S && TOKEN_USED_S < TOKEN_LIFE_S - TOKEN_ROTATES_S);

/// Maximum length of a client's `<tag/>` in bytes, which becomes part of its resource (XEP-0386
/// 2.2).
pub const BIND_TAG_BYTES_MAX: usize = 256;

/// Maximum length of a `previd` in bytes that is processed before the client has authenticated
/// (XEP-0198 5).
pub const PREVID_BYTES_MAX: usize = 64;

/// Requests per connection that are answered before authentication, and again as many before it has
/// a session: registration (XEP-0077), and premature stream management (XEP-0198 3). Authentication
/// attempts and refused resources have limits of their own.
pub const EARLY_REQUESTS_MAX: u8 = 20;

/// Resources that a client may request in vain after the first refusal (RFC 6120 7.7.3: 5 to 10).
pub const BIND_RETRIES_MAX: u8 = 10;

/// Consecutive changes of an account's password; each costs a key derivation for the bytes of one
/// stanza.
pub const PASSWORD_CHANGES_MAX: u32 = 5;

/// Milliseconds until an account may change its password once more.
pub const PASSWORD_CHANGE_MS: u32 = 10_000;

/// Pairs of address and account with a recent successful login, per shard; 12 bytes each, allocated
/// as needed.
pub const KNOWN_PAIRS_MAX: usize = 1 << 17;

/// Stanzas that wait for one user's state to be loaded; more are answered with
/// `<resource-constraint/>`.
pub const PARKED_STANZAS_MAX: usize = 1_000;

/// Bytes of a component's queue that are sent at once, except for a single longer stanza.
pub const COMPONENT_FEED_BYTES: usize = 64 << 10;

/// One sender (bare JID) may use at most this fraction of a component's queue, so that a flood to a
/// slow component leaves room for others.
pub const COMPONENT_SENDER_PART: usize = 16;

/// Overhead of a stanza in a component's queue, besides its bytes and addresses.
pub const COMPONENT_STANZA_BYTES: usize = 160;

/// Milliseconds after which a stanza that a component does not accept is returned with an error,
/// and after which its connection is closed if it accepts nothing of the send in progress.
pub const COMPONENT_WAIT_MS: u64 = 10_000;

/// Unconfirmed stanzas from a component to others from which it is no longer read from.
pub const COMPONENT_IN_FLIGHT_MAX: u32 = 1_024;

/// Bytes of these since all of them were last durable; from then on the component is not read from
/// until they are.
pub const COMPONENT_IN_FLIGHT_BYTES: usize = 1 << 20;

/// Milliseconds that a component has to prove that it is alive after another connection has
/// presented its secret, too.
pub const COMPONENT_CHALLENGE_MS: u64 = 10_000;

/// Maximum length of `<handshake/>` content in bytes: SHA-1 in hexadecimal digits (XEP-0114 3).
pub const HANDSHAKE_BYTES: usize = 40;

/// Limits of the XML scanner (`wire`). The size of a stanza is a run-time setting and is passed to
/// [`Scanner::scan`](crate::wire::scanner::Scanner::scan); these are the structural limits.
pub mod wire {
    /// Default of the run-time limit on one stanza, in bytes (RFC 6120 13.12 asks for at least
    /// 10,000).
    pub const MAX_STANZA_BYTES_DEFAULT: usize = 262_144;
    /// Bytes of one stream header, which a peer may send before it is known.
    pub const MAX_HEADER_BYTES: usize = 4_096;
    /// Bytes of one XML declaration (`<?xml ... ?>`).
    pub const MAX_DECLARATION_BYTES: usize = 128;
    /// Open elements, including the stanza's root.
    pub const MAX_DEPTH: usize = 64;
    /// Attributes of one element, including namespace declarations.
    pub const MAX_ATTRIBUTES: usize = 64;
    /// Bytes of one qualified name (prefix, colon, local part).
    pub const MAX_NAME_BYTES: usize = 256;
    /// Bytes of one namespace name as written.
    pub const MAX_NAMESPACE_BYTES: usize = 256;
    /// Namespace declarations in scope inside one stanza, and on one stream header.
    pub const MAX_DECLARATIONS: usize = 64;
    /// Bytes that the declarations of a stream's header may add to a copy of a stanza that uses all
    /// of them. Clients only declare the stream's own prefix there.
    pub const MAX_HEADER_DECLARED_BYTES: usize = 256;
    /// Direct children of one stanza.
    pub const MAX_CHILDREN: usize = 512;

    // The scanner stores indices of declarations in a byte, with 255 for "none", marks the stream's
    // own prefixes in a word of 64 bits, and stores offsets in 32 bits.
    const _: () = assert!(MAX_DECLARATIONS <= 64 && MAX_ATTRIBUTES < 255 && MAX_DEPTH < 255);
    const _: () = assert!(MAX_NAME_BYTES < u16::MAX as usize && MAX_STANZA_BYTES_DEFAULT >= 10_000);
    const _: () = assert!(MAX_DECLARATION_BYTES < MAX_HEADER_BYTES);
}

// Requests that are parsed into a tree (`extension::xml`).

/// Elements that a request to the server may have regardless of its length.
pub const PAYLOAD_ELEMENTS_SPARE: usize = 64;

/// Bytes of a request per further element. An element in a tree costs a hundred times as much as
/// its four bytes do on the path of a message; clients' requests have some thirty bytes per
/// element.
pub const PAYLOAD_ELEMENT_BYTES: usize = 16;

// Roster (RFC 6121 2).

/// Maximum number of contacts that a roster lists.
pub const ROSTER_ITEMS_MAX: usize = 2_000;

/// Maximum number of unanswered subscription requests from unlisted contacts; further ones are
/// denied.
pub const ROSTER_PENDING_MAX: usize = 200;

/// Maximum bytes of a roster's rows with their contacts' JIDs, which bounds the cost of a cached
/// roster.
pub const ROSTER_BYTES_MAX: usize = 1 << 20;

/// Maximum length of an item's name in bytes (RFC 6121 2.3.3).
pub const ROSTER_NAME_BYTES_MAX: usize = 512;

/// Maximum number of groups of an item.
pub const ROSTER_GROUPS_MAX: usize = 32;

/// Maximum length of a group's name in bytes (RFC 6121 2.3.3).
pub const ROSTER_GROUP_BYTES_MAX: usize = 256;

/// Maximum length of a subscription request that is stored in full for delivery at login, in bytes;
/// of a longer one only type and sender are stored (RFC 6121 3.1.3).
pub const ROSTER_REQUEST_BYTES_MAX: usize = 2_048;

const _: () = assert!(
    ROSTER_NAME_BYTES_MAX + ROSTER_GROUPS_MAX * (ROSTER_GROUP_BYTES_MAX + 2) + ROSTER_REQUEST_BYTES_MAX
        <= ROSTER_BYTES_MAX / 64,
    "one item is a small part of a roster"
);

// Presence (RFC 6121 4).

/// Maximum length of the inner XML of an available presence in bytes.
pub const PRESENCE_PAYLOAD_BYTES_MAX: usize = 8_192;

// Fairness: the work that one session may cause besides messages.

/// Work per second that a session may cause, on average, in bytes: of rows written and read for it,
/// and [`WORK_EACH`] more per row and letter.
pub const WORK_BYTES_PER_S: u64 = 1 << 20;

/// The cost of a row or a letter, besides its bytes.
pub const WORK_EACH: u64 = 256;

/// The cost of an element of a request besides its bytes, from the ninth on. Building and examining
/// it in a tree takes three microseconds on an idle host and twelve alongside other work. A session
/// can therefore use one percent of a shard with them.
pub const WORK_PER_ELEMENT: u64 = 1_024;

/// Elements of a request that are covered by [`WORK_EACH`]: most requests have fewer.
pub const WORK_ELEMENTS_USUAL: usize = 8;

/// Milliseconds of such work that a session may owe before it is not read from: a login with the
/// largest roster, four times.
pub const WORK_AHEAD_MS: u32 = 8_000;

/// Subscriptions requested again, and ends of subscriptions reported again, when a resource becomes
/// available. The rest follows the next time.
pub const ROSTER_AGAIN_MAX: usize = 100;

const _: () = assert!(
    2 * (ROSTER_BYTES_MAX as u64 + ROSTER_ITEMS_MAX as u64 * WORK_EACH)
        <= WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000,
    "a login with the largest roster does not wait"
);
const _: () = assert!(PRIVATE_BYTES_MAX as u64 * 4 <= WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000);

// Private XML (XEP-0049) and last activity (XEP-0012).

/// Maximum number of elements of a user's private XML.
pub const PRIVATE_ELEMENTS_MAX: usize = 128;

/// Maximum bytes of a user's private XML.
pub const PRIVATE_BYTES_MAX: usize = 512 << 10;

/// Maximum total length of the namespace and name of a private XML element, in bytes.
pub const PRIVATE_KEY_BYTES_MAX: usize = 1_024;

/// Maximum bytes of all bookmarks of a user, as one element (XEP-0048): some 500 of them.
pub const BOOKMARKS_BYTES_MAX: usize = 128 << 10;

/// Maximum length of the stored status of a user's last unavailable presence, in bytes; a longer
/// one is truncated.
pub const LAST_STATUS_BYTES_MAX: usize = 256;

/// Maximum length of a vCard (XEP-0054), in bytes: a photo of 90 KB, in base64.
pub const VCARD_BYTES_MAX: usize = 128 << 10;

/// Maximum length of each text in a report to the operator (XEP-0377), in bytes; a longer one is
/// truncated.
pub const REPORT_TEXT_BYTES_MAX: usize = 512;

/// Stored reports per account. A further one replaces the account's oldest, if that is
/// [`REPORTS_USER_S`] old; otherwise it is dropped.
pub const REPORTS_USER_MAX: usize = 20;

/// Seconds in which one account can have that many reports stored.
pub const REPORTS_USER_S: u64 = 86_400;

/// Stored reports of a domain's accounts, whatever the operator sets: a row has at most 7 KB, and
/// all are read at once.
pub const REPORTS_MAX: u32 = 5_000;

/// Requests with reports of a domain that wait until its reports are read; further ones are
/// dropped.
pub const REPORTS_WAITING_MAX: usize = 128;

/// Minimum interval between notices to administrators about reports, seconds.
pub const REPORTS_TOLD_S: u32 = 600;

/// Domains per second whose reports are checked for expiry.
pub const REPORTS_DOMAINS_A_SECOND: usize = 64;

const _: () = assert!(BOOKMARKS_BYTES_MAX <= NODE_ITEM_BYTES_MAX && BOOKMARKS_BYTES_MAX <= PRIVATE_BYTES_MAX);

// Nodes and their items (XEP-0060).

/// Maximum number of nodes of an actor.
pub const NODES_MAX: usize = 256;

/// Maximum bytes of an actor's directory: names and configuration of all nodes. The same applies to
/// the affiliations and subscriptions of one node.
pub const NODE_DIRECTORY_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a node's name in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 512;

/// Maximum length of an item's id in bytes: the bare JID of a room and more.
pub const NODE_ID_BYTES_MAX: usize = 1_024;

/// Maximum length of a title, type, description or roster group in a node's configuration, bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 256;

/// Maximum number of roster groups in a node's configuration.
pub const NODE_GROUPS_MAX: usize = 16;

/// Maximum number of items of a node: `max` in its configuration.
pub const NODE_ITEMS_MAX: u32 = 1_000;

/// Memory of a shard for nodes of a service with a recent publication, so that the next publication
/// reads nothing, bytes.
pub const KNOWN_NODES_BYTES_MAX: usize = 8 << 20;

/// Maximum number of items of such a node whose ids are cached.
pub const KNOWN_IDS_MAX: usize = 256;

/// Maximum bytes of an item's payload: enough for an avatar (XEP-0084) in base64.
pub const NODE_ITEM_BYTES_MAX: usize = 192 << 10;

/// Maximum bytes of an item's row.
pub const NODE_ITEM_ROW_BYTES_MAX: usize = NODE_ITEM_BYTES_MAX + NODE_ID_BYTES_MAX + 64;

/// Maximum bytes of all items of an actor.
pub const NODE_BYTES_MAX: u64 = 8 << 20;

/// Maximum number of a node's affiliates, and of its subscribers.
pub const NODE_AFFILIATES_MAX: usize = 500;

/// Items per answer; the rest is requested in pages (XEP-0059).
pub const NODE_PAGE_ITEMS_MAX: u32 = 256;

/// Bytes of items after which an answer is full.
pub const NODE_PAGE_BYTES_MAX: u32 = 256 << 10;

/// Items that one request may name.
pub const NODE_ASKED_ITEMS_MAX: usize = 32;

/// Maximum payload of a notification to each of many recipients, bytes; of a larger item they
/// receive only the id (XEP-0060 7.1.2.2).
pub const NODE_NOTIFIED_BYTES_MAX: usize = 64 << 10;

/// Maximum charge for one notification of many recipients: as much as a session may owe.
pub const NODE_NOTIFY_WORK_MAX: u64 = WORK_BYTES_PER_S * WORK_AHEAD_MS as u64 / 1_000;

/// Nodes of a publish-subscribe service that a user may have subscribed to or created.
pub const NODE_MEMBERSHIPS_MAX: u32 = 1_000;

/// Bytes of the rows that record them.
pub const NODE_MEMBERSHIPS_BYTES_MAX: u32 = 256 << 10;

/// Maximum bytes of a row for a subscriber or affiliate of a node: two addresses, or an address and
/// a node.
pub const MEMBERSHIP_BYTES: u32 = 4_096;

/// Subscribers of a service's node, including those that wait for approval.
pub const NODE_SUBSCRIBERS_MAX: u32 = 1_000_000;

/// Owners of a service's node.
pub const NODE_OWNERS_MAX: usize = 16;

/// Items of a node of a service that a subscriber gets that was away: the latest ones.
pub const NODE_MISSED_ITEMS_MAX: u32 = 64;

/// The same in bytes; the item that reaches this number is the last one.
pub const NODE_MISSED_BYTES_MAX: u32 = 128 << 10;

/// Users of a shard whose nodes are asked at once for items that they have missed; others wait
/// their turn.
pub const NODE_CATCH_UPS: usize = 16;

/// Subscribers of a node that are read, and notified, at once. It is also the number that one
/// answer to an owner lists.
pub const NODE_TOLD_AT_ONCE: u32 = 1_024;

/// Requests of one user, or by HTTP of one network, that wait for their turn at a node of a
/// service. The same number of places is reserved for requests with the operator's token.
pub const NODE_WAITING_PER_USER_MAX: usize = 100;

const _: () = assert!(NODE_OWNERS_MAX <= u8::MAX as usize);
const _: () =
    assert!(NODE_AFFILIATES_MAX + NODE_OWNERS_MAX <= NODE_TOLD_AT_ONCE as usize, "one answer lists those affiliated");
const _: () = assert!(NODE_WAITING_PER_USER_MAX * 8 <= PARKED_STANZAS_MAX);
const _: () = assert!(NODE_ITEM_BYTES_MAX < wire::MAX_STANZA_BYTES_DEFAULT && NODE_ID_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(NODE_GROUPS_MAX <= u8::MAX as usize && NODE_AFFILIATES_MAX <= u16::MAX as usize);

// Interests of clients (XEP-0115, XEP-0060 9.2).

/// Nodes that a client may be interested in; above that the ones that sort first apply.
pub const INTERESTS_MAX: usize = 64;

/// Bytes of the names of these nodes.
pub const INTERESTS_BYTES_MAX: usize = 4_096;

/// Capabilities that a shard caches in addition to those of its sessions.
pub const CAPABILITIES_SPARE_MAX: usize = 1_024;

/// Milliseconds until a client may be asked again for the capabilities of a hash.
pub const CAPABILITIES_ASK_MS: u64 = 30_000;

/// Milliseconds that such a query waits for its answer before other clients are asked the same.
pub const CAPABILITIES_ANSWER_MS: u64 = 2_000;

const _: () = assert!(CAPABILITIES_ANSWER_MS * 8 < CAPABILITIES_ASK_MS, "others first");

/// Contacts whose last items are requested at once for one session.
pub const LAST_ITEMS_CONTACTS: usize = 16;

/// Sessions of a shard for which contacts are queried at once; others wait their turn.
pub const LAST_ITEMS_SESSIONS: usize = 16;

/// Users of a shard whose nodes are read at once for sessions that have become available.
pub const LAST_ITEMS_READS: usize = 32;

/// Bytes of items that a session that has become available receives from one user's nodes.
pub const LAST_ITEMS_BYTES: u32 = 512 << 10;

/// Milliseconds after which contacts that have not answered for their nodes are no longer waited
/// for.
pub const LAST_ITEMS_MS: u64 = 30_000;

// In-band registration (XEP-0077).

/// Maximum length of a password in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// Outstanding requests of the server to one client; above that the earliest is given up.
pub const ASKED_MAX: usize = 8;

// Bytestreams (XEP-0065).

/// Activations of one user's bytestreams that the proxy has not answered yet.
pub const ACTIVATIONS_USER_MAX: usize = 4;

/// The same for all users of a shard.
pub const ACTIVATIONS_MAX: usize = 256;

// Ad-hoc commands (XEP-0050).

/// Open command sessions of one user; above that the oldest are closed.
pub const ADHOC_SESSIONS_USER_MAX: usize = 4;

/// Open command sessions of all users of a shard.
pub const ADHOC_SESSIONS_MAX: usize = 10_000;

/// Lifetime of a command session, seconds.
pub const ADHOC_SESSION_S: u32 = 600;

/// Commands of a shard's users in progress at once.
pub const ADHOC_ORDERS_MAX: usize = 16;

/// JIDs that one command may name.
pub const ADHOC_JIDS_MAX: usize = 100;

/// Rows per list that a command requests.
pub const ADHOC_ROWS_MAX: usize = 200;

/// Reports per page of a list that a command requests.
pub const ADHOC_REPORTS_MAX: usize = 50;

/// Bytes of an option's name or value that a command sets.
pub const ADHOC_KNOB_BYTES_MAX: usize = 1_024;

/// Bytes of a text that administrators send to users.
pub const ADHOC_TEXT_BYTES_MAX: usize = 8_192;

/// Bytes of the text that new accounts receive: it is an option, whose value is bounded.
pub const ADHOC_WELCOME_BYTES_MAX: usize = 1_000;

/// Seconds without input from a client after which its session is listed as idle (XEP-0133 4.17).
pub const ADHOC_IDLE_S: u64 = 300;

// Announcements.

/// Announcements of a shard in progress at once.
pub const ANNOUNCEMENTS_MAX: usize = 4;

/// Sessions of a shard that receive an announcement per millisecond.
pub const ANNOUNCE_SESSIONS_MS: u64 = 20;

/// Bytes that these sessions receive per millisecond.
pub const ANNOUNCE_BYTES_MS: u64 = 16 << 10;

/// Maximum milliseconds that a turn catches up: one turn serves at most 2,000 sessions, or 1.6 MB.
pub const ANNOUNCE_STEP_MS: u64 = 100;

/// Bytes that wait for a shard's connections above which an announcement pauses until they have
/// been accepted.
pub const ANNOUNCE_WAITING_MAX: usize = 64 << 20;

// Archive queries (XEP-0313).

/// Maximum number of messages per page (XEP-0313 4.3.1).
pub const ARCHIVE_PAGE_MAX: usize = 100;

/// Bytes of a page's results: the page ends before the result that would exceed this, but has at
/// least one. A query begins when its session's unread and unacknowledged output leaves this much
/// room, so that a page delays no live message.
pub const ARCHIVE_PAGE_BYTES_MAX: usize = 32 << 10;

/// Ids that a query may request.
pub const ARCHIVE_IDS_MAX: usize = ARCHIVE_PAGE_MAX;

/// Elements of a query: its ids, and the form around them.
pub const ARCHIVE_QUERY_ELEMENTS_MAX: usize = ARCHIVE_IDS_MAX + 64;

/// Bytes of a query: its ids, a JID and its own id, with room for what clients add.
pub const ARCHIVE_QUERY_BYTES_MAX: usize = 16 << 10;

/// Maximum length of the `id` of a message that retracts another one (XEP-0424) for which the other
/// one becomes a tombstone: it is stored beside the archive. Ids are UUIDs or shorter.
pub const RETRACTION_ID_BYTES_MAX: usize = 512;

/// Bytes of the id by which a client identifies results (XEP-0313 4.2): each result repeats it.
/// Half a kilobyte is many times what clients send.
pub const ARCHIVE_QUERYID_BYTES_MAX: usize = 512;

/// Bytes of an archive that one query examines at most. If messages have been found by then it ends
/// there, and the client may continue.
pub const ARCHIVE_SCAN_BYTES_MAX: usize = 4 << 20;

/// Bytes of an archive that are read to count the matching messages (XEP-0059 2.7): with more, the
/// count is omitted.
pub const ARCHIVE_COUNT_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(ARCHIVE_COUNT_BYTES_MAX <= ARCHIVE_SCAN_BYTES_MAX, "a count is no dearer than a query");

/// Paced answers that a user's sessions may wait for; each is a query of one stanza.
pub const PACED_WAITING_MAX: usize = 16;

// Push notifications (XEP-0357).

/// Push services that a user may register; above that the oldest registration is removed.
pub const PUSH_REGISTRATIONS_MAX: usize = 8;

/// Maximum length of a service's node in bytes.
pub const PUSH_NODE_BYTES_MAX: usize = 512;

/// Maximum length of the form sent with each publication, in bytes as sent.
pub const PUSH_OPTIONS_BYTES_MAX: usize = 1_024;

/// Maximum bytes of a message's text that are sent to a service, if the operator permits it.
pub const PUSH_BODY_BYTES_MAX: usize = 256;

/// Users of a shard whose services are being notified, or were notified recently. For further users
/// nothing is sent until there is room.
pub const PUSH_USERS_MAX: usize = 1 << 16;

/// Services of a shard that are being notified, or were notified recently.
pub const PUSH_SERVICES_MAX: usize = 4_096;

/// Initial number of unanswered publications of a shard per service. Each accepted one adds one
/// more.
pub const PUSH_WINDOW_MIN: u16 = 4;

/// Maximum number of unanswered publications of a shard per service.
pub const PUSH_WINDOW_MAX: u16 = 1_024;

/// Milliseconds after which a publication without an answer has failed.
pub const PUSH_ANSWER_MS: u64 = 30_000;

/// Consecutive publications that may fail for temporary reasons before the registration ends.
pub const PUSH_FAILURES_MAX: u8 = 16;

/// Seconds without publications after the first failure; each further one doubles them.
pub const PUSH_BACKOFF_S: u64 = 60;

/// Maximum seconds without publications.
pub const PUSH_BACKOFF_S_MAX: u64 = 3_600;

const _: () = assert!(PUSH_WINDOW_MIN > 0 && PUSH_WINDOW_MIN <= PUSH_WINDOW_MAX && PUSH_REGISTRATIONS_MAX <= 16);
// Their lengths have two bytes in the row.
const _: () = assert!(PUSH_NODE_BYTES_MAX + PUSH_OPTIONS_BYTES_MAX <= u16::MAX as usize);

/// The beginning of a text, of at most `bytes_max` bytes, cut at a character boundary.
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut len = text.len().min(bytes_max);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// Maximum length of an uploaded file's name in bytes (XEP-0363): what clients' file systems
/// support.
pub const UPLOAD_NAME_BYTES_MAX: usize = 255;

/// Maximum length of an uploaded file's content type in bytes.
pub const UPLOAD_TYPE_BYTES_MAX: usize = 127;

/// Maximum number of one user's valid slots: all of them are in one row.
pub const UPLOAD_SLOTS_MAX: u16 = 1_000;

// The length has one byte in a slot's token.
const _: () = assert!(UPLOAD_TYPE_BYTES_MAX <= u8::MAX as usize);

/// Maximum length of the head of an HTTP request in bytes, including its empty line (RFC 9112 2.3,
/// RFC 6585 5).
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Header fields of a request.
pub const HTTP_HEADERS_MAX: usize = 64;

/// Maximum length of a request target in bytes (RFC 9110 4.1 asks for 8,000 for long URIs; the
/// paths of this server are short).
pub const HTTP_TARGET_BYTES_MAX: usize = 2 << 10;

/// Maximum length of a chunk line, including its extensions and its end, and of a trailer field,
/// bytes (RFC 9112 7.1).
pub const HTTP_CHUNK_LINE_BYTES_MAX: usize = 1 << 10;

/// Maximum length of what the log shows of an invalid client address from a proxy, characters.
pub const FORWARDED_CHARS_MAX: usize = 64;

/// Requests per connection; it is closed after the last one.
pub const HTTP_REQUESTS_MAX: u8 = 100;

/// When an in-memory channel uses half of its shard's memory, this fraction of that half is removed
/// at once: its oldest items.
pub const IN_MEMORY_SLACK: usize = 8;

/// Maximum length of a WebSocket message for which a shard keeps memory in reserve, bytes.
pub const WEBSOCKET_MEMORY_BYTES: usize = 64 << 10;

const _: () = assert!(HTTP_TARGET_BYTES_MAX < HTTP_HEAD_BYTES_MAX && HTTP_CHUNK_LINE_BYTES_MAX < HTTP_HEAD_BYTES_MAX);

// BOSH (XEP-0124).

/// Maximum length of a request body in bytes: the longest stanza that servers accept by default,
/// and as much again.
pub const BOSH_BODY_BYTES_MAX: usize = 512 << 10;

/// Incomplete request bodies of a shard that are longer than the limit before a login: at this
/// number, such a request is refused.
pub const BOSH_LONG_BODIES_MAX: usize = 128;

/// Maximum time that a request may wait for its answer, seconds.
pub const BOSH_WAIT_S_MAX: u32 = 60;

/// Seconds after which the connection's shard answers a request itself: longer than any session
/// lets one wait.
pub const BOSH_ANSWER_S_MAX: u32 = BOSH_WAIT_S_MAX + 30;

/// Requests that a session may keep waiting.
pub const BOSH_HOLD_MAX: u8 = 1;

/// Seconds for which a session may be without a request.
pub const BOSH_INACTIVITY_S: u32 = 30;
/// The same for a polling session (XEP-0124 12): longer by more than [`BOSH_POLLING_S`].
pub const BOSH_INACTIVITY_POLLING_S: u32 = 60;

/// Minimum interval between two requests without content, seconds (XEP-0124 11, 12).
pub const BOSH_POLLING_S: u32 = 2;

/// Maximum pause that a client may request, seconds (XEP-0124 10).
pub const BOSH_PAUSE_S_MAX: u32 = 120;

/// How often requests of a session may be repeated until there is a new one (XEP-0124 14.3).
pub const BOSH_REPEATS_MAX: u8 = 10;

/// Milliseconds after which an unacknowledged answer is reported to the client (XEP-0124 9.2).
pub const BOSH_REPORT_MS: u64 = 1_000;

/// Bytes of a session's requests that wait for the processing of earlier ones.
pub const BOSH_QUEUE_BYTES_MAX: usize = 2 * BOSH_BODY_BYTES_MAX;

/// Seconds since the last query for which a shard remembers the new location of a session that
/// began there: longer than a session can be silent.
pub const BOSH_FORWARD_S: u32 = 300;

/// Maximum length of the `content` attribute in bytes (XEP-0124 7.1).
pub const BOSH_CONTENT_BYTES_MAX: usize = 80;

/// Bytes of a client's input that are kept after a request whose answer waits.
pub const HTTP_BEHIND_BYTES_MAX: usize = 8 << 10;

const _: () = assert!(BOSH_FORWARD_S > BOSH_ANSWER_S_MAX + BOSH_PAUSE_S_MAX + BOSH_INACTIVITY_POLLING_S);
const _: () = assert!(BOSH_INACTIVITY_POLLING_S - BOSH_INACTIVITY_S > BOSH_POLLING_S);
const _: () = assert!(BOSH_PAUSE_S_MAX > BOSH_INACTIVITY_POLLING_S && BOSH_ANSWER_S_MAX > BOSH_WAIT_S_MAX);
const _: () = assert!(wire::MAX_STANZA_BYTES_DEFAULT < BOSH_BODY_BYTES_MAX && PREAUTH_BYTES_MAX < BOSH_BODY_BYTES_MAX);

// Notifications.

/// Maximum length of a notification channel's name, bytes.
pub const NOTIFY_NAME_BYTES_MAX: usize = 128;

/// Maximum number of channels per request.
pub const NOTIFY_CHANNELS_MAX: usize = 16;

/// Maximum number of prefixes per request.
pub const NOTIFY_PREFIXES_PER_REQUEST_MAX: usize = 4;

/// Maximum number of feeds that a request with several prefixes subscribes to: one per prefix and
/// shard.
pub const NOTIFY_FEEDS_PER_REQUEST_MAX: usize = 128;

/// Maximum number of separators in a prefix: an item is sent to at most one feed more than that, or
/// to twice as many if some of the channels are private.
pub const NOTIFY_PREFIX_PARTS_MAX: usize = 8;

/// A waiting request counts as this many requests of its address per prefix, because each
/// publication below the prefix is charged for it.
pub const NOTIFY_REQUESTS_PER_PREFIX: usize = 16;

/// Prefixes for which the requests of one address wait at a shard.
pub const NOTIFY_PREFIXES_PER_ADDRESS_MAX: usize = 16;

/// Prefixes for which the requests of a shard wait.
pub const NOTIFY_PREFIXES_MAX: usize = 1_024;

/// Prefixes for which a home has feeds, per shard that may watch some: twice as many as a shard can
/// have.
pub const NOTIFY_FEEDS_PER_SHARD_MAX: usize = 2 * NOTIFY_PREFIXES_MAX;

/// Items that a feed caches by number, for subscribers that return or are slow.
pub const NOTIFY_FEED_ITEMS_MAX: usize = 4_096;

/// The same for all feeds of a home. At the limit, each has the same share.
pub const NOTIFY_FEED_ITEMS_ALL_MAX: usize = 65_536;

/// Maximum length of an item's content that is published by HTTP, bytes. In XML it may become a
/// third longer.
pub const NOTIFY_BODY_BYTES_MAX: usize = 32 << 10;

/// Maximum number of items per batch publication: one page for readers.
pub const NOTIFY_BATCH_ITEMS_MAX: usize = NOTIFY_PAGE_ITEMS_MAX as usize;

/// Maximum length of a batch, bytes.
pub const NOTIFY_BATCH_BYTES_MAX: usize = 64 << 10;

/// Maximum length of the content type of such an item, bytes.
pub const NOTIFY_TYPE_BYTES_MAX: usize = 128;

/// Maximum length of an `Idempotency-Key`, bytes.
pub const NOTIFY_KEY_BYTES_MAX: usize = 64;

/// Maximum time that a request waits for items, seconds.
pub const NOTIFY_WAIT_S_MAX: u32 = 300;

/// Maximum number of stored items of a channel that is created by a publication over HTTP: a node
/// has room for that many of maximum length.
pub const NOTIFY_ITEMS_MAX: u32 = 150;

/// Items that are read at once for all channels of one request.
pub const NOTIFY_PAGE_ITEMS_MAX: u32 = 64;
/// The same in bytes.
pub const NOTIFY_PAGE_BYTES_MAX: u32 = 128 << 10;

/// Sessions that receive a stanza of a room at once; the shard does other work in between.
pub const ROOM_CAST_AT_ONCE: usize = 128;

/// Bytes of stanzas of rooms, and of the addresses of their receivers, that wait at a shard. Beyond
/// them it does no other work until they are fewer.
pub const ROOM_CASTS_BYTES_MAX: usize = 8 << 20;

/// Subscribers of a channel that are notified at once; the shard does other work in between.
pub const NOTIFY_TOLD_AT_ONCE: usize = 128;

/// Subscribers of a channel that are moved to its home, which then notifies them itself. Each costs
/// a send and no letter; larger numbers are notified sooner by several shards.
pub const NOTIFY_AT_HOME_MAX: u32 = 64;

/// A shard accepts connections from another one until it has twice as many waiting ones as that
/// shard, plus this many.
pub const NOTIFY_FOLLOWERS_AHEAD: u32 = 4_096;

/// Seconds for which a home that accepts no more of them is not tried again.
pub const NOTIFY_STAY_S: u32 = 60;

/// Crowded channels that a shard records, and channels to which it moves connections within one
/// second.
pub const NOTIFY_STAYS_MAX: usize = 4_096;

/// Items of a channel that a shard holds until all of its subscribers have received them. A
/// subscriber that has missed more reads them from the channel. A batch fits: otherwise each of
/// many subscribers would read it.
pub const NOTIFY_RECENT_MAX: usize = NOTIFY_BATCH_ITEMS_MAX;
/// The same in bytes.
pub const NOTIFY_RECENT_BYTES_MAX: usize = 128 << 10;

/// Channels of a home that other shards may watch.
pub const NOTIFY_WATCHED_MAX: usize = 200_000;

/// Addresses for which a shard counts waiting requests and publications.
pub const NOTIFY_ADDRESSES_MAX: usize = 65_536;

/// Interval in which a shard renews its watch on each channel, seconds.
pub const NOTIFY_RENEW_S: u32 = 30;

/// Seconds after which a watch that is not renewed ends.
pub const NOTIFY_FORGET_S: u32 = 120;

/// Subscribers receive a heartbeat after this many seconds of silence.
pub const NOTIFY_HEARTBEAT_S: u32 = 15;

/// Seconds after which a request to the home of a channel counts as lost.
pub const NOTIFY_ANSWER_S: u32 = 10;

/// Milliseconds per channel that an address creates, in the long run.
pub const NOTIFY_MAKE_MS: u64 = 10_000;

/// Channels that an address may create at once.
pub const NOTIFY_MADE_AT_ONCE: u64 = 10;

/// This many notified subscribers count as one publication.
pub const NOTIFY_TOLD_PER_PUBLICATION: u32 = 16;

/// Maximum length of a body that registers a page for pushes, bytes.
pub const NOTIFY_PUSH_BODY_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a push service address, bytes.
pub const NOTIFY_PUSH_ENDPOINT_BYTES_MAX: usize = 1_024;

/// Maximum length of a push's content, bytes: with the header of RFC 8188 (21), the sender's key in
/// it (65), the delimiter (1) and the tag (16) this is the 4,096 that any push service accepts (RFC
/// 8291 4, RFC 8030 7.2).
pub const NOTIFY_PUSH_BYTES_MAX: usize = 4_096 - 21 - 65 - 1 - 16;

/// Maximum number of push services that an operator can name.
pub const NOTIFY_PUSH_SERVICES_MAX: usize = 16;

/// Pushes of a shard to one push service in progress at once.
pub const NOTIFY_PUSH_UNDER_WAY_MAX: usize = 256;

/// Registrations that are read at once.
pub const NOTIFY_PUSH_PAGE: u32 = 64;

/// Bytes of registrations that are read at once to find expired ones.
pub const NOTIFY_PUSH_ENDS_BYTES_MAX: u32 = 32 << 10;

/// Channels of a shard with a round in progress, or an item that waits for one.
pub const NOTIFY_PUSH_ROUNDS_MAX: usize = 4_096;

/// Channels for which a shard caches that they have no registrations, or when they were last
/// notified.
pub const NOTIFY_PUSH_CHANNELS_MAX: usize = 65_536;

/// Pages that a home knows to be listening.
pub const NOTIFY_PUSH_LISTENING_MAX: usize = 65_536;

/// Milliseconds after which a round that finds a push service full tries again.
pub const NOTIFY_PUSH_AGAIN_MS: u64 = 100;

/// Milliseconds without any progress after which it drops the pushes to that service.
pub const NOTIFY_PUSH_PATIENCE_MS: u64 = 30_000;

/// Maximum length of a form that publishes a Mercure update, bytes: content in which each byte is
/// escaped, and 8 KiB for the rest.
pub const MERCURE_FORM_BYTES_MAX: usize = 3 * NOTIFY_BODY_BYTES_MAX + (8 << 10);

/// Maximum length of a URI template that selects topics, bytes: a longer one only matches an
/// identical topic.
pub const MERCURE_TEMPLATE_BYTES_MAX: usize = NOTIFY_NAME_BYTES_MAX;

/// Maximum number of variables of a template. Each is matched against the whole topic.
pub const MERCURE_TEMPLATE_VARIABLES_MAX: usize = 8;

/// Maximum number of channel subscriptions of one Centrifugo connection.
pub const CENTRIFUGO_CHANNELS_MAX: usize = 128;

/// This many subscriptions count as one waiting request of the address.
pub const CENTRIFUGO_CHANNELS_PER_WAITING: usize = NOTIFY_CHANNELS_MAX;

/// Maximum length of a message of commands, bytes; before the first one is answered,
/// [`PREAUTH_BYTES_MAX`].
pub const CENTRIFUGO_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Commands of one connection that wait for homes of channels at once, except subscriptions.
pub const CENTRIFUGO_WAITING_MAX: usize = 32;

/// Queries of one connection that homes have not answered, including those of commands that no
/// longer wait.
pub const CENTRIFUGO_QUESTIONS_MAX: u16 = (CENTRIFUGO_CHANNELS_MAX + CENTRIFUGO_WAITING_MAX) as u16;

/// Of these, queries for published items: for history commands, and for subscriptions that recover.
pub const CENTRIFUGO_HISTORIES_MAX: usize = 2;
/// See [`CENTRIFUGO_HISTORIES_MAX`]. Others wait until one is answered, and until the client reads
/// its output.
pub const CENTRIFUGO_RECOVERIES_MAX: usize = 4;

/// Interval of pings to a client, seconds; it must answer before the next one.
pub const CENTRIFUGO_PING_S: u32 = 25;

const _: () =
    assert!(CENTRIFUGO_CHANNELS_MAX <= u8::MAX as usize && NOTIFY_BODY_BYTES_MAX < CENTRIFUGO_MESSAGE_BYTES_MAX);
const _: () = assert!(NOTIFY_JWT_BYTES_MAX < PREAUTH_BYTES_MAX && PREAUTH_BYTES_MAX < CENTRIFUGO_MESSAGE_BYTES_MAX);

/// Maximum length of a token (RFC 7519), bytes; in a request target [`HTTP_TARGET_BYTES_MAX`] is
/// lower.
pub const NOTIFY_JWT_BYTES_MAX: usize = 4 << 10;

/// Channels, or channel prefixes, in each of the two lists of a token.
pub const NOTIFY_JWT_PATTERNS_MAX: usize = 64;

/// Maximum length of a key's or token's `kid`, bytes.
pub const NOTIFY_JWT_KID_BYTES_MAX: usize = 128;

/// Maximum length of a token's `jti`, bytes.
pub const NOTIFY_JWT_JTI_BYTES_MAX: usize = 128;

/// Keys that verify tokens. Each token is checked against one.
pub const NOTIFY_JWT_KEYS_MAX: usize = 16;

/// Maximum size of a key file, bytes.
pub const NOTIFY_JWT_KEYS_BYTES_MAX: usize = 64 << 10;

/// Maximum size of a file of revoked tokens, bytes.
pub const NOTIFY_JWT_REVOKED_BYTES_MAX: usize = 4 << 20;

/// Cache of a shard for verified tokens, in two halves of which the older one is dropped, bytes.
pub const NOTIFY_JWT_KNOWN_BYTES_MAX: usize = 8 << 20;

/// The cost of a wrong signature in its address' time, milliseconds: ten per second in the long
/// run.
pub const NOTIFY_JWT_WRONG_MS: u64 = 100;

/// Milliseconds of such time that an address may owe before none of its tokens are verified: fifty
/// at once.
pub const NOTIFY_JWT_WRONG_AHEAD_MS: u64 = 5_000;

/// Queries of a shard about channels to the operator's service in progress at once. At the limit,
/// further ones are refused at once.
pub const NOTIFY_INQUIRIES_MAX: usize = 4_096;

/// Bytes of requests that a shard holds until these are answered.
pub const NOTIFY_HELD_BYTES_MAX: usize = 16 << 20;

/// The same per address.
pub const NOTIFY_HELD_BYTES_PER_ADDRESS_MAX: usize = 1 << 20;

/// Maximum seconds for which a request is held. The query has timed out before that.
pub const NOTIFY_HELD_S: u32 = 70;

/// Cache of a shard for the answers, in two halves of which the older one is dropped, bytes.
pub const NOTIFY_DECISIONS_BYTES_MAX: usize = 4 << 20;

/// Milliseconds after which a denial is queried again.
pub const NOTIFY_DENIED_MS: u64 = 5_000;

/// Maximum duration of a permission, seconds.
pub const NOTIFY_PERMIT_S_MAX: u32 = 86_400;

/// Milliseconds of query time that an address may owe before none of its requests are queried.
pub const NOTIFY_ASKED_AHEAD_MS: u64 = 10_000;

/// Maximum length of a token's `sub` that is used as a subscriber's name, bytes.
pub const NOTIFY_SUBJECT_BYTES_MAX: usize = 128;

/// Names of a channel's subscribers that a shard reports, and that a query returns. Further ones
/// are only counted.
pub const NOTIFY_WHO_MAX: usize = 1_000;

/// Names that a channel's subscribers receive as others join and leave. With more, they only
/// receive the number of subscribers.
pub const NOTIFY_WHO_TOLD_MAX: usize = 100;

/// Minimum interval between reports of changes to a channel's subscribers, milliseconds: by a shard
/// to the home, by the home to a shard, and to a subscriber.
pub const NOTIFY_WHO_MS: u64 = 1_000;

/// Subscribers of a channel per second to which a shard reports changes, in the long run: with
/// more, each receives them less often.
pub const NOTIFY_WHO_TOLD_PER_S: u64 = 10_000;

/// Milliseconds for which a long-polling client counts as present after an answer unless it polls
/// again: at least this long, at most twice as long.
pub const NOTIFY_AWAY_MS: u64 = 5_000;

/// Such clients of a shard. Further ones count as absent with their answer.
pub const NOTIFY_AWAY_MAX: usize = 131_072;

/// Channels without waiting subscribers at a shard for which it repeats that report, in case the
/// first letter is lost. With more, homes detect it after [`NOTIFY_FORGET_S`] without a report.
pub const NOTIFY_EMPTY_MAX: usize = 16_384;

/// Channels per turn for which a shard reports subscribers, or detects absent ones.
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

// Rooms (XEP-0045).

/// Occupants of a room, unless its configuration permits fewer.
pub const ROOM_OCCUPANTS_MAX: usize = 100_000;

/// Sessions of one user in a room.
pub const ROOM_SEATS_PER_USER_MAX: usize = 20;

/// Sessions in a room up to which the presence of all occupants is broadcast. In a larger room it is
/// that of moderators only: with n occupants who come and go, n * n stanzas would be sent.
pub const ROOM_BROADCAST_OCCUPANTS_MAX: usize = 500;

/// Sessions in a room above which the presence of an occupant is coalesced for the others.
pub const ROOM_COALESCED_SEATS: usize = 50;

/// Milliseconds between two coalesced updates of presence in such a room.
pub const ROOM_COALESCED_MS: u64 = 1_000;

/// Maximum number of nicks that wait for such an update. With more, it is sent at once.
pub const ROOM_UNSAID_MAX: usize = 256;

/// Bytes of a presence that a room shows to its occupants.
pub const ROOM_PRESENCE_BYTES_MAX: usize = 4_096;

/// Bytes of a subject.
pub const ROOM_SUBJECT_BYTES_MAX: usize = 4_096;

/// Bytes of the name of a room.
pub const ROOM_NAME_BYTES_MAX: usize = 256;

/// Bytes of the description of a room.
pub const ROOM_DESCRIPTION_BYTES_MAX: usize = 2_048;

/// Bytes of the password of a room.
pub const ROOM_PASSWORD_BYTES_MAX: usize = 256;

/// Bytes of a reason; the rest is cut off.
pub const ROOM_REASON_BYTES_MAX: usize = 1_024;

/// Seconds between two messages of an occupant that slow mode can require.
pub const ROOM_SLOW_MODE_S_MAX: u16 = 3_600;

/// Messages of history that a room keeps in memory and sends to newcomers.
pub const ROOM_HISTORY_MAX: usize = 50;

/// Bytes of these messages.
pub const ROOM_HISTORY_BYTES_MAX: usize = 64 << 10;

/// Standings up to which a room has all of them in memory. With more, each is read when it is
/// needed.
pub const ROOM_STANDINGS_IN_MEMORY_MAX: usize = 1_000;

/// Users of a list of affiliations or roles that a request can retrieve.
pub const ROOM_LIST_MAX: usize = 5_000;

/// Items of a request that changes roles or affiliations.
pub const ROOM_ADMIN_ITEMS_MAX: usize = 100;

/// Requests for the vCard of a room that are answered before others get their turn.
pub const ROOM_CARDS_AT_ONCE: u32 = 16;

/// Invitations in one message.
pub const ROOM_INVITATIONS_AT_ONCE: usize = 10;

/// Invitations that a room remembers: a refusal of another one is not passed on to its inviter.
pub const ROOM_INVITED_MAX: usize = 256;

/// Requests to register with a room that wait for its admins: one per user.
pub const ROOM_REQUESTS_MAX: usize = 50;

/// Requests of which the admins in the room are told at once. Others they get on entering.
pub const ROOM_REQUESTS_BURST: u32 = 10;

/// Seconds between two requests of which they are told, on average.
pub const ROOM_REQUESTS_EVERY_S: u32 = 6;

/// Bytes of the URI or the title of a hat.
pub const ROOM_HAT_BYTES_MAX: usize = 256;

/// Bytes of the hue of a hat: an angle in degrees, with its decimal places.
pub const ROOM_HUE_BYTES_MAX: usize = 16;

/// Bytes of text in all hats of a room, and in the list of those who wear them.
pub const ROOM_HATS_BYTES_MAX: usize = 32 << 10;

/// Hats of one user in a room: they are part of each presence.
pub const ROOM_HATS_PER_USER_MAX: usize = 5;

/// Bytes of the vCard of a room.
pub const ROOM_CARD_BYTES_MAX: usize = 64 << 10;

/// Images in the vCard of a room.
pub const ROOM_PHOTOS_MAX: usize = 4;

/// Mentions of a message that are forwarded.
pub const ROOM_FORWARDS_MAX: usize = 10;

/// Stanzas that wait for a room while it reads rows.
pub const ROOM_WAITING_MAX: usize = 10_000;

/// Waiting stanzas whose rows are read together.
pub const ROOM_NEEDS_AHEAD: usize = 64;

/// Sessions of a room that are read at once after a start.
pub const ROOM_OCCUPANTS_PAGE: usize = 5_000;

/// Rooms in which one session can be behind. In further ones it misses messages.
pub const ROOMS_BEHIND_MAX: usize = 200;

/// Rows of the archive that a session that is behind reads at once, and their bytes.
pub const ROOM_AGAIN_ROWS: u32 = 64;

/// See [`ROOM_AGAIN_ROWS`].
pub const ROOM_AGAIN_BYTES: u32 = 128 << 10;

/// Seconds after which a session that is behind repeats a request that was not answered.
pub const ROOM_AGAIN_S: u32 = 60;

/// Archived messages of a room after which it writes how many there are. Not more than
/// [`ROOM_HISTORY_MAX`]: a room counts those that came after it when it is read.
pub const ROOM_COUNTED_EVERY: u32 = 32;

/// Rooms of which one answer says what their member has missed.
pub const ROOM_COUNTS_PAGE: usize = 200;

/// Bytes of the rows that are read of each of these rooms, for which the user is charged.
pub const ROOM_COUNT_BYTES: usize = 1_024;

/// Members of a room whose devices can be woken while they are absent.
pub const ROOM_ALERTS_MAX: usize = 10_000;

/// Bytes at the beginning of a text in which members may be mentioned by their nicks.
pub const ROOM_MENTION_BYTES: usize = 1_024;

/// Addresses that one message may mention.
pub const ROOM_MENTIONS_MAX: usize = 20;

/// Seconds for which messages of a room do not wake a member again.
pub const ROOM_ALERT_S: u32 = 60;

/// Bytes of the nick by which others mention a member.
pub const ROOM_ALERT_NICK_BYTES_MAX: usize = 256;

/// Bytes sent by a room as which a member counts that is woken.
pub const ROOM_ALERT_BYTES: usize = 1_024;

/// Rooms of a directory in one answer.
pub const ROOM_DIRECTORY_PAGE: usize = 500;

/// Seconds whose joins of strangers may come to a room at once, at the permitted rate.
pub const ROOM_JOINS_BURST_S: u32 = 10;

/// Longest time for which an operator can close a room to strangers, seconds.
pub const ROOM_CLOSED_S_MAX: u32 = 7 * 86_400;

/// Results of a search of the directory in one answer.
pub const ROOM_SEARCH_RESULTS: usize = 100;

/// Pages of the directory that a search reads for one answer; the searcher can go on behind them.
pub const ROOM_SEARCH_PAGES: usize = 4;

/// Bytes of the terms of a search; the rest is cut off.
pub const ROOM_SEARCH_BYTES_MAX: usize = 256;

/// Seconds for which an empty room stays in memory.
pub const ROOM_IDLE_S: u32 = 30;

/// Seconds after which a room that its creator has not configured ends.
pub const ROOM_LOCKED_S: u32 = 300;

/// The part of the bytes that a room sends for a message, by which its sender is charged: one in so
/// many.
pub const ROOM_CHARGED_SHARE: usize = 16;

/// Bytes sent by a room as which its creation counts: [`WORK_BYTES_PER_S`] allows a session one room
/// per second.
pub const ROOM_CREATION_BYTES: usize = ROOM_CHARGED_SHARE * WORK_BYTES_PER_S as usize;

const _: () = assert!(ROOM_HISTORY_MAX <= u8::MAX as usize && ROOM_IDLE_S < ROOM_LOCKED_S);
const _: () = assert!(ROOM_COUNTED_EVERY as usize <= ROOM_HISTORY_MAX);

// What crosses between processes.

/// Bytes of one batch of letters, connection or half of a session as it is written for another
/// process.
pub const CROSSING_BYTES_MAX: usize = 64 << 20;

/// Letters of one batch that another process has written. A letter has at least 3 bytes there and 80
/// in memory.
pub const CROSSING_LETTERS_MAX: usize = 1 << 20;

/// Steps of one request that another process has written, each in the one before: every extension
/// that joins another one's requests adds two.
pub const CROSSING_NESTED_MAX: u8 = 16;

/// Parcels on a link that the peer has not confirmed; with more, the link is renewed.
pub const LINK_PARCELS_MAX: usize = 65_536;

/// Bytes of these; with more, the link is renewed.
pub const LINK_BYTES_MAX: usize = 256 << 20;

/// Parcels that a link transmits beyond the first that is not confirmed. The receiver keeps as many
/// that arrive out of order.
pub const LINK_WINDOW: usize = 64;

/// Milliseconds after which an unconfirmed parcel is transmitted again. The time doubles with each
/// attempt, up to [`LINK_RETRY_MS_MAX`].
pub const LINK_RETRY_MS: u64 = 50;

/// Longest time between two attempts, milliseconds.
pub const LINK_RETRY_MS_MAX: u64 = 800;

/// Users whose contacts at a shard are told of their presence again in one step of the sweep, after a
/// renewal of the link to it.
pub const RENEWED_AT_ONCE: u32 = 64;

/// Milliseconds after which the oldest unconfirmed parcel is given up and the link is renewed.
pub const LINK_PATIENCE_MS: u64 = 10_000;

const _: () = assert!(LINK_WINDOW < LINK_PARCELS_MAX && CROSSING_BYTES_MAX < LINK_BYTES_MAX);
const _: () = assert!(LINK_RETRY_MS_MAX * 10 < LINK_PATIENCE_MS);
