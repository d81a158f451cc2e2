//! User names as operators write them, and faults of the store in words.

use throng_engine::id::Domains;
use throng_engine::wire::jid::Jid;

use crate::admin::{Fault, FaultKind};
use crate::disk::DiskError;

/// A fault of the store.
pub(super) fn fault(error: &DiskError) -> Fault {
    Fault::new(FaultKind::Internal, error.to_string())
}

/// A user's normalised JID; a name without a domain belongs to the main one.
///
/// # Errors
/// Why it is invalid.
pub(super) fn prepare(user: &str, domains: &Domains) -> Result<Jid, String> {
    let full = if user.contains('@') { user.to_owned() } else { format!("{user}@{}", domains.main()) };
    let jid = Jid::parse(&full).map_err(|error| error.to_string())?;
    if domains.find_users(jid.domain()).is_none() {
        let served = domains.names().collect::<Vec<_>>().join(", ");
        return Err(format!("{} is not served here, only {served}; add domains with virtual_hosts", jid.domain()));
    }
    if jid.local().is_none() {
        return Err(format!("{user} is a domain, not a user"));
    }
    Ok(jid)
}

/// The same for an account whose password is stored by this server.
///
/// # Errors
/// Why it is invalid.
pub(super) fn prepare_kept(user: &str, domains: &Domains) -> Result<Jid, String> {
    let jid = prepare_account(user, domains)?;
    match domains.keeps_outside(jid.as_str()) {
        true => Err(kept_outside(jid.domain())),
        false => Ok(jid),
    }
}

/// Why accounts of a domain cannot be created or changed.
pub(super) fn kept_outside(domain: &str) -> String {
    format!(
        "the users of {domain} are managed by external_auth: create and change them there. Their \
         accounts here are created at the first login"
    )
}

/// The same for an account, which has no resource.
///
/// # Errors
/// Why it is invalid.
pub(super) fn prepare_account(user: &str, domains: &Domains) -> Result<Jid, String> {
    let jid = prepare(user, domains)?;
    match jid.is_bare() {
        true => Ok(jid),
        false => Err(format!("{user} has a resource; use the bare JID")),
    }
}
