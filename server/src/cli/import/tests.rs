//! Imports into accounts in memory.

use std::cell::RefCell;
use std::io::Cursor;
use std::rc::Rc;

use super::*;
use crate::cli::accounts::Opened;
use crate::cli::tests::Memory;

fn lines(text: impl Into<Vec<u8>>) -> Lines {
    let text = text.into();
    let length = text.len() as u64;
    Lines::new(Box::new(Cursor::new(text)), Some(length))
}

fn plan(existing: Existing, keep_going: bool) -> Plan {
    Plan { existing, keep_going, iterations: 4_096, threads: 2 }
}

/// A line with keys, which needs no hashing.
fn keyed(user: &str) -> String {
    thread_local! {
        static KEYS: String = ScramKeys::derive(&Secret::new("x"), 4_096, &[7; 16]).expect("good").reveal();
    }
    KEYS.with(|keys| format!("{user},{keys}\n"))
}

fn import_text(memory: &Memory, text: impl Into<Vec<u8>>, plan: Plan) -> (Summary, Result<(), Failure>) {
    let opened = Opened::at_rest(Box::new(memory.clone()), "localhost");
    let mut lines = lines(text);
    lines.pass_header(Header::Guess);
    import(lines, &opened, plan, &mut |_, _| {})
}

fn reasons(summary: &Summary) -> Vec<(u64, &str)> {
    summary.errors.iter().map(|error| (error.line, error.reason.as_str())).collect()
}

#[test]
fn passwords_become_keys_that_check_and_each_has_its_own_salt() {
    let memory = Memory::default();
    let text = "localpart,password\nromeo,pencil\njuliet@localhost,\"pen,cil\"\n";
    let (summary, end) = import_text(&memory, text, plan(Existing::Skip, false));
    assert_eq!((end, summary.added, summary.failed), (Ok(()), 2, 0));
    let (romeo, juliet) = (memory.keys("romeo").credentials(0), memory.keys("juliet").credentials(0));
    assert_ne!(romeo.anchor().salt(), juliet.anchor().salt());
    let salt = *juliet.anchor().salt().first_chunk::<16>().expect("16 bytes");
    let again = ScramKeys::derive(&Secret::new("pen,cil"), 4_096, &salt).expect("good");
    assert_eq!(again, memory.keys("juliet"));
}

#[test]
fn a_first_account_is_a_header_only_if_both_of_its_fields_name_columns() {
    let first = |text: &str, header| {
        let mut lines = lines(text);
        let told = lines.pass_header(header);
        let users: Vec<String> = lines.map(|line| line.fields.map_or_else(|_| "?".into(), |(user, _)| user)).collect();
        (told, users.join(" "))
    };
    // Accounts may have any of these names.
    for name in ["localpart", "user", "username", "jid", "name", "User"] {
        assert_eq!(first(&format!("{name},pencil\nb,c\n"), Header::Guess), (None, format!("{name} b")));
        let told = Some(format!("`{},password`", name.to_lowercase()));
        assert_eq!(first(&format!("{name},Password\nb,c\n"), Header::Guess), (told, "b".into()));
        assert_eq!(first(&format!("{name},password\nb,c\n"), Header::No), (None, format!("{name} b")));
    }
    assert_eq!(first("\u{feff}jid,password\nb,c\n", Header::Guess).1, "b", "behind a byte order mark");
    assert_eq!(first("a,b\nuser,password\n", Header::Guess).1, "a user", "on the first line only");
    assert_eq!(
        first("Konto,Kennwort,Bemerkung\nb,c\n", Header::Yes),
        (Some("as given by --header".into()), "b".into())
    );
    assert_eq!(first("", Header::Yes), (None, String::new()));
}

#[test]
fn running_the_same_file_again_skips_refuses_or_updates() {
    let memory = Memory::default();
    let text = keyed("romeo") + &keyed("juliet");
    let run = |existing| import_text(&memory, text.clone(), plan(existing, true)).0;
    assert_eq!(run(Existing::Refuse).added, 2);
    assert_eq!(run(Existing::Skip).skipped, 2);
    assert_eq!(run(Existing::Update).updated, 2);
    let refused = run(Existing::Refuse);
    assert_eq!(reasons(&refused), [(1, "the account already exists"), (2, "the account already exists")]);
}

#[test]
fn a_bad_line_is_named_and_ends_the_import_before_what_follows_it() {
    let memory = Memory::default();
    let text = keyed("a") + "b\n" + &keyed("c");
    let (summary, _) = import_text(&memory, text, plan(Existing::Skip, false));
    assert_eq!(
        reasons(&summary),
        [(2, "expected localpart,password but found 1 fields; quote fields that contain a comma")]
    );
    assert_eq!((summary.added, memory.count()), (1, 1));
}

#[test]
fn going_on_collects_every_bad_line_with_its_reason_and_never_the_password() {
    let memory = Memory::default();
    let mut text =
        (keyed("a") + "\nb,\n,x\nc,secret,secret\nd@elsewhere,secret\ne,{SCRAM-SHA-1$secret}\n").into_bytes();
    text.extend_from_slice(b"f,\xff\xfe\n");
    text.extend_from_slice(format!("g,{}\n", "p".repeat(1_025)).as_bytes());
    text.extend_from_slice(b"not ok,secret\n");
    text.extend_from_slice(keyed("h").as_bytes());
    let (summary, end) = import_text(&memory, text, plan(Existing::Skip, true));
    assert_eq!((end, summary.added, summary.failed, memory.count()), (Ok(()), 2, 8, 2));
    let lines: Vec<u64> = summary.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9, 10]);
    assert!(summary.errors.iter().all(|error| !error.reason.contains("secret")), "{:?}", summary.errors);
}

#[test]
fn many_chunks_are_written_in_the_files_order_and_the_later_line_wins() {
    let memory = Memory::default();
    let keys = |salt: u8| ScramKeys::derive(&Secret::new("x"), 4_096, &[salt; 16]).expect("good");
    let (old, new) = (keys(1).reveal(), keys(2).reveal());
    let users = 4 * CHUNK_LINES * CHUNKS_PER_THREAD;
    let mut text = String::new();
    for keys in [old, new] {
        (0..users).for_each(|user| text += &format!("u{user},{keys}\n"));
    }
    let steps = Rc::new(RefCell::new((0, 0)));
    let opened = Opened::at_rest(Box::new(memory.clone()), "localhost");
    let length = text.len() as u64;
    let (summary, _) = import(lines(text), &opened, plan(Existing::Update, false), &mut |_, bytes| {
        let mut steps = steps.borrow_mut();
        assert!(bytes >= steps.1, "progress does not go back");
        *steps = (steps.0 + 1, bytes);
    });
    assert_eq!((summary.added, summary.updated), (users as u64, users as u64));
    assert!((0..users).all(|user| memory.keys(&format!("u{user}")) == keys(2)));
    assert_eq!(steps.borrow().1, length);
}

#[test]
fn a_store_that_fails_ends_a_long_import_with_what_was_done() {
    let memory = Memory { fails_after: Some(1_000), ..Memory::default() };
    let text: String = (0..20_000).map(|user| keyed(&format!("u{user}"))).collect();
    let (summary, end) = import_text(&memory, text, plan(Existing::Skip, true));
    assert_eq!(summary.added, 1_000);
    assert_eq!(end.map_err(|failure| failure.exit), Err(Exit::Failed));
}

#[test]
fn a_quote_that_is_never_closed_and_an_endless_line_cost_one_line_each() {
    let memory = Memory::default();
    let text = keyed("a")
        + "b,\"never closed\n"
        + &"x".repeat(1 << 20)
        + "\r\nc,\"say \"\"hi\"\"\"\r\n"
        + keyed("d").trim_end();
    let (summary, _) = import_text(&memory, text, plan(Existing::Skip, true));
    assert_eq!((summary.added, summary.failed), (3, 2));
    let expected =
        [(2, "unclosed quote; write a quote within quotes twice"), (3, "the line is longer than 16384 bytes")];
    assert_eq!(reasons(&summary), expected);
    let salt = *memory.keys("c").credentials(0).anchor().salt().first_chunk::<16>().expect("16 bytes");
    assert_eq!(Ok(memory.keys("c")), ScramKeys::derive(&Secret::new("say \"hi\""), 4_096, &salt));
}
