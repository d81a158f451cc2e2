//! The domains that a process serves: the domainparts of this host's addresses (RFC 7622 3.2).
//!
//! Everything that has a home is an *actor*: a bare JID with its domain. The domain determines the
//! kind of an actor, so the kind of an address is known before any of its state is loaded. Two
//! actors with the same localpart at two domains are unrelated.

use std::hash::{BuildHasherDefault, DefaultHasher};

use hashbrown::HashMap;

/// The index of a domain among those that are served. It is valid in this process only; the store
/// holds the name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DomainId(u16);

/// The kind of a domain's actors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActorKind {
    /// Accounts with a roster, sessions and a log (RFC 6121).
    Users,
    /// None: the domain itself is a service of this server, and has no accounts.
    Service(Service),
    /// Whatever an external component defines (XEP-0114). All of them have the same home as the
    /// domain.
    Component,
    /// Rooms, one per localpart (XEP-0045). The domain itself is the service, with the directory of
    /// its public rooms.
    Rooms,
}

/// A service with a domain of its own, which answers the requests of this server's users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// HTTP File Upload (XEP-0363).
    Upload,
    /// The proxy of SOCKS5 bytestreams (XEP-0065).
    Bytestreams,
    /// Publish-subscribe (XEP-0060).
    PubSub,
}

/// The served domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    all: Vec<(Box<str>, ActorKind)>,
    others: HashMap<Box<str>, DomainId, BuildHasherDefault<DefaultHasher>>,
    /// Whether any domain is a component's, so that [`Domains::home_key`] need not look otherwise.
    components: bool,
    /// Domains with an external user back end: at most [`OUTSIDE_DOMAINS_MAX`].
    outside: Vec<DomainId>,
}

/// Maximum number of domains with an external user back end: each has processes or connections of
/// its own.
pub const OUTSIDE_DOMAINS_MAX: usize = 64;

impl DomainId {
    /// Mixes the domain into a hash, so that equal names at different domains differ.
    pub fn mix(self, hash: u64) -> u64 {
        hash ^ u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Domains {
    /// A set with one normalised domain with accounts, which is the main domain.
    pub fn of_users(main: &str) -> Domains {
        let all = vec![(main.into(), ActorKind::Users)];
        Domains { all, others: HashMap::default(), components: false, outside: Vec::new() }
    }

    /// Adds another normalised domain. A domain that is already served keeps its kind.
    ///
    /// # Panics
    /// With the 65,537th.
    pub fn serve(&mut self, domain: &str, kind: ActorKind) {
        if self.find(domain).is_none() {
            let id = DomainId(u16::try_from(self.all.len()).expect("no more than 65,536 domains"));
            self.all.push((domain.into(), kind));
            self.others.insert(domain.into(), id);
            self.components |= kind == ActorKind::Component;
        }
    }

    /// The main domain, which is used if none is named: by a stream header without `to`, or by an
    /// operator's command.
    pub fn main(&self) -> &str {
        &self.all[0].0
    }

    /// The id of a served domain.
    pub fn find(&self, domain: &str) -> Option<DomainId> {
        if *domain == *self.all[0].0 {
            return Some(DomainId(0));
        }
        self.others.get(domain).copied()
    }

    /// The served domain at the start of a text. The text is a domain, or what follows the `@` of a
    /// bare or full JID.
    #[inline]
    pub fn find_in(&self, text: &str) -> Option<DomainId> {
        if let Some(rest) = text.strip_prefix(self.main())
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return Some(DomainId(0));
        }
        self.find(text.split_once('/').map_or(text, |(domain, _)| domain))
    }

    /// The domain's name.
    pub fn name(&self, id: DomainId) -> &str {
        &self.all[usize::from(id.0)].0
    }

    /// The kind of the domain's actors.
    pub fn kind(&self, id: DomainId) -> ActorKind {
        self.all[usize::from(id.0)].1
    }

    /// The served domain of an address, and the kind of its actors: every stanza and letter is
    /// routed by it. The address is a JID in any form, or an actor (`service/node`). `None` if the
    /// domain is elsewhere.
    #[inline]
    pub fn of(&self, address: &str) -> Option<(DomainId, ActorKind)> {
        let bare = address.split_once('/').map_or(address, |(bare, _)| bare);
        let id = self.find(bare.split_once('@').map_or(bare, |(_, domain)| domain))?;
        Some((id, self.kind(id)))
    }

    /// The text that determines the home of an actor: its domain if all actors of the domain share
    /// a home, which a component's do; otherwise the actor itself.
    #[inline]
    pub fn home_key<'a>(&'a self, actor: &'a str) -> &'a str {
        match self.components.then(|| self.of(actor)).flatten() {
            Some((domain, ActorKind::Component)) => self.name(domain),
            _ => actor,
        }
    }

    /// The domain of a service, if it is served.
    pub fn service(&self, service: Service) -> Option<&str> {
        self.all.iter().find(|(_, kind)| *kind == ActorKind::Service(service)).map(|(name, _)| &**name)
    }

    /// The id of a served domain with accounts.
    pub fn find_users(&self, domain: &str) -> Option<DomainId> {
        self.find(domain).filter(|id| self.kind(*id) == ActorKind::Users)
    }

    /// Whether a bare or full address belongs to a user of this server, whose resources all belong
    /// to one person.
    pub fn is_of_user(&self, jid: &str) -> bool {
        let bare = jid.split_once('/').map_or(jid, |(bare, _)| bare);
        bare.contains('@') && matches!(self.of(bare), Some((_, ActorKind::Users)))
    }

    /// Marks a domain as having an external user back end, which is asked about passwords. No
    /// effect for a domain without accounts.
    ///
    /// # Panics
    /// With more than [`OUTSIDE_DOMAINS_MAX`].
    pub fn keep_outside(&mut self, domain: &str) {
        if let Some(id) = self.find_users(domain).filter(|id| !self.outside.contains(id)) {
            assert!(self.outside.len() < OUTSIDE_DOMAINS_MAX, "no more than {OUTSIDE_DOMAINS_MAX} domains");
            self.outside.push(id);
        }
    }

    /// Whether a domain has an external user back end.
    pub fn is_outside(&self, id: DomainId) -> bool {
        self.outside.contains(&id)
    }

    /// Whether the user with this JID, or the users of this domain, are in an external back end.
    pub fn keeps_outside(&self, jid: &str) -> bool {
        !self.outside.is_empty()
            && self.find_in(jid.split_once('@').map_or(jid, |(_, rest)| rest)).is_some_and(|id| self.is_outside(id))
    }

    /// The domains with accounts, the main one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter(|(_, kind)| *kind == ActorKind::Users).map(|(name, _)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_found_by_their_whole_name() {
        let mut domains = Domains::of_users("example.org");
        domains.serve("chat.example.org", ActorKind::Users);
        domains.serve("example.org", ActorKind::Users);
        assert_eq!(domains.names().collect::<Vec<_>>(), ["example.org", "chat.example.org"]);
        for name in ["example.org", "chat.example.org"] {
            let id = domains.find(name).expect("is served");
            assert_eq!((domains.name(id), domains.kind(id)), (name, ActorKind::Users));
        }
        domains.serve("upload.example.org", ActorKind::Service(Service::Upload));
        assert!(domains.find("upload.example.org").is_some() && domains.find_users("upload.example.org").is_none());
        assert_eq!(domains.names().count(), 2, "nobody has an account there");
        domains.serve("echo.example.org", ActorKind::Component);
        let echo = domains.find("echo.example.org").map(|id| (id, ActorKind::Component));
        for jid in
            ["echo.example.org", "a@echo.example.org", "a@echo.example.org/b@c", "echo.example.org/b@example.org"]
        {
            assert_eq!(domains.of(jid), echo, "{jid}");
            assert_eq!(domains.home_key(jid), "echo.example.org", "XEP-0114: one stream serves the whole domain");
        }
        for (jid, kind) in [
            ("example.org", Some(ActorKind::Users)),
            ("a@example.org/echo.example.org", Some(ActorKind::Users)),
            ("upload.example.org/a@echo.example.org", Some(ActorKind::Service(Service::Upload))),
            ("a@b@echo.example.org", None),
            ("a@nowhere.example", None),
        ] {
            assert_eq!(domains.of(jid).map(|(_, kind)| kind), kind, "{jid}");
            assert_eq!(domains.home_key(jid), jid);
        }
        for (jid, users) in [
            ("a@example.org", true),
            ("a@chat.example.org/b@c", true),
            ("example.org", false),
            ("example.org/a@example.org", false),
            ("a@echo.example.org/b@example.org", false),
            ("a@nowhere.example", false),
        ] {
            assert_eq!(domains.is_of_user(jid), users, "{jid}");
        }
        domains.keep_outside("chat.example.org");
        domains.keep_outside("upload.example.org");
        for (name, outside) in [
            ("example.org", false),
            ("a@example.org", false),
            ("chat.example.org", true),
            ("a@chat.example.org", true),
            ("a@chat.example.org/b@c", true),
            ("upload.example.org", false),
            ("a@nowhere.example", false),
        ] {
            assert_eq!(domains.keeps_outside(name), outside, "{name}");
        }
        for stranger in ["", "org", "example.or", "xexample.org", "at.example.org"] {
            assert_eq!(domains.find(stranger), None, "{stranger}");
        }
    }
}
