//! Values of everything that is written, drawn from a seed: each variant of each letter at least
//! once. The matches over letters are exhaustive, so a new variant needs a name here, and its name
//! needs a sample.

use std::net::IpAddr;

use crate::extension::offline::Keep;
use crate::extension::push::answer::Outcome;
use crate::extension::subscription;
use crate::id::{ConnId, DomainId, Peer, PushId, SessionId, ShardId};
use crate::letters::{
    Answer, Apply, BoshAsked, BoshLetter, ChannelLetter, ConnRef, Delivery, Filing, Gained, Kind, Leave, Letter,
    Letters, LoginLetter, MessageClass, Name, NodeLetter, Origin, PresenceNews, Question, Redeem, RoomLetter, Settle,
    Shows, Span, UserLetter,
};
use crate::session::bosh::{Bosh, Place, Reply};
use crate::session::facts::{ClientCertificate, ListenerKind, TlsFacts};
use crate::session::inline::{Bind, Enable, Inline, Resume, Upgrade};
use crate::session::moved::{Errand, Follower, Handover, Moved, MovedStream};
use crate::session::sasl::{Authenticated, Fast, Made};
use crate::session::sm::{Managed, Rows};
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::hash::{HashKind, Hashes, Tag};
use crate::store::invitation::{InvitationId, Invited};
use crate::store::report::Report;
use crate::store::room::{Alert, When};
use crate::store::token::{TokenAnswer, TokenKind, TokenShown};
use crate::web::Transport;
use crate::web::bosh::read::{Begins, Key, Named, Ver, Wrapper};
use crate::web::bosh::wrapped::Wrapped;
use crate::web::bosh::{Condition, Sid};
use crate::wire::StreamScope;
use crate::wire::error::{Detail, ErrorType, StanzaCondition};
use crate::wire::limit::{AppError, Held, Limit, Refusal};
use crate::wire::stream::Version;

/// The time of the samples, milliseconds: no monotonic time in them is later.
pub(super) const NOW_MS: u64 = 1 << 40;

/// Names of variants, and a function that names the variant of a value.
macro_rules! named {
    ($fn:ident, $all:ident, $of:ty: $($pattern:pat => $name:literal,)+) => {
        pub(super) const $all: &[&str] = &[$($name),+];

        pub(super) fn $fn(value: &$of) -> &'static str {
            match value {
                $($pattern => $name,)+
            }
        }
    };
}

named! { letter_name, LETTERS, Letter:
    Letter::Stanza { .. } => "Stanza",
    Letter::Delivery(Delivery::Confirm { .. }) => "Delivery::Confirm",
    Letter::Delivery(Delivery::Took { .. }) => "Delivery::Took",
    Letter::Delivery(Delivery::Safe { .. }) => "Delivery::Safe",
    Letter::Delivery(Delivery::Refused { .. }) => "Delivery::Refused",
    Letter::User(UserLetter::Presence { .. }) => "User::Presence",
    Letter::User(UserLetter::Event { .. }) => "User::Event",
    Letter::User(UserLetter::Charge { .. }) => "User::Charge",
    Letter::User(UserLetter::AskLast { .. }) => "User::AskLast",
    Letter::User(UserLetter::Looked { .. }) => "User::Looked",
    Letter::Node(NodeLetter::ServiceAnswered { .. }) => "Node::ServiceAnswered",
    Letter::Node(NodeLetter::Belongs { .. }) => "Node::Belongs",
    Letter::Node(NodeLetter::Missed { .. }) => "Node::Missed",
    Letter::Node(NodeLetter::CatchUp { .. }) => "Node::CatchUp",
    Letter::Node(NodeLetter::CaughtUp { .. }) => "Node::CaughtUp",
    Letter::Node(NodeLetter::Forget { .. }) => "Node::Forget",
    Letter::Room(RoomLetter::Cast { .. }) => "Room::Cast",
    Letter::Room(RoomLetter::CatchUp { .. }) => "Room::CatchUp",
    Letter::Room(RoomLetter::CaughtUp { .. }) => "Room::CaughtUp",
    Letter::Room(RoomLetter::Gone { .. }) => "Room::Gone",
    Letter::Room(RoomLetter::Knows { .. }) => "Room::Knows",
    Letter::Room(RoomLetter::Forget { .. }) => "Room::Forget",
    Letter::Room(RoomLetter::Listed { .. }) => "Room::Listed",
    Letter::Room(RoomLetter::Alert { .. }) => "Room::Alert",
    Letter::Room(RoomLetter::Wake { .. }) => "Room::Wake",
    Letter::Room(RoomLetter::Count { .. }) => "Room::Count",
    Letter::Room(RoomLetter::Counted { .. }) => "Room::Counted",
    Letter::Channel(ChannelLetter::Publish { .. }) => "Channel::Publish",
    Letter::Channel(ChannelLetter::Read { .. }) => "Channel::Read",
    Letter::Channel(ChannelLetter::History { .. }) => "Channel::History",
    Letter::Channel(ChannelLetter::Answer { .. }) => "Channel::Answer",
    Letter::Channel(ChannelLetter::News { .. }) => "Channel::News",
    Letter::Channel(ChannelLetter::Watch { .. }) => "Channel::Watch",
    Letter::Channel(ChannelLetter::Stay { .. }) => "Channel::Stay",
    Letter::Channel(ChannelLetter::Charge { .. }) => "Channel::Charge",
    Letter::Channel(ChannelLetter::Present { .. }) => "Channel::Present",
    Letter::Channel(ChannelLetter::Occupied { .. }) => "Channel::Occupied",
    Letter::Channel(ChannelLetter::Count { .. }) => "Channel::Count",
    Letter::Channel(ChannelLetter::Register { .. }) => "Channel::Register",
    Letter::Channel(ChannelLetter::Unregister { .. }) => "Channel::Unregister",
    Letter::Channel(ChannelLetter::Listens { .. }) => "Channel::Listens",
    Letter::Channel(ChannelLetter::Info { .. }) => "Channel::Info",
    Letter::Channel(ChannelLetter::Gone { .. }) => "Channel::Gone",
    Letter::Login(LoginLetter::Ask { .. }) => "Login::Ask",
    Letter::Login(LoginLetter::Answer { .. }) => "Login::Answer",
    Letter::Login(LoginLetter::Filed { .. }) => "Login::Filed",
    Letter::Login(LoginLetter::Failed { .. }) => "Login::Failed",
    Letter::Login(LoginLetter::Spared { .. }) => "Login::Spared",
    Letter::Login(LoginLetter::KeysGained { .. }) => "Login::KeysGained",
    Letter::Bosh(BoshLetter::Asked(_)) => "Bosh::Asked",
    Letter::Bosh(BoshLetter::Answer { .. }) => "Bosh::Answer",
    Letter::Bosh(BoshLetter::Left { .. }) => "Bosh::Left",
    Letter::Bosh(BoshLetter::Moves(_)) => "Bosh::Moves",
    Letter::Component { .. } => "Component",
}

named! { question_name, QUESTIONS, Question:
    Question::MayLogIn { .. } => "MayLogIn",
    Question::MayRegister { .. } => "MayRegister",
    Question::Credentials { .. } => "Credentials",
    Question::Admit => "Admit",
    Question::Untried { .. } => "Untried",
    Question::Ousted => "Ousted",
    Question::Register { .. } => "Register",
    Question::MayShow { .. } => "MayShow",
    Question::Invitation { .. } => "Invitation",
    Question::Vouch(_) => "Vouch",
    Question::Redeem(_) => "Redeem",
    Question::Apply(_) => "Apply",
    Question::Settle(_) => "Settle",
    Question::WasMade(_) => "WasMade",
    Question::Decided(_) => "Decided",
    Question::Expired(_) => "Expired",
    Question::File(_) => "File",
}

named! { answer_name, ANSWERS, Answer:
    Answer::May => "May",
    Answer::Credentials { .. } => "Credentials",
    Answer::Token(_) => "Token",
    Answer::Held(_) => "Held",
    Answer::Registered => "Registered",
    Answer::Taken => "Taken",
    Answer::Reserved => "Reserved",
    Answer::Invited(_) => "Invited",
    Answer::NotInvited => "NotInvited",
    Answer::Again => "Again",
    Answer::StoreFull => "StoreFull",
    Answer::Unreadable => "Unreadable",
}

named! { news_name, NEWS, PresenceNews:
    PresenceNews::Available { .. } => "Available",
    PresenceNews::Unavailable => "Unavailable",
    PresenceNews::Probe { .. } => "Probe",
    PresenceNews::Subscription { .. } => "Subscription",
    PresenceNews::Joined { .. } => "Joined",
    PresenceNews::Noted { .. } => "Noted",
}

/// Draws values from a seed.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn n(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        // Small numbers, large ones, and the ends of the range.
        match z % 8 {
            0 => 0,
            1 => u64::MAX,
            2..5 => (z >> 32) % 300,
            _ => z,
        }
    }

    fn past_ms(&mut self) -> u64 {
        self.n() % NOW_MS
    }

    fn flag(&mut self) -> bool {
        self.n().is_multiple_of(2)
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.n() % 40).map(|_| self.n() as u8).collect()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.n() as u8)
    }

    fn text(&mut self) -> Box<str> {
        const PARTS: [&str; 8] = ["romeo@localhost", "/", "<a b='c'/>", "\u{e9}", "\u{1f98a}", "\0", " ", "x"];
        (0..self.n() % 6).map(|_| PARTS[(self.n() % 8) as usize]).collect::<String>().into()
    }

    fn address(&mut self) -> IpAddr {
        if self.flag() { IpAddr::from(self.array::<4>()) } else { IpAddr::from(self.array::<16>()) }
    }

    fn shard(&mut self) -> ShardId {
        ShardId(self.n() as u16)
    }

    fn conn(&mut self) -> ConnId {
        ConnId { slot: self.n() as u32, generation: self.n() as u32 }
    }

    fn conn_ref(&mut self) -> ConnRef {
        ConnRef { shard: self.shard(), conn: self.conn() }
    }

    fn session(&mut self) -> SessionId {
        SessionId { slot: self.n() as u32, generation: self.n() as u32 }
    }

    fn peer(&mut self) -> Peer {
        Peer { address: self.address(), key: self.n() }
    }

    fn tag(&mut self, kind: HashKind) -> Tag {
        let bytes: [u8; 64] = self.array();
        Tag::from_bytes(kind, &bytes[..kind.len()]).expect("of this length")
    }

    fn incarnation(&mut self) -> Incarnation {
        Incarnation::drawn(self.n())
    }

    fn condition(&mut self) -> StanzaCondition {
        let all = StanzaCondition::ALL;
        all[self.n() as usize % all.len()]
    }

    fn held(&mut self) -> Held {
        Held { limit: Limit::ALL[self.n() as usize % Limit::ALL.len()], left_ms: self.maybe(Draw::n) }
    }

    fn refusal(&mut self) -> Refusal {
        let detail = match self.n() % 3 {
            0 => Detail::Nothing,
            1 => Detail::MaxFileSize(self.n()),
            _ => Detail::Stamp(self.array()),
        };
        let own = AppError {
            name: "item-required",
            xmlns: "http://jabber.org/protocol/pubsub#errors",
            kind: [ErrorType::Auth, ErrorType::Cancel, ErrorType::Continue, ErrorType::Modify, ErrorType::Wait]
                [self.n() as usize % 5],
            detail,
        };
        Refusal { condition: self.condition(), held: self.maybe(Draw::held), app: self.maybe(|_| own) }
    }

    fn place(&mut self) -> Place {
        Place { shard: self.shard(), conn: self.conn(), number: self.n() as u32 }
    }

    fn leave(&mut self, earlier: u64) -> Leave {
        Leave {
            by: self.text(),
            id: self.maybe(|draw| InvitationId(draw.array())),
            incarnation: self.incarnation(),
            inviter: self.text(),
            gives_name: self.flag(),
            then: (earlier > 0).then(|| Box::new(self.leave(earlier - 1))),
        }
    }

    pub(super) fn credentials(&mut self) -> Box<Credentials> {
        // Deriving keys is slow on purpose.
        static ONCE: std::sync::OnceLock<Credentials> = std::sync::OnceLock::new();
        let derived = ONCE.get_or_init(|| {
            Credentials::derive("secret", crate::limits::SCRAM_ITERATIONS_MIN, b"0123456789abcdef", 7)
                .expect("in bounds")
        });
        Box::new(derived.clone().of(self.incarnation()))
    }

    fn shown(&mut self) -> TokenShown {
        TokenShown {
            kind: [TokenKind::Exporter, TokenKind::EndPoint, TokenKind::Unbound][self.n() as usize % 3],
            agent: self.array(),
            proof: self.tag(HashKind::Sha256),
            binding: self.bytes().into(),
            count: self.maybe(|draw| draw.n() as u32),
            invalidate: self.flag(),
        }
    }

    fn invited(&mut self) -> Box<Invited> {
        let (actor, inviter) = (self.text(), self.text());
        Box::new(Invited { actor, id: InvitationId(self.array()), is_named: self.flag(), inviter })
    }

    fn scope(&mut self) -> StreamScope {
        if self.flag() {
            return if self.flag() { StreamScope::Usual } else { StreamScope::None };
        }
        StreamScope::declared_by("s:stream", "jabber:client", vec![("x".into(), self.text())])
    }

    fn wrapper(&mut self) -> Wrapper {
        Wrapper {
            sid: match self.n() % 3 {
                0 => None,
                1 => Some(Named::Nobody),
                _ => Some(Named::Sid(Sid { shard: self.shard(), key: self.array() })),
            },
            rid: 1 + self.n() % (1 << 53),
            terminates: self.flag(),
            restarts: self.flag(),
            key: self.maybe(|draw| Key { own: draw.array(), hash: draw.array() }),
            newkey: self.maybe(Draw::array),
            ack: self.maybe(Draw::n),
            pause_s: self.maybe(|draw| draw.n() as u32),
            names_stream: self.flag(),
            to: self.maybe(Draw::text),
            from: self.maybe(Draw::text),
            lang: self.maybe(Draw::text),
            begins: Begins {
                ver: self.maybe(|draw| Ver(draw.n() as u16, draw.n() as u16)),
                wait_s: self.maybe(|draw| draw.n() as u32),
                hold: self.maybe(|draw| draw.n() as u8),
                content_type: self.maybe(Draw::text),
                version: self.maybe(|draw| Version { major: draw.n() as u16, minor: draw.n() as u16 }),
            },
            scope: self.scope(),
            content: self.bytes(),
        }
    }

    fn bosh(&mut self) -> Bosh {
        let (began_ms, came_ms) = (self.past_ms(), self.past_ms());
        let sid = Sid { shard: self.shard(), key: self.array() };
        let mut first = Wrapper { rid: 1_000, terminates: false, restarts: false, pause_s: None, ..self.wrapper() };
        first.begins.hold = Some(2);
        let (conn, place, from) = (self.conn(), self.place(), self.text());
        let mut bosh = Bosh::begin(sid, conn, false, &first, &from, place, began_ms);
        bosh.answer(&Wrapped::default(), 1, came_ms);
        // The next but one waits for the next.
        for rid in [1_002, 1_001] {
            let next =
                Wrapper { rid, key: None, newkey: None, ack: None, terminates: false, pause_s: None, ..first.clone() };
            let place = self.place();
            bosh.came(Box::new(next), place, true, came_ms);
        }
        bosh
    }

    fn inline(&mut self) -> Inline {
        let text = |draw: &mut Draw| (draw.flag().then(|| draw.text()), draw.text());
        let (tag, name) = text(self);
        Inline {
            agent: self.maybe(Draw::array),
            fast: self.maybe(|draw| Fast { count: draw.maybe(|draw| draw.n() as u32), invalidate: draw.flag() }),
            upgrades: Hashes::of_bits((self.n() % 8) as u8).expect("known bits"),
            upgrade: self.maybe(|draw| Upgrade {
                kind: HashKind::ALL[draw.n() as usize % 3],
                salt: draw.bytes().into(),
                iterations: draw.n() as u32,
                begun: draw.flag(),
            }),
            token: self.maybe(|_| TokenKind::EndPoint),
            resume: self.maybe(|draw| Resume { previd: draw.text(), h: draw.maybe(|draw| draw.n() as u32) }),
            bind: Some(Bind {
                tag,
                enable: self.maybe(|draw| Enable { resume: draw.flag(), max: draw.maybe(|draw| draw.n() as u32) }),
                features: vec![(1, name.clone()), (crate::extension::TABLE.len() as u8 - 1, name)],
            }),
            message: self.bytes(),
            made: self.maybe(|draw| Made { text: draw.text(), expires_s: draw.n() }),
            around: (self.bytes(), self.bytes()),
            not_resumed: self.flag(),
            bound: self.bytes(),
            told: self.n() as usize % (crate::extension::TABLE.len() + 1),
        }
    }

    pub(super) fn moved(&mut self) -> Moved {
        let errand = if self.flag() {
            let incarnation = self.incarnation();
            Errand::Login(Authenticated::vouched_for("romeo@localhost", incarnation))
        } else {
            let certificate = ClientCertificate { addresses: [self.text()].into(), mapped: [].into() };
            let tls = TlsFacts {
                exporter: self.maybe(Draw::array),
                server_end_point: self.bytes(),
                certificate: self.maybe(|_| certificate),
            };
            Errand::Channel(Box::new(Follower {
                node: self.text(),
                from: self.shard(),
                waiting: self.n() as u32,
                tls: self.maybe(|_| Box::new(tls)),
                proxy: self.maybe(Draw::address),
            }))
        };
        let stream = MovedStream {
            scope: self.scope(),
            lang: self.maybe(Draw::text),
            domain: DomainId::default(),
            inline: Box::new(self.inline()),
        };
        Moved {
            errand,
            listener: ListenerKind {
                direct_tls: self.flag(),
                starttls: self.flag(),
                plain_auth: self.flag(),
                registration: self.flag(),
            },
            peer: self.address(),
            named: self.flag(),
            secured: self.flag(),
            accepted_s: (self.past_ms() / 1_000) as u32,
            transport: [Transport::Stream, Transport::Http, Transport::WebSocket, Transport::Bosh, Transport::Commands]
                [self.n() as usize % 5],
            leftover: self.bytes(),
            stream: self.maybe(|_| Box::new(stream)),
        }
    }

    pub(super) fn handover(&mut self) -> Handover {
        Handover { moved: self.moved(), bosh: self.bosh(), pending: self.bytes() }
    }

    pub(super) fn managed(&mut self) -> Managed {
        let mut managed = Managed::new(self.array(), self.n() as u32);
        managed.waiting = self.maybe(Draw::conn);
        (managed.tag, managed.serial, managed.incarnation) = (self.n() as u32, self.n() as u32, self.n());
        managed.due = [Rows::None, Rows::Soon, Rows::Counts, Rows::All][self.n() as usize % 4];
        for number in 0..self.n() % 20 {
            managed.receive(number);
            managed.logged(number as u32);
        }
        managed.done(2);
        managed.peer_asks();
        for _ in 0..self.n() % 20 {
            let (xml, id) = (self.bytes(), self.n() % 300);
            managed.send(&xml, id);
        }
        managed.poll_request();
        managed
    }

    fn questions(&mut self) -> Vec<Question> {
        let shows = [Shows::Proof, Shows::Password, Shows::Token(Box::new(self.shown()))];
        let mut all: Vec<_> = shows.into_iter().map(|shows| Question::MayLogIn { peer: self.peer(), shows }).collect();
        let report = Report { jid: self.text(), reason: self.text(), text: self.text(), messages: self.text() };
        all.extend([
            Question::MayRegister { peer: self.peer() },
            Question::Credentials {
                peer: self.peer(),
                shows: Shows::Password,
                held: self.maybe(|draw| Box::new(draw.held())),
            },
            Question::Admit,
            Question::Untried { peer: self.peer() },
            Question::Ousted,
            Question::Register { credentials: self.credentials(), leave: Some(Box::new(self.leave(1))) },
            Question::MayShow { peer: self.peer(), id: InvitationId(self.array()) },
            Question::Invitation { id: InvitationId(self.array()) },
            Question::Vouch(self.invited()),
            Question::Redeem(Box::new(Redeem {
                id: InvitationId(self.array()),
                account: self.text(),
                credentials: self.credentials(),
                address: self.address(),
            })),
            Question::Apply(Box::new(Apply {
                account: self.text(),
                credentials: self.credentials(),
                address: self.address(),
                leave: self.maybe(|draw| Box::new(draw.leave(0))),
            })),
            Question::Settle(Box::new(Settle {
                leave: self.leave(2),
                account: self.text(),
                made: self.flag(),
                answer: Answer::Registered,
            })),
            Question::WasMade(Box::new(self.leave(3))),
            Question::Decided(self.text()),
            Question::Expired(self.incarnation()),
            Question::File(Box::new(Filing {
                by: self.text(),
                reports: vec![report.clone(), report],
                token: self.n(),
            })),
        ]);
        all
    }

    fn answers(&mut self) -> Vec<Answer> {
        let fits = TokenAnswer::Fits {
            identity: (self.incarnation(), self.n()),
            answer: self.tag(HashKind::Sha256),
            due: self.flag(),
        };
        vec![
            Answer::May,
            Answer::Credentials {
                account: self.text(),
                row: self.maybe(|draw| draw.bytes().into()),
                seen: self.maybe(|draw| Box::new(draw.tag(HashKind::Sha512))),
            },
            Answer::Token(Box::new(fits)),
            Answer::Token(Box::new(TokenAnswer::OutOfUse(Standing::Suspended))),
            Answer::Token(Box::new(TokenAnswer::Wrong)),
            Answer::Held(self.held()),
            Answer::Registered,
            Answer::Taken,
            Answer::Reserved,
            Answer::Invited(self.invited()),
            Answer::NotInvited,
            Answer::Again,
            Answer::StoreFull,
            Answer::Unreadable,
        ]
    }

    fn kinds(&mut self) -> Vec<Kind> {
        use MessageClass as C;
        let classes = [C::Normal, C::Chat, C::Groupchat, C::Headline, C::Error];
        let keeps = [Keep::Nothing, Keep::UntilDelivered, Keep::Archive];
        let mut all: Vec<_> =
            classes.into_iter().map(|class| Kind::Message { class, keep: keeps[self.n() as usize % 3] }).collect();
        all.extend([Kind::Request, Kind::Response, Kind::Directed { unavailable: self.flag() }]);
        all
    }

    fn news(&mut self) -> Vec<PresenceNews> {
        let kinds = [
            subscription::Kind::Subscribe,
            subscription::Kind::Unsubscribe,
            subscription::Kind::Subscribed,
            subscription::Kind::Unsubscribed,
        ];
        let mut all = vec![
            PresenceNews::Available { probe: self.maybe(Draw::n) },
            PresenceNews::Unavailable,
            PresenceNews::Probe { number: self.n() },
            PresenceNews::Joined { number: self.n() },
            PresenceNews::Noted { confirm: self.n() },
        ];
        all.extend(kinds.map(|kind| PresenceNews::Subscription { kind, number: self.n(), confirm: self.n() }));
        all
    }

    /// A batch with every letter.
    pub(super) fn batch(&mut self) -> Letters {
        let mut batch = Letters::new(self.shard());
        self.stanzas(&mut batch);
        self.nodes(&mut batch);
        self.channels(&mut batch);
        self.logins(&mut batch);
        let reply = Reply {
            body: self.bytes(),
            content_type: self.maybe(Draw::text),
            refusal: self.maybe(|_| Condition::PolicyViolation),
            known: self.flag(),
            durable: self.flag(),
            cut: self.flag(),
        };
        let (key, place) = (self.array(), self.place());
        let asked = BoshAsked { key, place, secured: self.flag(), wrapper: Box::new(self.wrapper()) };
        batch.push(Letter::Bosh(BoshLetter::Asked(Box::new(asked))));
        let (conn, number) = (self.conn(), self.n() as u32);
        batch.push(Letter::Bosh(BoshLetter::Answer { conn, number, reply: Box::new(reply) }));
        batch.push(Letter::Bosh(BoshLetter::Left { key, place, hurries: self.flag() }));
        batch.push(Letter::Bosh(BoshLetter::Moves(Box::new(self.handover()))));
        batch.push(Letter::Component { domain: DomainId::default(), there: self.flag() });
        batch
    }

    fn stanzas(&mut self, batch: &mut Letters) {
        for kind in self.kinds() {
            let origin = self.maybe(|draw| Origin {
                shard: draw.shard(),
                session: draw.session(),
                seq: draw.n() as u32,
                entry: draw.n(),
            });
            let (from, to, xml) = (self.name(batch), self.name(batch), self.span(batch));
            batch.push(Letter::Stanza { kind, origin, from, to, xml });
        }
        let session = self.session();
        batch.push(Letter::Delivery(Delivery::Confirm { session, seq: self.n() as u32 }));
        batch.push(Letter::Delivery(Delivery::Took { session }));
        batch.push(Letter::Delivery(Delivery::Safe { session, seq: self.n() as u32 }));
        let from = self.name(batch);
        batch.push(Letter::Delivery(Delivery::Refused { from, entry: self.n() }));
        for news in self.news() {
            let (from, to, xml) = (self.name(batch), self.name(batch), self.span(batch));
            batch.push(Letter::User(UserLetter::Presence { news, from, to, xml }));
        }
        let (node, from, to, xml) = (self.name(batch), self.name(batch), self.name(batch), self.span(batch));
        let number = self.n();
        batch.push(Letter::User(UserLetter::Event { node, from, subscribers: to, contacts: node, number, xml }));
        batch.push(Letter::User(UserLetter::Charge { session, user: from, work: self.n() }));
        batch.push(Letter::User(UserLetter::AskLast { session, to, of: from, nodes: node, page: self.flag() }));
        batch.push(Letter::User(UserLetter::Looked { session, work: self.n() }));
    }

    fn nodes(&mut self, batch: &mut Letters) {
        let outcomes = [Outcome::Took, Outcome::Later(self.maybe(Draw::condition)), Outcome::Never(self.condition())];
        let (id, from, row) = (self.name(batch), self.name(batch), self.span(batch));
        for outcome in outcomes {
            batch.push(Letter::Node(NodeLetter::ServiceAnswered { id, from, outcome }));
        }
        batch.push(Letter::Node(NodeLetter::Belongs { to: id, node: from, own: self.flag(), row }));
        batch.push(Letter::Node(NodeLetter::Missed { node: id, number: self.n(), users: from }));
        batch.push(Letter::Node(NodeLetter::CatchUp { node: id, user: from }));
        batch.push(Letter::Node(NodeLetter::CaughtUp { node: id, from, user: from, page: row }));
        batch.push(Letter::Node(NodeLetter::Forget { node: id, user: from }));
        let (room, to, xml) = (self.name(batch), self.name(batch), self.span(batch));
        batch.push(Letter::Room(RoomLetter::Cast { kind: Kind::Response, from, to, xml, number: self.n() }));
        batch.push(Letter::Room(RoomLetter::CatchUp { room, session: to, after: self.n(), asked: self.n() as u32 }));
        batch.push(Letter::Room(RoomLetter::CaughtUp { room, session: to, asked: self.n() as u32, page: xml }));
        batch.push(Letter::Room(RoomLetter::Knows { user: to, room, knows: self.flag() }));
        batch.push(Letter::Room(RoomLetter::Forget { room, user: to }));
        batch.push(Letter::Room(RoomLetter::Gone { room, sessions: to }));
        batch.push(Letter::Room(RoomLetter::Listed { room, row: xml }));
        batch.push(Letter::Room(RoomLetter::Count { token: self.n(), user: to, rooms: room }));
        let alert = self.maybe(|_| Box::new(Alert { when: When::Mentioned, nick: "j".into() }));
        batch.push(Letter::Room(RoomLetter::Alert { user: to, room, alert }));
        batch.push(Letter::Room(RoomLetter::Wake { from, to, xml }));
        batch.push(Letter::Room(RoomLetter::Counted { token: self.n(), counts: xml }));
    }

    fn channels(&mut self, batch: &mut Letters) {
        use ChannelLetter as C;
        let (conn, number) = (self.conn_ref(), self.n() as u32);
        let (node, from, key) = (self.name(batch), self.name(batch), self.name(batch));
        let (body, names) = (self.span(batch), self.span(batch));
        let id = PushId(self.array());
        let refused = self.maybe(|draw| Box::new(draw.refusal()));
        let letters = [
            C::Publish {
                conn,
                number,
                node,
                from,
                kind: key,
                key,
                keys: key,
                body,
                makes: self.flag(),
                granted: self.flag(),
                batch: self.flag(),
            },
            C::Read { conn, number, node, after: self.n(), watchers: self.n() as u32, share: self.n() as u8 },
            C::History { conn, number, node, after: self.n(), before: self.n(), items: self.n() as u32 },
            C::Answer { conn: conn.conn, number, refused, body },
            C::News { node, number: self.n(), key, item: body },
            C::Watch { node, heard: self.n(), watchers: self.n() as u32 },
            C::Stay { node },
            C::Charge { address: self.address(), told: self.n() as u32 },
            C::Present {
                node,
                subscribers: self.n() as u32,
                names,
                whole: self.flag(),
                more: self.flag(),
                listens: self.flag(),
            },
            C::Occupied { node, subscribers: self.n() as u32, names, more: self.flag() },
            C::Count { conn, number, node },
            C::Register { conn, number, node, from, id, row: body, makes: self.flag() },
            C::Unregister { conn, number, node, from, id },
            C::Listens { node, id, listens: self.flag() },
            C::Info { conn, number, node, from, granted: self.flag(), deletes: self.flag() },
            C::Gone { node, behind: self.maybe(Draw::conn) },
        ];
        letters.into_iter().for_each(|letter| batch.push(Letter::Channel(letter)));
    }

    fn logins(&mut self, batch: &mut Letters) {
        let account = self.name(batch);
        for question in self.questions() {
            batch.push(Letter::Login(LoginLetter::Ask { conn: self.conn_ref(), account, question }));
        }
        for answer in self.answers() {
            batch.push(Letter::Login(LoginLetter::Answer { conn: self.conn(), answer }));
        }
        let seen = self.maybe(|draw| Box::new(draw.tag(HashKind::Sha1)));
        let sets = vec![self.credentials().anchor().clone()];
        let gained = Box::new(Gained { identity: (self.incarnation(), self.n()), sets });
        batch.push(Letter::Login(LoginLetter::Filed { token: self.n() }));
        batch.push(Letter::Login(LoginLetter::Failed { peer: self.peer() }));
        batch.push(Letter::Login(LoginLetter::Spared { account, peer: self.peer(), seen }));
        batch.push(Letter::Login(LoginLetter::KeysGained { account, gained }));
    }

    fn name(&mut self, batch: &mut Letters) -> Name {
        let text = self.text();
        batch.name(&text)
    }

    fn span(&mut self, batch: &mut Letters) -> Span {
        let bytes = self.bytes();
        batch.write(&bytes)
    }
}
