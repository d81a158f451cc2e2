//! What owners do: configure a room and destroy it (XEP-0045 10.1, 10.2, 10.9).

use minidom::Element as Tree;

use crate::kernel::Kernel;
use crate::limits::{ROOM_REASON_BYTES_MAX, beginning};
use crate::rooms::config::{NS_CONFIG, apply, statuses, write};
use crate::rooms::form::{self, Submitted};
use crate::rooms::occupants::Occupants;
use crate::rooms::rank::{Rank, Role};
use crate::rooms::room::{News, PRESENCE_GONE, Room, sessions_of};
use crate::rooms::unsaid::Unsaid;
use crate::rooms::visit::Removal;
use crate::store::room::{Affiliation, Config};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{self, local_of};
use crate::wire::limit::Refusal;
use crate::wire::text::Writer;

pub(super) const NS_OWNER: &str = "http://jabber.org/protocol/muc#owner";

/// What happens to the room after a request.
#[derive(PartialEq)]
pub(super) enum Fate {
    Exists,
    /// Its occupants have left; all that it has stored goes.
    Ends,
}

impl Room {
    /// The configuration form (XEP-0045 10.2).
    pub(super) fn form(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"<query xmlns='");
        out.extend_from_slice(NS_OWNER.as_bytes());
        out.extend_from_slice(b"'>");
        write(&mut out, local_of(&self.jid), &self.record.config);
        out.extend_from_slice(b"</query>");
        out
    }

    /// Handles a request of an owner.
    ///
    /// # Errors
    /// `bad-request` for an unknown one, `not-acceptable` for a configuration that cannot be.
    pub(super) fn own(&mut self, kernel: &mut Kernel, query: &Tree) -> Result<Fate, Refusal> {
        if let Some(destroy) = query.get_child("destroy", NS_OWNER) {
            self.destroy(kernel, destroy);
            return Ok(Fate::Ends);
        }
        let Some(x) = query.get_child("x", form::NS) else { return Err(StanzaCondition::BadRequest.into()) };
        if x.attr("type") == Some("cancel") {
            // XEP-0045 10.1.3: a reserved room that is not configured is not created.
            if self.record.locked {
                self.empty(kernel, b"");
                return Ok(Fate::Ends);
            }
            return Ok(Fate::Exists);
        }
        let form = Submitted::of(x, NS_CONFIG).ok_or(StanzaCondition::BadRequest)?;
        let config = apply(&form, &self.record.config)?;
        self.configure(kernel, config);
        Ok(Fate::Exists)
    }

    /// Gives the room a configuration.
    pub(super) fn configure(&mut self, kernel: &mut Kernel, config: Config) {
        let old = std::mem::replace(&mut self.record.config, config);
        let was_locked = std::mem::take(&mut self.record.locked);
        self.put(kernel);
        let new = self.record.config.clone();
        if was_locked || (old.public, &old.name, &old.description) != (new.public, &new.name, &new.description) {
            self.list(kernel, true);
        }
        let changed = statuses(&old, &new);
        if !changed.is_empty() && !was_locked {
            self.tell_statuses(kernel, &changed);
        }
        // XEP-0045 10.2: those who may no longer be there have to leave.
        if new.members_only && !old.members_only {
            let slots: Vec<u32> = self
                .occupants
                .iter()
                .filter(|(_, one)| one.affiliation == Affiliation::None)
                .map(|(slot, _)| slot)
                .collect();
            for slot in slots {
                let affiliation = Affiliation::None;
                let removal = Removal { affiliation, statuses: &[322], actor: None, reason: None, destroy: b"" };
                self.remove(kernel, slot, &removal);
            }
        }
        // XEP-0045 10.2: in a room that is no longer moderated all have voice.
        if old.moderated && !new.moderated {
            let visitors: Vec<(u32, Rank)> = self
                .occupants
                .iter()
                .filter(|(_, one)| one.role == Role::Visitor)
                .map(|(slot, one)| (slot, one.rank()))
                .collect();
            for (slot, rank) in visitors {
                self.set_rank(kernel, slot, Rank { role: Role::Participant, ..rank }, None, None);
            }
        }
    }

    /// XEP-0045 10.9.
    fn destroy(&mut self, kernel: &mut Kernel, destroy: &Tree) {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("destroy");
        let alternate = destroy.attr("jid").and_then(|jid| jid::normalise(jid).ok());
        writer.attribute_if("jid", alternate.as_deref());
        for name in ["password", "reason"] {
            if let Some(text) = destroy.get_child(name, NS_OWNER).map(Tree::text).filter(|text| !text.is_empty()) {
                writer.leaf(name, beginning(&text, ROOM_REASON_BYTES_MAX));
            }
        }
        writer.close();
        self.empty(kernel, &out);
    }

    /// All occupants leave because the room ends.
    pub(super) fn empty(&mut self, kernel: &mut Kernel, destroy: &[u8]) {
        let slots: Vec<u32> = self.occupants.iter().map(|(slot, _)| slot).collect();
        // Each gets the end of the own visit only: the others' would follow at once.
        for slot in slots {
            let Some(occupant) = self.occupants.get(slot) else { continue };
            let own = sessions_of(occupant);
            let rank = Rank { affiliation: Affiliation::None, role: Role::None };
            let jid = own.last().map_or("", String::as_str);
            let news = News { gone: true, destroy, ..News::of(&occupant.nick, jid, rank, PRESENCE_GONE) };
            self.tell_own(kernel, &news, &own);
        }
        self.occupants = Occupants::default();
        self.unsaid = Unsaid::default();
    }
}
