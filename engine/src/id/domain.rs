//! The domains that a process serves: what an address of this host ends in (RFC 7622 3.2).
//!
//! Whatever has a home is an *actor*: a bare JID with its domain. What an actor is, is said by its domain, so an address is known for
//! what it is before anything of it is loaded. Two actors of one localpart at two domains have nothing in common.

use std::hash::{BuildHasherDefault, DefaultHasher};

use hashbrown::HashMap;

/// A domain's place among those that are served. It is of this process: what is stored has the name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DomainId(u16);

/// What the actors of a domain are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActorKind {
    /// Accounts with a roster, sessions and a log (RFC 6121).
    Users,
    /// None: the domain itself is a service of this server, and nobody logs in there.
    Service(Service),
    /// Whatever an external component says there is (XEP-0114). All of them live where the domain does.
    Component,
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

/// The domains served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    all: Vec<(Box<str>, ActorKind)>,
    others: HashMap<Box<str>, DomainId, BuildHasherDefault<DefaultHasher>>,
    /// Some are components': where none is, nobody looks.
    components: bool,
    /// Those whose users are kept elsewhere: at most [`OUTSIDE_DOMAINS_MAX`].
    outside: Vec<DomainId>,
}

/// Most domains whose users are kept elsewhere: each has processes or connections of its own.
pub const OUTSIDE_DOMAINS_MAX: usize = 64;

impl DomainId {
    /// A hash of what there is one of at each domain.
    pub fn mix(self, hash: u64) -> u64 {
        hash ^ u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Domains {
    /// A domain with accounts, normalised, which is meant where none is named.
    pub fn of_users(main: &str) -> Domains {
        let all = vec![(main.into(), ActorKind::Users)];
        Domains { all, others: HashMap::default(), components: false, outside: Vec::new() }
    }

    /// Another domain, normalised. One that is there already stays what it is.
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

    /// The domain that is meant where none is named: by a stream header without `to`, by an operator's command.
    pub fn main(&self) -> &str {
        &self.all[0].0
    }

    /// A domain that is served.
    pub fn find(&self, domain: &str) -> Option<DomainId> {
        if *domain == *self.all[0].0 {
            return Some(DomainId(0));
        }
        self.others.get(domain).copied()
    }

    /// The domain that this begins with: a domain, or what is behind the `@` of a JID, bare or full.
    #[inline]
    pub fn find_in(&self, text: &str) -> Option<DomainId> {
        if let Some(rest) = text.strip_prefix(self.main())
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return Some(DomainId(0));
        }
        self.find(text.split_once('/').map_or(text, |(domain, _)| domain))
    }

    /// Its name.
    pub fn name(&self, id: DomainId) -> &str {
        &self.all[usize::from(id.0)].0
    }

    /// What its actors are.
    pub fn kind(&self, id: DomainId) -> ActorKind {
        self.all[usize::from(id.0)].1
    }

    /// Whether an actor (`service/node`), or a domain, is of a service whose nodes have homes of their own.
    pub fn has_nodes(&self, actor: &str) -> bool {
        let domain = actor.split_once('/').map_or(actor, |(domain, _)| domain);
        self.find(domain).is_some_and(|id| self.kind(id) == ActorKind::Service(Service::PubSub))
    }

    /// The domain of a service, if it is served.
    pub fn service(&self, service: Service) -> Option<&str> {
        self.all.iter().find(|(_, kind)| *kind == ActorKind::Service(service)).map(|(name, _)| &**name)
    }

    /// A domain that is served and has accounts.
    pub fn find_users(&self, domain: &str) -> Option<DomainId> {
        self.find(domain).filter(|id| self.kind(*id) == ActorKind::Users)
    }

    /// Whether an address, bare or full, is that of a user here, all of whose resources are one person's.
    pub fn is_of_user(&self, jid: &str) -> bool {
        let bare = jid.split_once('/').map_or(jid, |(bare, _)| bare);
        bare.split_once('@').is_some_and(|(_, domain)| self.find_users(domain).is_some())
    }

    /// The users of a domain are kept elsewhere, and whoever keeps them is asked about their passwords. Without effect for a domain that
    /// has none.
    ///
    /// # Panics
    /// With more than [`OUTSIDE_DOMAINS_MAX`].
    pub fn keep_outside(&mut self, domain: &str) {
        if let Some(id) = self.find_users(domain).filter(|id| !self.outside.contains(id)) {
            assert!(self.outside.len() < OUTSIDE_DOMAINS_MAX, "no more than {OUTSIDE_DOMAINS_MAX} domains");
            self.outside.push(id);
        }
    }

    /// Whether the users of a domain are kept elsewhere.
    pub fn is_outside(&self, id: DomainId) -> bool {
        self.outside.contains(&id)
    }

    /// Whether the user with this JID, or those of this domain, are kept elsewhere.
    pub fn keeps_outside(&self, jid: &str) -> bool {
        !self.outside.is_empty()
            && self.find_in(jid.split_once('@').map_or(jid, |(_, rest)| rest)).is_some_and(|id| self.is_outside(id))
    }

    /// Whether some are components'.
    pub fn has_components(&self) -> bool {
        self.components
    }

    /// The component whose domain a JID is at, if it is one's.
    #[inline]
    pub fn component_of(&self, jid: &str) -> Option<DomainId> {
        if !self.components {
            return None;
        }
        let bare = jid.split_once('/').map_or(jid, |(bare, _)| bare);
        let domain = bare.split_once('@').map_or(bare, |(_, domain)| domain);
        self.find(domain).filter(|id| self.kind(*id) == ActorKind::Component)
    }

    /// Those with accounts, the main one first.
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
        let echo = domains.find("echo.example.org");
        for jid in
            ["echo.example.org", "a@echo.example.org", "a@echo.example.org/b@c", "echo.example.org/b@example.org"]
        {
            assert_eq!(domains.component_of(jid), echo, "{jid}");
        }
        for jid in ["example.org", "a@example.org/echo.example.org", "a@upload.example.org", "a@b@echo.example.org"] {
            assert_eq!(domains.component_of(jid), None, "{jid}");
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
