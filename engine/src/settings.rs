//! What an operator may turn, as the engine needs it: one value shared by all shards of a process.

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

/// Seconds within which a peer has to take something of what it is sent, unless the operator says otherwise.
pub const SEND_STALL_S_DEFAULT: u32 = 60;

/// Bytes that may wait for one connection, unless the operator says otherwise.
pub const OUTBOUND_BYTES_DEFAULT: usize = 2 << 20;

/// Bytes of an available presence as clients of today send it.
const PRESENCE_BYTES_USUAL: usize = 350;

const _: () = assert!(
    ROSTER_BYTES_MAX + ROSTER_ITEMS_MAX * PRESENCE_BYTES_USUAL <= OUTBOUND_BYTES_DEFAULT,
    "the largest roster and the presence of all its contacts come with a login"
);

/// Bytes that may wait for one component, unless the operator says otherwise.
pub const COMPONENT_QUEUE_BYTES_DEFAULT: usize = 16 << 20;

/// What happens when a resource is bound twice (RFC 6120 7.7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceConflict {
    /// The old session ends with `<conflict/>`.
    ReplaceOld,
    /// The new one is refused with `<conflict/>`.
    RefuseNew,
}

/// Who gets a message to a bare JID (RFC 6121 8.5.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareDelivery {
    /// Every available resource of non-negative priority.
    All,
    /// The one of highest priority, the latest active among equals.
    MostAvailable,
}

/// What services that wake devices are told of a message (XEP-0357 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PushDetails {
    /// How many wait.
    Count,
    /// And who has sent the last one.
    Sender,
    /// And the beginning of its text.
    Body,
}

/// Settings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The domains served.
    pub domains: Arc<Domains>,
    /// What is told about the server (XEP-0030, XEP-0092).
    pub facts: crate::extension::ServerFacts,
    /// Bare JIDs of those who administer the service by commands (XEP-0133).
    pub admins: Arc<[Box<str>]>,
    /// Bare JIDs of those who may invite to accounts beside administrators (XEP-0401 6.3).
    pub inviters: Arc<[Box<str>]>,
    /// What everybody may invite to.
    pub invitations: Invitations,
    /// For how long what users make is good, seconds.
    pub invitation_s: u64,
    /// The address of a page for who is invited, with what stands for the token: see
    /// [`links`](crate::extension::invite::links).
    pub invitation_page: Option<Box<str>>,
    /// Localparts that nobody may register in band, nor others that look like them, unless the operator or an administrator has invited to
    /// them; normalised.
    pub reserved_names: Arc<[Box<str>]>,
    /// Accounts of a domain that may wait for approval.
    pub applicants_max: u32,
    /// For how long each may, seconds.
    pub applicants_s: u64,
    /// What each account that is made is sent; empty for nothing.
    pub welcome: Arc<str>,
    /// Reports of a domain's users that are kept for the operator: [`REPORTS_MAX`](crate::limits::REPORTS_MAX) at the most.
    pub reports_max: u32,
    /// For how long each is, seconds.
    pub reports_s: u64,
    /// The announcement for those who log in later, as of the start.
    pub kept: Option<Arc<Kept>>,
    /// By which secret the component of a domain, normalised, is known (XEP-0114 3).
    pub component_secrets: Arc<[(Box<str>, SharedSecret)]>,
    /// Bytes that may wait for one component.
    pub component_queue_bytes_max: usize,
    /// Which shard is home to whom, and how many shards there are.
    pub partitions: Arc<PartitionMap>,
    /// Largest stanza, and largest stream header, in bytes (XEP-0478 `max-bytes`).
    pub stanza_bytes_max: usize,
    /// Resources of one user at once.
    pub sessions_per_user_max: u16,
    /// Binding a resource that is taken.
    pub resource_conflict: ResourceConflict,
    /// Messages to a bare JID.
    pub bare_delivery: BareDelivery,
    /// The store has sessions of an earlier process, which come back until the host says that all have.
    pub restores: bool,
    /// Longest time a session waits to be resumed (XEP-0198 5), seconds.
    pub resume_s_max: u32,
    /// A session that has sent nothing for this long is pinged, and ended after as much again, seconds; 0 never.
    pub idle_s_max: u32,
    /// A connection that has not bound a resource by then is closed, seconds.
    pub preauth_s_max: u32,
    /// A connection whose peer takes no bytes for this long is closed, seconds.
    pub send_stall_s_max: u32,
    /// Bytes that wait for one connection, or are unacknowledged, beyond which nothing more from others is sent; a session that
    /// asks on, and leaves twice as much unacknowledged, ends.
    pub outbound_bytes_max: usize,
    /// From this many waiting or unacknowledged bytes on messages stay in the log until the peer has caught up, and what a
    /// connection asks for waits until it has read the rest.
    pub outbound_bytes_soft: usize,
    /// Stanzas that a managed session may leave unacknowledged before messages stay in the log.
    pub unacked_max: usize,
    /// Stanzas of one session under way to other homes before it is no longer read from.
    pub in_flight_max: u16,
    /// Bytes of one session's stanzas that may come before what they led to is durable; then it is not read from until
    /// it is.
    pub in_flight_bytes_max: usize,
    /// Keep every message in the users' archives; otherwise only while it waits to be delivered.
    pub archive: bool,
    /// Age at which archived, delivered messages go, seconds; 0 keeps them.
    pub retention_s: u64,
    /// Messages that may wait for one user.
    pub waiting_messages_max: u32,
    /// Bytes that may wait for one user.
    pub waiting_bytes_max: u64,
    /// Messages that one account may put into logs in a day; 0 sets no limit.
    pub log_messages_day: u64,
    /// Bytes of these; 0 sets no limit.
    pub log_bytes_day: u64,
    /// Stanzas that one account may send over all its sessions; faster ones are read later. [`Allowances::NONE`] until the host says
    /// otherwise.
    pub paces: Allowances,
    /// Bare JIDs of those who may send as busy accounts may, beside administrators.
    pub busy_accounts: Arc<[Box<str>]>,
    /// A user's services are told of messages this often at most, milliseconds (XEP-0357).
    pub push_interval_ms: u64,
    /// What they are told.
    pub push_details: PushDetails,
    /// Bytes that all sessions of the process together may leave unacknowledged (XEP-0198) before messages stay in the log of whoever
    /// leaves some; 0 sets no limit.
    pub unacked_bytes_max: u64,
    /// Connections of one address that have not logged in, by the whole process; 0 sets no limit.
    pub opening_per_address_max: u32,
    /// Iterations of SCRAM keys of new passwords (RFC 7677 4).
    pub scram_iterations: u32,
    /// Hash functions with which SCRAM is offered, to everybody.
    pub scram_hashes: Hashes,
    /// Those of which accounts may lack keys, and gain them (XEP-0480).
    pub scram_upgrades: Hashes,
    /// Users who are kept elsewhere may have tokens (XEP-0484), which are good while their user is there.
    pub outside_tokens: bool,
    /// Note each login that succeeded, for a log that is read that closely.
    pub note_logins: bool,
    /// Failed SASL attempts on one stream (RFC 6120 6.4.5).
    pub auth_attempts_max: u8,
    /// Passwords that a shard remembers as digests, so that a storm of PLAIN logins is cheap.
    pub plain_cache_max: usize,
    /// Limits on failed logins.
    pub throttle: ThrottleParams,
    /// Limits on registrations by address (XEP-0077 6): the address columns count registrations.
    pub registration_throttle: ThrottleParams,
    /// Secret of this process, for digests of remembered passwords.
    pub process_key: [u8; 32],
    /// Secret of this store, from which the salts of names without an account are made up.
    pub decoy_key: [u8; 32],
    /// No entry gets a number at or below this: the highest one that may have been given before a restart.
    pub number_floor: u64,
    /// Idle users keep loaded state (roster, figures of waiting messages) this long, seconds.
    pub cache_s: u32,
    /// Users whose loaded state a shard keeps at once.
    pub cached_users_max: usize,
    /// What is wanted of HTTP and WebSocket.
    pub web: Arc<Policy>,
    /// Every connection, session and user is looked at for time-outs once in this time, or more often where a time-out is
    /// shorter than eight times this, seconds.
    pub sweep_s_max: u32,
}

impl Settings {
    /// Serves another domain with accounts, normalised.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve(&mut self, domain: &str) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Users);
    }

    /// The users of a domain that is served are kept elsewhere.
    ///
    /// # Panics
    /// With more than [`OUTSIDE_DOMAINS_MAX`](crate::id::OUTSIDE_DOMAINS_MAX).
    pub fn keep_outside(&mut self, domain: &str) {
        Arc::make_mut(&mut self.domains).keep_outside(domain);
    }

    /// Serves a domain, normalised, that is a service.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve_service(&mut self, domain: &str, service: Service) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Service(service));
        let known = self.facts.entities.iter().cloned();
        self.facts.entities = known.chain([(domain.into(), service)]).collect();
    }

    /// Serves a domain, normalised, that is an external component's, which proves itself by the secret.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve_component(&mut self, domain: &str, secret: SharedSecret) {
        Arc::make_mut(&mut self.domains).serve(domain, ActorKind::Component);
        let known = self.component_secrets.iter().cloned();
        self.component_secrets = known.chain([(domain.into(), secret)]).collect();
    }

    /// Names that the operator and administrators alone can give away.
    pub fn withheld(&self) -> Withheld<'_> {
        Withheld { admins: &self.admins, inviters: &self.inviters, reserved: &self.reserved_names }
    }

    /// The shard that is home to an actor: of a component's domain they all have one.
    pub fn home(&self, bare: &str) -> ShardId {
        match self.domains.component_of(bare) {
            Some(domain) => self.partitions.home(self.domains.name(domain)),
            None => self.partitions.home(bare),
        }
    }

    /// What a publication by HTTP takes of its address' time, by what the address may, milliseconds: connections of a port are shared
    /// evenly by the shards, and each shard counts its own.
    pub fn each_publication_ms(&self) -> f64 {
        match self.web.channels.publications_s {
            0 => 0.0,
            a_second => 1_000.0 * f64::from(self.shards()) / f64::from(a_second),
        }
    }

    /// What a question to the service of `notify_ask` takes of its address' time, milliseconds; counted in the same way.
    pub fn each_question_ms(&self) -> u64 {
        match self.web.channels.asks.questions_s {
            0 => 0,
            a_second => (1_000 * u64::from(self.shards())).div_ceil(u64::from(a_second)),
        }
    }

    /// What a token whose signature is wrong takes of its address' time, milliseconds; counted in the same way.
    pub fn each_wrong_ms(&self) -> u64 {
        NOTIFY_JWT_WRONG_MS * u64::from(self.shards())
    }

    /// What a channel that is made by HTTP takes of its address' time, milliseconds; counted in the same way.
    pub fn each_channel_ms(&self) -> u64 {
        NOTIFY_MAKE_MS * u64::from(self.shards())
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.partitions.shards()
    }

    /// Defaults for a domain on a host whose partitions are spread over so many shards, with `process_key` and `number_floor`
    /// given by the host.
    pub fn new(domain: &str, shards: u16, process_key: [u8; 32], number_floor: u64) -> Settings {
        Settings {
            domains: Arc::new(Domains::of_users(domain)),
            facts: crate::extension::ServerFacts {
                version: env!("CARGO_PKG_VERSION").into(),
                account_changes: true,
                ..Default::default()
            },
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
