//! Letters to the homes of others: stanzas, presence, answers and confirmations. They leave with the turn.

use crate::extension::offline::Keep;
use crate::extension::subscription::Kind as SubKind;
use crate::id::ShardId;
use crate::kernel::Kernel;
use crate::letters::{
    Answer, ConnRef, Delivery, Kind, Letter, LoginLetter, MessageClass, Origin, PresenceNews, UserLetter,
};
use crate::router::users::RosterStep;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Refusal;
use crate::wire::splice::address;
use crate::wire::written::{id_of_stanza, read_back, write_error};

impl Kernel {
    /// Puts a stanza for a user's home into a letter of this turn.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn post(
        &mut self,
        home: ShardId,
        kind: Kind,
        origin: Option<Origin>,
        from: &str,
        to: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let letters = self.letters_to(home);
        let xml = letters.write_with(write);
        let (from, to) = (letters.name(from), letters.name(to));
        letters.push(Letter::Stanza { kind, origin, from, to, xml });
    }

    /// Sends an error stanza to whom a stanza of this domain came from.
    pub(crate) fn send_error_letter(&mut self, name: &str, id: Option<&str>, from: &str, to: &str, refusal: Refusal) {
        let kind = match name {
            "message" => Kind::Message { class: MessageClass::Error, keep: Keep::Nothing },
            "iq" => Kind::Response,
            _ => Kind::Directed { unavailable: false },
        };
        let home = self.home(bare_of(to));
        self.post(home, kind, None, from, to, |out| write_error(out, name, id, Some(from), Some(to), refusal));
    }

    /// The sender's home learns that the stanza is in safe hands; with this turn's writes, when they are durable.
    pub(crate) fn confirm(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.letters_to(origin.shard)
                .push(Letter::Delivery(Delivery::Confirm { session: origin.session, seq: origin.seq }));
        }
    }

    /// Says goodbye to those who got directed presence.
    pub(crate) fn withdraw_directed(&mut self, full: &str, xml: &[u8], directed: &[Box<str>]) {
        for to in directed {
            let home = self.home(bare_of(to));
            self.post(home, Kind::Directed { unavailable: true }, None, full, to, |out| address(out, xml, full, to));
        }
    }

    /// One contact gets a user's presence, a subscription stanza, or a probe.
    pub(crate) fn presence_to(&mut self, news: PresenceNews, from: &str, to: &str, xml: &[u8]) {
        let home = self.home(bare_of(to));
        let letters = self.letters_to(home);
        let (from, to, xml) = (letters.name(from), letters.name(to), letters.write(xml));
        letters.push(Letter::User(UserLetter::Presence { news, from, to, xml }));
    }

    /// Many contacts get the same presence: the list stands still meanwhile, and the stanza crosses to each shard once.
    pub(crate) fn presence_to_all<'a>(
        &mut self,
        from: &str,
        xml: &[u8],
        contacts: impl Iterator<Item = (&'a str, PresenceNews)>,
    ) {
        let mut written: Vec<Option<(crate::letters::Name, crate::letters::Span)>> =
            vec![None; usize::from(self.settings.shards())];
        for (to, news) in contacts {
            let home = self.home(to);
            let letters = self.letters_to(home);
            let (from, xml) = *written[home.index()].get_or_insert_with(|| (letters.name(from), letters.write(xml)));
            let to = letters.name(to);
            letters.push(Letter::User(UserLetter::Presence { news, from, to, xml }));
        }
    }

    pub(crate) fn presence_reply(&mut self, news: PresenceNews, full: &str, to: &str, xml: &[u8]) {
        if to.contains('/') {
            let home = self.home(bare_of(to));
            let unavailable = news == PresenceNews::Unavailable;
            self.post(home, Kind::Directed { unavailable }, None, full, to, |out| address(out, xml, full, to));
        } else {
            self.presence_to(news, full, to, xml);
        }
    }

    /// Sends a subscription stanza that the server makes itself.
    pub(crate) fn subscription_to(&mut self, from: &str, to: &str, kind: SubKind, number: u64, confirm: u64) {
        let xml = format!("<presence type='{}'/>", kind.as_str());
        self.presence_to(PresenceNews::Subscription { kind, number, confirm }, from, to, xml.as_bytes());
    }

    /// Tells a contact's home that a subscription stanza of it has had its effect, if it wants to know; with this turn's
    /// writes, when they are durable.
    pub(crate) fn noted(&mut self, from: &str, to: &str, confirm: u64) {
        if confirm != 0 {
            self.presence_to(PresenceNews::Noted { confirm }, from, to, b"");
        }
    }

    /// There is no such account. A request for its presence is answered with an error, as the asking user's server owes it
    /// (RFC 6121 3.1.2), and does not wait any more: it takes the way of a denial. All else is silently dropped (8.5.1).
    pub(crate) fn step_for_no_one(&mut self, account: &str, step: RosterStep) {
        let RosterStep::ReceiveSubscription { kind, number, confirm, contact, xml } = step else { return };
        if kind != SubKind::Subscribe {
            return self.noted(account, &contact, confirm);
        }
        let id = id_of_stanza(&xml);
        let mut error = Vec::new();
        let condition = StanzaCondition::ServiceUnavailable;
        write_error(&mut error, "presence", id.as_deref(), None, None, condition);
        let news = PresenceNews::Subscription { kind: SubKind::Unsubscribed, number, confirm: 0 };
        self.presence_to(news, account, &contact, &error);
    }

    /// A stanza of an ended session that was no message: a request gets the error that it would have got without the
    /// session (XEP-0198 4, RFC 6121 8.5.3.2.3), which tells nothing of who was there (RFC 6120 8.3.3.13).
    pub(crate) fn bounce_unreceived(&mut self, xml: &[u8]) {
        read_back(xml, |element| {
            let (Some(from), Some(to)) = (element.from(), element.to()) else { return };
            if element.name() == "iq" && matches!(element.kind().as_deref(), Some("get" | "set")) {
                let id = element.id();
                self.send_error_letter("iq", id.as_deref(), &to, &from, StanzaCondition::ServiceUnavailable.into());
            }
        });
    }

    pub(crate) fn reply_to(&mut self, conn: ConnRef, answer: Answer) {
        self.letters_to(conn.shard).push(Letter::Login(LoginLetter::Answer { conn: conn.conn, answer }));
    }
}
