//! Data forms of commands (XEP-0004): those that are sent, and what comes back.

use minidom::Element;

use super::super::xml;

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
    /// The form as it is sent.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        open(&mut out, "form", self.form_type, self.title);
        for field in self.fields {
            out.extend_from_slice(b"<field");
            xml::attribute(&mut out, "type", field.kind);
            xml::attribute(&mut out, "var", field.var);
            xml::attribute(&mut out, "label", field.label);
            out.extend_from_slice(if field.required { b"><required/></field>" } else { b"/>" });
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

/// Writes a result: fields with their values.
pub(super) fn result<'a>(form_type: &str, fields: impl IntoIterator<Item = (&'a str, Vec<String>)>) -> Vec<u8> {
    let mut out = Vec::new();
    open(&mut out, "result", form_type, "");
    for (var, values) in fields {
        out.extend_from_slice(b"<field");
        xml::attribute(&mut out, "var", var);
        out.push(b'>');
        values.iter().for_each(|value| xml::text_element(&mut out, "value", value));
        out.extend_from_slice(b"</field>");
    }
    out.extend_from_slice(b"</x>");
    out
}
