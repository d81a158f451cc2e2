//! Absent members whose devices are woken for messages of the room (XEP-0357), as their bookmarks
//! say (XEP-0492).
//!
//! The homes of members report the settings when bookmarks change. A message wakes a member once in
//! a while, however many follow. Members of one home are named in one letter.

use crate::actors::Actors;
use crate::follow::Receivers;
use crate::kernel::Kernel;
use crate::letters::{Kind, Letter, RoomLetter};
use crate::limits::{ROOM_ALERT_BYTES, ROOM_ALERT_NICK_BYTES_MAX, ROOM_ALERT_S, ROOM_ALERTS_MAX, beginning};
use crate::rooms::Rooms;
use crate::rooms::alerts::{Said, Sleeper};
use crate::rooms::room::Room;
use crate::router::users::Incoming;
use crate::store::room::{Alert, When};
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::text::Writer;

/// Names a setting that takes its turn like a stanza. No client or component can send it: their
/// stanzas have other names.
pub(super) const ALERT: &str = "alert";

impl Room {
    /// Notes for which messages a member is woken; `None` for none.
    fn set_alert(&mut self, kernel: &mut Kernel, bare: &str, alert: Option<Alert>) {
        let alerts = &mut self.alerts.0;
        let is_new = !alerts.contains_key(bare);
        match alert.filter(|_| self.standings.get(bare).is_some_and(|standing| standing.is_member())) {
            Some(_) if is_new && alerts.len() >= ROOM_ALERTS_MAX => {}
            Some(alert) => {
                alert.put(&mut kernel.writes, &self.jid, bare);
                alerts.insert(bare.into(), Sleeper { alert, rests_until_s: 0 });
            }
            None => self.drop_alert(kernel, bare),
        }
    }

    /// A user is not woken any more.
    pub(super) fn drop_alert(&mut self, kernel: &mut Kernel, bare: &str) {
        if self.alerts.0.remove(bare).is_some() {
            Alert::delete(&mut kernel.writes, &self.jid, bare);
        }
    }

    /// Takes the setting that a home has reported.
    pub(super) fn read_alert(&mut self, kernel: &mut Kernel, bare: &str, alert: &Element<'_>) {
        let when = match alert.attribute("when").as_deref() {
            Some("always") => Some(When::Always),
            Some("mentioned") => Some(When::Mentioned),
            _ => None,
        };
        let nick = alert.attribute("nick").unwrap_or_default();
        self.set_alert(kernel, bare, when.map(|when| Alert { when, nick: nick.as_ref().into() }));
    }

    /// Wakes absent members for a message. `xml` is unaddressed.
    pub(super) fn wake_absent(&mut self, kernel: &mut Kernel, from: &str, element: &Element<'_>, xml: &[u8]) {
        if self.alerts.0.is_empty() {
            return;
        }
        let Some(said) = Said::of(element) else { return };
        let now_s = kernel.now.mono_s();
        let mut woken = Receivers::default();
        for (bare, sleeper) in &mut self.alerts.0 {
            let rests = now_s < sleeper.rests_until_s || !self.occupants.of_user(bare).is_empty();
            if rests || (sleeper.alert.when == When::Mentioned && !said.mentions(&self.jid, bare, &sleeper.alert.nick))
            {
                continue;
            }
            sleeper.rests_until_s = now_s + ROOM_ALERT_S;
            woken.add(kernel.home(bare), &[bare]);
        }
        kernel.spread(woken.by_shard(), |letters, to| {
            let (from, to, xml) = (letters.name(from), letters.name(to), letters.write(xml));
            Letter::Room(RoomLetter::Wake { from, to, xml })
        });
        self.spend(woken.count() * ROOM_ALERT_BYTES);
    }

    /// A member is in the room: the next message after it has left wakes it.
    pub(super) fn is_awake(&mut self, bare: &str) {
        if let Some(sleeper) = self.alerts.0.get_mut(bare) {
            sleeper.rests_until_s = 0;
        }
    }
}

impl Rooms {
    /// The home of a user reports for which messages the user is woken. That takes its turn like a
    /// stanza of the account, as a removal does.
    pub(crate) fn alert(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        room: &str,
        user: &str,
        alert: Option<&Alert>,
    ) {
        let mut xml = Vec::new();
        let mut writer = Writer::new(&mut xml);
        writer.open(ALERT);
        if let Some(alert) = alert {
            writer.attribute("when", if alert.when == When::Always { "always" } else { "mentioned" });
            writer.attribute("nick", beginning(&alert.nick, ROOM_ALERT_NICK_BYTES_MAX));
        }
        writer.close();
        self.incoming(cx, actors, Incoming { kind: Kind::Response, origin: None, from: user, to: room, xml: &xml });
    }
}
