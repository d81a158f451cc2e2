//! Whole runs against a tiny server that loses, doubles or swaps messages now and then: the report must say exactly that.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use serde_json::Value;

/// What is done to a message in each thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mischief {
    Nothing,
    Drop,
    Double,
    /// It waits for the next to the same receiver, and comes behind it.
    Swap,
}

#[derive(Default)]
struct Hall {
    users: HashMap<String, TcpStream>,
    messages: u64,
    held: HashMap<String, String>,
}

const EVERY: u64 = 1000;

fn serve(mischief: Mischief) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    let hall = Arc::new(Mutex::new(Hall::default()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let hall = hall.clone();
            // A reader that the client resets is no failure of the test.
            std::thread::spawn(move || drop(attend(stream, &hall, mischief)));
        }
    });
    address
}

/// One connection. The client's elements are told apart by their ends, which is enough for what this client says.
fn attend(mut stream: TcpStream, hall: &Mutex<Hall>, mischief: Mischief) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut text, mut buffer) = (String::new(), [0; 65536]);
    let mut name = String::new();
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        text += std::str::from_utf8(&buffer[..count]).expect("text");
        while let Some((item, rest)) = split(&text) {
            let (item, rest) = (item.to_owned(), rest.to_owned());
            text = rest;
            if item.starts_with("<message") {
                message(&item, hall, mischief)?;
                continue;
            }
            let answer = if item.contains("<stream:stream") {
                let feature = match name.is_empty() {
                    true => {
                        "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
                    }
                    false => "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>",
                };
                format!(
                    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' \
                     version='1.0'><stream:features>{feature}</stream:features>"
                )
            } else if item.starts_with("<auth") {
                let payload = item.split(['>', '<']).nth(2).expect("a payload");
                let plain = base64::engine::general_purpose::STANDARD.decode(payload).expect("base64");
                name = String::from_utf8(plain).expect("text").split('\0').nth(1).expect("a name").to_owned();
                "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>".to_owned()
            } else if item.starts_with("<iq") {
                let id = item.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
                format!("<iq type='result' id='{id}'/>")
            } else if item.starts_with("<presence") {
                hall.lock().expect("no panic").users.insert(name.clone(), stream.try_clone()?);
                continue;
            } else {
                stream.write_all(b"</stream:stream>")?;
                return Ok(());
            };
            stream.write_all(answer.as_bytes())?;
        }
    }
}

/// The first whole item and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    let end = if text.starts_with("<message") {
        text.find("</message>").map(|at| at + "</message>".len())
    } else if text.starts_with("<iq") {
        text.find("</iq>").map(|at| at + "</iq>".len())
    } else if text.starts_with("<auth") {
        text.find("</auth>").map(|at| at + "</auth>".len())
    } else if text.starts_with("<?xml") {
        let header = text.find("<stream:stream")?;
        text[header..].find('>').map(|at| header + at + 1)
    } else {
        text.find('>').map(|at| at + 1)
    };
    end.map(|end| text.split_at(end))
}

fn message(item: &str, hall: &Mutex<Hall>, mischief: Mischief) -> std::io::Result<()> {
    let to = item.split("to='").nth(1).and_then(|rest| rest.split('@').next()).expect("an address").to_owned();
    let mut hall = hall.lock().expect("no panic");
    hall.messages += 1;
    let chosen = hall.messages % EVERY == EVERY / 2;
    let mut texts = vec![item.to_owned()];
    match mischief {
        Mischief::Drop if chosen => texts.clear(),
        Mischief::Double if chosen => texts.push(item.to_owned()),
        Mischief::Swap if chosen => hall.held.extend(texts.pop().map(|text| (to.clone(), text))),
        Mischief::Swap => texts.extend(hall.held.remove(&to)),
        _ => {}
    }
    let receiver = hall.users.get_mut(&to).expect("the receiver is there");
    receiver.write_all(texts.concat().as_bytes())
}

/// Runs a load of so many messages and returns its result.
fn load(to: SocketAddr, driver: &str, further: &[&str]) -> (throng_load::Outcome, Value) {
    let to = to.to_string();
    let flags = ["load", "--to", &to, "--driver", driver, "--sessions", "4", "--pairs", "2", "--quiet"];
    let flags = flags.into_iter().chain(["--drain-s", "1"]).chain(further.iter().copied());
    let matches = throng_load::command().try_get_matches_from(flags).expect("known flags");
    let mut out = Vec::new();
    let outcome = throng_load::run(&matches, &mut out).expect("a run");
    (outcome, serde_json::from_slice(&out).expect("JSON"))
}

const MESSAGES: u64 = 10_000;

fn counts(mischief: Mischief, driver: &str) -> [u64; 5] {
    let (outcome, result) = load(
        serve(mischief),
        driver,
        &["--in-flight", "4", "--hold-s", "100", "--messages-max", &MESSAGES.to_string()],
    );
    assert_eq!(outcome == throng_load::Outcome::Good, mischief == Mischief::Nothing, "{result}");
    assert_eq!(result["messages"]["sent"], MESSAGES, "{result}");
    ["received", "lost", "duplicates", "reordered", "unsure"].map(|name| result["messages"][name].as_u64().expect(name))
}

#[test]
fn what_a_server_does_wrong_is_counted_exactly() {
    for driver in ["epoll", "auto"] {
        assert_eq!(counts(Mischief::Nothing, driver), [MESSAGES, 0, 0, 0, 0]);
        assert_eq!(counts(Mischief::Drop, driver), [MESSAGES - 10, 10, 0, 0, 0]);
        assert_eq!(counts(Mischief::Double, driver), [MESSAGES, 0, 10, 0, 0]);
        assert_eq!(counts(Mischief::Swap, driver), [MESSAGES, 0, 0, 10, 0]);
    }
}

#[test]
fn a_result_says_what_was_done_and_what_it_took() {
    let report = std::env::temp_dir().join(format!("throng-load-report-{}.html", std::process::id()));
    let path = report.to_str().expect("a plain path");
    let flags = ["--in-flight", "0", "--rate", "500", "--hold-s", "2", "--report", path];
    let (outcome, result) = load(serve(Mischief::Nothing), "auto", &flags);
    assert_eq!(outcome, throng_load::Outcome::Good);
    assert_eq!((&result["scenario"]["rate"], &result["sessions"]["arrived"]), (&500.0.into(), &4.into()));
    let sent = result["messages"]["sent"].as_u64().expect("a count");
    assert!((850..1150).contains(&sent), "{sent} of 1,000");
    assert_eq!(result["messages"]["latency_ms"]["count"], sent);
    // The server is this process: it is found by its listening socket.
    assert_eq!(result["server"]["pid"], std::process::id());
    let page = std::fs::read_to_string(&report).expect("a page");
    std::fs::remove_file(&report).expect("it is there");
    assert!(page.contains("<h2>Latency, ms</h2>"));
}
