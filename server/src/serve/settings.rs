//! Converts the operator's options to the settings of each module.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use throng_engine::extension::bytestreams::StreamHost;
use throng_engine::extension::invite::may::Invitations;
use throng_engine::extension::pubsub::rules::{Makers, Rules};
use throng_engine::extension::service::{Services, SharedSecret};
use throng_engine::extension::upload::slot::Upload;
use throng_engine::id::{PartitionMap, Service};
use throng_engine::io::ListenerKind;
use throng_engine::session::pace::{Allowance, Allowances, BURST_MAX};
use throng_engine::settings::{BareDelivery, PushDetails, ResourceConflict, Settings};
use throng_engine::shard::NUMBER_FLOOR_PREFIX;
use throng_engine::store::account::{COMPLETE_KEY, Credentials};
use throng_engine::store::announcement;
use throng_engine::store::archive::entries;
use throng_engine::store::floors::{self, Floor, Scope};
use throng_engine::store::hash::Hashes;
use throng_engine::store::kind;
use throng_engine::store::waiting;
use throng_engine::store::{Batch, Found, Query, Table};
use throng_engine::web::policy::{Asks, Channels, Policy, Token};
use throng_engine::wire::jid::normalise_domain;

use super::meta::{has_sessions, meta, put_meta};
use super::{Rows, disk_failure};
use crate::cli::{Exit, Failure};
use crate::config::{self, Config, NodeMakers};
use crate::disk::DiskError;
use crate::entropy::Entropy;
use crate::portable::{self, Wrong};
use crate::thread::Entrance;
use crate::{disk, driver, thread};

/// Sort key of the row that names the store's domain.
const DOMAIN_KEY: &[u8] = b"domain";
/// Sort key of the secret from which the salts of missing accounts are derived.
const DECOY_KEY: &[u8] = b"decoy-key";
/// Sort key of the secret that authenticates upload slots.
const UPLOAD_KEY: &[u8] = b"upload-key";

/// Sort key of the row with the assignment of partitions to shards.
const PARTITION_MAP_KEY: &[u8] = b"partition-map";

/// 32 random bytes from the system.
pub(super) fn entropy() -> Result<[u8; 32], Failure> {
    Entropy::open().and_then(|mut entropy| entropy.fresh()).map_err(Failure::failed)
}

/// The domain of the store's accounts, if it has been used with one.
pub(super) fn domain(engine: &Rows) -> Result<Option<String>, Failure> {
    Ok(meta(engine, DOMAIN_KEY)?.map(|own| String::from_utf8_lossy(&own).into_owned()))
}

/// The configured domains, the main one first.
pub(super) fn domains(config: &Config) -> impl Iterator<Item = &str> {
    std::iter::once(&*config.domain).chain(config.virtual_hosts.iter().map(|domain| &*domain.0))
}

/// Claims the store for a main domain. A store belongs to the first domain that it was used with,
/// for good.
pub(super) fn claim_domain(engine: &Rows, domain: &str) -> Result<(), Failure> {
    match meta(engine, DOMAIN_KEY)? {
        None => put_meta(engine, DOMAIN_KEY, domain.as_bytes()),
        Some(own) if *own == *domain.as_bytes() => Ok(()),
        Some(own) => {
            let own = String::from_utf8_lossy(&own).into_owned();
            if normalise_domain(&own).is_ok_and(|normal| *normal != *own) {
                // Written by a version that accepted any form of a domain: no client could log in
                // to this one.
                let text = format!(
                    "the store belongs to the domain {own}, which clients cannot log in to: use \
                     another --data"
                );
                return Err(Failure::new(Exit::Usage, text));
            }
            Err(Failure::new(
                Exit::Usage,
                format!(
                    "the store belongs to the domain {own}, not to {domain}: use another --data, \
                     or --domain {own}; to serve {domain} as well, add it to virtual_hosts"
                ),
            ))
        }
    }
}

/// Why accounts cannot be created in a new store without a domain.
pub(super) fn no_domain(lock: &disk::FolderLock) -> Failure {
    let text = format!(
        "the data folder {} has no store yet, and a store is bound to one main domain: name it, as \
         in `throng user add romeo@example.org` or with --domain example.org",
        lock.folder().display()
    );
    Failure::new(Exit::Usage, text)
}

/// The highest entry number that may have been given out.
pub(super) fn number_floor(engine: &Rows) -> Result<u64, Failure> {
    let query = Query::Range {
        table: Table::Meta,
        actor: Box::default(),
        from: NUMBER_FLOOR_PREFIX.as_bytes().into(),
        until: None,
        reverse: false,
        rows_max: u32::MAX,
        bytes_max: u32::MAX,
    };
    let Found::Rows { rows, .. } = engine.read(&query).map_err(super::disk_failure)? else { return Ok(0) };
    let floors = rows.iter().filter(|row| row.sort.starts_with(NUMBER_FLOOR_PREFIX.as_bytes()));
    Ok(floors.filter_map(|row| Some(u64::from_be_bytes((*row.value).try_into().ok()?))).max().unwrap_or(0))
}

/// Makes new entries get only numbers above this one.
pub(super) fn put_number_floor(batch: &mut Batch, floor: u64) {
    let sort = format!("{NUMBER_FLOOR_PREFIX}import");
    batch.put(Table::Meta, b"", sort.as_bytes(), &[&floor.to_be_bytes()]);
}

/// Makes these nodes skip the numbers that they may have given by this time, seconds since the Unix
/// epoch.
///
/// # Errors
/// Those of reading the store.
pub(super) fn raise_node_floors(
    engine: &Rows,
    scopes: impl IntoIterator<Item = Scope>,
    unix_s: u64,
    batch: &mut Batch,
) -> Result<(), DiskError> {
    let known = |scope: Scope| engine.read(&scope.query()).map(|found| Floor::found(&found).unwrap_or_default());
    let of_store = known(Scope::Store)?;
    for scope in scopes {
        let own = known(scope)?;
        Floor { all: own.and(of_store).all, ..own }.raised(unix_s).put(batch, scope);
    }
    Ok(())
}

/// The stored partition map, if there is one.
pub(super) fn stored_partition_map(engine: &Rows) -> Result<Option<PartitionMap>, Failure> {
    let row = meta(engine, PARTITION_MAP_KEY)?;
    row.map(|row| PartitionMap::decode(&row)).transpose().map_err(|what| {
        Failure::failed(format!(
            "the partition map of the store cannot be read: {what}. Nothing was changed: restore a \
             backup with `throng store restore`, or use the version that wrote the store"
        ))
    })
}

/// The partition map for this number of shards. If the store has none, or one for another number,
/// the next one is written: durable on return.
fn partition_map(engine: &Rows, shards: u16) -> Result<PartitionMap, Failure> {
    let stored = stored_partition_map(engine)?;
    let map = match &stored {
        Some(map) if map.shards() == shards => return Ok(map.clone()),
        Some(before) => before.respread(shards),
        None => PartitionMap::spread(shards),
    };
    put_meta(engine, PARTITION_MAP_KEY, &map.encode())?;
    if let Some(before) = stored {
        let (epoch, moved) = (map.epoch(), map.moved_since(&before));
        tracing::info!(shards, before = before.shards(), epoch, moved, "redistributed the partitions over the shards");
    }
    Ok(map)
}

/// A secret of this store, created at first use.
fn own_key(engine: &Rows, sort: &[u8]) -> Result<[u8; 32], Failure> {
    if let Some(key) = meta(engine, sort)?.and_then(|key| <[u8; 32]>::try_from(&*key).ok()) {
        return Ok(key);
    }
    let key = entropy()?;
    put_meta(engine, sort, &key)?;
    Ok(key)
}

/// The settings of upload slots; `port` is that of the first upload address.
pub(super) fn upload(config: &Config, engine: &Rows, port: u16) -> Result<Upload, Failure> {
    let url = match &*config.upload_url {
        "" => {
            let host = config::kind::domain_to_ascii(&config.domain).unwrap_or_else(|| config.domain.clone());
            format!("https://{host}:{port}/")
        }
        url => url.to_owned(),
    };
    Ok(Upload {
        key: own_key(engine, UPLOAD_KEY)?,
        url: url.into(),
        file_bytes_max: config.upload_file_bytes_max,
        slot_s: u32::try_from(config.upload_slot_seconds.as_secs()).unwrap_or(u32::MAX),
        slots_max: u16::try_from(config.upload_slots_max).unwrap_or(u16::MAX),
        day_bytes: config.upload_bytes_day_max,
        day_files: config.upload_files_day_max,
        keep_s: u32::try_from(config.upload_days * 86_400).unwrap_or(u32::MAX),
    })
}

/// Minimum length of a secret shared with TURN servers or components, in bytes.
const SHARED_SECRET_MIN: usize = 16;

/// External services published to clients.
pub(super) fn services(config: &Config) -> Result<Services, Failure> {
    let file = config.external_services_secret.as_ref();
    let secret = file.map(|file| shared_secret("external_services_secret", file)).transpose()?;
    Ok(Services {
        list: config.external_services.as_slice().into(),
        secret,
        lifetime_s: u32::try_from(config.external_services_seconds.as_secs()).unwrap_or(u32::MAX),
    })
}

/// The token required from publishers at public channels.
pub(super) fn publishers_token(config: &Config) -> Result<Option<Token>, Failure> {
    let secret = config.notify_token.as_deref().map(|file| shared_secret("notify_token", file)).transpose()?;
    Ok(secret.map(|secret| Token((*secret.0).into())))
}

/// The secret in the file that this option names.
pub(super) fn shared_secret(key: &str, file: &Path) -> Result<SharedSecret, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{key}: {}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let secret = text.trim();
    if secret.len() < SHARED_SECRET_MIN || secret.contains(['\n', '\r']) {
        return Err(wrong(&format_args!("it must be one line of at least {SHARED_SECRET_MIN} characters")));
    }
    Ok(SharedSecret(secret.into()))
}

/// Facts from listeners that are opened first.
#[derive(Default)]
pub(super) struct Given {
    /// The settings of upload slots, if uploads are enabled.
    pub(super) upload: Option<Upload>,
    /// The address of the bytestreams proxy, if there is one.
    pub(super) bytestreams: Option<StreamHost>,
    /// The public key that identifies the server to push services, if pushes are enabled.
    pub(super) push: Option<String>,
}

/// The engine's settings. Also claims the store for the domain.
pub(super) fn engine_settings(config: &Config, shards: u16, engine: &Rows, given: Given) -> Result<Settings, Failure> {
    claim_domain(engine, &config.domain)?;
    abandon(engine)?;
    let mut s = Settings::new(&config.domain, shards, entropy()?, number_floor(engine)?);
    config.virtual_hosts.iter().for_each(|domain| s.serve(&domain.0));
    if let Some(upload) = given.upload {
        s.serve_service(&config.upload_domain(), Service::Upload);
        s.facts.upload = Some(Arc::new(upload));
    }
    if let Some(host) = given.bytestreams {
        s.serve_service(&config.bytestreams_domain(), Service::Bytestreams);
        s.facts.bytestreams = Some(Arc::new(host));
    }
    for component in &config.components {
        s.serve_component(&component.domain, shared_secret("components", &component.secret)?);
    }
    if config.has_nodes() {
        s.serve_service(&config.pubsub_domain(), Service::PubSub);
        s.facts.pubsub = Rules {
            makers: match config.pubsub {
                NodeMakers::Users => Makers::Users,
                NodeMakers::Admins => Makers::Admins,
                NodeMakers::Nobody | NodeMakers::Off => Makers::Nobody,
            },
            nodes_max: config.pubsub_nodes_max as u32,
            reserved: config.notify_private.iter().chain(&config.notify_ask).map(|prefix| prefix.0.clone()).collect(),
        };
    }
    if let Some(creation) = config.rooms.creation() {
        s.serve_rooms(&config.rooms_domain());
        s.room_creation = creation;
    }
    config.external_auth.iter().for_each(|back_end| s.keep_outside(&back_end.domain));
    s.outside_tokens = config.external_auth_fast;
    s.partitions = Arc::new(partition_map(engine, shards)?);
    s.decoy_key = own_key(engine, DECOY_KEY)?;
    s.facts.registration = config.rule().is_some();
    s.facts.rule = config.rule().unwrap_or_default();
    let offer = super::hashes::offer(&config.scram_hashes, engine)?;
    (s.scram_hashes, s.scram_upgrades) = (offer.hashes, offer.upgrades);
    s.facts.services = services(config)?;
    let mut contacts = config.contact_addresses.clone();
    contacts.sort();
    s.facts.contacts = contacts.into();
    s.restores = has_sessions(engine)?;
    s.kept = super::announced::stored(engine)?.map(Arc::new);
    s.facts.without = throng_engine::extension::bits(&config.without);
    let channels = &mut Arc::make_mut(&mut s.web).channels;
    channels.token = publishers_token(config)?;
    channels.access = super::access::read(config)?;
    channels.push = given.push.map(|key| Arc::new(super::push::policy(config, &key)));
    take_options(&mut s, config);
    Ok(s)
}

/// Copies the operator's options into the settings: at the start, and after a change of knobs.
pub(super) fn take_options(s: &mut Settings, config: &Config) {
    let seconds = |d: std::time::Duration| u32::try_from(d.as_secs()).unwrap_or(u32::MAX);
    let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    s.stanza_bytes_max = bytes(config.stanza_bytes_max);
    s.component_queue_bytes_max = bytes(config.component_queue_bytes_max);
    s.room_joins_per_s = count(config.room_joins_per_second);
    s.room_members_only = config.room_members_only;
    s.sessions_per_user_max = u16::try_from(config.sessions_per_user_max).unwrap_or(u16::MAX);
    s.resource_conflict = match config.resource_conflict {
        config::ResourceConflict::Replace => ResourceConflict::ReplaceOld,
        config::ResourceConflict::Refuse => ResourceConflict::RefuseNew,
    };
    s.bare_delivery = match config.bare_delivery {
        config::BareDelivery::All => BareDelivery::All,
        config::BareDelivery::MostAvailable => BareDelivery::MostAvailable,
    };
    s.push_interval_ms = u64::try_from(config.push_interval_seconds.as_millis()).unwrap_or(u64::MAX);
    s.push_details = match config.push_details {
        config::PushDetails::Count => PushDetails::Count,
        config::PushDetails::Sender => PushDetails::Sender,
        config::PushDetails::Body => PushDetails::Body,
    };
    s.resume_s_max = seconds(config.sm_resume_seconds);
    s.idle_s_max = seconds(config.idle_timeout_seconds);
    s.preauth_s_max = seconds(config.preauth_timeout_seconds);
    s.send_stall_s_max = seconds(config.send_timeout_seconds);
    s.outbound_bytes_max = bytes(config.outbound_bytes_max);
    s.outbound_bytes_soft = bytes(config.outbound_bytes_soft);
    s.unacked_max = bytes(config.unacked_stanzas_max);
    s.in_flight_max = u16::try_from(config.in_flight_stanzas_max).unwrap_or(u16::MAX);
    s.in_flight_bytes_max = bytes(config.in_flight_bytes_max);
    s.archive = config.archive;
    s.retention_s = config.archive_days * 86_400;
    s.waiting_messages_max = count(config.waiting_messages_max);
    s.waiting_bytes_max = config.waiting_bytes_max;
    s.log_messages_day = config.log_messages_day_max;
    s.log_bytes_day = config.log_bytes_day_max;
    let allowance = |a_second, burst| Allowance { a_second: count(a_second), burst: count(burst).min(BURST_MAX) };
    s.paces = Allowances {
        ordinary: allowance(config.account_stanzas_per_second, config.account_stanzas_burst),
        busy: allowance(config.busy_stanzas_per_second, config.busy_stanzas_burst),
    };
    s.busy_accounts = config.busy_accounts.iter().map(|jid| jid.0.clone()).collect();
    s.unacked_bytes_max = config.unacked_bytes_max;
    s.opening_per_address_max = count(config.unauthenticated_per_address_max);
    s.admins = config.admins.iter().map(|jid| jid.0.clone()).collect();
    s.welcome = config.welcome.as_str().into();
    s.inviters = config.inviters.iter().map(|jid| jid.0.clone()).collect();
    s.invitations = match config.user_invitations {
        config::UserInvitations::Off => Invitations::Off,
        config::UserInvitations::Contacts => Invitations::Contacts,
        config::UserInvitations::Accounts => Invitations::Accounts,
    };
    s.invitation_s = config.invitation_seconds.as_secs();
    s.invitation_page = config.page();
    s.reserved_names = config.reserved_names.iter().map(|name| name.0.clone()).collect();
    s.applicants_max = count(config.applicants_max);
    s.applicants_s = config.applicants_seconds.as_secs();
    s.reports_max = count(config.reports_max);
    s.reports_s = config.reports_seconds.as_secs();
    s.scram_iterations = count(config.scram_iterations);
    s.note_logins = matches!(config.log_level, config::LogLevel::Debug | config::LogLevel::Trace);
    s.auth_attempts_max = u8::try_from(config.auth_attempts_max).unwrap_or(u8::MAX);
    let window_ms = u64::try_from(config.login_failures_window_seconds.as_millis()).unwrap_or(u64::MAX);
    let refill = |burst: u64| u32::try_from(window_ms / burst.max(1)).unwrap_or(u32::MAX).max(1);
    s.throttle.pair_burst = count(config.login_failures_per_pair_max);
    s.throttle.pair_refill_ms = refill(config.login_failures_per_pair_max);
    s.throttle.account_burst = count(config.login_failures_per_account_max);
    s.throttle.account_refill_ms = refill(config.login_failures_per_account_max);
    s.throttle.address_burst = count(config.login_failures_per_address_max);
    s.throttle.address_refill_ms = refill(config.login_failures_per_address_max);
    s.registration_throttle.address_burst = count(config.registrations_hourly_max);
    s.registration_throttle.address_refill_ms = count(3_600_000 / config.registrations_hourly_max.max(1)).max(1);
    s.cache_s = seconds(config.cache_seconds);
    s.cached_users_max = bytes(config.cached_users_max);
    s.sweep_s_max = seconds(config.sweep_seconds);
    let origins = config.http_origins.iter().map(|origin| origin.0.clone()).collect::<Box<[_]>>();
    s.web = Arc::new(Policy {
        origins: (!origins.is_empty()).then_some(origins),
        websocket_url: (!config.websocket_url.is_empty()).then(|| config.websocket_url.as_str().into()),
        bosh_url: (!config.bosh_url.is_empty()).then(|| config.bosh_url.as_str().into()),
        forwarded: config.http_forwarded,
        chat_page: config.chat_page,
        challenge: None,
        #[cfg(debug_assertions)]
        echo: crate::plant::echoes(),
        channels: Channels {
            prefixes: config.notify.iter().map(|prefix| prefix.0.clone()).collect(),
            occupancy: config.notify_occupancy.iter().map(|prefix| prefix.0.clone()).collect(),
            wildcards: config.notify_wildcards.iter().map(|prefix| prefix.0.clone()).collect(),
            in_memory: config.notify_memory.iter().map(|prefix| prefix.0.clone()).collect(),
            in_memory_bytes: (bytes(config.notify_memory_bytes_max) / usize::from(s.shards())).max(1 << 20),
            asks: Asks {
                prefixes: config.notify_ask.iter().map(|prefix| prefix.0.clone()).collect(),
                fields: config.notify_ask_headers.iter().map(|field| field.0.clone()).collect(),
                questions_s: count(config.notify_ask_per_second),
            },
            publish_open: config.notify_publish_open,
            mercure: config.mercure,
            centrifugo: config.centrifugo,
            nchan: config.nchan,
            token: s.web.channels.token.clone(),
            private: config.notify_private.iter().map(|prefix| prefix.0.clone()).collect(),
            access: s.web.channels.access.clone(),
            push: s.web.channels.push.clone(),
            items_max: count(config.notify_items_max),
            items_s: seconds(config.notify_items_seconds),
            waiting_max: count(config.notify_waiting_per_address_max).div_ceil(u32::from(s.shards())),
            publications_s: count(config.notify_publications_per_second),
        },
    });
}

/// The tuning of a shard's thread.
pub(super) fn thread_tuning(config: &Config) -> thread::Tuning {
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    thread::Tuning {
        network: driver::Tuning {
            events: count(config.turn_events_max),
            others: count(config.turn_others_max),
            receive_buffer_bytes: count(config.receive_buffer_bytes),
        },
        busy_poll: Duration::from_micros(config.busy_poll_microseconds),
        gather: Duration::from_micros(config.gather_microseconds),
        letters_a_turn: count(config.turn_letters_max),
        answers_a_turn: count(config.turn_answers_max),
        sleep_max: Duration::from_millis(config.idle_sleep_milliseconds),
        sleep_congested: Duration::from_micros(config.congested_sleep_microseconds),
        tidy_every: config.memory_return_seconds,
        gate_bytes_max: count(config.gate_bytes_max),
        queue_bytes_max: config.store_queue_bytes_max,
    }
}

/// The tuning of the store while it is open.
pub(super) fn disk_tuning(config: &Config) -> disk::Tuning {
    disk::Tuning {
        group_bytes_max: usize::try_from(config.commit_group_bytes_max).unwrap_or(usize::MAX),
        min_free_bytes: config.free_bytes_min,
        merges: config.housekeeping,
    }
}

/// The options of the store's engine and threads.
pub(super) fn disk_options(config: &Config) -> disk::Options {
    disk::Options {
        cache_bytes: config.store_cache_bytes,
        give_back: throng_sys::give_back_memory,
        reserve_bytes: config.reserve_bytes,
        min_free_bytes: config.free_bytes_min,
        group_bytes_max: usize::try_from(config.commit_group_bytes_max).unwrap_or(usize::MAX),
        ..disk::Options::default()
    }
}

/// Descriptors reserved besides connections: the store keeps some tables open and opens more for
/// compaction. Others are needed for the control socket, the logs, the threads, and the recorder:
/// one per thread and some thirty. Tables in removal need more, depending on the limit.
const SPARE_DESCRIPTORS: u64 = 704;

const _: () = assert!(SPARE_DESCRIPTORS >= 2 * disk::FILES_MAX as u64 + 128);

/// Descriptors reserved for the rest of a process with this limit.
fn spare_descriptors(limit: u64) -> u64 {
    (SPARE_DESCRIPTORS + disk::held_descriptors(limit)).min(limit / 2)
}

/// Where an operator raises the limit on descriptors.
pub(super) const LIMIT_REMEDY: &str = "LimitNOFILE= of the service, ulimit -n, or --ulimit nofile= of a container";

/// The limit on descriptors.
pub(super) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit on descriptors as far as the process may, and returns it.
pub(super) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Refused if the hard limit exceeds what the kernel allows: then it stays unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    descriptor_limit()
}

/// The settings of a driver, for this number of shards and this limit on descriptors.
pub(super) fn driver_settings(config: &Config, shards: u16, descriptors: u64) -> driver::Settings {
    let usual = driver::Settings::default();
    let slots = slots(config.shard_connections_max, usual.slots, descriptors);
    driver::Settings { slots, descriptors: share_of_descriptors(descriptors, shards), ..usual }
}

/// Connections of a shard: one table of direct descriptors, which the limit on descriptors bounds,
/// unless more are requested.
fn slots(asked: Option<u64>, usual: u32, descriptors: u64) -> u32 {
    u32::try_from(asked.unwrap_or(descriptors.min(usual.into()))).unwrap_or(u32::MAX)
}

/// One shard's share of the descriptors left by the rest of the process; at least one.
fn share_of_descriptors(limit: u64, shards: u16) -> u32 {
    let left = limit - spare_descriptors(limit);
    u32::try_from(left / u64::from(shards.max(1))).unwrap_or(u32::MAX).max(1)
}

/// The properties and requirements of a listener.
pub(super) fn entrance(
    config: &Config,
    listener: &config::Listener,
    address: SocketAddr,
    certificate: bool,
) -> Entrance {
    let kind = ListenerKind {
        direct_tls: listener.direct_tls,
        starttls: !listener.direct_tls && !listener.http && certificate,
        // Before plaintext HTTP, a proxy terminates TLS.
        plain_auth: config.plain_auth || (listener.http && !listener.direct_tls),
        registration: config.rule().is_some(),
    };
    Entrance { kind, proxied: listener.proxied, component: listener.component, http: listener.http, address }
}

/// Checks the values of each table, for `throng store check`.
pub(super) fn check_value(table: Table, _actor: &[u8], sort: &[u8], value: &[u8]) -> Result<(), String> {
    if kind::of(table, sort).is_none() {
        return Err(format!("a row of {table:?} is of no kind that this program knows"));
    }
    let good = match table {
        Table::Accounts if sort.is_empty() => {
            return Credentials::decode(value).map(drop).map_err(|error| error.to_string());
        }
        Table::Archive => entries(sort, value).is_some(),
        Table::Waiting => waiting::is_whole(sort, value),
        Table::Roster if sort.is_empty() => throng_engine::store::roster::Version::decode(value).is_some(),
        Table::Roster => throng_engine::store::roster::ItemView::decode(value).is_some(),
        Table::Meta if sort == PARTITION_MAP_KEY => {
            return PartitionMap::decode(value).map(drop).map_err(|what| format!("the partition map: {what}"));
        }
        Table::Meta if sort == COMPLETE_KEY => matches!(value, [bits] if Hashes::of_bits(*bits).is_some()),
        Table::Meta if sort.starts_with(floors::PREFIX) => Floor::decode(value).is_some(),
        Table::Meta if sort == announcement::KEY => announcement::Kept::decode(value).is_some(),
        Table::Nodes => throng_engine::store::nodes::is_whole(sort, value),
        Table::Sessions => throng_engine::store::sessions::is_whole(sort, value),
        Table::Invitations => throng_engine::store::invitation::is_whole(sort, value),
        Table::Reports => throng_engine::store::report::is_whole(sort, value),
        Table::Rooms => throng_engine::store::room_extra::is_whole(sort, value),
        Table::Meta | Table::Private | Table::Accounts => true,
    };
    if good { Ok(()) } else { Err(format!("a row of {table:?} cannot be read")) }
}

/// Removes a user's leftovers of an interrupted import: a later registration of that name must not
/// find them.
fn abandon(engine: &Rows) -> Result<(), Failure> {
    let left = portable::abandon(engine).map_err(|wrong| match wrong {
        Wrong::File(text) => Failure::failed(text),
        Wrong::Store(error) => disk_failure(error),
    })?;
    if let Some(user) = left {
        tracing::warn!(user, "an import was interrupted within this user: the partial data was removed; import again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryEngine;

    #[test]
    fn connections_of_all_shards_leave_descriptors_to_the_store() {
        for limit in [64, 1024, 20_000, 1 << 20] {
            for shards in [1, 2, 60, 4096] {
                let all = u64::from(share_of_descriptors(limit, shards)) * u64::from(shards);
                let spare = spare_descriptors(limit);
                assert!(all + spare <= limit || all == u64::from(shards), "{shards} shards of {limit}: {all}");
                assert!(all + spare + u64::from(shards) > limit, "{shards} shards of {limit}: only {all}");
            }
        }
        assert_eq!(share_of_descriptors(u64::MAX, 1), u32::MAX);
        for limit in [1024, 1500, 20_000, 1 << 20] {
            let tables = disk::FILES_MAX as u64 + disk::held_descriptors(limit);
            assert!(spare_descriptors(limit) >= tables + 200, "{limit}: the store's tables leave too few");
        }
    }

    #[test]
    fn a_map_is_kept_until_the_number_of_shards_changes_and_a_damaged_one_is_refused() {
        let engine = MemoryEngine::new();
        let first = partition_map(&engine, 2).expect("written");
        assert_eq!((first.epoch(), partition_map(&engine, 2).expect("read")), (1, first.clone()));
        let second = partition_map(&engine, 3).expect("written");
        assert_eq!((second.epoch(), second.shards(), second.moved_since(&first)), (2, 3, 1365));
        // Not the map of a new store, which would move more partitions.
        assert_ne!(second, PartitionMap::spread(3).respread(3));
        assert_eq!(stored_partition_map(&engine).expect("read"), Some(second.clone()));
        let mut row = second.encode();
        assert_eq!(check_value(Table::Meta, b"", PARTITION_MAP_KEY, &row), Ok(()));
        row[100] ^= 1;
        put_meta(&engine, PARTITION_MAP_KEY, &row).expect("written");
        let refused = partition_map(&engine, 3).expect_err("refused").text;
        assert!(
            refused.contains("its checksum does not match") && refused.contains("throng store restore"),
            "{refused}"
        );
        assert!(check_value(Table::Meta, b"", PARTITION_MAP_KEY, &row).is_err());
    }

    #[test]
    fn a_shard_has_the_connections_that_it_is_given_or_one_table() {
        assert_eq!(slots(None, 19_900, 20_000), 19_900);
        assert_eq!(slots(None, 19_900, 1_024), 1_024);
        assert_eq!(slots(Some(1_000_000), 19_900, 1_024), 1_000_000, "whatever the limit");
        assert_eq!(slots(Some(16), 19_900, 1_024), 16);
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let before = getrlimit(Resource::Nofile);
        let raised = raise_descriptor_limit();
        assert!(raised >= before.current.unwrap_or(u64::MAX));
        assert_eq!(getrlimit(Resource::Nofile).maximum, before.maximum);
    }
}
