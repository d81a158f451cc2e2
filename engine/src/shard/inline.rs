//! Carries out requests inlined into an authentication (XEP-0388 2.6.1), at the user's home before
//! the client is sent its success: a token for the next login, and a resumed or new session.

use crate::extension::{self, Step};
use crate::id::ConnId;
use crate::kernel::pending::{Pending, RequestRead};
use crate::ns;
use crate::session::conn::Stage;
use crate::session::inline::{Bind, Inline};
use crate::session::sasl::{Authenticated, Form};
use crate::shard::Shard;
use crate::store::ids::Ids;
use crate::streams::management::SM_ITEM_NOT_FOUND;
use crate::wire::error::{SaslCondition, StreamCondition};
use crate::wire::limit::Held;
use crate::wire::text::Writer;

impl Shard {
    /// The account that a connection claims has been looked up.
    pub(super) fn claimed(&mut self, conn: ConnId) {
        match self.cx.opening(conn).map(|opening| matches!(opening.stage(), Stage::ExpectInline(_))) {
            Some(true) => self.inline_goes_on(conn),
            Some(false) => self.cx.unblock(conn),
            None => {}
        }
    }

    /// Carries out the next inlined request, and continues when it is done. The connection is not
    /// read from until then.
    pub(super) fn inline_goes_on(&mut self, conn: ConnId) {
        // The connection has closed in the meantime, or is in another stage.
        let Some(Stage::ExpectInline(owner)) = self.cx.opening(conn).map(|opening| opening.stage()) else { return };
        let owner = owner.clone();
        let resume = self.cx.heard(conn).inline.as_ref().and_then(|inline| inline.resume.as_ref());
        let previd = resume.map(|resume| resume.previd.clone());
        match self.is_still_there(conn, &owner, previd.as_deref()) {
            Some(true) => {}
            Some(false) => return self.fail_claim(conn, &owner),
            None => return,
        }
        let gains = self.accounts.gains(&self.cx);
        let inline = self.cx.heard(conn).inline.as_mut().expect("it is still there");
        if inline.upgrade.is_some() {
            return self.task_begins(conn, owner);
        }
        inline.upgrades = inline.upgrades.and(gains);
        if !inline.upgrades.is_empty() {
            return self.accounts.look_for_upgrades(&mut self.cx, &mut self.actors, conn, owner.bare());
        }
        if inline.wants_token().is_some() {
            return self.accounts.make_token(&mut self.cx, &mut self.actors, conn, owner.bare());
        }
        // XEP-0386 2.2: a resumed session makes binding unnecessary; if there is none, a new
        // session begins.
        if let Some(resume) = inline.resume.take() {
            if self.take_over(conn, owner.bare(), resume.h, &resume.previd) {
                return;
            }
            self.cx.heard(conn).inline.as_mut().expect("it is still there").not_resumed = true;
            // The account may have been known to exist only because of that session.
            return self.inline_goes_on(conn);
        }
        let inline = self.cx.heard(conn).inline.as_ref().expect("it is still there");
        let from = inline.bind.as_ref().map(|_| inline.told);
        if let Some((told, step)) = from
            .and_then(|from| extension::bound(&self.cx.kernel.facts, owner.bare(), Ids::of(owner.incarnation()), from))
        {
            self.cx.heard(conn).inline.as_mut().expect("it is still there").told = told;
            return self.tell_bound(conn, step);
        }
        let mut inline = self.cx.heard(conn).inline.take().expect("it is still there");
        match inline.bind.take() {
            Some(bind) => self.bind_inline(conn, owner.bare(), &inline, bind),
            None => self.succeed_unbound(conn, owner, &inline),
        }
    }

    /// Handles an extension's account information for the client's `<bound/>`, or the read that it
    /// needs.
    pub(super) fn tell_bound(&mut self, conn: ConnId, step: Step) {
        // The connection has closed during the read.
        let Some(Stage::ExpectInline(_)) = self.cx.opening(conn).map(|opening| opening.stage()) else { return };
        match step {
            Step::Read(queries, pending) => {
                self.cx.block(conn);
                return self.cx.kernel.read(Pending::Request(RequestRead::Bound(conn, pending)), queries);
            }
            Step::Result(element) => {
                let inline = self.cx.opening(conn).and_then(|opening| opening.inline.as_mut());
                inline.into_iter().for_each(|inline| inline.bound.extend_from_slice(&element));
            }
            _ => {}
        }
        self.inline_goes_on(conn);
    }

    /// The client may bind a resource itself (RFC 6120 7), or resume another session.
    fn succeed_unbound(&mut self, conn: ConnId, owner: Authenticated, inline: &Inline) {
        let mut out = Vec::with_capacity(512);
        inline.open_success(&mut out, owner.bare());
        if inline.not_resumed {
            out.extend_from_slice(SM_ITEM_NOT_FOUND);
        }
        inline.close_success(&mut out);
        self.features.write_behind(&mut out, false, false);
        self.cx.conns.set_stage(conn, Stage::ExpectBind(owner));
        self.cx.send_bytes(conn, &out);
        self.cx.unblock(conn);
    }

    /// Handles `<bind/>` (XEP-0386 2.2). The resource is the client's tag and a name, which is
    /// stable for a client with an id.
    fn bind_inline(&mut self, conn: ConnId, account: &str, inline: &Inline, bind: Bind) {
        let own = match &inline.agent {
            Some(agent) => self.accounts.tokens.resource(account, agent),
            None => self.cx.kernel.random_name(),
        };
        self.replace_client(account, &own);
        let resource = match &bind.tag {
            Some(tag) => [tag, "/", &own].concat(),
            None => own,
        };
        let id = match self.begin_session(conn, account, resource.into()) {
            Ok(id) => id,
            Err(limit) => {
                let text = Held::by(limit).to_string();
                let condition = SaslCondition::TemporaryAuthFailure;
                self.cx.send_with(conn, |out| Form::Sasl2.write_failure(out, condition, Some(&text)));
                return self.cx.fail_stream(conn, StreamCondition::ResourceConstraint, Some(&text));
            }
        };
        let enabled = bind.enable.and_then(|enable| self.cx.manage(id, enable));
        self.begin_storing(id);
        let mut out = Vec::with_capacity(1024);
        inline.open_success(&mut out, &self.actors.full_jid(id));
        if inline.not_resumed {
            out.extend_from_slice(SM_ITEM_NOT_FOUND);
        }
        let mut w = Writer::new(&mut out);
        w.open("bound")
            .attribute("xmlns", ns::BIND2)
            .raw(&inline.bound)
            .raw(enabled.as_deref().unwrap_or_default())
            .close();
        inline.close_success(&mut out);
        self.features.write_behind(&mut out, true, enabled.is_some());
        self.cx.send_bytes(conn, &out);
        self.cx.hold_beginning(conn);
        for (place, name) in bind.features {
            let place = usize::from(place);
            let Some(hook) = extension::TABLE[place].inline.as_ref() else { continue };
            if let Some(Some(change)) = self.actors.with_note(id, place, |note| (hook.handle)(note, &name)) {
                self.actors.change_session(&mut self.cx, id, place, change);
            }
        }
        self.cx.unblock(conn);
    }

    /// Ends the earlier sessions of a client, identified by its stable part of the resource
    /// (XEP-0386 2.2).
    fn replace_client(&mut self, account: &str, own: &str) {
        let user = self.actors.users.find_or_insert(account);
        let is_own = |resource: &str| {
            resource.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let sessions =
            self.actors.users.sessions(&self.actors.sessions, user).filter(|(_, session)| is_own(&session.resource));
        let earlier: Vec<_> = sessions.map(|(id, _)| id).collect();
        earlier.into_iter().for_each(|id| self.replace_session(id));
    }
}
