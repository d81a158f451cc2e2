//! The presence subscription state machine: RFC 6121 Appendix A with pre-approval (3.4), as tables.
//!
//! For the owner of the roster: the effect on the item of a subscription stanza sent by one of the
//! user's resources ([`outbound`]) or received from the contact ([`inbound`]), and what follows.
//! This file must never know where the contact's home is, how an item is stored, or which resources
//! are connected.
//!
//! With the appendix alone, two rosters can diverge when requests cross: a user who unsubscribes
//! and subscribes again takes the answer to the first request for the answer to the second.
//! Therefore a request between two homes of the same deployment carries a number, its answers
//! return that number, and an answer to an older request is [`Answer::Stale`]. Without a number
//! (another domain), every answer is [`Answer::Current`] and the appendix applies unchanged.

/// The nine states of RFC 6121 A.1. The number is stored: never reuse one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum State {
    /// Neither is subscribed and no request is pending. Also the state of a contact who is not in
    /// the roster.
    #[default]
    None = 0,
    /// The user has sent a request that the contact has not answered.
    NonePendingOut = 1,
    /// The contact has sent a request that the user has not answered.
    NonePendingIn = 2,
    /// Both have sent requests and neither has answered.
    NonePendingOutIn = 3,
    /// The user receives the contact's presence.
    To = 4,
    /// Like `To`, and the contact has sent a request.
    ToPendingIn = 5,
    /// The contact receives the user's presence.
    From = 6,
    /// Like `From`, and the user has sent a request.
    FromPendingOut = 7,
    /// Each receives the other's presence.
    Both = 8,
}

use State::{Both, From, FromPendingOut, None, NonePendingIn, NonePendingOut, NonePendingOutIn, To, ToPendingIn};

impl State {
    /// All states in the order of their numbers, which is also the order of the appendix's tables.
    pub const ALL: [State; 9] =
        [None, NonePendingOut, NonePendingIn, NonePendingOutIn, To, ToPendingIn, From, FromPendingOut, Both];

    /// The state with a stored number.
    pub fn from_number(number: u8) -> Option<State> {
        State::ALL.get(usize::from(number)).copied()
    }

    /// Whether the user is subscribed to the contact.
    pub fn to(self) -> bool {
        matches!(self, To | ToPendingIn | Both)
    }

    /// Whether the contact is subscribed to the user.
    pub fn from(self) -> bool {
        matches!(self, From | FromPendingOut | Both)
    }

    /// Whether the user's request is pending (`ask='subscribe'` in the roster, RFC 6121 2.1.2.2).
    pub fn pending_out(self) -> bool {
        matches!(self, NonePendingOut | NonePendingOutIn | FromPendingOut)
    }

    /// Whether the contact's request is pending. A roster never shows it (RFC 6121 A.1).
    pub fn pending_in(self) -> bool {
        matches!(self, NonePendingIn | NonePendingOutIn | ToPendingIn)
    }

    /// The value of the item's `subscription` attribute (RFC 6121 2.1.2.5).
    pub fn subscription(self) -> &'static str {
        match (self.to(), self.from()) {
            (false, false) => "none",
            (true, false) => "to",
            (false, true) => "from",
            (true, true) => "both",
        }
    }
}

/// The four presence types that manage subscriptions (RFC 6121 4.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// Asks for the addressee's presence.
    Subscribe = 0,
    /// Ends the sender's own subscription.
    Unsubscribe = 1,
    /// Grants a subscription to the sender's presence.
    Subscribed = 2,
    /// Denies or ends a subscription to the sender's presence.
    Unsubscribed = 3,
}

impl Kind {
    /// All kinds, in the order of the appendix.
    pub const ALL: [Kind; 4] = [Kind::Subscribe, Kind::Unsubscribe, Kind::Subscribed, Kind::Unsubscribed];

    /// The kind for a presence stanza's `type` attribute; `None` for types that are not about
    /// subscriptions.
    pub fn from_type(value: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == value)
    }

    /// The value of the presence stanza's `type` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Subscribe => "subscribe",
            Kind::Unsubscribe => "unsubscribe",
            Kind::Subscribed => "subscribed",
            Kind::Unsubscribed => "unsubscribed",
        }
    }
}

/// How the user's own presence to the contact changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OwnPresence {
    /// It does not change.
    Keep,
    /// The current presence of each available resource is sent to the contact, after the approval
    /// (RFC 6121 3.1.5).
    Show,
    /// Unavailable presence of each available resource is sent to the contact (RFC 6121 3.2.2,
    /// 3.3.3), before the `unsubscribed` where there is one, so that it arrives while the
    /// subscription still exists.
    Hide,
}

/// What follows from a subscription stanza sent by the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outbound {
    /// The item's new state.
    pub state: State,
    /// The item's new pre-approval flag (RFC 6121 3.4).
    pub approved: bool,
    /// Whether the stanza is routed to the contact, from the user's bare JID.
    pub route: bool,
    /// Whether interested resources get a roster push: a visible property of the item has changed.
    pub push: bool,
    /// How the user's own presence changes.
    pub presence: OwnPresence,
}

/// What follows from a subscription stanza sent by the contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inbound {
    /// The item's new state.
    pub state: State,
    /// Whether the stanza is delivered: `subscribe` to available resources and again at each login
    /// until it is answered (RFC 6121 3.1.3), the others to interested resources (3.1.6, 3.2.3,
    /// 3.3.3).
    pub deliver: bool,
    /// Whether interested resources get a roster push, after the stanza.
    pub push: bool,
    /// The server's immediate answer in the user's name.
    pub reply: Option<Kind>,
    /// How the user's own presence changes.
    pub presence: OwnPresence,
}

/// How an inbound `subscribed` or `unsubscribed` relates to the user's latest request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The contact's home had received the latest request when it answered; or this is unknown.
    Current,
    /// It answers an older request: the latest one is still in flight to the contact's home.
    Stale,
}

/// RFC 6121 A.2.1 to A.2.4, one row per [`Kind`], one column per [`State`]: the new state, and
/// whether the stanza is routed. At [1] the stanza changes the pre-approval flag, which
/// [`outbound`] does.
const OUTBOUND: [[(State, bool); 9]; 4] = [
    // A.2.1 subscribe
    [
        (NonePendingOut, true),
        (NonePendingOut, true),
        (NonePendingOutIn, true),
        (NonePendingOutIn, true),
        (To, true),
        (ToPendingIn, true),
        (FromPendingOut, true),
        (FromPendingOut, true),
        (Both, true),
    ],
    // A.2.2 unsubscribe
    [
        (None, true),
        (None, true),
        (NonePendingIn, true),
        (NonePendingIn, true),
        (None, true),
        (NonePendingIn, true),
        (From, true),
        (From, true),
        (From, true),
    ],
    // A.2.3 subscribed
    [
        (None, false),           // [1]
        (NonePendingOut, false), // [1]
        (From, true),
        (FromPendingOut, true),
        (To, false), // [1]
        (Both, true),
        (From, false),
        (FromPendingOut, false),
        (Both, false),
    ],
    // A.2.4 unsubscribed
    [
        (None, false),           // [1]
        (NonePendingOut, false), // [1]
        (None, true),
        (NonePendingOut, true),
        (To, false), // [1]
        (To, true),
        (None, true),
        (NonePendingOut, true),
        (To, true),
    ],
];

/// RFC 6121 A.3.1 to A.3.4, one row per [`Kind`], one column per [`State`]: the new state, and
/// whether the stanza is delivered.
const INBOUND: [[(State, bool); 9]; 4] = [
    // A.3.1 subscribe; in the last three the server answers "subscribed" itself
    [
        (NonePendingIn, true),
        (NonePendingOutIn, true),
        (NonePendingIn, false),
        (NonePendingOutIn, false),
        (ToPendingIn, true),
        (ToPendingIn, false),
        (From, false),
        (FromPendingOut, false),
        (Both, false),
    ],
    // A.3.2 unsubscribe; where it is delivered, the server answers "unsubscribed" itself
    [
        (None, false),
        (NonePendingOut, false),
        (None, true),
        (NonePendingOut, true),
        (To, false),
        (To, true),
        (None, true),
        (NonePendingOut, true),
        (To, true),
    ],
    // A.3.3 subscribed
    [
        (None, false),
        (To, true),
        (NonePendingIn, false),
        (ToPendingIn, true),
        (To, false),
        (ToPendingIn, false),
        (From, false),
        (Both, true),
        (Both, false),
    ],
    // A.3.4 unsubscribed
    [
        (None, false),
        (None, true),
        (NonePendingIn, false),
        (NonePendingIn, true),
        (None, true),
        (NonePendingIn, true),
        (From, false),
        (From, true),
        (From, true),
    ],
];

/// The effect of a subscription stanza from the user on the item in `state` (RFC 6121 A.2, 3.4). A
/// contact who is not in the roster is in state [`State::None`], not approved.
pub fn outbound(state: State, approved: bool, kind: Kind) -> Outbound {
    let (new_state, route) = OUTBOUND[kind as usize][state as usize];
    let new_approved = match kind {
        // RFC 6121 3.4.2: from "None", "None + Pending Out" and "To" it is a pre-approval.
        Kind::Subscribed if !route && !state.from() => true,
        // RFC 6121 A.2.4 [1]: also revokes the pre-approval.
        Kind::Unsubscribed => false,
        _ => approved,
    };
    let presence = match kind {
        Kind::Subscribed if route => OwnPresence::Show,
        Kind::Unsubscribed if state.from() => OwnPresence::Hide,
        _ => OwnPresence::Keep,
    };
    let push = visible(state, approved) != visible(new_state, new_approved);
    Outbound { state: new_state, approved: new_approved, route, push, presence }
}

/// The effect of a subscription stanza from the contact on the user's item in `state` (RFC 6121
/// A.3, 3.4.2). `answer` only matters for `subscribed` and `unsubscribed`.
pub fn inbound(state: State, approved: bool, kind: Kind, answer: Answer) -> Inbound {
    let (mut new_state, mut deliver) = INBOUND[kind as usize][state as usize];
    let mut reply = Option::None;
    match kind {
        Kind::Subscribe if state.from() => reply = Some(Kind::Subscribed),
        // RFC 6121 3.1.3, 3.4: approved in advance, so the user is not asked.
        Kind::Subscribe if approved => {
            new_state = OUTBOUND[Kind::Subscribed as usize][new_state as usize].0;
            deliver = false;
            reply = Some(Kind::Subscribed);
        }
        // RFC 6121 A.3.2 [1]: the subscription that the contact assumed has ended; the answer says
        // so.
        Kind::Unsubscribe if deliver => reply = Some(Kind::Unsubscribed),
        Kind::Subscribed if answer == Answer::Stale => (new_state, deliver) = (state, false),
        // The subscription has ended, but a newer request is in flight: return to waiting for its
        // answer.
        Kind::Unsubscribed if answer == Answer::Stale => {
            (new_state, deliver) = if state.to() { (INTO_PENDING_OUT[state as usize], true) } else { (state, false) };
        }
        _ => {}
    }
    let presence = match (kind, reply) {
        (_, Some(Kind::Subscribed)) => OwnPresence::Show,
        (Kind::Unsubscribe, _) if state.from() => OwnPresence::Hide,
        _ => OwnPresence::Keep,
    };
    let push = visible(state, approved) != visible(new_state, approved);
    Inbound { state: new_state, deliver, push, reply, presence }
}

/// Each state with the user's subscription reset to "asked and not answered".
const INTO_PENDING_OUT: [State; 9] = [
    NonePendingOut,
    NonePendingOut,
    NonePendingOutIn,
    NonePendingOutIn,
    NonePendingOut,
    NonePendingOutIn,
    FromPendingOut,
    FromPendingOut,
    FromPendingOut,
];

/// The properties of an item that a client can see (RFC 6121 2.1.2): `subscription`, `ask`,
/// `approved`.
fn visible(state: State, approved: bool) -> (bool, bool, bool, bool) {
    (state.to(), state.from(), state.pending_out(), approved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The appendix as text, in a second notation, so that a slip in one of the tables is detected.
    /// Each line has: section, direction, kind, existing state, routed or delivered, new state ("="
    /// is no change).
    const APPENDIX: &str = "
        A.2.1 out subscribe    | N MUST NPo  | NPo MUST =    | NPi MUST NPoi | NPoi MUST =    | T MUST =    | TPi MUST =   | F MUST FPo  | FPo MUST =     | B MUST =
        A.2.2 out unsubscribe  | N MUST =    | NPo MUST N    | NPi MUST =    | NPoi MUST NPi  | T MUST N    | TPi MUST NPi | F MUST =    | FPo MUST F     | B MUST F
        A.2.3 out subscribed   | N NOT =     | NPo NOT =     | NPi MUST F    | NPoi MUST FPo  | T NOT =     | TPi MUST B   | F NOT =     | FPo NOT =      | B NOT =
        A.2.4 out unsubscribed | N NOT =     | NPo NOT =     | NPi MUST N    | NPoi MUST NPo  | T NOT =     | TPi MUST T   | F MUST N    | FPo MUST NPo   | B MUST T
        A.3.1 in subscribe     | N MUST NPi  | NPo MUST NPoi | NPi NOT =     | NPoi NOT =     | T MUST TPi  | TPi NOT =    | F NOT =     | FPo NOT =      | B NOT =
        A.3.2 in unsubscribe   | N NOT =     | NPo NOT =     | NPi MUST N    | NPoi MUST NPo  | T NOT =     | TPi MUST T   | F MUST N    | FPo MUST NPo   | B MUST T
        A.3.3 in subscribed    | N NOT =     | NPo MUST T    | NPi NOT =     | NPoi MUST TPi  | T NOT =     | TPi NOT =    | F NOT =     | FPo MUST B     | B NOT =
        A.3.4 in unsubscribed  | N NOT =     | NPo MUST N    | NPi NOT =     | NPoi MUST NPi  | T MUST N    | TPi MUST NPi | F NOT =     | FPo MUST F     | B MUST F
    ";

    fn state(short: &str) -> State {
        let names = ["N", "NPo", "NPi", "NPoi", "T", "TPi", "F", "FPo", "B"];
        State::ALL[names.iter().position(|name| *name == short).expect("a state's short name")]
    }

    #[test]
    fn every_cell_of_rfc_6121_appendix_a() {
        let mut cells = 0;
        for line in APPENDIX.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut columns = line.split('|');
            let head: Vec<_> = columns.next().unwrap().split_whitespace().collect();
            let kind = Kind::from_type(head[2]).unwrap();
            for column in columns {
                let cell: Vec<_> = column.split_whitespace().collect();
                let before = state(cell[0]);
                let after = if cell[2] == "=" { before } else { state(cell[2]) };
                let passes = cell[1] == "MUST";
                let found = if head[1] == "out" {
                    let out = outbound(before, false, kind);
                    (out.state, out.route)
                } else {
                    let inbound = inbound(before, false, kind, Answer::Current);
                    (inbound.state, inbound.deliver)
                };
                assert_eq!(found, (after, passes), "RFC 6121 {} from {}", head[0], cell[0]);
                cells += 1;
            }
        }
        assert_eq!(cells, 4 * 2 * 9);
    }

    #[test]
    fn a_subscriber_who_asks_again_is_answered_by_the_server() {
        // RFC 6121 A.3.1: "From", "From + Pending Out", "Both".
        for state in State::ALL {
            let result = inbound(state, false, Kind::Subscribe, Answer::Current);
            assert_eq!(result.reply, state.from().then_some(Kind::Subscribed), "{state:?}");
        }
    }

    #[test]
    fn an_unsubscribe_that_ends_something_is_answered_by_the_server() {
        // RFC 6121 A.3.2 [1]: exactly where it is delivered.
        for state in State::ALL {
            let result = inbound(state, false, Kind::Unsubscribe, Answer::Current);
            let answered = state.from() || state.pending_in();
            assert_eq!(result.reply, answered.then_some(Kind::Unsubscribed), "{state:?}");
        }
    }

    #[test]
    fn presence_follows_approval_and_cancellation() {
        // RFC 6121 3.1.5, 3.2.2, 3.3.3.
        for state in State::ALL {
            let approve = outbound(state, false, Kind::Subscribed).presence;
            assert_eq!(approve == OwnPresence::Show, state.pending_in(), "{state:?}");
            let cancel = outbound(state, false, Kind::Unsubscribed).presence;
            assert_eq!(cancel == OwnPresence::Hide, state.from(), "{state:?}");
            let left = inbound(state, false, Kind::Unsubscribe, Answer::Current).presence;
            assert_eq!(left == OwnPresence::Hide, state.from(), "{state:?}");
            let ask = outbound(state, false, Kind::Subscribe).presence;
            assert_eq!(ask, OwnPresence::Keep, "{state:?}");
        }
    }

    #[test]
    fn pushes_tell_of_what_a_roster_shows() {
        // RFC 6121 3.1.2: asking sets ask='subscribe' and is pushed; 3.1.3: being asked changes
        // nothing visible.
        assert!(outbound(State::None, false, Kind::Subscribe).push);
        assert!(!inbound(State::None, false, Kind::Subscribe, Answer::Current).push);
        assert!(!outbound(State::NonePendingIn, false, Kind::Unsubscribed).push);
        assert!(outbound(State::NonePendingIn, false, Kind::Subscribed).push);
        assert!(inbound(State::NonePendingOut, false, Kind::Unsubscribed, Answer::Current).push);
    }

    #[test]
    fn pre_approval_is_noted_used_and_taken_back() {
        // RFC 6121 3.4.2: recorded in "None", "None + Pending Out", "To", without a stanza to the
        // contact.
        for state in [State::None, State::NonePendingOut, State::To] {
            let noted = outbound(state, false, Kind::Subscribed);
            assert_eq!((noted.state, noted.approved, noted.route, noted.push), (state, true, false, true), "{state:?}");
            let used = inbound(state, true, Kind::Subscribe, Answer::Current);
            assert!(used.state.from() && !used.deliver && used.push, "{state:?}");
            assert_eq!((used.reply, used.presence), (Some(Kind::Subscribed), OwnPresence::Show), "{state:?}");
            let back = outbound(state, true, Kind::Unsubscribed);
            assert_eq!((back.state, back.approved, back.route, back.push), (state, false, false, true), "{state:?}");
        }
        // Silently ignored if the contact is already subscribed.
        for state in [State::From, State::FromPendingOut, State::Both] {
            let ignored = outbound(state, false, Kind::Subscribed);
            assert_eq!((ignored.approved, ignored.route, ignored.push), (false, false, false), "{state:?}");
        }
    }

    /// One side of the exchange, with the numbers that its home stores.
    #[derive(Default, Debug)]
    struct Side {
        state: State,
        approved: bool,
        counter: u64,
        asked: u64,
        seen: u64,
    }

    type Channel = VecDeque<(Kind, u64)>;

    impl Side {
        fn send(&mut self, kind: Kind, out: &mut Channel) {
            let result = outbound(self.state, self.approved, kind);
            (self.state, self.approved) = (result.state, result.approved);
            if kind == Kind::Subscribe {
                self.counter += 1;
                self.asked = self.counter;
            }
            if result.route {
                out.push_back((kind, if kind == Kind::Subscribe { self.asked } else { self.seen }));
            }
        }

        fn receive(&mut self, (kind, number): (Kind, u64), out: &mut Channel) {
            let answer = if number < self.asked { Answer::Stale } else { Answer::Current };
            if kind == Kind::Subscribe {
                self.seen = number;
            }
            let result = inbound(self.state, self.approved, kind, answer);
            self.state = result.state;
            if let Some(reply) = result.reply {
                out.push_back((reply, self.seen));
            }
        }
    }

    #[test]
    fn crossed_requests_without_numbers_would_drift_apart() {
        // The reason for `Answer`: unsubscribing and subscribing again crosses an approval of the
        // first request.
        let (mut romeo, mut juliet) = (State::NonePendingOut, State::NonePendingIn);
        romeo = outbound(romeo, false, Kind::Unsubscribe).state;
        romeo = outbound(romeo, false, Kind::Subscribe).state;
        juliet = outbound(juliet, false, Kind::Subscribed).state;
        juliet = inbound(juliet, false, Kind::Unsubscribe, Answer::Current).state;
        juliet = inbound(juliet, false, Kind::Subscribe, Answer::Current).state;
        assert!(inbound(romeo, false, Kind::Subscribed, Answer::Current).state.to() && !juliet.from());
        assert!(!inbound(romeo, false, Kind::Subscribed, Answer::Stale).state.to());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// RFC 6121 A: whatever two users do, and however their stanzas cross, both rosters agree
        /// when all have arrived.
        #[test]
        fn two_rosters_agree_when_the_stanzas_have_arrived(steps in prop::collection::vec((0u8..4, 0usize..4), 0..60)) {
            let (mut romeo, mut juliet) = (Side::default(), Side::default());
            let (mut to_juliet, mut to_romeo) = (Channel::new(), Channel::new());
            for (step, kind) in steps {
                match step {
                    0 => romeo.send(Kind::ALL[kind], &mut to_juliet),
                    1 => juliet.send(Kind::ALL[kind], &mut to_romeo),
                    2 => if let Some(stanza) = to_juliet.pop_front() { juliet.receive(stanza, &mut to_romeo) },
                    _ => if let Some(stanza) = to_romeo.pop_front() { romeo.receive(stanza, &mut to_juliet) },
                }
            }
            while !to_juliet.is_empty() || !to_romeo.is_empty() {
                if let Some(stanza) = to_juliet.pop_front() { juliet.receive(stanza, &mut to_romeo) }
                if let Some(stanza) = to_romeo.pop_front() { romeo.receive(stanza, &mut to_juliet) }
            }
            let (r, j) = (romeo.state, juliet.state);
            prop_assert_eq!((r.to(), r.from()), (j.from(), j.to()), "{:?} {:?}", r, j);
            prop_assert_eq!((r.pending_out(), r.pending_in()), (j.pending_in(), j.pending_out()), "{:?} {:?}", r, j);
        }
    }
}
