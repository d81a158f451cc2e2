//! Requests to nodes over rows in memory, one case per clause.

use std::collections::BTreeMap;

use super::*;
use crate::extension::{Condition, Refusal, ServerFacts};
use crate::id::Now;
use crate::limits::{NODE_BYTES_MAX, NODE_ITEM_BYTES_MAX, NODE_ITEMS_MAX, NODES_MAX};
use crate::store::{OpView, Row};

const OWNER_JID: &str = "juliet@capulet.lit/balcony";
const ACTOR: &str = "juliet@capulet.lit";
const FRIEND: &str = "nurse@capulet.lit/chamber";
const STRANGER: &str = "tybalt@capulet.lit/sword";

/// Rows of one actor, and the notifications to its subscribers.
#[derive(Default)]
struct World {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    events: Vec<Event>,
    groups: Vec<Box<str>>,
    turn: u64,
    later_us: u64,
    /// Whether the clock is in doubt.
    doubted: bool,
}

impl World {
    fn ask(&mut self, from: &str, set: bool, payload: &str) -> Result<String, Refusal> {
        let element = xml::parse(payload.as_bytes()).expect("a well-formed payload");
        self.turn += 1;
        let then_us = 1_700_000_000_000_000 + self.turn;
        let later = Now::new(self.turn, then_us + self.later_us);
        let context = Context {
            now: if self.doubted { Now { expiry_us: then_us, ..later } } else { later },
            server: &ServerFacts::default(),
            domains: &crate::id::Domains::of_users("x").into(),
            ids: crate::store::ids::Ids::PLAIN,
            authorized: from != STRANGER,
            groups: if from == FRIEND { &self.groups } else { &[] },
            online: true,
            secure: true,
            admin: false,
            fresh: "",
            inviter: false,
            invitations: crate::extension::invite::may::Invitations::Off,
            invitation_s: 1,
            adhoc: &Default::default(),
            motd: "",
            welcome: "",
            room: usize::MAX,
            note: None,
            jid: |text| Some(text.into()),
            bare: |text| (!text.contains('/')).then(|| text.into()),
            local: |_| None,
        };
        let request = IqRequest {
            set,
            target: if from == OWNER_JID { Target::Own } else { Target::Other },
            from,
            to: ACTOR,
            account: ACTOR,
            namespace: &element.ns(),
            name: element.name(),
            payload: payload.as_bytes(),
        };
        let mut step = crate::extension::handle(&context, None, &request).1;
        loop {
            step = match step {
                Step::Read(queries, pending) | Step::InTurn(queries, pending) => {
                    let found: Vec<_> = queries.iter().map(|query| self.found(query)).collect();
                    pending.go_on(&context.around(), &found)
                }
                Step::Result(answer) => return Ok(String::from_utf8(answer).unwrap()),
                Step::Error(refusal) => return Err(refusal),
                Step::Write(batch, answer) => {
                    self.apply(&batch);
                    return Ok(String::from_utf8(answer).unwrap());
                }
                Step::Change(changes, answer) => {
                    for change in changes {
                        match change {
                            Change::Write(batch) => self.apply(&batch),
                            Change::Event(event) => self.events.push(*event),
                            other => panic!("{other:?}"),
                        }
                    }
                    return Ok(String::from_utf8(answer).unwrap());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn found(&self, query: &Query) -> Found {
        match query {
            Query::Get { sort, .. } => Found::Value(self.rows.get(&**sort).map(|row| row.as_slice().into())),
            Query::Range { from, until, reverse, rows_max, bytes_max, .. } => {
                let until = until.as_ref().expect("a range of the table ends");
                let mut all: Vec<Row> = self
                    .rows
                    .range(from.to_vec()..until.to_vec())
                    .map(|(sort, value)| Row { sort: sort.as_slice().into(), value: value.as_slice().into() })
                    .collect();
                if *reverse {
                    all.reverse();
                }
                let (mut bytes, mut rows) = (0, Vec::new());
                let count = all.len();
                for row in all {
                    if rows.len() as u32 == *rows_max || bytes >= *bytes_max as usize {
                        break;
                    }
                    bytes += row.value.len();
                    rows.push(row);
                }
                Found::Rows { more: rows.len() < count, rows }
            }
        }
    }

    fn apply(&mut self, batch: &Batch) {
        for op in batch.iter() {
            assert_eq!(op.actor(), ACTOR.as_bytes());
            match op {
                OpView::Put { sort, value, .. } => drop(self.rows.insert(sort.to_vec(), value.to_vec())),
                OpView::Delete { sort, .. } => drop(self.rows.remove(sort)),
                OpView::DeleteRange { from, until, .. } => {
                    self.rows.retain(|sort, _| !(from..until).contains(&&**sort))
                }
                OpView::DeleteActor { .. } => self.rows.clear(),
            }
        }
        self.check();
    }

    /// Checks that the directory matches the rows.
    fn check(&self) {
        let directory = self.directory();
        for node in directory.nodes() {
            let found = self.found(&rows::items(ACTOR, &node.name, rows::Span::all(u32::MAX, u32::MAX)));
            let Found::Rows { rows: items, .. } = found else { panic!("rows") };
            let bytes: u64 = items.iter().map(|row| u64::from(rows::Item::decode(&row.value).unwrap().bytes())).sum();
            assert_eq!((items.len() as u32, bytes), (node.items, node.bytes), "{}", node.name);
            for row in items {
                let item = rows::Item::decode(&row.value).unwrap();
                let place = row_of(&self.found(&rows::place(ACTOR, &node.name, item.id)));
                assert_eq!(rows::Place::decode(&place).unwrap().number, rows::number_of(&row.sort).unwrap());
            }
        }
        let items = directory.nodes().iter().map(|node| node.items as usize).sum::<usize>();
        let places = self.rows.keys().filter(|sort| sort[0] == 3).count();
        assert_eq!((self.rows.keys().filter(|sort| sort[0] == 2).count(), places), (items, items));
    }

    fn directory(&self) -> Directory {
        Directory::decode(self.rows.get(&[0][..]).map(Vec::as_slice)).expect("a directory")
    }

    fn set(&mut self, inside: &str) -> Result<String, Refusal> {
        self.ask(OWNER_JID, true, &format!("<pubsub xmlns='{NS}'>{inside}</pubsub>"))
    }

    fn get(&mut self, from: &str, inside: &str) -> Result<String, Refusal> {
        self.ask(from, false, &format!("<pubsub xmlns='{NS}'>{inside}</pubsub>"))
    }

    fn own(&mut self, set: bool, inside: &str) -> Result<String, Refusal> {
        self.ask(OWNER_JID, set, &format!("<pubsub xmlns='{NS_OWNER}'>{inside}</pubsub>"))
    }

    fn publish(&mut self, node: &str, id: &str, text: &str) {
        let item = format!("<publish node='{node}'><item id='{id}'><x xmlns='y'>{text}</x></item></publish>");
        self.set(&item).expect("published");
    }

    fn create(&mut self, node: &str, fields: &[(&str, &str)]) -> Result<String, Refusal> {
        self.set(&format!("<create node='{node}'/><configure>{}</configure>", form("node_config", fields)))
    }

    fn told(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| String::from_utf8(event.message).unwrap()).collect()
    }
}

fn row_of(found: &Found) -> Vec<u8> {
    row(found).flatten().expect("a row").to_vec()
}

fn form(kind: &str, fields: &[(&str, &str)]) -> String {
    let mut out = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/protocol/pubsub#{kind}</value></field>"
    );
    for (var, value) in fields {
        out.push_str(&format!("<field var='pubsub#{var}'><value>{value}</value></field>"));
    }
    out + "</x>"
}

fn ids(answer: &str) -> Vec<String> {
    answer.split("<item id='").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()).collect()
}

fn app(result: Result<String, Refusal>) -> (Condition, Option<&'static str>) {
    let refusal = result.expect_err("refused");
    (refusal.condition, refusal.app.map(|app| app.name))
}

#[test]
fn a_publication_makes_its_node_and_tells_of_it_xep_0163_3() {
    let mut world = World::default();
    let tune = "<tune xmlns='http://jabber.org/protocol/tune'><artist>Gerald Finzi</artist></tune>";
    let publish = format!("<publish node='http://jabber.org/protocol/tune'><item>{tune}</item></publish>");
    let answer = world.set(&publish).unwrap();
    assert_eq!(ids(&answer), ["current"], "XEP-0060 12.20: the one item of a node with one");
    let told = world.told();
    assert_eq!(
        told,
        [format!(
            "<message type='headline'><event xmlns='http://jabber.org/protocol/pubsub#event'>\
             <items node='http://jabber.org/protocol/tune'><item id='current'>{tune}</item></items></event></message>"
        )]
    );
    // Again with another id: a node of one item has the last one.
    world.publish("http://jabber.org/protocol/tune", "2", "");
    let all = world.get(OWNER_JID, "<items node='http://jabber.org/protocol/tune'/>").unwrap();
    assert_eq!(ids(&all), ["2"]);
}

#[test]
fn what_is_no_publication_is_refused_xep_0060_7_1_3() {
    use Condition::*;
    let mut world = World::default();
    let item = "<item id='1'><x xmlns='y'/></item>";
    let too_big = format!("<item><x xmlns='y'>{}</x></item>", "x".repeat(NODE_ITEM_BYTES_MAX));
    world.create("transient", &[("persist_items", "0"), ("deliver_payloads", "0")]).unwrap();
    for (inside, condition, name) in [
        (format!("<publish>{item}</publish>"), BadRequest, Some("nodeid-required")),
        ("<publish node='n'/>".into(), BadRequest, Some("item-required")),
        ("<publish node='n'><item id='1'/></publish>".into(), BadRequest, Some("payload-required")),
        (
            "<publish node='n'><item><x xmlns='y'/><x xmlns='y'/></item></publish>".into(),
            BadRequest,
            Some("invalid-payload"),
        ),
        (format!("<publish node='n'>{too_big}</publish>"), NotAcceptable, Some("payload-too-big")),
        (format!("<publish node='n'>{item}{item}</publish>"), NotAllowed, Some("max-items-exceeded")),
        (format!("<publish node='transient'>{item}</publish>"), BadRequest, Some("item-forbidden")),
        (format!("<publish node='{}'>{item}</publish>", "n".repeat(2_000)), NotAcceptable, None),
        ("<unheard-of/>".into(), BadRequest, None),
    ] {
        assert_eq!(app(world.set(&inside)), (condition, name), "{}", &inside[..inside.len().min(80)]);
    }
    assert!(world.set("<publish node='transient'/>").is_ok(), "XEP-0060 4.3: a transient notification");
    assert_eq!(world.told().len(), 1);
    let others = format!("<pubsub xmlns='{NS}'><publish node='n'>{item}</publish></pubsub>");
    assert_eq!(app(world.ask(FRIEND, true, &others)), (Forbidden, None));
    assert_eq!(app(world.ask(STRANGER, true, &others)), (ServiceUnavailable, None));
}

#[test]
fn options_of_a_publication_are_preconditions_xep_0060_7_1_5() {
    let mut world = World::default();
    let options =
        |access| format!("<publish-options>{}</publish-options>", form("publish-options", &[("access_model", access)]));
    let publish = "<publish node='n'><item><x xmlns='y'/></item></publish>";
    world.set(&(publish.to_owned() + &options("whitelist"))).unwrap();
    assert_eq!(world.directory().get("n").unwrap().config.access, node::Access::Whitelist);
    world.set(&(publish.to_owned() + &options("whitelist"))).unwrap();
    let refused = app(world.set(&(publish.to_owned() + &options("open"))));
    assert_eq!(refused, (Condition::Conflict, Some("precondition-not-met")));
    let unsupported = app(world.set(&(publish.replace("'n'", "'m'") + &options("secret"))));
    assert_eq!(unsupported, (Condition::NotAcceptable, Some("unsupported-access-model")));
    assert!(world.directory().get("m").is_none(), "nothing is made");
}

#[test]
fn items_come_in_the_order_of_publication_xep_0060_6_5() {
    let mut world = World::default();
    world.create("n", &[("max_items", "max")]).unwrap();
    for n in 0..5 {
        world.publish("n", &format!("id{n}"), "");
    }
    world.publish("n", "id1", "again");
    let get = |world: &mut World, items: &str, set: &str| {
        let set = if set.is_empty() {
            String::new()
        } else {
            format!("<set xmlns='http://jabber.org/protocol/rsm'>{set}</set>")
        };
        world.get(FRIEND, &format!("{items}{set}"))
    };
    let all = get(&mut world, "<items node='n'/>", "").unwrap();
    assert_eq!(ids(&all), ["id0", "id2", "id3", "id4", "id1"], "7.1.3: published again is published last");
    assert!(!all.contains("rsm"), "nothing was left out");
    assert_eq!(ids(&get(&mut world, "<items node='n' max_items='2'/>", "").unwrap()), ["id4", "id1"]);
    let some = get(&mut world, "<items node='n'><item id='id3'/><item id='no'/><item id='id0'/></items>", "");
    assert_eq!(ids(&some.unwrap()), ["id3", "id0"]);
    // XEP-0059 2.2 to 2.7.
    let first = get(&mut world, "<items node='n'/>", "<max>2</max>").unwrap();
    assert_eq!(ids(&first), ["id0", "id2"]);
    assert!(first.contains("<first index='0'>id0</first><last>id2</last><count>5</count>"), "{first}");
    assert_eq!(ids(&get(&mut world, "<items node='n'/>", "<max>2</max><after>id2</after>").unwrap()), ["id3", "id4"]);
    assert_eq!(ids(&get(&mut world, "<items node='n'/>", "<max>2</max><before>id3</before>").unwrap()), ["id0", "id2"]);
    let last = get(&mut world, "<items node='n'/>", "<max>2</max><before/>").unwrap();
    assert_eq!(ids(&last), ["id4", "id1"]);
    assert!(last.contains("<first index='3'>"), "{last}");
    let count = get(&mut world, "<items node='n'/>", "<max>0</max>").unwrap();
    assert!(ids(&count).is_empty() && count.contains("<count>5</count>"), "{count}");
    use Condition::*;
    assert_eq!(app(get(&mut world, "<items node='n'/>", "<after>no</after>")), (ItemNotFound, None));
    assert_eq!(app(get(&mut world, "<items node='n'><item id='no'/></items>", "")), (ItemNotFound, None));
    assert_eq!(app(get(&mut world, "<items/>", "")), (BadRequest, Some("nodeid-required")));
    assert_eq!(app(get(&mut world, "<items node='n' max_items='x'/>", "")), (BadRequest, None));
}

#[test]
fn who_may_not_see_a_node_is_told_by_the_text_and_strangers_nothing_xep_0060_6_5_9() {
    use Condition::*;
    let mut world = World::default();
    for (node, access) in [("open", "open"), ("presence", "presence"), ("closed", "whitelist"), ("group", "roster")] {
        world.create(node, &[("access_model", access), ("roster_groups_allowed", "Friends")]).unwrap();
        world.publish(node, "1", "");
    }
    let items = |node: &str| format!("<items node='{node}'/>");
    assert!(world.get(STRANGER, &items("open")).is_ok() && world.get(FRIEND, &items("presence")).is_ok());
    assert_eq!(app(world.get(FRIEND, &items("closed"))), (NotAllowed, Some("closed-node")));
    assert_eq!(app(world.get(FRIEND, &items("group"))), (NotAuthorized, Some("not-in-roster-group")));
    assert_eq!(app(world.get(FRIEND, &items("none"))), (ItemNotFound, None));
    // Nothing distinguishes an existing node from a missing one, nor an account from a missing one
    // (RFC 6121 8.5.1).
    for node in ["presence", "closed", "group", "none"] {
        assert_eq!(app(world.get(STRANGER, &items(node))), (ServiceUnavailable, None), "{node}");
        let subscribe = format!("<pubsub xmlns='{NS}'><subscribe node='{node}' jid='{STRANGER}'/></pubsub>");
        assert_eq!(app(world.ask(STRANGER, true, &subscribe)), (ServiceUnavailable, None), "{node}");
        let info = format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/>");
        assert_eq!(app(world.ask(STRANGER, false, &info)), (ServiceUnavailable, None), "{node}");
        // XEP-0030 8.
        let list = format!("<query xmlns='http://jabber.org/protocol/disco#items' node='{node}'/>");
        let none = list.replace("/>", "></query>");
        assert_eq!(world.ask(STRANGER, false, &list).unwrap(), none);
        let purge = format!("<pubsub xmlns='{NS_OWNER}'><purge node='{node}'/></pubsub>");
        assert_eq!(app(world.ask(STRANGER, true, &purge)), (ServiceUnavailable, None), "{node}");
        assert_eq!(app(world.ask(FRIEND, true, &purge)), (Forbidden, None), "{node}");
    }
    world.groups = vec!["Friends".into()];
    assert!(world.get(FRIEND, &items("group")).is_ok());
    let member =
        "<affiliations node='closed'><affiliation jid='nurse@capulet.lit' affiliation='member'/></affiliations>";
    world.own(true, member).unwrap();
    assert!(world.get(FRIEND, &items("closed")).is_ok(), "on the whitelist");
    let outcast =
        "<affiliations node='open'><affiliation jid='tybalt@capulet.lit' affiliation='outcast'/></affiliations>";
    world.own(true, outcast).unwrap();
    assert_eq!(app(world.get(STRANGER, &items("open"))), (ServiceUnavailable, None), "an outcast");
}

#[test]
fn nodes_are_discovered_by_those_who_may_see_them_xep_0060_5_2() {
    const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let mut world = World::default();
    let none = "<query xmlns='http://jabber.org/protocol/disco#items'></query>";
    assert_eq!(world.ask(STRANGER, false, ITEMS).unwrap(), none);
    world.create("open", &[("access_model", "open"), ("title", "Open")]).unwrap();
    world.create("presence", &[]).unwrap();
    world.create("closed", &[("access_model", "whitelist")]).unwrap();
    let nodes = |answer: String| -> Vec<String> {
        answer.split(" node='").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()).collect()
    };
    assert_eq!(nodes(world.ask(OWNER_JID, false, ITEMS).unwrap()), ["closed", "open", "presence"]);
    assert_eq!(nodes(world.ask(FRIEND, false, ITEMS).unwrap()), ["open", "presence"]);
    assert_eq!(nodes(world.ask(STRANGER, false, ITEMS).unwrap()), ["open"]);
    world.publish("presence", "a", "");
    let items = "<query xmlns='http://jabber.org/protocol/disco#items' node='presence'/>";
    assert!(world.ask(FRIEND, false, items).unwrap().contains("<item jid='juliet@capulet.lit' name='a'/>"));
    let info = "<query xmlns='http://jabber.org/protocol/disco#info' node='open'/>";
    let info = world.ask(FRIEND, false, info).unwrap();
    assert!(info.contains("category='pubsub' type='leaf'") && info.contains("<value>Open</value>"), "{info}");
    let account = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let account = world.ask(OWNER_JID, false, account).unwrap();
    assert!(account.contains("<identity category='pubsub' type='pep'/>"), "XEP-0163 6.1: {account}");
    assert!(account.contains("'http://jabber.org/protocol/pubsub#publish-options'"));
}

#[test]
fn items_and_nodes_are_removed_xep_0060_7_2_8_4_8_5() {
    use Condition::*;
    let mut world = World::default();
    world.create("n", &[("max_items", "3"), ("notify_retract", "0")]).unwrap();
    assert_eq!(app(world.create("n", &[])), (Conflict, None));
    assert_eq!(app(world.set("<create/>")), (NotAcceptable, Some("nodeid-required")));
    for id in ["a", "b", "c", "d"] {
        world.publish("n", id, "");
    }
    world.told();
    let retract = |id: &str, more: &str| format!("<retract node='n'{more}><item id='{id}'/></retract>");
    assert_eq!(app(world.set(&retract("a", ""))), (ItemNotFound, None), "it has given way to a later one");
    world.set(&retract("b", "")).unwrap();
    assert!(world.told().is_empty(), "the node tells of it only if that is asked for");
    world.set(&retract("c", " notify='true'")).unwrap();
    assert!(world.told()[0].contains("<items node='n'><retract id='c'/></items>"));
    assert_eq!(app(world.set("<retract><item id='c'/></retract>")), (BadRequest, Some("nodeid-required")));
    assert_eq!(app(world.set("<retract node='n'><item/></retract>")), (BadRequest, Some("item-required")));
    assert_eq!(app(world.set("<retract node='m'><item id='c'/></retract>")), (ItemNotFound, None));
    world.own(true, "<purge node='n'/>").unwrap();
    assert_eq!(world.directory().get("n").unwrap().items, 0);
    world.publish("n", "e", "");
    world.told();
    world.own(true, "<delete node='n'><redirect uri='xmpp:x@y?;node=z'/></delete>").unwrap();
    assert!(world.told()[0].contains("<delete node='n'><redirect uri='xmpp:x@y?;node=z'/></delete>"));
    assert_eq!(app(world.own(true, "<delete node='n'/>")), (ItemNotFound, None));
    assert_eq!(app(world.own(true, "<purge node='n'/>")), (ItemNotFound, None));
    assert_eq!(world.rows.len(), 1, "of a node that is gone nothing is left but the count of publications");
}

#[test]
fn a_node_is_configured_xep_0060_8_2() {
    let mut world = World::default();
    world.create("n", &[("max_items", "5"), ("notify_config", "1")]).unwrap();
    for n in 0..5 {
        world.publish("n", &n.to_string(), "");
    }
    world.told();
    let answer = world.own(false, "<configure node='n'/>").unwrap();
    assert!(answer.contains(
        "<field var='pubsub#max_items' type='text-single' label='Max. items to store, or max'><value>5</value>"
    ));
    let submit = form("node_config", &[("max_items", "2"), ("access_model", "open")]);
    world.own(true, &format!("<configure node='n'>{submit}</configure>")).unwrap();
    assert_eq!(ids(&world.get(STRANGER, "<items node='n'/>").unwrap()), ["3", "4"], "the oldest go");
    assert!(world.told()[0].contains("<configuration node='n'><x xmlns='jabber:x:data' type='result'>"));
    let cancel = "<configure node='n'><x xmlns='jabber:x:data' type='cancel'/></configure>";
    assert_eq!(world.own(true, cancel), Ok(String::new()));
    let transient = form("node_config", &[("persist_items", "0")]);
    world.own(true, &format!("<configure node='n'>{transient}</configure>")).unwrap();
    assert_eq!(world.directory().get("n").unwrap().items, 0);
    assert!(world.own(false, "<default/>").unwrap().contains("<value>presence</value>"));
    assert_eq!(app(world.own(false, "<configure node='m'/>")), (Condition::ItemNotFound, None));
    assert_eq!(app(world.own(false, "<configure/>")), (Condition::BadRequest, Some("nodeid-required")));
}

#[test]
fn affiliations_and_subscriptions_xep_0060_8_9_6_1() {
    use Condition::*;
    let mut world = World::default();
    world.create("n", &[("access_model", "open")]).unwrap();
    world.publish("n", "1", "");
    world.told();
    let subscribe = |verb: &str, jid: &str| format!("<pubsub xmlns='{NS}'><{verb} node='n' jid='{jid}'/></pubsub>");
    let answer = world.ask(STRANGER, true, &subscribe("subscribe", "tybalt@capulet.lit")).unwrap();
    assert!(answer.contains("<subscription node='n' jid='tybalt@capulet.lit' subscription='subscribed'/>"));
    assert_eq!(world.events.len(), 1, "6.1.7: the last item");
    assert_eq!(world.events[0].to.as_deref(), Some("tybalt@capulet.lit"));
    // One address per user: a new one replaces it.
    world.ask(STRANGER, true, &subscribe("subscribe", STRANGER)).unwrap();
    let own = world.get(STRANGER, "<subscriptions/>").unwrap();
    assert_eq!((own.matches("<subscription ").count(), own.contains(STRANGER)), (1, true), "{own}");
    assert!(!world.get(FRIEND, "<subscriptions/>").unwrap().contains("<subscription "));
    world.told();
    world.publish("n", "2", "");
    assert_eq!(world.events[0].audience.affiliates.subscribers, [STRANGER.into()]);
    assert_eq!(
        app(world.ask(STRANGER, true, &subscribe("subscribe", "nurse@capulet.lit"))),
        (ServiceUnavailable, None)
    );
    assert_eq!(app(world.ask(FRIEND, true, &subscribe("subscribe", STRANGER))), (BadRequest, Some("invalid-jid")));
    assert_eq!(
        app(world.ask(FRIEND, true, &subscribe("unsubscribe", FRIEND))),
        (UnexpectedRequest, Some("not-subscribed"))
    );
    world.ask(STRANGER, true, &subscribe("unsubscribe", STRANGER)).unwrap();
    assert!(!world.directory().get("n").unwrap().listed);
    let change = |jid: &str, affiliation: &str| {
        format!("<affiliations node='n'><affiliation jid='{jid}' affiliation='{affiliation}'/></affiliations>")
    };
    world.own(true, &change("nurse@capulet.lit", "member")).unwrap();
    world.own(true, &change("tybalt@capulet.lit", "outcast")).unwrap();
    let all = world.own(false, "<affiliations node='n'/>").unwrap();
    assert!(
        all.contains("jid='juliet@capulet.lit' affiliation='owner'") && all.contains("affiliation='member'"),
        "{all}"
    );
    world.own(true, &change("nurse@capulet.lit", "none")).unwrap();
    world.own(true, &change("tybalt@capulet.lit", "none")).unwrap();
    assert!(!world.directory().get("n").unwrap().listed, "8.9.3: nobody is left");
    assert_eq!(app(world.own(true, &change(ACTOR, "none"))), (NotAcceptable, None), "8.9.2.4: there is an owner");
    assert_eq!(app(world.own(true, &change("x@y", "owner"))), (NotAcceptable, None));
    assert_eq!(
        app(world.own(true, &change("x@y", "publisher"))),
        (FeatureNotImplemented, Some("unsupported feature='publisher-affiliation'"))
    );
}

#[test]
fn nodes_items_and_bytes_are_bounded() {
    let mut world = World::default();
    for n in 0..NODES_MAX + 10 {
        let made = world.create(&format!("node{n}"), &[]);
        assert_eq!(made.is_ok(), n < NODES_MAX, "{n}: {made:?}");
    }
    let mut world = World::default();
    world.create("n", &[("max_items", "max")]).unwrap();
    for n in 0..NODE_ITEMS_MAX + 10 {
        world.publish("n", &n.to_string(), "");
    }
    assert_eq!(world.directory().get("n").unwrap().items, NODE_ITEMS_MAX);
    let answer = world.get(OWNER_JID, "<items node='n'/>").unwrap();
    assert!(answer.contains(&format!("<count>{NODE_ITEMS_MAX}</count>")), "6.5.4: what was left out is said");
    let mut world = World::default();
    world.create("n", &[("max_items", "max")]).unwrap();
    let large = "x".repeat(NODE_ITEM_BYTES_MAX - 100);
    let most = NODE_BYTES_MAX as usize / large.len() + 1;
    let publish = |n: usize| format!("<publish node='n'><item id='{n}'><x xmlns='y'>{large}</x></item></publish>");
    let all: Vec<_> = (0..most).map(|n| world.set(&publish(n)).is_ok()).collect();
    assert_eq!(all.iter().filter(|ok| !**ok).count(), 1, "the last one is too much");
    assert!(world.set("<retract node='n'><item id='0'/></retract>").is_ok() && world.set(&publish(most)).is_ok());
    let published = world.events.iter().filter(|event| event.message.len() > NODE_ITEM_BYTES_MAX / 2);
    assert!(published.clone().count() > 1);
    published.for_each(|event| assert!(event.brief.is_some(), "many are told only its id"));
}

#[test]
fn items_are_gone_after_their_time_xep_0060_item_expire() {
    let mut world = World::default();
    let hour_us = 3_600 * 1_000_000;
    world.create("n", &[("access_model", "open"), ("max_items", "max"), ("item_expire", "3600")]).unwrap();
    for id in ["1", "2", "3"] {
        world.publish("n", id, "");
    }
    world.later_us = hour_us / 2;
    world.publish("n", "4", "");
    assert_eq!(ids(&world.get(STRANGER, "<items node='n'/>").unwrap()), ["1", "2", "3", "4"]);
    world.later_us = hour_us + 1_000;
    // While the clock is in doubt, no item expires, in any way of retrieval.
    world.doubted = true;
    assert_eq!(ids(&world.get(STRANGER, "<items node='n'/>").unwrap()).len(), 4);
    world.doubted = false;
    // In every way of retrieval (6.5), and for a page from the first on, which begins after the
    // expired ones.
    let set = |inside: &str| format!("<items node='n'/><set xmlns='http://jabber.org/protocol/rsm'>{inside}</set>");
    for asked in [
        "<items node='n'/>".to_owned(),
        "<items node='n' max_items='3'/>".to_owned(),
        "<items node='n'><item id='1'/><item id='4'/></items>".to_owned(),
        set("<max>2</max>"),
        set("<max>2</max><before/>"),
        set("<max>1</max><after>1</after>"),
    ] {
        let answer = world.get(STRANGER, &asked).unwrap();
        assert_eq!(ids(&answer), ["4"], "{asked}");
        assert!(!answer.contains("<count>"), "nobody has counted: {answer}");
    }
    assert_eq!(app(world.get(STRANGER, "<items node='n'><item id='2'/></items>")), (Condition::ItemNotFound, None));
    // Each publication removes one of them until none is left.
    for id in ["5", "6", "7", "8"] {
        world.publish("n", id, "");
    }
    assert_eq!(world.directory().get("n").unwrap().items, 5, "4 to 8");
    // 6.1.7: a new subscriber gets the last live item.
    world.later_us += 2 * hour_us;
    world.told();
    let subscribe = format!("<pubsub xmlns='{NS}'><subscribe node='n' jid='{STRANGER}'/></pubsub>");
    world.ask(STRANGER, true, &subscribe).unwrap();
    assert_eq!(world.events.len(), 0);
    assert!(ids(&world.get(STRANGER, "<items node='n'/>").unwrap()).is_empty());
    // Without a lifetime again, the stored items are visible.
    let submit = form("node_config", &[("item_expire", "max")]);
    world.own(true, &format!("<configure node='n'>{submit}</configure>")).unwrap();
    assert_eq!(ids(&world.get(STRANGER, "<items node='n'/>").unwrap()).len(), 5);
    assert!(world.own(false, "<configure node='n'/>").unwrap().contains("<field var='pubsub#item_expire'"));
}

#[test]
fn an_owner_lists_and_ends_subscriptions_xep_0060_8_8() {
    let mut world = World::default();
    world.ask(OWNER_JID, true, &format!("<pubsub xmlns='{NS}'><create node='n'/></pubsub>")).unwrap();
    let subscribe = format!("<pubsub xmlns='{NS}'><subscribe node='n' jid='{FRIEND}'/></pubsub>");
    world.ask(FRIEND, true, &subscribe).unwrap();
    let list = format!("<pubsub xmlns='{NS_OWNER}'><subscriptions node='n'/></pubsub>");
    let said = world.ask(OWNER_JID, false, &list).unwrap();
    assert!(said.contains(&format!("<subscription jid='{FRIEND}' subscription='subscribed'/>")), "{said}");
    let change = |jid: &str, state: &str| {
        format!(
            "<pubsub xmlns='{NS_OWNER}'><subscriptions node='n'><subscription jid='{jid}' subscription='{state}'/>\
             </subscriptions></pubsub>"
        )
    };
    // A user who has not requested a subscription gets no unwanted items.
    assert_eq!(world.ask(OWNER_JID, true, &change(STRANGER, "subscribed")), Err(error::NOT_ACCEPTABLE));
    world.events.clear();
    world.ask(OWNER_JID, true, &change(FRIEND, "none")).unwrap();
    assert!(!world.ask(OWNER_JID, false, &list).unwrap().contains("<subscription "));
    let told = String::from_utf8(world.events[0].message.clone()).unwrap();
    assert!(
        told.contains("subscription='none'") && world.events[0].to.as_deref() == Some(FRIEND),
        "XEP-0060 8.8.4: {told}"
    );
}
