//! Parameters of an archive query: the form of XEP-0313 4.1 and the page of XEP-0059.

use minidom::Element;

use crate::extension::datetime;
use crate::extension::iq::{Condition, Context, Limit, Refusal};
use crate::limits::{ARCHIVE_IDS_MAX, ARCHIVE_PAGE_MAX, ARCHIVE_QUERYID_BYTES_MAX};
use crate::ns::RSM as NS_RSM;
use crate::wire::jid::bare_of;

use super::NS;

const NS_FORM: &str = "jabber:x:data";

/// Messages per page if the client sets no limit.
const PAGE_DEFAULT: usize = 50;

/// The form (XEP-0313 4.1.5), within `<query/>`.
pub(super) const FORM: &str = "<query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='form'>\
    <field type='hidden' var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>\
    <field type='jid-single' var='with'/><field type='text-single' var='start'/><field type='text-single' var='end'/>\
    <field type='text-single' var='before-id'/><field type='text-single' var='after-id'/>\
    <field type='list-multi' var='ids'><validate xmlns='http://jabber.org/protocol/xdata-validate' datatype='xs:string'>\
    <open/></validate></field><field type='boolean' var='include-groupchat'/></x></query>";

/// A query's parameters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Wanted {
    /// Repeated in each result.
    pub(super) queryid: Option<Box<str>>,
    /// Only messages with this JID, normalised; a bare JID includes all resources.
    pub(super) with: Option<Box<str>>,
    /// Only messages from this time on, microseconds since the Unix epoch.
    pub(super) start_us: u64,
    /// Only messages up to this time.
    pub(super) end_us: u64,
    /// Only messages after this number.
    pub(super) after: Option<u64>,
    /// Only messages before this number.
    pub(super) before: Option<u64>,
    /// Numbers that must be in the archive, sorted and without duplicates.
    pub(super) anchors: Vec<u64>,
    /// Only these, sorted and without duplicates.
    pub(super) ids: Option<Vec<u64>>,
    /// Limit of messages per page.
    pub(super) max: usize,
    /// Whether the last matches are returned, not the first.
    pub(super) back: bool,
    /// Whether they are returned in reverse order.
    pub(super) flip: bool,
    /// Whether the page is relative to another one, so that more messages match than are examined.
    paged: bool,
}

impl Wanted {
    /// No restrictions.
    pub(super) fn all() -> Wanted {
        Wanted {
            queryid: None,
            with: None,
            start_us: 0,
            end_us: u64::MAX,
            after: None,
            before: None,
            anchors: Vec::new(),
            ids: None,
            max: PAGE_DEFAULT,
            back: false,
            flip: false,
            paged: false,
        }
    }

    /// Whether only the number of messages is wanted (XEP-0059 2.7).
    pub(super) fn counts(&self) -> bool {
        self.max == 0 && !self.paged
    }

    /// Reads `<query/>`.
    ///
    /// # Errors
    /// Those of XEP-0313 4.1.3, 4.1.5 and XEP-0059 2.6, `<jid-malformed/>`, and `<bad-request/>`
    /// for an invalid form.
    pub(super) fn read(context: &Context<'_>, query: &Element) -> Result<Wanted, Refusal> {
        // XEP-0313 6.1.3: nodes are only for publish-subscribe.
        if query.attr("node").is_some() {
            return Err(Condition::FeatureNotImplemented.into());
        }
        if query.attr("queryid").is_some_and(|id| id.len() > ARCHIVE_QUERYID_BYTES_MAX) {
            return Err(Limit::ArchiveIds.into());
        }
        let mut wanted = Wanted {
            queryid: query.attr("queryid").map(Into::into),
            flip: query.get_child("flip-page", NS).is_some(),
            ..Wanted::all()
        };
        if let Some(form) = query.get_child("x", NS_FORM) {
            wanted.form(context, form)?;
        }
        if let Some(set) = query.get_child("set", NS_RSM) {
            wanted.page(context, set)?;
        }
        wanted.anchors.sort_unstable();
        wanted.anchors.dedup();
        Ok(wanted)
    }

    fn form(&mut self, context: &Context<'_>, form: &Element) -> Result<(), Refusal> {
        let fields = || form.children().filter(|child| child.is("field", NS_FORM));
        let form_type = fields().find(|field| field.attr("var") == Some("FORM_TYPE")).and_then(one_value);
        if form.attr("type") != Some("submit") || form_type.as_deref() != Some(NS) {
            return Err(Condition::BadRequest.into());
        }
        for field in fields() {
            // XEP-0004 3.2; also, each required id costs a read of the archive.
            if fields().filter(|other| other.attr("var") == field.attr("var")).nth(1).is_some() {
                return Err(Condition::BadRequest.into());
            }
            let value = || one_value(field).ok_or(Condition::BadRequest);
            match field.attr("var") {
                Some("FORM_TYPE") => {}
                Some("with") => self.with = Some((context.jid)(&value()?).ok_or(Condition::JidMalformed)?),
                Some("start") => self.start_us = datetime::parse(&value()?).ok_or(Condition::BadRequest)?,
                Some("end") => self.end_us = datetime::parse(&value()?).ok_or(Condition::BadRequest)?,
                Some("after-id") => self.follow(number(context, &value()?)?),
                Some("before-id") => self.precede(number(context, &value()?)?),
                Some("ids") => {
                    let mut ids = Vec::new();
                    for value in field.children().filter(|child| child.is("value", NS_FORM)) {
                        ids.push(number(context, &value.text())?);
                    }
                    ids.sort_unstable();
                    ids.dedup();
                    if ids.len() > ARCHIVE_IDS_MAX {
                        return Err(Limit::ArchiveIds.into());
                    }
                    self.ids = Some(ids);
                }
                // A user's archive has no messages of rooms, so this makes no difference (XEP-0313
                // 4.1.4).
                Some("include-groupchat") if matches!(&*value()?, "true" | "1" | "false" | "0") => {}
                Some("include-groupchat") | None => return Err(Condition::BadRequest.into()),
                // XEP-0313 4.1.5.
                Some(_) => return Err(Condition::FeatureNotImplemented.into()),
            }
        }
        Ok(())
    }

    fn page(&mut self, context: &Context<'_>, set: &Element) -> Result<(), Refusal> {
        // XEP-0059 4: each at most once.
        const NAMES: [&str; 4] = ["max", "after", "before", "index"];
        for child in set.children().filter(|child| child.has_ns(NS_RSM)) {
            if NAMES.contains(&child.name())
                && set.children().filter(|other| other.is(child.name(), NS_RSM)).count() > 1
            {
                return Err(Condition::BadRequest.into());
            }
            let text = child.text();
            match child.name() {
                "max" => {
                    let max: u64 = text.trim().parse().map_err(|_| Condition::BadRequest)?;
                    self.max = max.min(ARCHIVE_PAGE_MAX as u64) as usize;
                }
                "after" if !text.is_empty() => {
                    self.paged = true;
                    self.follow(number(context, &text)?);
                }
                "before" => {
                    self.back = true;
                    if !text.is_empty() {
                        self.paged = true;
                        self.precede(number(context, &text)?);
                    }
                }
                // XEP-0059 2.6: positions of messages are unknown.
                "index" => return Err(Condition::FeatureNotImplemented.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn follow(&mut self, number: u64) {
        self.after = Some(self.after.map_or(number, |other| other.max(number)));
        self.anchors.push(number);
    }

    fn precede(&mut self, number: u64) {
        self.before = Some(self.before.map_or(number, |other| other.min(number)));
        self.anchors.push(number);
    }

    /// Upper bound of the bytes that the query's id takes in each result.
    pub(super) fn queryid_bytes(&self) -> usize {
        // The longest form of a character in an attribute: `&quot;`.
        self.queryid.as_deref().map_or(0, |id| 6 * id.len())
    }

    /// The lowest number that may be among the results.
    pub(super) fn low(&self) -> u64 {
        self.after.map_or(0, |after| after.saturating_add(1))
    }

    /// The highest one.
    pub(super) fn high(&self) -> u64 {
        self.before.map_or(u64::MAX, |before| before.saturating_sub(1))
    }

    /// Whether a time is in the requested range. Times of messages are in milliseconds.
    pub(super) fn has_time(&self, time_ms: u64) -> bool {
        (self.start_us..=self.end_us).contains(&time_ms.saturating_mul(1_000))
    }

    /// The peer of all results, if they have one in common.
    pub(super) fn peer(&self, account: &str) -> Option<&str> {
        // A resource of the user's own account is never a peer: entries do not record which
        // resource sent them.
        self.with.as_deref().filter(|with| bare_of(with) != account || *with == account)
    }
}

/// The number in an id; an invalid id is not in the archive (XEP-0313 4.1.3, 4.3.2).
fn number(context: &Context<'_>, id: &str) -> Result<u64, Condition> {
    context.ids.number(id).ok_or(Condition::ItemNotFound)
}

fn one_value(field: &Element) -> Option<String> {
    let mut values = field.children().filter(|child| child.is("value", NS_FORM));
    let value = values.next()?.text();
    values.next().is_none().then_some(value)
}
