//! The operator's settings in the form that the engine needs: one value shared by all shards of a
//! process.

use std::sync::Arc;

use crate::extension::invite::may::Invitations;
use crate::extension::invite::names::Withheld;
use crate::extension::service::SharedSecret;
use crate::id::{ActorKind, Domains, PartitionMap, Service, ShardId};
use crate::limits::{NOTIFY_JWT_WRONG_MS, NOTIFY_MAKE_MS, ROSTER_BYTES_MAX, ROSTER_ITEMS_MAX};
use crate::session::pace::Allowances;
use crate::session::sasl::ThrottleParams;
use crate::store::announcement::Kept;
use crate::store::hash::Hashes;
use crate::web::policy::Policy;

/// Default number of seconds within which a peer must accept some of the output.
pub const SEND_STALL_S_DEFAULT: u32 = 60;

/// Default number of bytes that may wait for one connection.
pub const OUTBOUND_BYTES_DEFAULT: usize = 2 << 20;

/// Typical size in bytes of an available presence from current clients.
const PRESENCE_BYTES_USUAL: usize = 350;

const _: () = assert!(
    ROSTER_BYTES_MAX + ROSTER_ITEMS_MAX * PRESENCE_BYTES_USUAL <= OUTBOUND_BYTES_DEFAULT,
    "the largest roster and the presence of all its contacts come with a login"
);

/// Default number of bytes that may wait for one component.
pub const COMPONENT_QUEUE_BYTES_DEFAULT: usize = 16 << 20;

/// The behaviour when a resource is bound twice (RFC 6120 7.7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceConflict {
    /// The old session ends with `<conflict/>`.
    ReplaceOld,
    /// The new session is refused with `<conflict/>`.
    RefuseNew,
}

/// The recipients of a message to a bare JID (RFC 6121 8.5.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareDelivery {
    /// Every available resource of non-negative priority.
    All,
    /// The resource of highest priority, the most recently active among equals.
    MostAvailable,
}

/// The content of notifications to push services about a message (XEP-0357 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PushDetails {
    /// The number of waiting messages.
    Count,
    /// Additionally the sender of the last message.
    Sender,
    /// Additionally the beginning of its text.
    Body,
}

/// Who may create rooms by entering them (XEP-0045 10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomCreation {
    /// Everybody who can reach the service, users of components too.
    Everybody,
    /// Users of this server.
    Users,
    /// Administrators.
    Admins,
}

/// Settings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The domains served.
    pub domains: Arc<Domains>,
    /// Public facts about the server (XEP-0030, XEP-0092).
    pub facts: crate::extension::ServerFacts,
    /// Bare JIDs of the administrators, which manage the service by commands (XEP-0133).
    pub admins: Arc<[Box<str>]>,
    /// Bare JIDs of further users that may invite to new accounts (XEP-0401 6.3).
    pub inviters: Arc<[Box<str>]>,
    /// What every user may invite to.
    pub invitations: Invitations,
    /// Lifetime of users' invitations, seconds.
    pub invitation_s: u64,
    /// The address of a web page for invited users, with a placeholder for the token: see
    /// [`links`](crate::extension::invite::links).
    pub invitation_page: Option<Box<str>>,
    /// Normalised localparts that may not be registered in band, nor may similar ones, without an
    /// invitation by the operator or an administrator.
    pub reserved_names: Arc<[Box<str>]>,
    /// Maximum number of accounts per domain that wait for approval.
    pub applicants_max: u32,
    /// How long each may wait, seconds.
    pub applicants_s: u64,
    /// The text that each new account receives; empty for none.
    pub welcome: Arc<str>,
    /// Maximum number of stored reports per domain: at most
    /// [`REPORTS_MAX`](crate::limits::REPORTS_MAX).
    pub reports_max: u32,
    /// How long a report is stored, seconds.
    pub reports_s: u64,
    /// The announcement for users that log in later, as of the start.
    pub kept: Option<Arc<Kept>>,
    /// The secret by which the component of each normalised domain authenticates (XEP-0114 3).
    pub component_secrets: Arc<[(Box<str>, SharedSecret)]>,
    /// Bytes that may wait for one component.
    pub component_queue_bytes_max: usize,
    /// Who may create rooms.
    pub room_creation: RoomCreation,
    /// Users without an affiliation that may join one room per second; 0 for any number.
    pub room_joins_per_s: u32,
    /// Whether all rooms admit only users with an affiliation, for the time of an attack.
    pub room_members_only: bool,
    /// The assignment of partitions to shards, and the number of shards.
    pub partitions: Arc<PartitionMap>,
    /// Largest stanza, and largest stream header, in bytes (XEP-0478 `max-bytes`).
    pub stanza_bytes_max: usize,
    /// Maximum number of simultaneous resources per user.
    pub sessions_per_user_max: u16,
    /// The behaviour when a resource is bound twice.
    pub resource_conflict: ResourceConflict,
    /// The recipients of messages to a bare JID.
    pub bare_delivery: BareDelivery,
    /// Whether the store has sessions of an earlier process, which are being restored until the
    /// host reports completion.
    pub restores: bool,
    /// Maximum time that a session waits to be resumed (XEP-0198 5), seconds.
    pub resume_s_max: u32,
    /// Seconds after which a silent session is pinged, and after as many again ended; 0 for never.
    pub idle_s_max: u32,
    /// Seconds after which a connection without a bound resource is closed.
    pub preauth_s_max: u32,
    /// Seconds after which a connection whose peer accepts no bytes is closed.
    pub send_stall_s_max: u32,
    /// Waiting or unacknowledged bytes per connection above which no more output from others is
    /// sent to it. A session that continues to send requests, and leaves twice as much
    /// unacknowledged, ends.
    pub outbound_bytes_max: usize,
    /// Waiting or unacknowledged bytes per connection above which messages stay in the log until
    /// the peer has caught up, and the connection's requests wait until it has read the rest.
    pub outbound_bytes_soft: usize,
    /// Unacknowledged stanzas of a managed session from which messages stay in the log.
    pub unacked_max: usize,
    /// Unconfirmed stanzas of one session to other homes from which it is no longer read from.
    pub in_flight_max: u16,
    /// Bytes of one session's stanzas that may arrive before their effects are durable; from then
    /// on it is not read from until they are.
    pub in_flight_bytes_max: usize,
    /// Whether to store every message in the users' archives, rather than only while it waits for
    /// delivery.
    pub archive: bool,
    /// Age at which archived, delivered messages are deleted, seconds; 0 for never.
    pub retention_s: u64,
    /// Maximum number of messages that wait for one user.
    pub waiting_messages_max: u32,
    /// Maximum bytes of messages that wait for one user.
    pub waiting_bytes_max: u64,
    /// Messages that one account may add to logs per day; 0 for no limit.
    pub log_messages_day: u64,
    /// Bytes of messages that one account may add to logs per day; 0 for no limit.
    pub log_bytes_day: u64,
    /// The rate of stanzas that one account may send over all its sessions; faster ones are read
    /// later. [`Allowances::NONE`] until the host sets it.
    pub paces: Allowances,
    /// Bare JIDs of further accounts with the rate of busy accounts, which administrators have.
    pub busy_accounts: Arc<[Box<str>]>,
    /// Minimum interval between notifications to a user's push services, milliseconds (XEP-0357).
    pub push_interval_ms: u64,
    /// The content of these notifications.
    pub push_details: PushDetails,
    /// Unacknowledged bytes (XEP-0198) of all sessions of the process from which messages stay in
    /// the logs of users that leave some unacknowledged; 0 for no limit.
    pub unacked_bytes_max: u64,
    /// Unauthenticated connections per address, for the whole process; 0 for no limit.
    pub opening_per_address_max: u32,
    /// Iterations of SCRAM keys of new passwords (RFC 7677 4).
    pub scram_iterations: u32,
    /// Hash functions with which SCRAM is offered to all clients.
    pub scram_hashes: Hashes,
    /// Hash functions of which accounts may lack keys, and gain them (XEP-0480).
    pub scram_upgrades: Hashes,
    /// Whether users of an external back end may have tokens (XEP-0484), which are valid as long as
    /// the user exists.
    pub outside_tokens: bool,
    /// Whether to record each successful login, for a detailed log.
    pub note_logins: bool,
    /// Failed SASL attempts per stream (RFC 6120 6.4.5).
    pub auth_attempts_max: u8,
    /// Number of passwords that a shard remembers as digests, so that a storm of PLAIN logins is
    /// cheap.
    pub plain_cache_max: usize,
    /// Limits on failed logins.
    pub throttle: ThrottleParams,
    /// Limits on registrations by address (XEP-0077 6): the address columns count registrations.
    pub registration_throttle: ThrottleParams,
    /// A secret of this process, for digests of remembered passwords.
    pub process_key: [u8; 32],
    /// A secret of this store, from which the salts of names without an account are derived.
    pub decoy_key: [u8; 32],
    /// Entry numbers are assigned above this: the highest one that may have been assigned before a
    /// restart.
    pub number_floor: u64,
    /// How long the loaded state (roster, counts of waiting messages) of idle users is kept,
    /// seconds.
    pub cache_s: u32,
    /// Maximum number of users whose loaded state a shard keeps.
    pub cached_users_max: usize,
    /// The policy for HTTP and WebSocket.
    pub web: Arc<Policy>,
    /// Interval in which every connection, session and user is checked for time-outs, seconds;
    /// shorter if a time-out is less than eight times this.
    pub sweep_s_max: u32,
}

impl Settings {
    /// Serves another normalised domain with accounts.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve(&mut self, domain: &str) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Users);
    }

    /// Marks a served domain as having an external user back end.
    ///
    /// # Panics
    /// With more than [`OUTSIDE_DOMAINS_MAX`](crate::id::OUTSIDE_DOMAINS_MAX).
    pub fn keep_outside(&mut self, domain: &str) {
        Arc::make_mut(&mut self.domains).keep_outside(domain);
    }

    /// Serves the normalised domain of a service.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve_service(&mut self, domain: &str, service: Service) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Service(service));
        let known = self.facts.entities.iter().cloned();
        self.facts.entities = known.chain([(domain.into(), service)]).collect();
    }

    /// Serves the normalised domain of an external component, which authenticates with the secret.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve_component(&mut self, domain: &str, secret: SharedSecret) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Component);
        let known = self.component_secrets.iter().cloned();
        self.component_secrets = known.chain([(domain.into(), secret)]).collect();
    }

    /// Serves the normalised domain of a service of rooms (XEP-0045).
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve_rooms(&mut self, domain: &str) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Rooms);
        self.facts.rooms = self.facts.rooms.iter().cloned().chain([domain.into()]).collect();
    }

    /// Names that only the operator and administrators can assign.
    pub fn withheld(&self) -> Withheld<'_> {
        Withheld { admins: &self.admins, inviters: &self.inviters, reserved: &self.reserved_names }
    }

    /// The home shard of an actor; all actors of a component's domain have the same one.
    pub fn home(&self, bare: &str) -> ShardId {
        self.partitions.home(self.domains.home_key(bare))
    }

    /// The cost of a publication by HTTP in its address' time, from the permitted rate,
    /// milliseconds. The connections of a port are distributed evenly over the shards, and each
    /// shard counts its own.
    pub fn each_publication_ms(&self) -> f64 {
        match self.web.channels.publications_s {
            0 => 0.0,
            a_second => 1_000.0 * f64::from(self.shards()) / f64::from(a_second),
        }
    }

    /// The cost of a query to the service of `notify_ask` in its address' time, milliseconds;
    /// counted in the same way.
    pub fn each_question_ms(&self) -> u64 {
        match self.web.channels.asks.questions_s {
            0 => 0,
            a_second => (1_000 * u64::from(self.shards())).div_ceil(u64::from(a_second)),
        }
    }

    /// The cost of a token with a wrong signature in its address' time, milliseconds; counted in
    /// the same way.
    pub fn each_wrong_ms(&self) -> u64 {
        NOTIFY_JWT_WRONG_MS * u64::from(self.shards())
    }

    /// The cost of creating a channel by HTTP in its address' time, milliseconds; counted in the
    /// same way.
    pub fn each_channel_ms(&self) -> u64 {
        NOTIFY_MAKE_MS * u64::from(self.shards())
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.partitions.shards()
    }

    /// Defaults for a domain on a host whose partitions are distributed over this number of shards.
    /// The host provides `process_key` and `number_floor`.
    pub fn new(domain: &str, shards: u16, process_key: [u8; 32], number_floor: u64) -> Settings {
        Settings {
            domains: Arc::new(Domains::of_users(domain)),
            facts: crate::extension::ServerFacts {
                version: env!("CARGO_PKG_VERSION").into(),
                account_changes: true,
                ..Default::default()
            },
            room_creation: RoomCreation::Users,
            room_joins_per_s: 0,
            room_members_only: false,
            admins: Arc::default(),
            inviters: Arc::default(),
            invitations: Invitations::Contacts,
            invitation_s: 7 * 86_400,
            invitation_page: None,
            reserved_names: Arc::default(),
            applicants_max: 100,
            applicants_s: 14 * 86_400,
            reports_max: 1_000,
            reports_s: 90 * 86_400,
            kept: None,
            welcome: "".into(),
            component_secrets: Arc::default(),
            component_queue_bytes_max: COMPONENT_QUEUE_BYTES_DEFAULT,
            partitions: Arc::new(PartitionMap::spread(shards)),
            stanza_bytes_max: 262_144,
            sessions_per_user_max: 32,
            resource_conflict: ResourceConflict::ReplaceOld,
            bare_delivery: BareDelivery::All,
            restores: false,
            resume_s_max: 300,
            idle_s_max: 600,
            preauth_s_max: 30,
            send_stall_s_max: SEND_STALL_S_DEFAULT,
            outbound_bytes_max: OUTBOUND_BYTES_DEFAULT,
            outbound_bytes_soft: 64 << 10,
            unacked_max: 500,
            in_flight_max: 256,
            in_flight_bytes_max: 64 << 10,
            archive: true,
            retention_s: 0,
            waiting_messages_max: 10_000,
            waiting_bytes_max: 64 << 20,
            log_messages_day: 1_000_000,
            log_bytes_day: 4 << 30,
            paces: Allowances::NONE,
            busy_accounts: Arc::default(),
            push_interval_ms: 10_000,
            push_details: PushDetails::Count,
            unacked_bytes_max: 1 << 30,
            opening_per_address_max: 20_000,
            scram_iterations: 10_000,
            scram_hashes: Hashes::ALL,
            scram_upgrades: Hashes::default(),
            outside_tokens: true,
            note_logins: false,
            auth_attempts_max: 3,
            plain_cache_max: 20_000,
            throttle: ThrottleParams::default(),
            registration_throttle: ThrottleParams {
                address_burst: 100,
                address_refill_ms: 6_000,
                ..ThrottleParams::default()
            },
            process_key,
            decoy_key: process_key,
            number_floor,
            cache_s: 30,
            cached_users_max: 20_000,
            web: Arc::default(),
            sweep_s_max: 8,
        }
    }
}
