//! Tests of slot requests.

use super::*;
use crate::id::Now;

const NOW_S: u64 = 1_700_000_000;
const OWNER: &str = "romeo@montague.lit";

fn facts() -> ServerFacts {
    let upload = Upload {
        key: [7; 32],
        url: "https://montague.lit:5281/".into(),
        file_bytes_max: 20_000,
        slot_s: 300,
        slots_max: 2,
        day_bytes: 100_000,
        day_files: 100,
        keep_s: 86_400,
    };
    ServerFacts { upload: Some(Arc::new(upload)), ..ServerFacts::default() }
}

/// The answer to a request whose payload has these attributes and children; `row` is the user's
/// usage.
fn ask(rest: &str, row: &mut Option<Box<[u8]>>) -> Result<String, Refusal> {
    let (facts, payload) = (facts(), format!("<request xmlns='{NS}' {rest}"));
    let context = Context {
        now: Now::new(0, NOW_S * 1_000_000),
        server: &facts,
        domains: &crate::id::Domains::of_users("montague.lit").into(),
        ids: crate::store::ids::Ids::PLAIN,
        authorized: false,
        admin: false,
        fresh: "",
        inviter: false,
        invitations: crate::extension::invite::may::Invitations::Off,
        invitation_s: 1,
        adhoc: &Default::default(),
        motd: "",
        welcome: "",
        groups: &[],
        online: true,
        secure: true,
        room: 0,
        note: None,
        bare: |_| None,
        jid: |_| None,
        local: |_| None,
    };
    let request = IqRequest {
        set: false,
        target: Target::Service(Service::Upload),
        from: "romeo@montague.lit/garden",
        to: "upload.montague.lit",
        account: OWNER,
        namespace: NS,
        name: "request",
        payload: payload.as_bytes(),
    };
    let step = match super::request(&context, &request) {
        Step::InTurn(queries, pending) => {
            assert_eq!(queries.len(), 2);
            pending.go_on(&context.around(), &[Found::Value(Some(vec![2; 143].into())), Found::Value(row.clone())])
        }
        step => step,
    };
    match step {
        Step::Write(batch, answer) => {
            assert_eq!(batch.len(), 1);
            let mut used = row.as_deref().and_then(Used::decode).unwrap_or_default();
            let size = rest.split("size='").nth(1).and_then(|size| size.split('\'').next()).expect("a size");
            used.charge(facts.upload.as_ref().expect("there is one"), NOW_S * 1_000_000, size.parse().expect("digits"))
                .expect("it was given");
            *row = Some(used.encode().into());
            Ok(String::from_utf8(answer).expect("text"))
        }
        Step::Error(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).expect(from).0
}

fn slot_of(answer: &str) -> Slot {
    let (token, url) = (between(answer, "Bearer ", "<"), between(answer, "<get url='", "'"));
    let mut parts = url.strip_prefix("https://montague.lit:5281/").expect("the base").split('/');
    let (id, name) = (parts.next().expect("an id"), parts.next().expect("a name"));
    Slot::read(&[7; 32], id, &slot::decode_segment(name).expect("a name"), token, NOW_S).expect("a good token")
}

#[test]
fn a_slot_is_two_urls_and_a_header_xep0363_4() {
    let answer = ask("filename='très cool.jpg' size='1234' content-type='image/jpeg'/>", &mut None).expect("a slot");
    let slot = slot_of(&answer);
    assert_eq!((&*slot.name, slot.size, &*slot.owner), ("très cool.jpg", 1_234, OWNER));
    assert_eq!(slot.content_type.as_deref(), Some("image/jpeg"));
    assert_eq!((slot.until_s, slot.expires_s), (NOW_S + 300, NOW_S + 86_400));
    assert_eq!(between(&answer, "<put url='", "'"), between(&answer, "<get url='", "'"));
    assert!(answer.contains("tr%C3%A8s%20cool.jpg") && answer.contains("<header name='Authorization'>Bearer "));
}

#[test]
fn what_is_no_request_is_refused_xep0363_4() {
    let long = format!("filename='a' size='1' content-type='a/{}'/>", "b".repeat(200));
    for bad in [
        "filename='a'/>",
        "size='1'/>",
        "filename='' size='1'/>",
        "filename='a' size='0'/>",
        "filename='a' size='-1'/>",
        "filename='a' size='1e3'/>",
        "filename='a' size='99999999999999999999999'/>",
        "filename='a' size='1' content-type='nonsense'/>",
        "filename='a' size='1' content-type='a/b&#10;Set-Cookie: c'/>",
        &long,
        "filename='a' size='1'><ephemeral xmlns='urn:xmpp:http:upload:purpose:0'/></request>",
        "filename='a' size='1'><ephemeral xmlns='urn:xmpp:http:upload:purpose:0' expire-before='soon'/></request>",
        "filename='a' size='1'><message xmlns='urn:xmpp:http:upload:purpose:0'/><message xmlns='urn:xmpp:http:upload:purpose:0'/></request>",
    ] {
        assert_eq!(ask(bad, &mut None).map_err(|refusal| refusal.condition), Err(Condition::BadRequest), "{bad}");
    }
}

#[test]
fn a_file_that_is_too_large_is_told_the_bound_xep0363_6() {
    assert!(ask("filename='a' size='20000'/>", &mut None).is_ok());
    let refusal = ask("filename='a' size='20001'/>", &mut None).expect_err("too large");
    let app = refusal.app.expect("an own condition");
    assert_eq!(
        (refusal.condition, app.name, app.kind),
        (Condition::NotAcceptable, "file-too-large", ErrorType::Modify)
    );
    assert_eq!(app.detail, Detail::MaxFileSize(20_000));
}

#[test]
fn slots_of_one_user_are_bounded_and_the_time_is_told_xep0363_6() {
    let mut row = None;
    let ask = |row: &mut Option<Box<[u8]>>| ask("filename='a.txt' size='1'/>", row);
    let (first, second) = (ask(&mut row).expect("one"), ask(&mut row).expect("two"));
    assert_ne!(slot_of(&first).id, slot_of(&second).id);
    let refusal = ask(&mut row).expect_err("one too many");
    let app = refusal.app.expect("an own condition");
    assert_eq!((refusal.condition, app.name, app.kind), (Condition::ResourceConstraint, "retry", ErrorType::Wait));
    assert_eq!(app.detail, Detail::Stamp(*b"2023-11-14T22:18:21Z"), "when the first one cannot be used any more");
    assert!(refusal.text().is_some_and(|text| text.contains("301 seconds")));
}

#[test]
fn purposes_bound_how_long_a_file_is_kept_xep0363_5_3() {
    let purpose = |inside: &str| {
        ask(
            &format!(
                "filename='a' size='1'>{}</request>",
                inside.replace("/>", " xmlns='urn:xmpp:http:upload:purpose:0'/>")
            ),
            &mut None,
        )
    };
    let expires = |inside: &str| purpose(inside).map(|answer| slot_of(&answer).expires_s - NOW_S);
    assert_eq!(expires("<message/>"), Ok(86_400));
    assert_eq!(expires("<ephemeral expire-before='2023-11-14T22:14:20Z'/>"), Ok(60));
    assert_eq!(expires("<ephemeral expire-before='2033-11-14T22:14:20Z'/>"), Ok(86_400), "no later than others");
    let refused = |inside: &str| purpose(inside).map_err(|refusal| refusal.condition);
    assert_eq!(refused("<ephemeral expire-before='2023-11-14T22:13:20Z'/>"), Err(Condition::NotAcceptable));
    assert_eq!(refused("<profile/>"), Err(Condition::FeatureNotImplemented));
    assert_eq!(refused("<permanent/>"), Err(Condition::FeatureNotImplemented));
}

#[test]
fn nobody_gets_a_slot_without_an_account_or_with_a_row_that_cannot_be_read() {
    let facts = facts();
    let upload = facts.upload.expect("there is one");
    let wanted = || read(format!("<request xmlns='{NS}' filename='a' size='1'/>").as_bytes()).expect("a request");
    let given = |found: &[Found]| match give(&upload, OWNER, &wanted(), (NOW_S * 1_000_000, "f"), found) {
        Step::Error(refusal) => refusal.condition,
        other => panic!("{other:?}"),
    };
    let account = Found::Value(Some(vec![2; 143].into()));
    assert_eq!(given(&[Found::Value(None), Found::Value(None)]), Condition::Forbidden);
    assert_eq!(given(&[Found::Damaged, Found::Value(None)]), Condition::InternalServerError);
    assert_eq!(given(&[account.clone(), Found::Damaged]), Condition::InternalServerError);
    assert_eq!(given(&[account, Found::Value(Some(vec![9].into()))]), Condition::InternalServerError);
}
