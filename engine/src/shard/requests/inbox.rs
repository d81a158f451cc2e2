//! What a user has missed of rooms: the homes of the rooms are asked, with one letter each, and the
//! answer waits for all of them.

use crate::extension::Step;
use crate::extension::inbox::missed::{Asked, RoomCount};
use crate::follow::Receivers;
use crate::kernel::pending::{Asker, Elsewhere, Gather, Pending};
use crate::letters::{Letter, RoomLetter};
use crate::limits::ROOM_COUNT_BYTES;
use crate::shard::Shard;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;

impl Shard {
    /// Asks the homes of rooms. The session that asks is charged for their reads.
    pub(super) fn ask_rooms(&mut self, asker: Asker, asked: Asked) {
        if asked.rooms.is_empty() {
            return self.answer_missed(asker, &asked, Vec::new());
        }
        if let Some((session, _)) = asker.session {
            let rooms = asked.rooms.len();
            self.cx.tell(session, Down::Charge(work(rooms, rooms * ROOM_COUNT_BYTES)));
        }
        let kernel = &mut self.cx.kernel;
        let mut rooms = Receivers::default();
        asked.rooms.iter().for_each(|room| rooms.add(kernel.home(room), &[room]));
        let user: Box<str> = bare_of(&asker.from).into();
        let waits = rooms.by_shard().count();
        let gather = Gather { asker, asked, waits, counts: Vec::new() };
        let token = kernel.token(Pending::Elsewhere(Elsewhere::Missed(Box::new(gather))));
        kernel.spread(rooms.by_shard(), |letters, rooms| {
            let (user, rooms) = (letters.name(&user), letters.name(rooms));
            Letter::Room(RoomLetter::Count { token, user, rooms })
        });
    }

    /// A home has answered for its rooms.
    pub(crate) fn rooms_counted(&mut self, token: u64, counts: &[u8]) {
        // The entry is in the table until the last answer.
        let Some(Pending::Elsewhere(Elsewhere::Missed(gather))) = self.cx.kernel.pending.get_mut(&token) else {
            return;
        };
        gather.waits -= 1;
        gather.counts.extend(RoomCount::read(counts));
        if gather.waits > 0 {
            return;
        }
        // It is there, as above.
        let Some(Pending::Elsewhere(Elsewhere::Missed(gather))) = self.cx.kernel.pending.remove(&token) else { return };
        let Gather { asker, asked, counts, .. } = *gather;
        if self.is_waited_for(&asker) {
            self.answer_missed(asker, &asked, counts);
        }
    }

    /// Answers of a home are lost, and so is what the others have said.
    pub(crate) fn rooms_not_counted(&mut self, asker: Asker) {
        if self.is_waited_for(&asker) {
            self.do_step(asker, "", 0, Step::Error(StanzaCondition::InternalServerError.into()));
        }
    }

    /// Whether the session that has asked still waits. If not, the next request of its user goes on.
    fn is_waited_for(&mut self, asker: &Asker) -> bool {
        let waits = self.actors.asks_still(asker);
        if let Some((session, _)) = asker.session.filter(|_| asker.paced && !waits) {
            self.paced_over(bare_of(&asker.from), session);
        }
        waits
    }

    fn answer_missed(&mut self, asker: Asker, asked: &Asked, counts: Vec<RoomCount>) {
        let (entries, end) = asked.answer(counts);
        self.do_step(asker, "", 0, Step::Send(entries, end));
    }
}
