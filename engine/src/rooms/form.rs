//! Data forms (XEP-0004) of rooms, as they are sent and as they are submitted.

use minidom::Element as Tree;

use crate::wire::text::Writer;

pub(super) const NS: &str = "jabber:x:data";

/// A field of a form that is sent.
pub(super) struct Field<'a> {
    var: &'a str,
    kind: &'a str,
    label: &'a str,
    values: Vec<String>,
    options: &'a [(&'a str, &'a str)],
    /// Whether it is an integer of XEP-0122, in this range.
    range: Option<(u32, u32)>,
    required: bool,
}

impl<'a> Field<'a> {
    pub(super) fn new(var: &'a str, kind: &'a str, label: &'a str) -> Field<'a> {
        Field { var, kind, label, values: Vec::new(), options: &[], range: None, required: false }
    }

    pub(super) fn value(mut self, value: impl Into<String>) -> Field<'a> {
        self.values.push(value.into());
        self
    }

    pub(super) fn options(mut self, options: &'a [(&'a str, &'a str)]) -> Field<'a> {
        self.options = options;
        self
    }

    pub(super) fn range(mut self, min: u32, max: u32) -> Field<'a> {
        self.range = Some((min, max));
        self
    }

    pub(super) fn required(mut self) -> Field<'a> {
        self.required = true;
        self
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.open("field").attribute("var", self.var).attribute("type", self.kind);
        if !self.label.is_empty() {
            writer.attribute("label", self.label);
        }
        if let Some((min, max)) = self.range {
            writer.open("validate").attribute("xmlns", "http://jabber.org/protocol/xdata-validate");
            writer.attribute("datatype", "xs:integer").open("range");
            writer.attribute("min", &min.to_string()).attribute("max", &max.to_string()).close().close();
        }
        if self.required {
            writer.open("required").close();
        }
        for value in &self.values {
            writer.leaf("value", value);
        }
        for (value, label) in self.options {
            writer.open("option").attribute("label", label).leaf("value", value).close();
        }
        writer.close();
    }
}

/// Appends a form.
pub(super) fn write(out: &mut Vec<u8>, kind: &str, title: &str, form_type: &str, fields: &[Field<'_>]) {
    let mut writer = Writer::new(out);
    writer.open("x").attribute("xmlns", NS).attribute("type", kind);
    if !title.is_empty() {
        writer.leaf("title", title);
    }
    writer.open("field").attribute("var", "FORM_TYPE").attribute("type", "hidden").leaf("value", form_type).close();
    fields.iter().for_each(|field| field.write(&mut writer));
    writer.close();
}

/// A column of a list: its variable, label and type; the last two may be empty.
pub(super) type Column<'a> = (&'a str, &'a str, &'a str);

/// Appends a list: a form of type `result` with items (XEP-0004 3.4), each with variables and
/// values. The title and the type of the form may be empty.
pub(super) fn write_items<'a>(
    out: &mut Vec<u8>,
    title: &str,
    form_type: &str,
    columns: &[Column<'_>],
    items: impl Iterator<Item = Vec<(&'a str, String)>>,
) {
    let mut writer = Writer::new(out);
    writer.open("x").attribute("xmlns", NS).attribute("type", "result");
    if !title.is_empty() {
        writer.leaf("title", title);
    }
    if !form_type.is_empty() {
        writer.open("field").attribute("var", "FORM_TYPE").attribute("type", "hidden");
        writer.leaf("value", form_type).close();
    }
    writer.open("reported");
    for (var, label, kind) in columns {
        writer.open("field").attribute("var", var);
        writer.attribute_if("label", Some(*label).filter(|label| !label.is_empty()));
        writer.attribute_if("type", Some(*kind).filter(|kind| !kind.is_empty())).close();
    }
    writer.close();
    for item in items {
        writer.open("item");
        for (var, value) in item {
            writer.open("field").attribute("var", var).leaf("value", &value).close();
        }
        writer.close();
    }
    writer.close();
}

/// The fields of a submitted form.
#[derive(Debug, Default)]
pub(super) struct Submitted(Vec<(String, Vec<String>)>);

impl Submitted {
    /// Reads a form of type `submit`; `None` for another form.
    pub(super) fn of(form: &Tree, form_type: &str) -> Option<Submitted> {
        if form.attr("type") != Some("submit") {
            return None;
        }
        let mut fields = Vec::new();
        for field in form.children().filter(|child| child.is("field", NS)) {
            let values = field.children().filter(|child| child.is("value", NS)).map(Tree::text).collect();
            fields.push((field.attr("var")?.to_owned(), values));
        }
        let submitted = Submitted(fields);
        // XEP-0045 10.1.2: an instant room is asked for by a form without fields.
        let is_own = submitted.one("FORM_TYPE").is_none_or(|given| given == form_type);
        is_own.then_some(submitted)
    }

    /// The values of a field; `None` if it is absent.
    pub(super) fn all(&self, var: &str) -> Option<&[String]> {
        self.0.iter().find(|(name, _)| name == var).map(|(_, values)| &**values)
    }

    /// The first value of a field, which may be empty; `None` if it is absent.
    pub(super) fn one(&self, var: &str) -> Option<&str> {
        self.all(var).map(|values| values.first().map_or("", String::as_str))
    }

    /// A boolean (XEP-0004 3.3).
    pub(super) fn flag(&self, var: &str) -> Option<bool> {
        match self.one(var)? {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        }
    }
}
