//! EXTERNAL (RFC 4422 A) with the certificate from the client's TLS handshake (XEP-0178 2).
//!
//! The host checks chain, validity and revocation before it reports the certificate. This module
//! decides which account it belongs to.

use super::{Authenticated, Failure, Mechanism, Terms};
use crate::session::facts::ClientCertificate;
use crate::store::account::Credentials;
use crate::wire::error::SaslCondition;
use crate::wire::jid;

/// Expects the account's record. The client's message has been read.
#[derive(Debug)]
pub struct ExternalAttempt {
    account: Box<str>,
}

/// The users named in a certificate, normalised: those in it, or else those found by the operator's
/// rule. Invalid addresses are skipped.
fn users(certificate: &ClientCertificate) -> Vec<Box<str>> {
    let names = if certificate.addresses.is_empty() { &certificate.mapped } else { &certificate.addresses };
    let mut users = Vec::new();
    for name in names {
        let Some(user) = bare(name) else { continue };
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

/// The bare JID of a user; `None` for anything else.
fn bare(name: &str) -> Option<Box<str>> {
    let jid = jid::normalise(name).ok()?;
    (jid.contains('@') && jid::bare_of(&jid) == &*jid).then(|| (&*jid).into())
}

fn is_at(user: &str, domain: &str) -> bool {
    user.split_once('@').is_some_and(|(_, of)| of == domain)
}

/// Whether a domain offers EXTERNAL to a connection with this certificate (RFC 6120 6.3.4): it
/// names a user of the domain.
pub fn offers_external(certificate: Option<&ClientCertificate>, domain: &str) -> bool {
    certificate.is_some_and(|certificate| users(certificate).iter().any(|user| is_at(user, domain)))
}

impl ExternalAttempt {
    /// Reads the authorization identity, which may be empty (XEP-0178 2, steps 10 and 11).
    pub(super) fn parse(authzid: &str, terms: &Terms<'_>) -> Result<ExternalAttempt, Failure> {
        let users = terms.certificate.map(users).unwrap_or_default();
        let account = match (authzid, &users[..]) {
            (_, []) => return Err(Failure::of(SaslCondition::NotAuthorized)),
            ("", [user]) => user.clone(),
            // 10 b: the client must choose one of them.
            ("", _) => {
                let text = "the certificate names several users; send an authorization identity";
                return Err(Failure::with_text(SaslCondition::InvalidAuthzid, text));
            }
            (authzid, users) => {
                let wanted = bare(authzid).filter(|wanted| users.contains(wanted));
                wanted.ok_or(Failure::of(SaslCondition::InvalidAuthzid))?
            }
        };
        if !is_at(&account, terms.domain) {
            return Err(Failure::of(SaslCondition::InvalidAuthzid));
        }
        Ok(ExternalAttempt { account })
    }

    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// Takes the account's record, or `None` if the account does not exist.
    ///
    /// # Errors
    /// If the account does not exist or is out of use.
    pub fn account(self, found: Option<&Credentials>) -> Result<Authenticated, Failure> {
        let found = found.ok_or(Failure::of(SaslCondition::NotAuthorized))?;
        Failure::unless_in_use(found.standing())?;
        Ok(Authenticated::new(self.account, found.identity(), Mechanism::External))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Allowed, BASE64, Begun, begin};
    use super::*;
    use base64::Engine as _;

    fn certificate(addresses: &[&str], mapped: &[&str]) -> ClientCertificate {
        let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        ClientCertificate { addresses: boxed(addresses), mapped: boxed(mapped) }
    }

    fn try_as(certificate: Option<&ClientCertificate>, authzid: &str) -> Result<Box<str>, SaslCondition> {
        let domain = "example.net";
        let allowed = Allowed { external: offers_external(certificate, domain), ..Allowed::default() };
        let terms = Terms { domain, secured: None, allowed, certificate };
        let payload = if authzid.is_empty() { "=".to_owned() } else { BASE64.encode(authzid) };
        match begin("EXTERNAL", &payload, &terms) {
            Ok(Begun::External(attempt)) => Ok(attempt.bare().into()),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.condition),
        }
    }

    const INVALID: Result<Box<str>, SaslCondition> = Err(SaslCondition::InvalidAuthzid);

    /// XEP-0178 2, step 11 a: one address, and no other identity than that.
    #[test]
    fn xep0178_2_one_address() {
        let one = certificate(&["Juliet@Example.NET"], &["romeo@example.net"]);
        assert_eq!(try_as(Some(&one), "").as_deref(), Ok("juliet@example.net"));
        assert_eq!(try_as(Some(&one), "juliet@example.net").as_deref(), Ok("juliet@example.net"));
        for other in
            ["romeo@example.net", "example.net", "juliet@example.net/balcony", "juliet", "juliet@example.org", "@"]
        {
            assert_eq!(try_as(Some(&one), other), INVALID, "{other}");
        }
    }

    /// Step 11 b: the client must choose, also if the other address is at another domain of the
    /// server.
    #[test]
    fn xep0178_2_more_than_one_address() {
        let two = certificate(&["juliet@example.net", "romeo@example.net", "juliet@example.net"], &[]);
        assert_eq!(try_as(Some(&two), ""), INVALID);
        assert_eq!(try_as(Some(&two), "romeo@example.net").as_deref(), Ok("romeo@example.net"));
        assert_eq!(try_as(Some(&two), "nurse@example.net"), INVALID);
        let domains = certificate(&["juliet@example.net", "juliet@example.org"], &[]);
        assert_eq!(try_as(Some(&domains), ""), INVALID);
        assert_eq!(try_as(Some(&domains), "juliet@example.net").as_deref(), Ok("juliet@example.net"));
        assert_eq!(try_as(Some(&domains), "juliet@example.org"), INVALID, "the stream is with another domain");
    }

    /// Step 11 c: no address, and the operator's rule; RFC 6120 6.3.4: offered only to clients that
    /// can use it.
    #[test]
    fn xep0178_2_no_address() {
        let mapped = certificate(&[], &["juliet@example.net"]);
        assert_eq!(try_as(Some(&mapped), "").as_deref(), Ok("juliet@example.net"));
        assert_eq!(try_as(Some(&mapped), "romeo@example.net"), INVALID);
        for nobody in [
            certificate(&[], &[]),
            certificate(&["example.net"], &[]),
            certificate(&["juliet@example.org"], &["juliet@example.net"]),
            certificate(&["juliet@example.net/balcony"], &[]),
            certificate(&["jul iet@example.net", "", "@", "juliet@"], &[]),
        ] {
            assert_eq!(try_as(Some(&nobody), ""), Err(SaslCondition::InvalidMechanism), "{nobody:?}");
        }
        assert_eq!(try_as(None, ""), Err(SaslCondition::InvalidMechanism));
    }

    /// A certificate of an account that does not exist, or is out of use.
    #[test]
    fn xep0178_2_the_account_has_to_be_there() {
        let attempt = || ExternalAttempt { account: "juliet@example.net".into() };
        let condition = |found: Option<&Credentials>| attempt().account(found).unwrap_err().condition;
        assert_eq!(condition(None), SaslCondition::NotAuthorized);
        let mut credentials = Credentials::derive("x", 4096, &[1; 16], 0).unwrap();
        assert_eq!(attempt().account(Some(&credentials)).unwrap().mechanism(), Mechanism::External);
        credentials.set_standing(crate::store::account::Standing::Suspended);
        assert_eq!(condition(Some(&credentials)), SaslCondition::AccountDisabled);
    }
}
