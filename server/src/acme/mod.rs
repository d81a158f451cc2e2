//! Certificates of an authority, obtained and renewed without an operator (ACME, RFC 8555).
//!
//! ```text
//!   names, one certificate each ──> [`when`]: due? ──> [`order`] ──> [`kept`]: a file per name
//!                                                        │  ^             │
//!                                              [`wire`]: the authority    └─> `Serving::use_certificates`
//! ```
//!
//! One thread serves all names, one order at a time, and sleeps in between. Nothing waits for it:
//! the server serves what is in the files, or certificates that it has signed itself. What is asked
//! of the rest of the server is in [`Serving`]. This module knows neither shards nor configuration.

mod kept;
mod listen;
mod order;
#[cfg(test)]
mod tests;
mod when;
mod wire;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use instant_acme::Account;
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use throng_engine::web::policy::Challenge;
use throng_recorder::clock::wall_s;
use tokio::sync::Notify;

use crate::runtime::{Aside, Blocking};
use crate::tls::{Certificates, Issued, date};
use crate::waits::{self, Place};
use kept::{Attempts, Folder, Kept};
pub use kept::{file, folder};
pub use order::Way;
use order::{Fault, obtain};
use wire::Wire;

/// Maximum number of simultaneous name lookups; a hanging one must not delay all.
const LOOKUPS_MAX: usize = 4;

/// The longest sleep: a clock that was corrected, or a machine that was suspended, is noticed by
/// then.
const SLEEP_S_MAX: i64 = 3_600;

/// The directory of Let's Encrypt.
pub const PRODUCTION: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The same for tests of an installation: clients do not trust its certificates, and its limits are
/// wide.
pub const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The operator's settings.
#[derive(Debug)]
pub struct Settings {
    /// The contact of the account, a mail address.
    pub contact: String,
    /// The address of the authority's directory (RFC 8555 7.1.1).
    pub directory: String,
    /// The TLS configuration that verifies the authority.
    pub tls: Arc<ClientConfig>,
    /// The folder of this authority's account and certificates.
    pub folder: PathBuf,
    /// The names, in ASCII.
    pub names: Vec<String>,
    /// How control of a name can be proved, the most promising way first; there is one.
    pub ways: Vec<Way>,
    /// Listeners that answer challenges by HTTP and nothing else.
    pub listeners: Vec<TcpListener>,
}

/// What the rest of the server does for this module.
pub trait Serving: Send + Sync {
    /// Answers this challenge at all HTTP listeners from now on, or none. Returns once it does.
    ///
    /// # Errors
    /// Why it cannot.
    fn answer(&self, challenge: Option<Challenge>) -> Result<(), String>;
    /// Serves the certificates that are in the files now.
    ///
    /// # Errors
    /// Why it cannot.
    fn use_certificates(&self) -> Result<(), String>;
}

/// Seconds since 1970.
fn now_s() -> i64 {
    wall_s().cast_signed()
}

/// The state of a certificate that an authority is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The name, in ASCII.
    pub name: String,
    /// When the certificate expires, in seconds since 1970; `None` if there is none yet.
    pub expires_s: Option<i64>,
    /// When the next one is ordered, in seconds since 1970.
    pub next_s: i64,
    /// When the last one came, in seconds since 1970; 0 if none did.
    pub obtained_s: i64,
    /// Number of orders that failed since the server's start.
    pub failures: u64,
    /// Number of orders that failed since the last certificate came.
    pub in_a_row: u32,
    /// Why the last order failed; if none did, why its certificate is not in use.
    pub fault: Option<String>,
}

/// A name with its certificate and its next order.
#[derive(Debug)]
struct Name {
    name: String,
    issued: Option<Issued>,
    attempts: Attempts,
    failures: u64,
    /// When the authority suggests to renew the certificate (RFC 9773), seconds since 1970.
    window: Option<(i64, i64)>,
    /// When it is asked about that next.
    window_next_s: i64,
}

impl Name {
    /// Forgets times that no pause can have led to: the clock was ahead when they were noted.
    fn bound(&mut self, now_s: i64) {
        self.attempts.not_before_s = self.attempts.not_before_s.min(now_s.saturating_add(when::ASKED_S_MAX));
        self.window_next_s = self.window_next_s.min(now_s.saturating_add(when::WINDOW_S_MAX));
    }

    /// When the next order is due.
    fn order_s(&self) -> i64 {
        self.attempts.not_before_s.max(self.issued.as_ref().map_or(0, |issued| when::renewal(issued, self.window)))
    }

    /// When anything is to be done next.
    fn next_s(&self) -> i64 {
        let window_s = if self.issued.is_some() { self.window_next_s } else { i64::MAX };
        self.order_s().min(window_s.max(self.attempts.not_before_s))
    }
}

/// What the thread and its observers share.
#[derive(Debug)]
struct Shared {
    names: Mutex<Vec<Name>>,
    asked: Notify,
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Vec<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of all names, for operators.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// The state of each name.
    pub fn states(&self) -> Vec<State> {
        let names = self.0.names();
        let state = |name: &Name| State {
            name: name.name.clone(),
            expires_s: name.issued.as_ref().map(|issued| issued.until_s),
            next_s: name.order_s(),
            obtained_s: name.attempts.obtained_s,
            failures: name.failures,
            in_a_row: name.attempts.failed,
            fault: name.attempts.fault.clone(),
        };
        names.iter().map(state).collect()
    }

    /// Tries again at once for names whose last order failed: an operator has done something about
    /// it.
    pub fn try_again(&self) {
        for name in self.0.names().iter_mut() {
            match name.attempts.failed {
                0 => name.attempts.fault = None,
                _ => name.attempts.not_before_s = 0,
            }
        }
        self.0.asked.notify_one();
    }
}

/// The thread; ends when it is dropped.
pub struct Acme {
    _thread: Aside,
    handle: Handle,
}

impl Acme {
    /// The state of all names.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// Starts the thread. What is in the files has been read when this returns.
///
/// # Errors
/// The folder cannot be created, or the system's.
pub fn start(
    mut settings: Settings,
    certificates: Arc<Certificates>,
    server: Arc<dyn Serving>,
) -> Result<Acme, String> {
    let folder = Folder::open(&settings.folder)?;
    let known = |name: &String| {
        let (issued, mut attempts) = (folder.issued(name), folder.attempts(name));
        if issued.is_none() && attempts.failed == 0 {
            // It was removed: another one is wanted.
            attempts.not_before_s = 0;
        }
        Name { name: name.clone(), issued, attempts, failures: 0, window: None, window_next_s: 0 }
    };
    let names = settings.names.iter().map(known).collect();
    let shared = Arc::new(Shared { names: Mutex::new(names), asked: Notify::new() });
    let (handle, listeners) = (Handle(shared.clone()), std::mem::take(&mut settings.listeners));
    let blocking = Blocking { most: LOOKUPS_MAX, whole: false };
    let thread = Aside::start("throng-acme", blocking, move || async move {
        let _at = waits::at(Place::Authority);
        let challenge = Arc::new(ArcSwapOption::empty());
        for listener in listeners {
            listen::start(listener, challenge.clone());
        }
        Work { settings, folder, certificates, server, challenge, shared }.run().await;
    });
    Ok(Acme { _thread: thread.map_err(|error| error.to_string())?, handle })
}

/// The thread's work.
struct Work {
    settings: Settings,
    folder: Folder,
    certificates: Arc<Certificates>,
    server: Arc<dyn Serving>,
    /// The challenge that the listeners of this module answer.
    challenge: Arc<ArcSwapOption<Challenge>>,
    shared: Arc<Shared>,
}

impl Work {
    async fn run(self) {
        loop {
            let now_s = now_s();
            let due: Vec<usize> = {
                let mut names = self.shared.names();
                names.iter_mut().for_each(|name| name.bound(now_s));
                (0..names.len()).filter(|at| names[*at].next_s() <= now_s).collect()
            };
            if !due.is_empty() {
                self.visit(&due).await;
            }
            let next_s = self.shared.names().iter().map(Name::next_s).min().unwrap_or(i64::MAX);
            let pause_s = next_s.saturating_sub(self::now_s()).clamp(1, SLEEP_S_MAX);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(pause_s.unsigned_abs())) => {}
                () = self.shared.asked.notified() => {}
            }
        }
    }

    /// Asks the authority whatever is due for these names.
    async fn visit(&self, due: &[usize]) {
        let wire = Wire::new(self.settings.tls.clone());
        let account = match self.account(&wire).await {
            Ok(account) => account,
            Err(fault) => {
                for at in due {
                    self.postpone_window(*at, now_s() + when::WINDOW_S_MIN, None);
                    if self.is_order_due(*at) {
                        self.failed(*at, &fault, &wire);
                    }
                }
                return;
            }
        };
        for (done, at) in due.iter().enumerate() {
            let (issued, asks) = {
                let name = &self.shared.names()[*at];
                (name.issued.clone(), name.window_next_s <= now_s())
            };
            if let (Some(issued), true) = (&issued, asks) {
                let found = order::window(&account, issued).await;
                let (window, again_s) = found.map_or((None, when::WINDOW_S_MAX), |(window, s)| (Some(window), s));
                self.postpone_window(*at, now_s() + again_s.clamp(when::WINDOW_S_MIN, when::WINDOW_S_MAX), window);
            }
            if self.is_order_due(*at) {
                self.order(*at, &account, issued.as_ref(), &wire).await;
            }
            if wire.asked_pause_s() > 0 {
                // A limit may be one of the account: the other names wait as well, but not as long.
                let not_before_s = now_s() + wire.asked_pause_s().min(when::HOLD_S_MAX);
                let mut names = self.shared.names();
                due[done + 1..].iter().for_each(|at| names[*at].attempts.not_before_s = not_before_s);
                return;
            }
        }
    }

    fn is_order_due(&self, at: usize) -> bool {
        self.shared.names()[at].order_s() <= now_s()
    }

    fn postpone_window(&self, at: usize, next_s: i64, window: Option<(i64, i64)>) {
        let name = &mut self.shared.names()[at];
        (name.window, name.window_next_s) = (window.or(name.window), next_s);
    }

    /// The account that is in the folder, or a new one.
    async fn account(&self, wire: &Wire) -> Result<Account, Fault> {
        let (contact, directory) = (&self.settings.contact, &self.settings.directory);
        if let Some(kept) = self.folder.account()? {
            match self.known_account(wire, kept).await {
                Err(Fault::NoAccount) => self.folder.forget_account(),
                known => return known,
            }
        }
        let (account, credentials) = order::new_account(wire, directory, contact).await?;
        self.folder.keep_account(contact, &credentials)?;
        tracing::info!(
            directory,
            contact,
            account = account.id(),
            "ACME: an account was created, and its terms accepted"
        );
        Ok(account)
    }

    /// An account that exists, with the contact of the settings.
    async fn known_account(&self, wire: &Wire, kept: Kept) -> Result<Account, Fault> {
        let contact = &self.settings.contact;
        let account = order::known_account(wire, kept.credentials).await?;
        if kept.contact != *contact {
            order::change_contact(&account, contact).await?;
            self.folder.keep_contact(contact)?;
        }
        Ok(account)
    }

    async fn order(&self, at: usize, account: &Account, issued: Option<&Issued>, wire: &Wire) {
        let (name, failed) = {
            let name = &self.shared.names()[at];
            (name.name.clone(), name.attempts.failed)
        };
        let ways = &self.settings.ways;
        let way = ways[failed as usize % ways.len()];
        tracing::info!(name, way = way.name(), "ACME: a certificate is ordered");
        let mut came = obtain(account, &name, issued, way, &self.answers()).await;
        if let Err(Fault::NoAccount) = came {
            self.folder.forget_account();
            came = match self.account(wire).await {
                Ok(account) => obtain(&account, &name, issued, way, &self.answers()).await,
                Err(fault) => Err(fault),
            };
        }
        self.hide();
        match came.and_then(|pem| Ok(self.folder.keep(&name, &pem)?)) {
            Ok(issued) => self.obtained(at, &name, issued),
            Err(fault) => self.failed(at, &fault, wire),
        }
    }

    /// How a challenge is answered.
    fn answers(&self) -> order::Answers<'_> {
        order::Answers { certificates: &self.certificates, server: &*self.server, challenge: &self.challenge }
    }

    fn hide(&self) {
        if let Some(challenge) = self.certificates.challenge() {
            challenge.hide();
        }
        if self.challenge.swap(None).is_some() {
            // It stays harmless: the order is over.
            let _ = self.server.answer(None);
        }
    }

    fn obtained(&self, at: usize, name: &str, issued: Issued) {
        let until = date(issued.until_s);
        let fault = self.server.use_certificates().err();
        match &fault {
            None => tracing::info!(name, until, "ACME: the certificate has come and is in use"),
            Some(why) => tracing::error!(name, %why, "ACME: the certificate has come, but cannot be used"),
        }
        let obtained_s = now_s();
        let attempts = Attempts { obtained_s, not_before_s: obtained_s + when::rest_s(&issued), ..Attempts::default() };
        self.keep(name, &attempts);
        let known = &mut self.shared.names()[at];
        // A restart reads the file again: the fault is not stored.
        (known.issued, known.attempts) = (Some(issued), Attempts { fault, ..attempts });
        (known.window, known.window_next_s) = (None, 0);
    }

    fn failed(&self, at: usize, fault: &Fault, wire: &Wire) {
        let (name, attempts) = {
            let known = &mut self.shared.names()[at];
            known.failures += 1;
            let failed = known.attempts.failed.saturating_add(1);
            let pause_s = when::pause_s(failed, wire.asked_pause_s());
            let attempts = &mut known.attempts;
            (attempts.failed, attempts.not_before_s) = (failed, now_s() + pause_s);
            attempts.fault = Some(fault.to_string());
            (known.name.clone(), attempts.clone())
        };
        let again_s = attempts.not_before_s - now_s();
        tracing::error!(name, again_s, %fault, "ACME: no certificate");
        self.keep(&name, &attempts);
    }

    fn keep(&self, name: &str, attempts: &Attempts) {
        if let Err(why) = self.folder.keep_attempts(name, attempts) {
            tracing::error!(name, %why, "ACME: the outcome cannot be stored");
        }
    }
}
