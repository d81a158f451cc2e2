//! Tests of submitted forms.

use proptest::prelude::*;

use super::super::xml;
use super::form::{Field, Form, result};

const FORM: Form = Form {
    form_type: "t",
    title: "Title",
    fields: &[Field::new("a", "text-single", "A", true), Field::new("b", "text-multi", "B", false)],
};

fn read(form: &str) -> Option<Vec<String>> {
    let element = xml::parse(format!("<command xmlns='c'>{form}</command>").as_bytes()).expect("well-formed");
    let filled = FORM.read(&element)?;
    Some(vec![filled.one("a").unwrap_or_default().to_owned(), filled.lines("b")])
}

/// XEP-0004 3.2, XEP-0068, XEP-0050 3.5.
#[test]
fn a_form_is_read_as_it_was_sent_out() {
    let form = |kind: &str, fields: &str| format!("<x xmlns='jabber:x:data' type='{kind}'>{fields}</x>");
    let field = |var: &str, value: &str| format!("<field var='{var}'><value>{value}</value></field>");
    let filled = [field("a", "1"), "<field var='b'><value>2</value><value>3</value></field>".to_owned()].concat();
    let read_back = Some(vec!["1".to_owned(), "2\n3".to_owned()]);
    for (fields, expected) in [
        (filled.clone(), read_back.clone()),
        ([field("FORM_TYPE", "t"), filled.clone()].concat(), read_back.clone()),
        ([field("FORM_TYPE", "u"), filled.clone()].concat(), None),
        ([field("unknown", "x"), filled.clone()].concat(), read_back.clone()),
        (field("b", "2"), None),
        (field("a", ""), None),
        ([field("a", "1"), field("a", "2")].concat(), None),
        (["<field><value>1</value></field>", &filled].concat(), None),
        (String::new(), None),
    ] {
        assert_eq!(read(&form("submit", &fields)), expected, "{fields}");
    }
    assert_eq!(read(&form("cancel", &filled)), read_back, "taken as submitted");
    assert_eq!(read(&form("form", &filled)), None);
    assert_eq!(read(&form("result", &filled)), None);
    assert_eq!(read(""), None);
    let sent = String::from_utf8(FORM.write("")).expect("text");
    assert!(sent.contains("type='form'") && sent.contains("<required/>") && sent.contains("<title>Title</title>"));
}

proptest! {
    /// Any value is transmitted unchanged and never parsed as markup.
    #[test]
    fn values_come_through(value in "[\t\n -\u{d7ff}]{1,40}") {
        let written = result("t", [("a", vec![value.clone()])]);
        let written = String::from_utf8(written).expect("text").replace("type='result'", "type='submit'");
        prop_assert_eq!(read(&written), Some(vec![value, String::new()]));
    }
}
