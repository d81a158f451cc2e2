//! Data forms of commands (XEP-0004): those that are sent, and what comes back.

use minidom::Element;

use super::super::xml;
use crate::orders::Listing;

const NS: &str = "jabber:x:data";

/// A field of a form that is to be filled in.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name.
    pub(super) var: &'static str,
    /// Its type (XEP-0004 3.3).
    pub(super) kind: &'static str,
    /// What a person reads.
    pub(super) label: &'static str,
    /// Whether it has to be filled in.
    pub(super) required: bool,
    /// What can be chosen, and what a person reads for it; nothing for what is written freely.
    pub(super) options: &'static [(&'static str, &'static str)],
}

impl Field {
    /// A field that is written freely.
    pub(super) const fn new(var: &'static str, kind: &'static str, label: &'static str, required: bool) -> Field {
        Field { var, kind, label, required, options: &[] }
    }
}

/// A form that is to be filled in.
#[derive(Debug)]
pub(super) struct Form {
    /// Its `FORM_TYPE` (XEP-0068).
    pub(super) form_type: &'static str,
    /// What a person reads above it.
    pub(super) title: &'static str,
    /// The fields.
    pub(super) fields: &'static [Field],
}

fn open(out: &mut Vec<u8>, kind: &str, form_type: &str, title: &str) {
    out.extend_from_slice(b"<x");
    xml::attribute(out, "xmlns", NS);
    xml::attribute(out, "type", kind);
    out.push(b'>');
    if !title.is_empty() {
        xml::text_element(out, "title", title);
    }
    out.extend_from_slice(b"<field type='hidden' var='FORM_TYPE'>");
    xml::text_element(out, "value", form_type);
    out.extend_from_slice(b"</field>");
}

impl Form {
    /// The form as it is sent, with this text in its first field, if there is any.
    pub(super) fn write(&self, now: &str) -> Vec<u8> {
        let mut out = Vec::new();
        open(&mut out, "form", self.form_type, self.title);
        for (at, field) in self.fields.iter().enumerate() {
            let now = if at == 0 { now } else { "" };
            out.extend_from_slice(b"<field");
            xml::attribute(&mut out, "type", field.kind);
            xml::attribute(&mut out, "var", field.var);
            xml::attribute(&mut out, "label", field.label);
            if !field.required && field.options.is_empty() && now.is_empty() {
                out.extend_from_slice(b"/>");
                continue;
            }
            out.extend_from_slice(if field.required { b"><required/>" } else { b">" });
            for (value, label) in field.options {
                out.extend_from_slice(b"<option");
                xml::attribute(&mut out, "label", label);
                out.push(b'>');
                xml::text_element(&mut out, "value", value);
                out.extend_from_slice(b"</option>");
            }
            now.lines().for_each(|line| xml::text_element(&mut out, "value", line));
            out.extend_from_slice(b"</field>");
        }
        out.extend_from_slice(b"</x>");
        out
    }

    /// Reads what was filled in, within the command's element: fields that the form does not have say nothing (XEP-0004 3.2). A
    /// form of type `cancel` is taken as submitted (XEP-0050 3.5). None for another form, a field that comes twice, and one that
    /// is required and is not there.
    pub(super) fn read(&self, command: &Element) -> Option<Filled> {
        let form = command.get_child("x", NS)?;
        if !matches!(form.attr("type"), Some("submit" | "cancel")) {
            return None;
        }
        let mut filled = Filled(Vec::new());
        for field in form.children().filter(|child| child.is("field", NS)) {
            let var = field.attr("var")?;
            let values = field.children().filter(|child| child.is("value", NS)).map(Element::text);
            let values: Vec<String> = values.collect();
            if var == "FORM_TYPE" {
                if !values.iter().map(String::as_str).eq([self.form_type]) {
                    return None;
                }
                continue;
            }
            let Some(known) = self.fields.iter().find(|known| known.var == var) else { continue };
            if filled.all(known.var).next().is_some() {
                return None;
            }
            filled.0.push((known.var, values));
        }
        let missing = |field: &Field| field.required && filled.all(field.var).all(str::is_empty);
        (!self.fields.iter().any(missing)).then_some(filled)
    }
}

/// What a form was filled in with.
pub(super) struct Filled(Vec<(&'static str, Vec<String>)>);

impl Filled {
    /// The values of a field.
    pub(super) fn all(&self, var: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(name, _)| *name == var).flat_map(|(_, values)| values).map(String::as_str)
    }

    /// The one value of a field that is not empty.
    pub(super) fn one(&self, var: &str) -> Option<&str> {
        let mut values = self.all(var);
        values.next().filter(|value| !value.is_empty() && values.next().is_none())
    }

    /// A text of several lines.
    pub(super) fn lines(&self, var: &str) -> String {
        self.all(var).collect::<Vec<_>>().join("\n")
    }
}

/// The type of a field in a result, which no form has told before (XEP-0004 3.3).
fn kind(var: &str, values: &[String]) -> &'static str {
    match (var.ends_with("jids"), values) {
        (true, _) => "jid-multi",
        (false, [_]) => "text-single",
        (false, _) => "text-multi",
    }
}

/// Writes fields with their values, of a result or of a row whose fields have been reported.
fn fields<'a>(out: &mut Vec<u8>, typed: bool, fields: impl IntoIterator<Item = (&'a str, &'a [String])>) {
    for (var, values) in fields {
        out.extend_from_slice(b"<field");
        xml::attribute(out, "var", var);
        if typed {
            xml::attribute(out, "type", kind(var, values));
        }
        out.push(b'>');
        values.iter().for_each(|value| xml::text_element(out, "value", value));
        out.extend_from_slice(b"</field>");
    }
}

/// Writes a result: fields with their values.
pub(super) fn result<'a>(form_type: &str, all: impl IntoIterator<Item = (&'a str, Vec<String>)>) -> Vec<u8> {
    let mut out = Vec::new();
    open(&mut out, "result", form_type, "");
    all.into_iter().for_each(|(var, values)| fields(&mut out, true, [(var, &*values)]));
    out.extend_from_slice(b"</x>");
    out
}

/// Writes a result with rosters (XEP-0133 4.8): the accounts, and the roster of each in the same order.
pub(super) fn rosters(form_type: &str, all: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    open(&mut out, "result", form_type, "");
    let jids: Vec<String> = all.iter().map(|(jid, _)| jid.clone()).collect();
    fields(&mut out, true, [("accountjids", &*jids)]);
    all.iter().for_each(|(_, roster)| out.extend_from_slice(roster));
    out.extend_from_slice(b"</x>");
    out
}

/// Writes a result of rows (XEP-0004 3.4). Where to go on, or how many more there are, is a field behind them.
pub(super) fn rows(form_type: &str, listing: &Listing) -> Vec<u8> {
    let mut out = Vec::new();
    open(&mut out, "result", form_type, "");
    out.extend_from_slice(b"<reported>");
    for column in listing.columns {
        out.extend_from_slice(b"<field");
        for (name, value) in [("var", *column), ("label", column), ("type", "text-single")] {
            xml::attribute(&mut out, name, value);
        }
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</reported>");
    for row in &listing.rows {
        out.extend_from_slice(b"<item>");
        fields(&mut out, false, listing.columns.iter().copied().zip(row.iter().map(std::slice::from_ref)));
        out.extend_from_slice(b"</item>");
    }
    let next = listing.next.clone().map(|next| ("after", next));
    let more = (listing.more > 0).then(|| ("more", listing.more.to_string()));
    next.into_iter().chain(more).for_each(|(var, value)| fields(&mut out, true, [(var, &[value][..])]));
    out.extend_from_slice(b"</x>");
    out
}
