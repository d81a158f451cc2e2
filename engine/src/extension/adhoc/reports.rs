//! Reports from users (XEP-0377): this server's own commands, for administrators.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{Command, asks, nothing};
use super::form::{Field, rows};
use super::users::page;
use crate::limits::{ADHOC_JIDS_MAX, ADHOC_REPORTS_MAX};
use crate::orders::{Outcome, Wanted};
use crate::store::report::ReportId;

/// The type of the forms.
const NS: &str = "urn:throng:reports";

pub(super) static COMMANDS: &[Command] = &[
    asks(
        NS,
        "urn:throng:reports#list",
        "List reports from users",
        &[
            Field::new("max_items", "text-single", "Maximum number of reports, up to 50", false),
            Field::new("after", "text-single", "Continue after this position, as named in the previous list", false),
        ],
        |_, filled| {
            let (after, most) = page(filled, ADHOC_REPORTS_MAX)?;
            Ok(Wish::Order(Wanted::ListReports { after, most }))
        },
        |outcome| match outcome {
            Outcome::Listing(listing) => rows(NS, listing),
            _ => Vec::new(),
        },
    ),
    asks(
        NS,
        "urn:throng:reports#dismiss",
        "Dismiss reports",
        &[Field::new("ids", "text-multi", "The ids of the reports, as listed", true)],
        |_, filled| {
            let given: Vec<&str> = filled.all("ids").map(str::trim).filter(|id| !id.is_empty()).collect();
            if given.len() > ADHOC_JIDS_MAX || given.iter().any(|id| ReportId::read(id).is_none()) {
                return Err(BAD_PAYLOAD);
            }
            Ok(Wish::Order(Wanted::DismissReports(given.into_iter().map(Into::into).collect())))
        },
        nothing,
    ),
];
