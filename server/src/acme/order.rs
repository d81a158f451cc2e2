//! One order: control of a name is proved to the authority, which then signs a certificate for it
//! (RFC 8555 7.4).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::Der;
use throng_engine::web::policy::Challenge;

use super::wire::Wire;
use super::{Serving, when};
use crate::tls::{Certificates, Issued};

/// How often the authority is asked whether it has checked or signed, and for how long.
const POLLS: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(120));

/// How control of a name is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a path at port 80 (RFC 8555 8.3).
    Http,
    /// By a certificate at port 443 (RFC 8737).
    Tls,
}

impl Way {
    /// Its name in the registry of ACME (RFC 8555 9.7.8).
    pub fn name(self) -> &'static str {
        match self {
            Way::Http => "http-01",
            Way::Tls => "tls-alpn-01",
        }
    }

    fn challenge(self) -> ChallengeType {
        match self {
            Way::Http => ChallengeType::Http01,
            Way::Tls => ChallengeType::TlsAlpn01,
        }
    }

    /// What the authority must reach.
    fn needs(self) -> &'static str {
        match self {
            Way::Http => "port 80 of this name must lead to acme_http, or a proxy must pass the path on to http",
            Way::Tls => "port 443 of this name must lead to c2s_tls or https",
        }
    }
}

/// Why an order failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The authority does not know the account.
    NoAccount,
    /// The authority has connected in vain, or found something else.
    NotProved(Way, String),
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NoAccount => f.write_str("the authority does not know the account"),
            Fault::NotProved(way, why) => {
                write!(f, "the authority's check by {} failed: {why}; {}", way.name(), way.needs())
            }
            Fault::Other(why) => f.write_str(why),
        }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Other(why)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Api(problem)
                if problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist") =>
            {
                Fault::NoAccount
            }
            Error::Api(problem) => Fault::Other(format!(
                "the authority refused: {}",
                problem.to_string().trim_start_matches("API error: ")
            )),
            error => Fault::Other(error.to_string()),
        }
    }
}

/// Where challenges are answered.
pub(super) struct Answers<'a> {
    pub(super) certificates: &'a Certificates,
    pub(super) server: &'a dyn Serving,
    pub(super) challenge: &'a ArcSwapOption<Challenge>,
}

/// An account that exists.
pub(super) async fn known_account(wire: &Wire, credentials: AccountCredentials) -> Result<Account, Fault> {
    Ok(Account::builder_with_http(Box::new(wire.clone())).from_credentials(credentials).await?)
}

/// A new account. That the operator has given an address means consent to the terms of service.
pub(super) async fn new_account(
    wire: &Wire,
    directory: &str,
    contact: &str,
) -> Result<(Account, AccountCredentials), Fault> {
    let contact = format!("mailto:{contact}");
    let account = NewAccount { contact: &[&contact], terms_of_service_agreed: true, only_return_existing: false };
    let builder = Account::builder_with_http(Box::new(wire.clone()));
    Ok(builder.create(&account, directory.to_owned(), None).await?)
}

/// Gives the account another contact.
pub(super) async fn change_contact(account: &Account, contact: &str) -> Result<(), Fault> {
    Ok(account.update_contacts(&[&format!("mailto:{contact}")]).await?)
}

/// The name of a certificate in questions about its renewal (RFC 9773 4.1), if it can have one.
fn identifier(issued: &Issued) -> Option<CertificateIdentifier<'static>> {
    let (key, serial) = (Der::from_slice(&issued.authority_key), Der::from_slice(&issued.serial));
    (!issued.authority_key.is_empty()).then(|| CertificateIdentifier::new(key, serial).into_owned())
}

/// When the authority suggests to renew, and after how many seconds to ask again (RFC 9773 4.2);
/// `None` if it does not say.
pub(super) async fn window(account: &Account, issued: &Issued) -> Option<((i64, i64), i64)> {
    let (info, again) = account.renewal_info(&identifier(issued)?).await.ok()?;
    let window = (info.suggested_window.start.unix_timestamp(), info.suggested_window.end.unix_timestamp());
    when::is_valid(window).then(|| (window, i64::try_from(again.as_secs()).unwrap_or(i64::MAX)))
}

/// Obtains a certificate: its key and its chain, as PEM.
pub(super) async fn obtain(
    account: &Account,
    name: &str,
    replaces: Option<&Issued>,
    way: Way,
    answers: &Answers<'_>,
) -> Result<String, Fault> {
    let mut order = new_order(account, name, replaces).await?;
    prove(&mut order, name, way, answers).await?;
    let cannot = |error: rcgen::Error| Fault::Other(format!("the request cannot be made: {error}"));
    let key = KeyPair::generate().map_err(cannot)?;
    let mut parameters = CertificateParams::new([name.to_owned()]).map_err(cannot)?;
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&key).map_err(cannot)?;
    order.finalize_csr(request.der()).await?;
    let chain = order.poll_certificate(&POLLS).await?;
    Ok(key.serialize_pem() + &chain)
}

/// Whether an authority does not take an order because of the certificate that it is to replace (RFC
/// 9773 5): the certificate is unknown, of another account, or replaced already; or the authority has
/// no such orders.
fn refuses_replacing(error: &Error) -> bool {
    const TYPES: [&str; 3] = ["alreadyReplaced", "malformed", "unauthorized"];
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            let kind = problem.r#type.as_deref().and_then(|kind| kind.strip_prefix("urn:ietf:params:acme:error:"));
            kind.is_some_and(|kind| TYPES.contains(&kind))
        }
        _ => false,
    }
}

/// An order for this name. One that replaces a certificate does not count against most limits (RFC
/// 9773 5). If that is refused, it is ordered anew.
async fn new_order(account: &Account, name: &str, replaces: Option<&Issued>) -> Result<Order, Fault> {
    let names = [Identifier::Dns(name.to_owned())];
    if let Some(replaced) = replaces.and_then(identifier) {
        match account.new_order(&NewOrder::new(&names).replaces(replaced)).await {
            Err(error) if refuses_replacing(&error) => {}
            other => return Ok(other?),
        }
    }
    Ok(account.new_order(&NewOrder::new(&names)).await?)
}

/// Proves control of the names that the authority still has doubts about.
async fn prove(order: &mut Order, name: &str, way: Way, answers: &Answers<'_>) -> Result<(), Fault> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let none = || Fault::Other(format!("the authority does not offer {} for this name", way.name()));
        let mut challenge = authorization.challenge(way.challenge()).ok_or_else(none)?;
        let proof = challenge.key_authorization();
        match way {
            Way::Http => {
                let challenge = Challenge { token: challenge.token.as_str().into(), answer: proof.as_str().into() };
                answers.challenge.store(Some(Arc::new(challenge.clone())));
                answers.server.answer(Some(challenge))?;
            }
            Way::Tls => {
                let shown = answers.certificates.challenge().ok_or("no listener answers challenges".to_owned())?;
                shown.show(name, proof.digest().as_ref()).map_err(|error| error.to_string())?;
            }
        }
        challenge.set_ready().await?;
    }
    match order.poll_ready(&POLLS).await {
        Ok(OrderStatus::Ready) => Ok(()),
        Ok(_) => Err(Fault::NotProved(way, doubts(order).await.unwrap_or_else(|| "it does not say why".into()))),
        Err(error) => match doubts(order).await {
            Some(why) => Err(Fault::NotProved(way, why)),
            None => Err(error.into()),
        },
    }
}

/// What the authority says about a challenge that has failed.
async fn doubts(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let state = authorization.refresh().await.ok()?;
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return Some(problem.detail.clone().unwrap_or_else(|| problem.to_string()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit is met twice as soon by an order that is repeated at once.
    #[test]
    fn an_order_is_repeated_only_if_what_it_replaces_is_refused() {
        let problem = |kind: &str| {
            let kind = format!("urn:ietf:params:acme:error:{kind}");
            Error::Api(serde_json::from_value(serde_json::json!({ "type": kind, "status": 400 })).unwrap())
        };
        for kind in ["alreadyReplaced", "malformed", "unauthorized"] {
            assert!(refuses_replacing(&problem(kind)), "{kind}");
        }
        for kind in ["rateLimited", "accountDoesNotExist", "rejectedIdentifier", "serverInternal"] {
            assert!(!refuses_replacing(&problem(kind)), "{kind}");
        }
        assert!(refuses_replacing(&Error::Unsupported("ARI")));
        assert!(!refuses_replacing(&Error::Str("a lost connection")));
    }
}
