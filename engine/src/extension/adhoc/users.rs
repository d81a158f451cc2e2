//! Numbers and lists of users, by their state (XEP-0133 4.13 to 4.22).

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{ADMIN as NS, Command, asks, at_once};
use super::form::{Field, Filled, result};
use crate::extension::iq::Refusal;
use crate::limits::ADHOC_ROWS_MAX;
use crate::orders::{Outcome, Users, Wanted};

/// Limit of a list position's length in bytes: that of a report includes a domain.
const PLACE_BYTES_MAX: usize = 1_100;

/// The list sizes that XEP-0133 4.18 offers.
const SIZES: &[(&str, &str)] = &[
    ("25", "25"),
    ("50", "50"),
    ("75", "75"),
    ("100", "100"),
    ("150", "150"),
    ("200", "200"),
    ("none", "As many as permitted"),
];

/// The fields that select a page of a list.
const PAGE: &[Field] = &[
    Field { options: SIZES, ..Field::new("max_items", "list-single", "Maximum number to examine, up to 200", false) },
    Field::new("after", "text-single", "Continue after this position, as named in the previous list", false),
];

const _: () = assert!(ADHOC_ROWS_MAX == 200, "the form says so");

/// By the clauses of XEP-0133 4.
pub(super) static COMMANDS: &[Command] = &[
    // 4.13
    at_once(
        "http://jabber.org/protocol/admin#get-registered-users-num",
        "Get the number of registered users",
        |_, _| Wish::Order(Wanted::Count(Users::Registered)),
        |outcome| count("registeredusersnum", outcome),
    ),
    // 4.14
    at_once(
        "http://jabber.org/protocol/admin#get-disabled-users-num",
        "Get the number of disabled users",
        |_, _| Wish::Order(Wanted::Count(Users::Disabled)),
        |outcome| count("disabledusersnum", outcome),
    ),
    // 4.15
    at_once(
        "http://jabber.org/protocol/admin#get-online-users-num",
        "Get the number of online sessions",
        |_, _| Wish::Order(Wanted::Count(Users::Online)),
        |outcome| count("onlineusersnum", outcome),
    ),
    // 4.16
    at_once(
        "http://jabber.org/protocol/admin#get-active-users-num",
        "Get the number of online sessions active in the last five minutes",
        |_, _| Wish::Order(Wanted::Count(Users::Active)),
        |outcome| count("activeusersnum", outcome),
    ),
    // 4.17
    at_once(
        "http://jabber.org/protocol/admin#get-idle-users-num",
        "Get the number of online sessions idle for the last five minutes",
        |_, _| Wish::Order(Wanted::Count(Users::Idle)),
        |outcome| count("idleusersnum", outcome),
    ),
    // 4.18
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-registered-users-list",
        "Get a list of registered users",
        PAGE,
        |_, filled| list(filled, Users::Registered),
        |outcome| users("registereduserjids", outcome),
    ),
    // 4.19
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-disabled-users-list",
        "Get a list of disabled users",
        PAGE,
        |_, filled| list(filled, Users::Disabled),
        |outcome| users("disableduserjids", outcome),
    ),
    // 4.20
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-online-users-list",
        "Get a list of online users",
        PAGE,
        |_, filled| list(filled, Users::Online),
        |outcome| users("onlineuserjids", outcome),
    ),
    // 4.21
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-active-users",
        "Get a list of users with a session active in the last five minutes",
        PAGE,
        |_, filled| list(filled, Users::Active),
        |outcome| users("activeuserjids", outcome),
    ),
    // 4.22
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-idle-users",
        "Get a list of users with a session idle for the last five minutes",
        PAGE,
        |_, filled| list(filled, Users::Idle),
        |outcome| users("idleuserjids", outcome),
    ),
];

fn list(filled: &Filled, of: Users) -> Result<Wish, Refusal> {
    let (after, most) = page(filled, ADHOC_ROWS_MAX)?;
    Ok(Wish::Order(Wanted::List { of, after, most }))
}

/// The requested page of a list: the position after which it starts, and the limit of rows.
pub(super) fn page(filled: &Filled, rows_max: usize) -> Result<(Option<Box<str>>, usize), Refusal> {
    let most = match filled.one("max_items") {
        None | Some("none") => rows_max,
        Some(number) => number.parse::<usize>().map_err(|_| BAD_PAYLOAD)?.clamp(1, rows_max),
    };
    let after = filled.one("after");
    if after.is_some_and(|after| after.len() > PLACE_BYTES_MAX) {
        return Err(BAD_PAYLOAD);
    }
    Ok((after.map(Into::into), most))
}

fn count(var: &str, outcome: &Outcome) -> Vec<u8> {
    let Outcome::Count(count) = outcome else { return Vec::new() };
    result(NS, [(var, vec![count.to_string()])])
}

fn users(var: &str, outcome: &Outcome) -> Vec<u8> {
    let Outcome::Users { jids, next } = outcome else { return Vec::new() };
    let next = next.iter().map(|next| ("after", vec![next.clone()]));
    result(NS, std::iter::once((var, jids.clone())).chain(next))
}
