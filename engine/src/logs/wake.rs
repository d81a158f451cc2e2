//! Reasons to wake a user's devices (XEP-0357): messages that may wait for one of them. They are
//! recorded here. Which devices are woken is decided when the input has been handled.

use crate::actors::Actors;
use crate::extension::push::message;
use crate::extension::{RESTS, WAKER, push};
use crate::id::SessionId;
use crate::logs::Logs;
use crate::outbound::Unsent;
use crate::router::users::Incoming;
use crate::session::table::Session;
use crate::settings::PushDetails;
use crate::streams::Streams;
use crate::wire::jid::bare_of;
use crate::wire::written::read_back;

/// A reason to wake a user's devices.
#[derive(Debug)]
pub(crate) struct Wake {
    /// The user's bare JID.
    pub(crate) account: Box<str>,
    /// Only this device, which has not received what it was sent. `None` for a new message, which
    /// concerns all devices.
    pub(crate) device: Option<u64>,
    /// Number of waiting messages, as far as it is known.
    pub(crate) waiting: u32,
    /// What may be revealed of the message.
    pub(crate) last: Option<Box<Last>>,
}

/// The message that causes a wake-up.
#[derive(Debug)]
pub(crate) struct Last {
    /// Its sender's full JID.
    pub(crate) sender: Box<str>,
    pub(crate) body: Option<Box<str>>,
}

impl Logs {
    /// A message has been logged for a user, whether or not a session has received it.
    #[inline]
    pub(crate) fn wake(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, stanza: Incoming<'_>) {
        if actors.users.get(user).marked || actors.has_notes(user) {
            self.wake_noted(cx, actors, user, stanza);
        }
    }

    #[cold]
    fn wake_noted(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, stanza: Incoming<'_>) {
        // A message that the user sent wakes none of the user's own devices.
        if !self.can_be_woken(cx, actors, user) || actors.users.is(user, bare_of(stanza.from)) {
            return;
        }
        let details = cx.kernel.settings.push_details;
        let seen = read_back(stanza.xml, |element| {
            let body = (details == PushDetails::Body).then(|| message::text(element)).flatten();
            message::matters(element).then_some(body)
        });
        let Some(Some(body)) = seen else { return };
        let last = (details != PushDetails::Count).then(|| Box::new(Last { sender: stanza.from.into(), body }));
        let waiting = self.log_if_known(actors, user).map_or(0, |log| log.waiting().0);
        let account = actors.bare_of_user(user).into();
        self.woken.push(Wake { account, device: None, waiting, last });
    }

    /// A session has lost its connection and waits to be resumed. Messages that its client may not
    /// have received wake the device.
    pub(crate) fn wake_detached(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId) {
        let Some(session) = actors.sessions.get(id) else { return };
        let device = (session.user, session.marks, push::device(&session.resource));
        let unreceived = cx.unreceived(id);
        self.wake_device(cx, actors, device, unreceived);
    }

    /// A session has ended without having received these messages.
    pub(crate) fn wake_ended(&mut self, cx: &mut Streams, actors: &mut Actors, session: &Session, lost: &[Unsent]) {
        let device = (session.user, session.marks, push::device(&session.resource));
        self.wake_device(cx, actors, device, lost.iter().filter(|unsent| unsent.id != 0).count());
    }

    /// This many messages have not reached a device with this user and these marks.
    fn wake_device(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        (user, marks, device): (u32, u32, u64),
        unreceived: usize,
    ) {
        if marks & 1 << WAKER != 0 && unreceived > 0 && cx.kernel.facts.has(WAKER) && !cx.kernel.shutting_down {
            let account = actors.bare_of_user(user).into();
            let waiting = u32::try_from(unreceived).unwrap_or(u32::MAX);
            self.woken.push(Wake { account, device: Some(device), waiting, last: None });
        }
    }

    /// Whether a user has push registrations, as far as memory shows.
    fn can_be_woken(&self, cx: &Streams, actors: &Actors, user: u32) -> bool {
        if !cx.kernel.facts.has(WAKER) {
            return false;
        }
        let noted = || actors.users.get(user).state.as_ref().is_some_and(|state| state.notes.get(WAKER).is_some());
        actors.users.sessions(&actors.sessions, user).any(|(_, session)| session.marks & 1 << WAKER != 0) || noted()
    }

    /// Devices of a user that are in use: they have a connection, and do not report otherwise.
    pub(crate) fn attended(&self, cx: &Streams, actors: &Actors, account: &str) -> Vec<u64> {
        let Some(user) = actors.users.find(account) else { return Vec::new() };
        let sessions = actors.users.sessions(&actors.sessions, user);
        let attended = sessions.filter(|(id, session)| session.marks & RESTS == 0 && cx.conn_of(*id).is_some());
        attended.map(|(_, session)| push::device(&session.resource)).collect()
    }
}
