//! Authorization of requests for channels: by the credentials that they carry, or by the operator's
//! authorization service (`notify_ask_url`). A request is held until the service answers. A held
//! request occupies memory, and its connection is not read any further.
//!
//! The inquiries and the held bytes are limited per address. An answer also applies to later
//! requests with the same credentials.

use std::net::IpAddr;

use crate::channels::Channels;
use crate::channels::access::{Admission, unanswered};
use crate::channels::addresses::network;
use crate::channels::listener::{Held, Kind, Listener};
use crate::id::ConnId;
use crate::io::{Decision, Inquiry};
use crate::kernel::pending::{Elsewhere, Pending};
use crate::limits::NOTIFY_HELD_S;
use crate::streams::Streams;
use crate::web::access::Act;
use crate::web::access::shown::Shown;
use crate::web::access::token::is_name;
use crate::web::dialect::asked::{Asked, Wish};
use crate::web::response::Response;
use crate::web::status::Status;

/// The state of a request that its own credentials do not admit.
enum Known {
    /// A cached answer admits the request.
    Already(Admission),
    /// An inquiry with this token is in flight.
    Soon(u64),
}

impl Channels {
    /// Handles a request for channels.
    pub(crate) fn listen(&mut self, cx: &mut Streams, id: ConnId, keeps_alive: bool, asked: Asked) {
        let waiting_max = cx.kernel.settings.web.channels.waiting_max;
        let now_ms = cx.kernel.now.mono_ms;
        let Some(opening) = cx.opening(id) else { return };
        // Responses wait until what they report is durable.
        (opening.promised, opening.blocked) = (true, true);
        let address = opening.peer.to_canonical();
        let network = network(address);
        let may = self.listeners.addresses.may_wait(now_ms, network, waiting_max).map_err(Response::from);
        let channels = asked.channels.iter().map(|place| &*place.channel);
        let selects = asked.wish.selects();
        let may = may.and_then(|()| match asked.wish {
            // Possession of the registration's id is enough to remove it, even after the token that
            // created it has expired.
            Wish::Unregister(_) => Ok(Admission::default()),
            _ => self.admit(cx, network, &asked.shown, (asked.wish.act(), selects), channels.clone()),
        });
        // Permission to read a channel does not include permission to see its subscribers.
        let may = may.and_then(|admission| match asked.occupancy && asked.wish.act() == Act::Subscribe {
            true => self.admit(cx, network, &asked.shown, (Act::Presence, false), channels).map(|_| admission),
            false => Ok(admission),
        });
        match may {
            Ok(Admission { asks: true, .. }) => self.listen_if_allowed(cx, id, keeps_alive, asked, address),
            may => self.begin_listening(cx, id, keeps_alive, asked, may),
        }
    }

    fn listen_if_allowed(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        keeps_alive: bool,
        mut asked: Asked,
        address: IpAddr,
    ) {
        let bytes = asked.bytes() + asked.sent.bytes();
        let token = match self.look_up(cx, id, &asked, address, bytes) {
            Ok(Known::Soon(token)) => token,
            Ok(Known::Already(admission)) => return self.begin_listening(cx, id, keeps_alive, asked, Ok(admission)),
            Err(refusal) => return self.begin_listening(cx, id, keeps_alive, asked, Err(refusal)),
        };
        // The inquiry has its own copy of the credentials.
        (asked.shown, asked.sent) = (Shown::Nothing, Default::default());
        let fields = self.listeners.fields(std::mem::take(&mut asked.fields));
        let now_s = cx.kernel.now.mono_s();
        let held = Kind::Held(Box::new(Held { asked, token, bytes }));
        let listener = Listener::new(held, network(address), now_s, now_s + NOTIFY_HELD_S);
        self.listeners.begin(id, Listener { keeps_alive, fields, ..listener });
    }

    /// Looks up a cached decision about such a request. Without one, sends an inquiry.
    fn look_up(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        asked: &Asked,
        address: IpAddr,
        bytes: usize,
    ) -> Result<Known, Response> {
        let (now_ms, network) = (cx.kernel.now.mono_ms, network(address));
        let policy = &cx.kernel.settings.web.channels;
        let channels = asked.channels.iter().map(|place| &place.channel).filter(|channel| policy.asks(channel));
        let inquiry = Inquiry {
            act: asked.wish.act(),
            deletes: asked.wish.deletes(),
            occupancy: asked.occupancy && asked.wish.act() == Act::Subscribe,
            channels: channels.cloned().collect(),
            address,
            sent: asked.sent.clone(),
        };
        let key = inquiry.key();
        if let Some(known) = self.decisions.find(now_ms, &key) {
            cx.kernel.counters.notify_ask_known.one();
            return known.map(|permit| Known::Already(Admission::by(permit))).map_err(|_| self.denied(cx));
        }
        if !self.listeners.may_hold(network, bytes) {
            cx.kernel.counters.notify_ask_failed.one();
            return Err(unanswered());
        }
        let each_ms = cx.kernel.settings.each_question_ms();
        self.listeners.addresses.may_ask(now_ms, network, each_ms)?;
        let token = cx.inquire(id, key, inquiry);
        token.map(Known::Soon).ok_or_else(|| {
            cx.kernel.counters.notify_ask_failed.one();
            unanswered()
        })
    }

    fn denied(&self, cx: &Streams) -> Response {
        cx.kernel.counters.notify_ask_denied.one();
        Response::text(Status::Forbidden, "the operator's service denies this request")
    }

    /// Handles the answer to an inquiry. The request may have ended meanwhile.
    pub(crate) fn decided(&mut self, cx: &mut Streams, token: u64, decision: Decision) {
        let Some(Pending::Elsewhere(Elsewhere::Inquiry(id, key))) = cx.kernel.pending.remove(&token) else { return };
        cx.inquiries_under_way -= 1;
        let (now_s, now_ms) = (cx.kernel.now.mono_s(), cx.kernel.now.mono_ms);
        let may = match decision {
            Decision::Allowed { name, seconds } => {
                let name = name.filter(|name| is_name(name));
                Ok(Admission::by(self.decisions.allowed(now_s, *key, name, seconds)))
            }
            Decision::Denied => {
                self.decisions.denied(now_ms, *key);
                Err(self.denied(cx))
            }
            Decision::Unknown => {
                cx.kernel.counters.notify_ask_failed.one();
                Err(unanswered())
            }
        };
        let awaits = |listener: &Listener| matches!(&listener.kind, Kind::Held(held) if held.token == token);
        if !self.listeners.get(id).is_some_and(awaits) {
            return;
        }
        let admission = match may {
            Ok(admission) => admission,
            Err(refusal) => return self.respond(cx, id, refusal),
        };
        let Some(Listener { kind: Kind::Held(held), keeps_alive, fields, .. }) = self.listeners.end(id) else { return };
        let asked = Asked { fields: fields.all().to_vec(), ..held.asked };
        self.begin_listening(cx, id, keeps_alive, asked, Ok(admission));
    }
}
