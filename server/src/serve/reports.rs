//! Users' reports (XEP-0377), as operators see them, at a running server and in a store at rest.

use std::collections::BTreeSet;

use throng_engine::id::Domains;
use throng_engine::limits::REPORTS_MAX;
use throng_engine::store::Found;
use throng_engine::store::report::{self as rows, ReportId, ReportKey};

use super::Rows;
use super::names::fault;
use crate::admin::{Fault, FaultKind, Page, ReportRow, place_of_report};

/// Approximate bytes of the rows of a page: as text they are at most twice as long, and fit into a
/// line.
const PAGE_BYTES_MAX: u32 = 256 << 10;

fn invalid(text: String) -> Fault {
    Fault::new(FaultKind::Invalid, text)
}

/// Parses a position in a listing.
fn read_place(place: &str) -> Option<(&str, ReportKey)> {
    let mut parts = place.split(' ');
    let (domain, at_s, id) = (parts.next()?, parts.next()?.parse().ok()?, ReportId::read(parts.next()?)?);
    parts.next().is_none().then_some((domain, ReportKey { at_s, id }))
}

/// Up to `limit` reports, from the store.
pub(super) fn list(
    engine: &Rows,
    domains: &Domains,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<ReportRow>, Fault> {
    let after = after.map(|after| read_place(after).ok_or_else(|| invalid("not a place in a listing".into())));
    let after = after.transpose()?;
    let mut listed: Vec<ReportRow> = Vec::new();
    let mut bytes_left = PAGE_BYTES_MAX;
    let not_before = |domain: &&str| after.is_some_and(|(first, _)| first != *domain);
    for domain in domains.names().skip_while(not_before) {
        let behind = after.filter(|(first, _)| *first == domain).map(|(_, key)| key);
        let most = (limit - listed.len()) as u32;
        let query = rows::before(domain, behind, most.max(1), bytes_left);
        let Found::Rows { rows: found, more } = engine.read(&query).map_err(|error| fault(&error))? else { continue };
        if most == 0 && !found.is_empty() {
            return Ok(Page { next: listed.last().map(ReportRow::place), rows: listed });
        }
        let mut last = None;
        for row in found {
            bytes_left = bytes_left.saturating_sub(row.value.len() as u32);
            let Some(key) = ReportKey::of_sort(&row.sort) else { continue };
            last = Some(key);
            listed.extend(rows::decode(&row.value).map(|(by, report)| ReportRow {
                id: key.id.to_string(),
                domain: domain.to_owned(),
                at_s: key.at_s,
                by: by.into(),
                jid: report.jid.into(),
                reason: report.reason.into(),
                text: report.text.into(),
                messages: report.messages.split_whitespace().map(str::to_owned).collect(),
            }));
        }
        if let Some(last) = last.filter(|_| more || bytes_left == 0) {
            return Ok(Page { rows: listed, next: Some(place_of_report(domain, last.at_s, last.id)) });
        }
    }
    Ok(Page { rows: listed, next: None })
}

/// Parses ids in their displayed form.
pub(super) fn read_ids(ids: &[String]) -> Result<BTreeSet<ReportId>, Fault> {
    let read = |id: &String| {
        ReportId::read(id).ok_or_else(|| invalid(format!("not a report ID: {id}; see `throng report list`")))
    };
    ids.iter().map(read).collect()
}

/// Finds the reports with these ids in the store.
pub(super) fn find(
    engine: &Rows,
    domains: &Domains,
    ids: &BTreeSet<ReportId>,
) -> Result<Vec<(String, ReportKey)>, Fault> {
    let mut all = Vec::new();
    for domain in domains.names() {
        let found = engine.read(&rows::before(domain, None, REPORTS_MAX, u32::MAX)).map_err(|error| fault(&error))?;
        let Found::Rows { rows: found, .. } = found else { continue };
        let keys = found.iter().filter_map(|row| ReportKey::of_sort(&row.sort));
        all.extend(keys.filter(|key| ids.contains(&key.id)).map(|key| (domain.to_owned(), key)));
    }
    match all.is_empty() {
        true => Err(Fault::new(FaultKind::NotFound, "no such report; see `throng report list`")),
        false => Ok(all),
    }
}
