//! Passes letters to their modules.

use crate::channels::occupancy::crowd::Said;
use crate::components::from_component::is_component;
use crate::extension::pubsub::service::registration::Removal;
use crate::id::ActorKind;
use crate::kernel::pending::Front;
use crate::letters::{
    BoshLetter, ChannelLetter, Delivery, Gained, Letter, Letters, LoginLetter, NodeLetter, UserLetter,
};
use crate::router::users::Incoming;
use crate::session::bosh::Reply;
use crate::shard::Shard;
use crate::shard::requests::at_channels::By;
use crate::streams::half::Down;
use crate::web::feed_names::FeedName;

impl Shard {
    pub(super) fn read_letter(&mut self, batch: &Letters, letter: &Letter) {
        match letter {
            Letter::Stanza { kind, origin, from, to, xml } => {
                let incoming = Incoming {
                    kind: *kind,
                    origin: *origin,
                    from: batch.str(*from),
                    to: batch.str(*to),
                    xml: batch.bytes(*xml),
                };
                self.incoming_in_turn(incoming);
            }
            Letter::Component { domain, there } => self.components.heard_of_component(&mut self.cx, *domain, *there),
            Letter::Delivery(letter) => self.delivery_letter(batch, letter),
            Letter::User(letter) => self.user_letter(batch, letter),
            Letter::Node(letter) => self.node_letter(batch, letter),
            Letter::Room(letter) => self.room_letter(batch, letter),
            Letter::Channel(letter) => self.channel_letter(batch, letter),
            Letter::Login(letter) => self.login_letter(batch, letter),
            Letter::Bosh(letter) => self.bosh_letter(letter),
        }
    }

    fn delivery_letter(&mut self, batch: &Letters, letter: &Delivery) {
        match letter {
            Delivery::Confirm { session, .. } if is_component(*session) => {
                self.components.component_confirmed(&mut self.cx, *session)
            }
            Delivery::Confirm { session, seq } if self.tail_confirmed(*session, *seq) => {}
            Delivery::Confirm { session, seq } => self.actors.confirmed(&mut self.cx, *session, *seq),
            Delivery::Took { session } if is_component(*session) => {
                self.components.component_confirmed(&mut self.cx, *session)
            }
            Delivery::Took { session } => self.cx.tell(*session, Down::Arrived),
            Delivery::Safe { session, .. } if is_component(*session) => {}
            Delivery::Safe { session, seq } if self.tail_confirmed(*session, *seq) => {}
            Delivery::Safe { session, seq } => self.actors.stanza_done(&mut self.cx, *session, *seq),
            Delivery::Refused { from, entry } => self.actors.void(&mut self.cx, batch.str(*from), *entry),
        }
    }

    fn user_letter(&mut self, batch: &Letters, letter: &UserLetter) {
        match letter {
            UserLetter::Presence { news, from, to, xml } => {
                let (from, to, xml) = (batch.str(*from), batch.str(*to), batch.bytes(*xml));
                match self.cx.kernel.settings.domains.of(to) {
                    Some((domain, ActorKind::Component)) => {
                        self.components.presence_for_component(&mut self.cx, domain, *news, from, to, xml);
                    }
                    // A room has no contacts: it is entered by directed presence (XEP-0045 7.2).
                    Some((_, ActorKind::Rooms)) => self.presence_at_rooms(*news, from, to, xml),
                    None | Some((_, ActorKind::Users | ActorKind::Service(_))) => {
                        self.contacts.presence_letter(&mut self.cx, &mut self.actors, *news, from, to, xml);
                    }
                }
            }
            UserLetter::Event { node, from, subscribers, contacts, number, xml } => {
                let (node, from, xml) = (batch.str(*node), batch.str(*from), batch.bytes(*xml));
                self.event(node, from, batch.str(*subscribers), true, (*number, xml));
                self.event(node, from, batch.str(*contacts), false, (0, xml));
            }
            UserLetter::AskLast { session, to, of, nodes, page } => {
                let (to, of, nodes) = (batch.str(*to), batch.str(*of), batch.str(*nodes));
                self.contacts.last_asked(&mut self.cx, batch.from, page.then_some(*session), to, of, nodes);
            }
            UserLetter::Charge { session, user, work } => {
                self.actors.charge(&mut self.cx, batch.str(*user), *session, *work)
            }
            UserLetter::Looked { session, work } => {
                self.contacts.looked(&mut self.cx, &mut self.actors, batch.from, *session, *work)
            }
        }
    }

    fn node_letter(&mut self, batch: &Letters, letter: &NodeLetter) {
        match letter {
            NodeLetter::ServiceAnswered { id, from, outcome } => {
                self.service_answered(batch.str(*id), batch.str(*from), *outcome);
            }
            NodeLetter::Belongs { to, node, own, row } => {
                self.belongs_to(batch.str(*to), batch.str(*node), *own, batch.bytes(*row));
            }
            NodeLetter::Missed { node, number, users } => {
                self.missed(batch.str(*node), *number, batch.str(*users));
            }
            NodeLetter::CatchUp { node, user } => self.catch_up(batch.str(*node), batch.str(*user)),
            NodeLetter::CaughtUp { node, from, user, page } => {
                let (node, from, user) = (batch.str(*node), batch.str(*from), batch.str(*user));
                self.contacts.caught_up(&mut self.cx, &mut self.actors, node, from, user, batch.bytes(*page));
            }
            NodeLetter::Forget { node, user } => self.forget(batch.str(*node), batch.str(*user)),
        }
    }

    fn channel_letter(&mut self, batch: &Letters, letter: &ChannelLetter) {
        match letter {
            ChannelLetter::Publish {
                conn,
                number,
                node,
                from,
                kind,
                key,
                keys,
                body,
                makes,
                granted,
                batch: lines,
            } => {
                let front = Front { conn: *conn, number: *number };
                let names = (batch.str(*kind), batch.str(*key), batch.str(*keys));
                let by = By { from: batch.str(*from), makes: *makes, granted: *granted };
                let body = (batch.bytes(*body), *lines);
                self.channel_publish(front, batch.str(*node), by, names, body);
            }
            ChannelLetter::Read { conn, number, node, after, watchers, share } => {
                let (node, by) = (batch.str(*node), (*watchers, *share));
                match FeedName::read(node) {
                    Some(feed) => self.feed_read(*conn, *number, (node, feed), *after, by),
                    None => self.channel_read(*conn, *number, node, *after, by),
                }
            }
            ChannelLetter::History { conn, number, node, after, before, items } => {
                self.channel_history(*conn, *number, batch.str(*node), (*after, *before), *items);
            }
            ChannelLetter::Answer { conn, number, refused, body } => {
                self.channels.channel_answered(
                    &mut self.cx,
                    *conn,
                    *number,
                    refused.as_deref().copied(),
                    batch.bytes(*body),
                );
            }
            ChannelLetter::News { node, number, key, item } => {
                let item = (batch.str(*key), batch.bytes(*item));
                self.channels.channel_news(&mut self.cx, batch.from, batch.str(*node), *number, item);
            }
            ChannelLetter::Watch { node, heard, watchers } => {
                self.channels.watches_still(&mut self.cx, batch.from, batch.str(*node), *heard, *watchers);
            }
            ChannelLetter::Stay { node } => self.channels.stay_for(&mut self.cx, batch.from, batch.str(*node)),
            ChannelLetter::Charge { address, told } => self.channels.channel_charged(&mut self.cx, *address, *told),
            ChannelLetter::Present { node, subscribers, names, whole, more, listens } => {
                let said = Said { subscribers: *subscribers, names: batch.bytes(*names), more: *more };
                self.channels.channel_present(&mut self.cx, batch.from, batch.str(*node), said, *whole, *listens);
            }
            ChannelLetter::Occupied { node, subscribers, names, more } => {
                let said = Said { subscribers: *subscribers, names: batch.bytes(*names), more: *more };
                self.channels.channel_occupied(batch.str(*node), said);
            }
            ChannelLetter::Count { conn, number, node } => {
                self.channels.channel_count(&mut self.cx, *conn, *number, batch.str(*node))
            }
            ChannelLetter::Register { conn, number, node, from, id, row, makes } => {
                let by = (Front { conn: *conn, number: *number }, batch.str(*from));
                self.channel_register(by, batch.str(*node), *id, batch.bytes(*row), *makes);
            }
            ChannelLetter::Unregister { conn, number, node, from, id } => {
                let by = (Front { conn: *conn, number: *number }, batch.str(*from));
                self.channel_unregister(Some(by), batch.str(*node), vec![Removal { id: *id, over: None }]);
            }
            ChannelLetter::Listens { node, id, listens } => {
                let now_s = self.cx.kernel.now.mono_s();
                self.channels.web_pushes.listens(batch.str(*node), *id, batch.from, listens.then_some(now_s));
            }
            ChannelLetter::Info { conn, number, node, from, granted, deletes } => {
                let front = Front { conn: *conn, number: *number };
                let by = By { from: batch.str(*from), makes: false, granted: *granted };
                self.channel_info(front, batch.str(*node), by, *deletes);
            }
            ChannelLetter::Gone { node, behind } => self.channels.channel_gone(&mut self.cx, batch.str(*node), *behind),
        }
    }

    fn login_letter(&mut self, batch: &Letters, letter: &LoginLetter) {
        match letter {
            LoginLetter::Ask { conn, account, question } => {
                self.accounts.asked(&mut self.cx, &mut self.actors, *conn, batch.str(*account).into(), question.clone())
            }
            LoginLetter::Filed { token } => self.filed(*token),
            LoginLetter::Answer { conn, answer } => self.answered(*conn, answer.clone()),
            LoginLetter::Failed { peer } => {
                let now_ms = self.cx.kernel.now.mono_ms;
                self.accounts.failed_logins.charge(now_ms, *peer)
            }
            LoginLetter::Spared { account, peer, seen } => {
                let account = batch.str(*account);
                let now_ms = self.cx.kernel.now.mono_ms;
                self.accounts.logins.succeeded(now_ms, *peer, account);
                if let Some(seen) = seen {
                    self.accounts.plain_cache.remember(account, **seen);
                }
            }
            LoginLetter::KeysGained { account, gained } => self.accounts.keys_gained(
                &mut self.cx,
                &mut self.actors,
                batch.str(*account),
                Gained::clone(gained),
                None,
            ),
        }
    }

    fn bosh_letter(&mut self, letter: &BoshLetter) {
        match letter {
            BoshLetter::Asked(asked) => self.bosh_asked(asked.clone()),
            BoshLetter::Answer { conn, number, reply } => self.cx.bosh_answered(*conn, *number, Reply::clone(reply)),
            BoshLetter::Left { key, place, hurries } => self.cx.bosh_leaves(*key, *place, *hurries),
            BoshLetter::Moves(handover) => self.bosh_arrives(handover),
        }
    }
}
