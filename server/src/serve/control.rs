//! The running server behind the control socket: requests go to shards as commands, figures come
//! from counters.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use throng_engine::counters::{Counted, Counters};
use throng_engine::id::PartitionMap;
use throng_engine::io::{AccountCommand, Command, InvitationCommand, LogCommand, PutMode, Reply, SessionCommand};
use throng_engine::store::invitation::NewInvitation;
use throng_engine::web::access::Access;
use throng_engine::web::policy::Challenge;
use throng_engine::wire::jid::Jid;

use super::backups::Backups;
use super::invites::{self, Inviting};
use super::known::Known;
use super::wishes::Wishes;
use super::{Rows, Shared, account_shown, accounts, reports};
use crate::acme;
use crate::admin::{
    AccountRow, AccountSeen, AccountShown, Accounts, Announced, ApplicantRow, Audience, BackupState, CertificateState,
    ClockState, ComponentRow, Control, Existing, Fault, FaultKind, InviteRow, Invited, KnobChange, KnobRow, Listening,
    NewAccount, NewInvite, OpeningRow, Page, Put, ROWS_PER_PAGE_MAX, Reloaded, ReportRow, SessionRow, Status,
};
use crate::bytestreams::StreamCounters;
use crate::clock::Watch;
use crate::config::{Knobs, Loaded, Source};
use crate::disk;
use crate::driver::Peer;
use crate::events::Events;
use crate::extauth::{Of, Standing};
use crate::log::LogHandle;
use crate::profile::{self, Profiles};
use crate::record::owners::Owed;
use crate::service::Manager;
use crate::thread::{Answer, Ask, Tuning};
use crate::tls::Certificates;
use crate::upload::UploadCounters;
use crate::waits::{self, Mutex, Place, Stuck};
use crate::webpush;

/// Longest wait for a shard's answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The parts of the server that the control needs.
pub(super) struct Links {
    pub(super) loaded: Loaded,
    pub(super) log: LogHandle,
    pub(super) settings: Shared,
    pub(super) engine: Arc<Rows>,
    pub(super) committer: disk::Tuner,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) peers: Vec<Peer>,
    pub(super) asks: Vec<SyncSender<Ask>>,
    pub(super) known: Known,
    pub(super) listening: Vec<Listening>,
    pub(super) driver: String,
    /// What an operator can do to allow more connections.
    pub(super) more_room: Arc<str>,
    pub(super) wishes: Arc<Wishes>,
    pub(super) clock: Arc<Watch>,
    pub(super) manager: Arc<Manager>,
    pub(super) back_ends: Vec<Arc<Standing>>,
    /// Push services, with their state.
    pub(super) push_services: Vec<Arc<webpush::Standing>>,
}

/// The running server.
pub(super) struct Running {
    pub(super) links: Links,
    started: Instant,
    stopping: AtomicBool,
    backups: Backups,
    pub(super) knobs: Mutex<Knobs>,
    /// The knobs after the last change: readers never wait.
    pub(super) shown: ArcSwap<Vec<KnobRow>>,
    pub(super) turning: Mutex<()>,
    /// Owners of backlogs that the watch has found.
    pub(super) owed: Arc<ArcSwap<Vec<Owed>>>,
    pub(super) events: Events,
    profiles: Profiles,
    http: OnceLock<Vec<String>>,
    /// Counters of uploads, if these are enabled.
    pub(super) uploads: OnceLock<Arc<UploadCounters>>,
    /// Counters of bytestreams, if there is a proxy.
    pub(super) bytestreams: OnceLock<Arc<StreamCounters>>,
    /// The continuous backup, if there is one.
    pub(super) backup: OnceLock<super::shipped::Shown>,
    /// The data for checking channel tokens.
    pub(super) access: ArcSwap<Option<Arc<Access>>>,
    pub(super) traces: super::traces::Traces,
    pub(super) announcing: super::announced::Announcing,
    /// The certificates that an authority is asked for, if it is.
    pub(super) acme: OnceLock<acme::Handle>,
    /// The challenge of that authority which HTTP listeners answer.
    pub(super) challenge: ArcSwap<Option<Challenge>>,
    /// Why the last reload failed, if it did.
    not_reloaded: ArcSwap<Option<String>>,
}

pub(super) fn internal(text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Internal, text)
}

impl Running {
    pub(super) fn new(links: Links) -> Running {
        let knobs = Knobs::new(links.loaded.clone());
        let owed: Arc<ArcSwap<Vec<Owed>>> = Arc::default();
        let seen = owed.clone();
        Running {
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            backups: Backups::new(),
            shown: ArcSwap::from_pointee(super::shown::rows(&knobs)),
            knobs: Mutex::new(Place::LockKnobs, knobs),
            turning: Mutex::new(Place::LockTurning, ()),
            owed,
            events: Events::default(),
            profiles: Profiles::new(move || unread(&seen.load())),
            http: OnceLock::new(),
            uploads: OnceLock::new(),
            bytestreams: OnceLock::new(),
            backup: OnceLock::new(),
            access: ArcSwap::from_pointee(links.settings.web.channels.access.clone()),
            traces: super::traces::Traces::default(),
            acme: OnceLock::new(),
            challenge: ArcSwap::default(),
            not_reloaded: ArcSwap::default(),
            announcing: super::announced::Announcing::new(links.settings.kept.as_ref().map_or(0, |kept| kept.number)),
            links,
        }
    }

    pub(super) fn listening(&self) -> &[Listening] {
        &self.links.listening
    }

    /// Records the addresses of the operator's HTTP interface.
    pub(super) fn listens_for_http(&self, addresses: Vec<String>) {
        let _ = self.http.set(addresses);
    }

    pub(super) fn shards(&self) -> usize {
        self.links.peers.len()
    }

    /// The assignment of users to shards.
    pub(super) fn partitions(&self) -> &PartitionMap {
        &self.links.settings.partitions
    }

    pub(super) fn driver(&self) -> &str {
        &self.links.driver
    }

    /// The counters of each shard.
    pub(super) fn counters(&self) -> &[Arc<Counters>] {
        &self.links.known.counters
    }

    pub(super) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Sends a command to a shard without waiting for the answer.
    pub(super) fn put(
        &self,
        shard: usize,
        command: Command,
        tuning: Option<Tuning>,
    ) -> Result<std::sync::mpsc::Receiver<Answer>, Fault> {
        let (reply, answer) = sync_channel(1);
        self.links.asks[shard].try_send(Ask { command, tuning, reply }).map_err(|error| match error {
            TrySendError::Full(_) => Fault::new(FaultKind::Busy, "the shard has too many pending requests"),
            TrySendError::Disconnected(_) => internal("the server has stopped"),
        })?;
        self.links.peers[shard].wake();
        Ok(answer)
    }

    /// The same for a shard that may have many commands already: its queue is bounded, and if it is
    /// full, the shard gets time to answer.
    pub(super) fn put_patiently(
        &self,
        shard: usize,
        command: &Command,
        tuning: Option<Tuning>,
    ) -> Result<std::sync::mpsc::Receiver<Answer>, Fault> {
        let end = Instant::now() + ANSWER_WAIT;
        let _at = waits::at(Place::ShardAnswer);
        loop {
            match self.put(shard, command.clone(), tuning) {
                Ok(answer) => return Ok(answer),
                Err(fault) if fault.kind != FaultKind::Busy || Instant::now() > end => return Err(fault),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Sends a command to a shard and waits for the answer.
    pub(super) fn ask(&self, shard: usize, command: Command) -> Result<Reply, Fault> {
        self.ask_thread(shard, command).map(|answer| answer.reply)
    }

    /// The same, with the data that the shard's thread adds.
    pub(super) fn ask_thread(&self, shard: usize, command: Command) -> Result<Answer, Fault> {
        answered(&self.put(shard, command, None)?)
    }

    pub(super) fn home(&self, jid: &Jid) -> usize {
        self.partitions().home(jid.bare_str()).index()
    }

    /// A normalised JID of a served domain.
    pub(super) fn jid(&self, text: &str) -> Result<Jid, Fault> {
        accounts::prepare(text, &self.links.settings.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))
    }

    /// The bare JID of an account.
    fn account(&self, text: &str) -> Result<Jid, Fault> {
        accounts::prepare_account(text, &self.links.settings.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))
    }

    /// Sends an invitation for a name to the inviter's home shard, which counts it.
    fn invite_to_name(&self, account: &str, new: &NewInvitation) -> Result<(), Fault> {
        let inviter = &new.inviter;
        let (life_s, most) = (new.life_s, new.most);
        let command = Command::Invitation(InvitationCommand::MakeNamed {
            inviter: inviter.clone(),
            account: account.into(),
            life_s,
            most,
        });
        match self.ask(self.partitions().home(inviter).index(), command)? {
            Reply::Busy => Err(Fault::new(FaultKind::Busy, invites::too_many(inviter))),
            reply => done(reply, &format!("user {inviter}")).map(drop),
        }
    }

    fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.counters().iter().map(|c| of(c)).sum()
    }
}

/// Clients that do not read, as stalls.
fn unread(owed: &[Owed]) -> Vec<Stuck> {
    let stuck = |owed: &Owed| {
        let Owed::Connection { jid, stalled_s, .. } = owed else { return None };
        let (what, seconds, text) = (jid.clone(), *stalled_s, owed.unread()?);
        Some(Stuck { what, seconds, text, holder: None, waiters: 0 })
    };
    owed.iter().filter_map(stuck).collect()
}

/// Waits for a shard's answer.
pub(super) fn answered(answer: &std::sync::mpsc::Receiver<Answer>) -> Result<Answer, Fault> {
    let _at = waits::at(Place::ShardAnswer);
    answer.recv_timeout(ANSWER_WAIT).map_err(|_| internal("the shard did not answer in time"))
}

/// The fault for damaged rows of a user.
fn unreadable(what: &str) -> Fault {
    let text = format!(
        "stored data of this {what} cannot be read and was left unchanged: the store is damaged; \
         stop the server, then run `throng store check` to list the damage, or `throng store \
         salvage` to recover intact rows"
    );
    Fault::new(FaultKind::Internal, text)
}

pub(super) fn done(reply: Reply, what: &str) -> Result<u64, Fault> {
    match reply {
        Reply::Done(n) => Ok(u64::from(n)),
        Reply::NotFound => Err(Fault::new(FaultKind::NotFound, format!("there is no {what}"))),
        Reply::Exists => Err(Fault::new(FaultKind::Exists, format!("{what} already exists"))),
        Reply::StoreFull => Err(Fault::new(FaultKind::Busy, "the disk is full")),
        Reply::Unreadable => Err(unreadable(what)),
        Reply::Refused(condition) => {
            Err(Fault::new(FaultKind::Invalid, format!("the {what} refuses this: {condition}")))
        }
        Reply::Busy => {
            let text = "the user has sessions or messages in transit: end the sessions with \
                        `throng ctl kick`, and try again";
            Err(Fault::new(FaultKind::Busy, text))
        }
        Reply::Sessions { .. }
        | Reply::Backlogs { .. }
        | Reply::Limits(_)
        | Reply::Announced { .. }
        | Reply::Components(_)
        | Reply::Rooms(_)
        | Reply::Openings(_)
        | Reply::Invited { .. }
        | Reply::Traced(_)
        | Reply::Busiest { .. } => Err(internal("an answer to another question")),
    }
}

impl Accounts for Running {
    fn domain(&self) -> Result<String, Fault> {
        Ok(self.links.settings.domains.main().to_owned())
    }

    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault> {
        let mut waits = Vec::with_capacity(batch.len());
        for account in batch {
            let credentials = Box::new(accounts::credentials(&account.keys));
            let jid = match accounts::prepare_kept(&account.user, &self.links.settings.domains) {
                Ok(jid) => jid,
                Err(why) => {
                    waits.push(Err(Put::Invalid(why)));
                    continue;
                }
            };
            let mode = match existing {
                Existing::Refuse | Existing::Skip => PutMode::Add,
                Existing::Update => PutMode::AddOrChange,
                Existing::Require => PutMode::Change,
            };
            let shard = self.home(&jid);
            let command = Command::Account(AccountCommand::Put { account: jid.as_str().into(), credentials, mode });
            waits.push(Ok(self.put_patiently(shard, &command, None)?));
        }
        waits
            .into_iter()
            .map(|wait| match wait {
                Err(put) => Ok(put),
                Ok(answer) => match answer.recv_timeout(ANSWER_WAIT).map(|answer| answer.reply) {
                    Ok(Reply::Done(0)) => Ok(Put::Updated),
                    Ok(Reply::Done(_)) => Ok(Put::Added),
                    Ok(Reply::Exists) if existing == Existing::Skip => Ok(Put::Skipped),
                    Ok(Reply::Exists) => Ok(Put::Exists),
                    Ok(Reply::NotFound) => Ok(Put::Missing),
                    Ok(Reply::StoreFull) => Err(Fault::new(FaultKind::Busy, "the disk is full")),
                    Ok(Reply::Unreadable) => Err(unreadable("account")),
                    Ok(
                        Reply::Sessions { .. }
                        | Reply::Backlogs { .. }
                        | Reply::Limits(_)
                        | Reply::Announced { .. }
                        | Reply::Components(_)
                        | Reply::Rooms(_)
                        | Reply::Refused(_)
                        | Reply::Openings(_)
                        | Reply::Invited { .. }
                        | Reply::Traced(_)
                        | Reply::Busiest { .. }
                        | Reply::Busy,
                    )
                    | Err(_) => Err(internal("the shard did not answer in time")),
                },
            })
            .collect()
    }

    fn delete(&self, user: &str) -> Result<(), Fault> {
        let jid = self.account(user)?;
        let reply =
            self.ask(self.home(&jid), Command::Account(AccountCommand::Delete { account: jid.as_str().into() }))?;
        done(reply, &format!("user {jid}")).map(drop)
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        accounts::list(&*self.links.engine, after, limit)
    }

    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault> {
        let settings = &self.links.settings;
        let inviting = Inviting::of(self.knobs.lock().config());
        let (actor, invitation) = inviting.plan(new, &settings.domains)?;
        if invitation.is_named && invitation.most > 0 {
            self.invite_to_name(&actor, &invitation)?;
        }
        let command = Command::Invitation(InvitationCommand::Make { actor: (&*actor).into(), new: invitation });
        match self.ask(self.partitions().home(&actor).index(), command)? {
            Reply::Invited { token, invitation } => Ok(inviting.links(&actor, &invitation, &token)),
            Reply::Busy => Err(Fault::new(FaultKind::Busy, invites::too_many(&actor))),
            Reply::Exists => Err(invites::exists(&actor)),
            reply => done(reply, &format!("user {actor}")).map(|_| Invited::default()),
        }
    }

    fn invitations(&self, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault> {
        invites::list(&*self.links.engine, after, limit)
    }

    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault> {
        let id = invites::read_id(id)?;
        let command = Command::Invitation(InvitationCommand::Revoke { actor: actor.into(), id });
        done(self.ask(self.partitions().home(actor).index(), command)?, "invitation like this").map(drop)
    }

    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault> {
        invites::applicants(&*self.links.engine, &self.links.settings.domains)
    }

    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault> {
        let jid = self.account(user)?;
        let reply = self
            .ask(self.home(&jid), Command::Account(AccountCommand::Decide { account: jid.as_str().into(), approve }))?;
        done(reply, &format!("account {jid} that waits for approval")).map(drop)
    }

    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault> {
        let jid = self.account(user)?;
        let command = Command::Account(AccountCommand::Suspend { account: jid.as_str().into(), suspended });
        match self.ask(self.home(&jid), command)? {
            Reply::Busy => Err(accounts::applies(jid.as_str())),
            reply => done(reply, &format!("user {jid}")),
        }
    }

    fn show(&self, user: &str) -> Result<AccountShown, Fault> {
        let jid = self.account(user)?;
        let mut shown = account_shown::of(&*self.links.engine, jid.as_str())?;
        shown.sessions = self.sessions(Some(jid.as_str()), None, ROWS_PER_PAGE_MAX)?.rows;
        if shown.sessions.iter().any(|session| !session.resumable) {
            shown.last_seen_s = Some(self.links.clock.now().wall_us / 1_000_000);
        }
        let is_of = |who: &str| who.split(' ').any(|part| part == jid.as_str());
        shown.held = self.held_by_limits()?.rows.into_iter().filter(|row| is_of(&row.who)).collect();
        Ok(shown)
    }

    fn reports(&self, after: Option<&str>, limit: usize) -> Result<Page<ReportRow>, Fault> {
        reports::list(&*self.links.engine, &self.links.settings.domains, after, limit)
    }

    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault> {
        let found = reports::find(&*self.links.engine, &self.links.settings.domains, &reports::read_ids(ids)?)?;
        let mut count = 0;
        for of in found.chunk_by(|a, b| a.0 == b.0) {
            let domain = &of[0].0;
            let ids = of.iter().map(|(_, key)| key.id).collect();
            let command = Command::Account(AccountCommand::Dismiss { domain: domain.as_str().into(), ids });
            count += match self.ask(self.partitions().home(domain).index(), command)? {
                // A concurrent request was faster.
                Reply::NotFound => 0,
                Reply::Busy => return Err(Fault::new(FaultKind::Busy, "the reports are being read: try again")),
                reply => done(reply, "domain's reports")?,
            };
        }
        Ok(count)
    }
}

impl Control for Running {
    fn status(&self) -> Status {
        let mut counters = BTreeMap::new();
        for shard in self.counters() {
            for (name, _, _, value) in shard.list() {
                *counters.entry(name.to_owned()).or_insert(0) += value;
            }
        }
        let (sessions, detached) = (self.sum(|c| c.sessions.get()), self.sum(|c| c.sessions_detached.get()));
        let certificate = self.links.certificates.as_ref().map(|certificates| {
            let standing = super::certificate::standing(certificates, self.links.settings.domains.names());
            CertificateState {
                expires_s: standing.ends_s,
                faults: standing.faults,
                soon: standing.soon,
                self_signed: standing.self_signed,
            }
        });
        let memory = self.links.known.memory_by_part();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            domain: self.links.settings.domains.main().to_owned(),
            virtual_hosts: self.links.settings.domains.names().skip(1).map(str::to_owned).collect(),
            uptime_s: self.started.elapsed().as_secs(),
            driver: self.links.driver.clone(),
            shards: self.links.peers.len() as u32,
            listeners: self.links.listening.clone(),
            admin_http: self.http.get().cloned().unwrap_or_default(),
            connections: self.sum(|c| c.connections.get()),
            connections_max: self.sum(|c| c.connections_max.get()),
            not_accepting: super::room::not_accepting(
                self.counters().iter().map(|c| c.accepting_paused.get()),
                &self.links.more_room,
            ),
            sessions: sessions.saturating_sub(detached),
            resumable: detached,
            storage_full: self.sum(|c| c.storage_full.get()) > 0,
            storage_lacks_bytes: self.links.committer.lacking_bytes(),
            clock: self.links.clock.doubt().map(|doubt| ClockState { ahead_s: doubt.ahead_s, left_s: doubt.left_s }),
            damaged: self.links.engine.damage(),
            external_down: {
                let down = self.links.back_ends.iter().filter(|back_end| back_end.is_down());
                let domain = |of: &Of| if let Of::Users(domain) = of { Some(domain.clone()) } else { None };
                down.filter_map(|back_end| domain(back_end.of())).collect()
            },
            ask_down: self.links.back_ends.iter().any(|back_end| *back_end.of() == Of::Channels && back_end.is_down()),
            backup: self.backup.get().map(|backup| backup.status()),
            unrecorded: crate::record::failure().map(str::to_owned),
            log_lines_lost: crate::log::lost_lines(),
            not_reloaded: (**self.not_reloaded.load()).clone(),
            stopping: self.stopping.load(Ordering::Acquire),
            stops_in_s: self.links.wishes.stops_in().map(|left| left.as_secs()),
            counters,
            resident_bytes: memory.resident_bytes,
            reserved_bytes: memory.reserved_bytes,
            memory: memory.parts,
            knobs_set: self
                .knob_rows()
                .iter()
                .filter(|row| row.source == Source::Operator.to_string())
                .cloned()
                .collect(),
            events: self.events.after(0),
            certificate,
            acme: self.acme_states(),
        }
    }

    fn sessions(&self, of: Option<&str>, after: Option<&str>, limit: usize) -> Result<Page<SessionRow>, Fault> {
        let wanted = of.map(|of| self.jid(of)).transpose()?;
        let place = |text: &str| {
            Some(text.split_once(':')).flatten().and_then(|(s, n)| Some((s.parse().ok()?, n.parse().ok()?)))
        };
        let (mut shard, mut slot) = match after {
            Some(after) => place(after).ok_or_else(|| Fault::new(FaultKind::Invalid, "not a place in a listing"))?,
            None => (0usize, 0u32),
        };
        if let Some(jid) = wanted.as_ref().filter(|_| after.is_none()) {
            shard = self.home(jid);
        }
        let mut rows = Vec::new();
        while shard < self.shards() && rows.len() < limit {
            let most = u32::try_from(limit - rows.len()).unwrap_or(u32::MAX);
            let of = wanted.as_ref().map(|jid| jid.as_str().into());
            let Answer { reply, streams } =
                self.ask_thread(shard, Command::Session(SessionCommand::List { of, from_slot: slot, most }))?;
            let Reply::Sessions { rows: page, next } = reply else {
                return Err(internal("an answer to another question"));
            };
            rows.extend(page.into_iter().zip(streams).map(|(row, stream)| SessionRow {
                jid: row.jid,
                address: stream.peer.map(|peer| peer.to_string()),
                resumable: row.conn.is_none(),
                tls: stream.tls.map(|version| version.name().to_owned()),
                shard: shard as u32,
                age_s: u64::from(row.since_s),
                idle_s: u64::from(row.idle_s),
                priority: row.priority,
                outbound_bytes: row.outbound_bytes as u64,
            }));
            match next {
                Some(next) => slot = next,
                None if wanted.is_some() => return Ok(Page { rows, next: None }),
                None => (shard, slot) = (shard + 1, 0),
            }
        }
        let next = (shard < self.shards()).then(|| format!("{shard}:{slot}"));
        Ok(Page { rows, next })
    }

    fn kick(&self, jid: &str, reason: Option<&str>) -> Result<u64, Fault> {
        let jid = self.jid(jid)?;
        let shard = self.home(&jid);
        let kick = Command::Session(SessionCommand::Kick { jid: jid.as_str().into(), reason: reason.map(Into::into) });
        done(self.ask(shard, kick)?, &format!("session of {jid}"))
    }

    fn say(&self, by: &str, text: &str, to: &Audience, urgent: bool) -> Result<u64, Fault> {
        let mut said = 0;
        match to {
            Audience::All => {
                for shard in 0..self.shards() {
                    said += done(
                        self.ask(
                            shard,
                            Command::Session(SessionCommand::Say { jid: None, text: text.into(), urgent }),
                        )?,
                        "session",
                    )?;
                }
            }
            Audience::These(jids) => {
                for jid in jids {
                    let jid = self.jid(jid)?;
                    let shard = self.home(&jid);
                    let say = Command::Session(SessionCommand::Say {
                        jid: Some(jid.as_str().into()),
                        text: text.into(),
                        urgent,
                    });
                    said += match self.ask(shard, say)? {
                        Reply::NotFound => 0,
                        reply => done(reply, "session")?,
                    };
                }
            }
        }
        if urgent {
            let to = match to {
                Audience::All => "all".to_owned(),
                Audience::These(jids) => jids.join(" "),
            };
            self.note_order(by, "say --urgent", to, said);
        }
        Ok(said)
    }

    fn announce(&self, text: &str, online: bool, later: Option<Duration>) -> Result<(), Fault> {
        self.begin_announcement(text, online, later)
    }

    fn components(&self) -> Result<Vec<ComponentRow>, Fault> {
        self.list_components()
    }

    fn announced(&self) -> Result<Announced, Fault> {
        self.announcements_told()
    }

    fn suspended(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        accounts::suspended(&*self.links.engine, after, limit)
    }

    fn edit_announcement(&self, text: &str) -> Result<(), Fault> {
        self.change_announcement(text)
    }

    fn withdraw_announcement(&self) -> Result<(), Fault> {
        self.keep(None)
    }

    fn account_seen(&self, user: &str) -> Result<AccountSeen, Fault> {
        accounts::seen(&*self.links.engine, &self.account(user)?)
    }

    fn flush_waiting(&self, by: &str, jid: &str) -> Result<u64, Fault> {
        let jid = self.account(jid)?;
        let reply = self.ask(self.home(&jid), Command::Log(LogCommand::Flush { account: jid.as_str().into() }))?;
        let count = done(reply, &format!("user {jid}"))?;
        self.note_order(by, "waiting flush", jid.as_str().to_owned(), count);
        Ok(count)
    }

    fn flush_queue(&self, by: &str, jid: &str) -> Result<u64, Fault> {
        let jid = self.jid(jid)?;
        let shard = self.home(&jid);
        let reply = self.ask(shard, Command::Session(SessionCommand::Detach { jid: jid.as_str().into() }))?;
        let count = done(reply, &format!("connection of {jid}"))?;
        self.note_order(by, "queue flush", jid.as_str().to_owned(), count);
        Ok(count)
    }

    fn openings(&self) -> Result<Vec<OpeningRow>, Fault> {
        self.openings_by_address()
    }

    fn limits(&self) -> Result<crate::admin::Held, Fault> {
        self.held_by_limits()
    }

    fn release(&self, by: &str, whom: &crate::admin::Release) -> Result<u64, Fault> {
        self.let_go(by, whom)
    }

    fn shutdown(&self, grace: Option<Duration>, after: Option<Duration>) -> Result<(), Fault> {
        let wished = match after {
            Some(after) => self.links.wishes.stop_in(after, grace),
            None => {
                self.stopping.store(true, Ordering::Release);
                self.links.wishes.stop(grace)
            }
        };
        if wished { Ok(()) } else { Err(Fault::new(FaultKind::Busy, "stopping already")) }
    }

    fn confirm_clock(&self, by: &str) -> Result<i64, Fault> {
        let Some(ahead_s) = self.links.clock.confirm() else {
            return Err(Fault::new(FaultKind::NotFound, "the clock is not in doubt: nothing to confirm"));
        };
        self.note_order(by, "clock confirm", format!("{ahead_s} s"), 1);
        Ok(ahead_s)
    }

    fn cancel_shutdown(&self) -> Result<(), Fault> {
        match self.links.wishes.stay() {
            true => Ok(()),
            false => Err(Fault::new(FaultKind::NotFound, "no shutdown is scheduled")),
        }
    }

    fn reload(&self) -> Result<Reloaded, Fault> {
        self.links.manager.reloading();
        let done = self.read_again();
        let why = done.as_ref().err().map(|fault| fault.text.replace('\n', "; "));
        let line = why.as_ref().map_or("reloaded".to_owned(), |why| format!("not reloaded: {why}"));
        self.not_reloaded.store(Arc::new(why));
        self.links.manager.ready(&line);
        self.acme.get().into_iter().for_each(acme::Handle::try_again);
        done
    }

    fn knobs(&self) -> Vec<KnobRow> {
        self.knob_rows().to_vec()
    }

    fn set_knob(&self, by: &str, key: &str, value: &str, lasting: Option<Duration>) -> Result<Vec<KnobChange>, Fault> {
        self.turn(by, |knobs, now| knobs.set(key, value, lasting, now))
    }

    fn reset_knobs(&self, by: &str, key: Option<&str>) -> Result<Vec<KnobChange>, Fault> {
        self.turn(by, |knobs, now| knobs.reset(key, now))
    }

    fn trace(&self, ask: crate::admin::trace::Ask) -> Result<crate::admin::trace::Told, Fault> {
        Running::trace(self, ask)
    }

    fn profile(&self, ask: profile::Ask) -> Result<profile::Told, Fault> {
        if let profile::Ask::Begin(plan) = &ask {
            tracing::info!(?plan, "a profile is asked for");
        }
        self.profiles.answer(ask).map_err(|refused| match refused {
            profile::Refused::Busy(why) => Fault::new(FaultKind::Busy, why),
            profile::Refused::Invalid(why) => Fault::new(FaultKind::Invalid, why),
            profile::Refused::Failed(why) => internal(why),
        })
    }

    fn backup(&self, to: &str) -> Result<BackupState, Fault> {
        let (engine, folder) = (self.links.engine.clone(), PathBuf::from(to));
        let into = folder.clone();
        self.backups.ask(&into, move |progress| crate::disk::backup::backup(&*engine, &folder, progress))
    }
}
