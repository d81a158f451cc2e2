//! Data forms of commands (XEP-0004): those that are sent and those that are submitted.

use minidom::Element;

use super::super::xml;
use crate::orders::Listing;

const NS: &str = "jabber:x:data";

/// A field of a form to be filled in.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name.
    pub(super) var: &'static str,
    /// Its type (XEP-0004 3.3).
    pub(super) kind: &'static str,
    /// Its label as displayed.
    pub(super) label: &'static str,
    /// Whether a value is required.
    pub(super) required: bool,
    /// The possible values with their labels; empty for free text.
    pub(super) options: &'static [(&'static str, &'static str)],
}

impl Field {
    /// A field for free text.
    pub(super) const fn new(var: &'static str, kind: &'static str, label: &'static str, required: bool) -> Field {
        Field { var, kind, label, required, options: &[] }
    }
}

/// A form to be filled in.
#[derive(Debug)]
pub(super) struct Form {
    /// Its `FORM_TYPE` (XEP-0068).
    pub(super) form_type: &'static str,
    /// Its title as displayed.
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
    /// The form as sent, with this text in its first field unless it is empty.
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

    /// Reads the submitted form in the command's element. Unknown fields are ignored (XEP-0004
    /// 3.2). A form of type `cancel` is treated as submitted (XEP-0050 3.5). `None` for another
    /// form, a duplicate field, or a missing required one.
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

/// The submitted values of a form.
pub(super) struct Filled(Vec<(&'static str, Vec<String>)>);

impl Filled {
    /// The values of a field.
    pub(super) fn all(&self, var: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(name, _)| *name == var).flat_map(|(_, values)| values).map(String::as_str)
    }

    /// The single non-empty value of a field.
    pub(super) fn one(&self, var: &str) -> Option<&str> {
        let mut values = self.all(var);
        values.next().filter(|value| !value.is_empty() && values.next().is_none())
    }

    /// A text with several lines.
    pub(super) fn lines(&self, var: &str) -> String {
        self.all(var).collect::<Vec<_>>().join("\n")
    }
}

/// The type of a field in a result, which no earlier form has declared (XEP-0004 3.3).
fn kind(var: &str, values: &[String]) -> &'static str {
    match (var.ends_with("jids"), values) {
        (true, _) => "jid-multi",
        (false, [_]) => "text-single",
        (false, _) => "text-multi",
    }
}

/// Writes fields with their values, of a result or of a row whose fields were declared.
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

/// Writes a result with rosters (XEP-0133 4.8): the accounts, then their rosters in the same order.
pub(super) fn rosters(form_type: &str, all: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    open(&mut out, "result", form_type, "");
    let jids: Vec<String> = all.iter().map(|(jid, _)| jid.clone()).collect();
    fields(&mut out, true, [("accountjids", &*jids)]);
    all.iter().for_each(|(_, roster)| out.extend_from_slice(roster));
    out.extend_from_slice(b"</x>");
    out
}

/// Writes a result of rows (XEP-0004 3.4). A field after them says where to continue or how many
/// rows remain.
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
