//! Avatars between old and new clients (XEP-0398), and the hash in presence (XEP-0153).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use throng_engine::id::ConnId;
use throng_engine::limits::VCARD_BYTES_MAX;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

const DATA: &str = "urn:xmpp:avatar:data";
const METADATA: &str = "urn:xmpp:avatar:metadata";
const NS: &str = "http://jabber.org/protocol/pubsub";

/// An image whose first bytes show its type, followed by other bytes.
fn image(begins: &[u8], rest: &str) -> Vec<u8> {
    [begins, rest.as_bytes()].concat()
}

fn png(rest: &str) -> Vec<u8> {
    image(b"\x89PNG\r\n\x1a\n", rest)
}

fn hash(image: &[u8]) -> String {
    Sha1::digest(image).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn options(access: &str) -> String {
    format!(
        "<publish-options><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>{NS}#publish-options</value></field>\
         <field var='pubsub#access_model'><value>{access}</value></field></x></publish-options>"
    )
}

fn publish(node: &str, id: &str, payload: &str, access: &str) -> String {
    let options = if access.is_empty() { String::new() } else { options(access) };
    format!(
        "<iq type='set' id='p'><pubsub xmlns='{NS}'><publish node='{node}'><item id='{id}'>{payload}</item></publish>\
         {options}</pubsub></iq>"
    )
}

fn data(image: &[u8], access: &str) -> String {
    let payload = format!("<data xmlns='{DATA}'>{}</data>", STANDARD.encode(image));
    publish(DATA, &hash(image), &payload, access)
}

fn metadata(image: &[u8]) -> String {
    let (id, bytes) = (hash(image), image.len());
    let url = "<info id='0000000000000000000000000000000000000000' type='image/gif' bytes='1' url='https://a/'/>";
    let payload =
        format!("<metadata xmlns='{METADATA}'>{url}<info id='{id}' type='image/png' bytes='{bytes}'/></metadata>");
    publish(METADATA, &id, &payload, "")
}

fn vcard(photo: Option<(&str, &[u8])>) -> String {
    let photo = photo.map_or(String::new(), |(kind, image)| {
        format!("<PHOTO><TYPE>{kind}</TYPE><BINVAL>\n{}\n</BINVAL></PHOTO>", STANDARD.encode(image))
    });
    format!("<iq type='set' id='v'><vCard xmlns='vcard-temp'><FN>Juliet</FN>{photo}</vCard></iq>")
}

const GET: &str = "<iq type='get' id='g' to='juliet@localhost'><vCard xmlns='vcard-temp'/></iq>";

fn items(node: &str) -> String {
    format!("<iq type='get' id='i' to='juliet@localhost'><pubsub xmlns='{NS}'><items node='{node}'/></pubsub></iq>")
}

fn shows(hash: &str) -> String {
    format!("<x xmlns='vcard-temp:x:update'><photo>{hash}</photo></x>")
}

const SHOWS_NONE: &str = "<x xmlns='vcard-temp:x:update'><photo/></x>";

struct Scene {
    host: Host,
    juliet: ConnId,
    romeo: ConnId,
}

impl Scene {
    /// Juliet and Romeo are available and see each other.
    fn new() -> Scene {
        let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
        host.account("juliet");
        host.account("romeo");
        let (juliet, _) = host.bind(0, "juliet");
        let (romeo, _) = host.bind(1, "romeo");
        for (from, to) in [(romeo, "juliet"), (juliet, "romeo")] {
            host.ask(from, &format!("<presence to='{to}@localhost' type='subscribe'/>"));
            host.ask(from, &format!("<presence to='{to}@localhost' type='subscribed'/>"));
        }
        host.ask(romeo, "<presence to='juliet@localhost' type='subscribed'/>");
        host.ask(juliet, "<presence/>");
        host.ask(romeo, "<presence/>");
        Scene { host, juliet, romeo }
    }

    /// The output to everybody when Juliet's client sends this.
    fn juliet(&mut self, says: &str) -> String {
        self.host.now.mono_ms += 10_000;
        let (conn, text) = (self.juliet, says.to_owned());
        let said = said(&self.host.ask(conn, &text));
        assert!(!said.contains("type='error'"), "{says}: {said}");
        said
    }

    fn romeo(&mut self, says: &str) -> String {
        self.host.now.mono_ms += 10_000;
        let conn = self.romeo;
        said(&self.host.ask(conn, says))
    }

    /// The photo in Juliet's vCard as Romeo sees it.
    fn photo(&mut self) -> Option<(String, Vec<u8>)> {
        let card = self.romeo(GET);
        let part = |name: &str| Some(card.split_once(&format!("<{name}>"))?.1.split_once("</")?.0.to_owned());
        let bytes: String = part("BINVAL")?.split_whitespace().collect();
        Some((part("TYPE").unwrap_or_default(), STANDARD.decode(bytes).expect("base64")))
    }

    /// The host restarts, and both return, Juliet last.
    fn again(&mut self) -> String {
        let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
        host.disk = std::mem::take(&mut self.host.disk);
        (self.romeo, _) = host.bind(1, "romeo");
        host.ask(self.romeo, "<presence/>");
        (self.juliet, _) = host.bind(0, "juliet");
        self.host = host;
        self.juliet("<presence/>")
    }
}

/// XEP-0398 3.1, 4.
#[test]
fn an_avatar_that_is_published_is_the_photo_of_the_vcard_and_shown_in_presence() {
    let mut scene = Scene::new();
    let image = png("one");
    scene.juliet(&vcard(None));
    let said = scene.juliet(&data(&image, "open"));
    assert!(!said.contains("vcard-temp:x:update"), "not before its metadata: {said}");
    let said = scene.juliet(&metadata(&image));
    let shown = said.matches(&shows(&hash(&image))).count();
    assert_eq!(shown, 2, "Romeo and Juliet's own client see it: {said}");
    assert_eq!(scene.photo(), Some(("image/png".into(), image.clone())));
    assert!(scene.romeo(GET).contains("<FN>Juliet</FN>"), "the rest of the vCard stays");

    // 4: in each later presence, also a directed one; but the client's empty <photo/> stays, while
    // an empty <x/> or another hash is replaced.
    let with = shows(&hash(&image));
    for (says, shows) in [
        ("<presence><show>away</show></presence>", &*with),
        ("<presence><x xmlns='vcard-temp:x:update'/></presence>", &with),
        ("<presence><x xmlns='vcard-temp:x:update'><photo>00</photo></x></presence>", &with),
        ("<presence to='romeo@localhost'><x xmlns='vcard-temp:x:update'><photo>00</photo></x></presence>", &with),
        ("<presence to='romeo@localhost'/>", &with),
        ("<presence><x xmlns='vcard-temp:x:update'><photo/></x></presence>", SHOWS_NONE),
        ("<presence to='romeo@localhost'><x xmlns='vcard-temp:x:update'><photo/></x></presence>", SHOWS_NONE),
    ] {
        let said = scene.juliet(says);
        assert!(said.contains(shows) && !said.contains("<photo>00<"), "{says}: {said}");
        assert_eq!(said.matches("vcard-temp:x:update").count(), said.matches("<presence").count(), "{says}: {said}");
    }
    let said = scene.juliet("<presence type='unavailable' to='romeo@localhost'/>");
    assert!(!said.contains("vcard-temp:x:update"), "{said}");

    // It is there again after memory was cleared, also for requests.
    let said = scene.again();
    assert_eq!(said.matches(&with).count(), 2, "{said}");
    let said = scene.romeo("<presence to='juliet@localhost' type='probe'/>");
    assert!(said.contains(&with), "{said}");
}

/// XEP-0398 4, XEP-0084 3.5, XEP-0060 7.2, 8.4, 8.5: it is removed from the vCard when it is
/// disabled or withdrawn.
#[test]
fn an_avatar_that_is_withdrawn_is_no_photo_any_more() {
    let image = png("one");
    let owner = |verb: &str, node: &str| {
        format!("<iq type='set' id='o'><pubsub xmlns='{NS}#owner'><{verb} node='{node}'/></pubsub></iq>")
    };
    let retract = |node: &str, id: &str| {
        format!(
            "<iq type='set' id='o'><pubsub xmlns='{NS}'><retract node='{node}'><item id='{id}'/></retract></pubsub></iq>"
        )
    };
    let closed = format!(
        "<iq type='set' id='o'><pubsub xmlns='{NS}#owner'><configure node='{DATA}'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>{NS}#node_config</value></field>\
         <field var='pubsub#access_model'><value>presence</value></field></x></configure></pubsub></iq>"
    );
    let empty = publish(METADATA, "current", &format!("<metadata xmlns='{METADATA}'/>"), "");
    for gone in [
        empty,
        owner("delete", METADATA),
        owner("purge", METADATA),
        owner("delete", DATA),
        owner("purge", DATA),
        retract(METADATA, &hash(&image)),
        retract(DATA, &hash(&image)),
        closed.clone(),
    ] {
        let mut scene = Scene::new();
        scene.juliet(&vcard(None));
        scene.juliet(&data(&image, "open"));
        scene.juliet(&metadata(&image));
        assert!(scene.photo().is_some());
        let said = scene.juliet(&gone);
        assert!(said.contains(SHOWS_NONE), "{gone}: {said}");
        assert_eq!(scene.photo(), None, "{gone}");
        assert!(scene.romeo(GET).contains("<FN>Juliet</FN>"));
        // XEP-0153 4.1: from then on presence says that there is none.
        assert!(scene.again().contains(SHOWS_NONE));
    }
    // Withdrawing an image that is not the photo changes nothing.
    let mut scene = Scene::new();
    scene.juliet(&data(&image, "open"));
    scene.juliet(&metadata(&image));
    let other = data(&png("other"), "").replace("type='set' id='p'", "type='set' id='q'");
    scene.juliet(&other);
    let said = scene.juliet(&retract(DATA, &hash(&png("other"))));
    assert!(!said.contains("vcard-temp:x:update"), "{said}");
    assert!(scene.photo().is_some());
}

/// XEP-0398 3.1, 6: an image that is not public, differs from its declared type, is invalid or too
/// large is not converted.
#[test]
fn what_cannot_be_converted_leaves_the_vcard_as_it_is() {
    // The type is not valid for avatars, so there are no nodes yet.
    let before = b"<svg xmlns='http://www.w3.org/2000/svg'/>";
    let large = png(&"x".repeat(VCARD_BYTES_MAX * 3 / 4));
    for (image, access, id) in [
        (png("closed"), "presence", None),
        (png("closed"), "whitelist", None),
        (png("other"), "open", Some(hash(b"another image"))),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><a/></svg>".to_vec(), "open", None),
        (b"RIFF".to_vec(), "open", None),
        (large, "open", None),
    ] {
        let mut scene = Scene::new();
        scene.juliet(&vcard(Some(("image/svg+xml", before))));
        let said_id = id.unwrap_or_else(|| hash(&image));
        let payload = format!("<data xmlns='{DATA}'>{}</data>", STANDARD.encode(&image));
        scene.juliet(&publish(DATA, &said_id, &payload, access));
        let info = format!("<metadata xmlns='{METADATA}'><info id='{said_id}' type='image/png' bytes='1'/></metadata>");
        let said = scene.juliet(&publish(METADATA, &said_id, &info, ""));
        assert!(!said.contains("vcard-temp:x:update"), "{said}");
        assert_eq!(scene.photo(), Some(("image/svg+xml".into(), before.to_vec())));
    }
}

/// XEP-0398 3.2: published with the image's real type (XEP-0153 5), to interested clients; and
/// nothing is converted back.
#[test]
fn a_photo_of_a_vcard_is_published_as_avatar() {
    let mut scene = Scene::new();
    for (begins, declared, kind) in [
        (&b"\x89PNG\r\n\x1a\n"[..], "image/png", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/png", "image/jpeg"),
        (b"GIF89a", "", "image/gif"),
    ] {
        let image = image(begins, declared);
        let id = hash(&image);
        let said = scene.juliet(&vcard(Some((declared, &image))));
        assert!(said.contains(&shows(&id)), "{said}");
        let found = scene.romeo(&items(METADATA));
        let bytes = image.len();
        let info = format!(
            "<item id='{id}'><metadata xmlns='{METADATA}'><info bytes='{bytes}' id='{id}' type='{kind}'/></metadata>"
        );
        assert!(found.contains(&info), "{found}");
        let found = scene.romeo(&items(DATA));
        assert!(
            found.contains(&format!("<item id='{id}'><data xmlns='{DATA}'>{}</data>", STANDARD.encode(&image))),
            "{found}"
        );
        // Repeating it changes nothing, and nobody is notified.
        let said = scene.juliet(&vcard(Some((declared, &image))));
        assert!(!said.contains("vcard-temp:x:update") && !said.contains("#event"), "{said}");
        assert_eq!(scene.photo().map(|(_, photo)| photo), Some(image));
    }
    // XEP-0084 3.5: it is disabled with the photo, and its image does not stay public.
    let said = scene.juliet(&vcard(None));
    assert!(said.contains(SHOWS_NONE), "{said}");
    let found = scene.romeo(&items(METADATA));
    assert!(found.contains(&format!("<metadata xmlns='{METADATA}'/>")), "{found}");
    assert!(!scene.romeo(&items(DATA)).contains("<data "), "it is gone");
    // Not an image: its hash is shown, but nothing is published.
    let said = scene.juliet(&vcard(Some(("image/png", b"no image"))));
    assert!(said.contains(&shows(&hash(b"no image"))), "{said}");
    assert!(!scene.romeo(&items(DATA)).contains("<data "), "it is no image");
    // A vCard without a photo does not affect an avatar that never was the photo.
    scene.juliet(&vcard(None));
    let own = png("for contacts");
    let closed = format!("<iq type='set' id='o'><pubsub xmlns='{NS}#owner'><delete node='{DATA}'/></pubsub></iq>");
    scene.juliet(&closed);
    scene.juliet(&data(&own, "presence"));
    scene.juliet(&metadata(&own));
    scene.juliet(&vcard(None));
    assert!(scene.romeo(&items(METADATA)).contains(&hash(&own)));
}

/// A payload common to many sessions is stored once, whatever photos their users have.
#[test]
fn photos_make_no_presence_distinct() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    let presence = "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/></presence>";
    for n in 0..100u32 {
        host.account(&format!("user{n}"));
        let (conn, _) = host.bind(n, &format!("user{n}"));
        let image = png(&n.to_string());
        host.ask(conn, &vcard(Some(("image/png", &image))));
        host.now.mono_ms += 1_000;
        host.ask(conn, &presence.replace("</presence>", &format!("{}</presence>", shows(&hash(&image)))));
        assert!(said(&host.ask(conn, presence)).contains(&shows(&hash(&image))));
    }
    assert_eq!(host.shard.inspect().presences, 1);
}
