//! Form-encoded names and values (WHATWG URL 5.1), in a body or a query.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The pairs of a form in order; `None` for a pair that is not UTF-8.
pub fn pairs(form: &str) -> impl Iterator<Item = Option<(Cow<'_, str>, Cow<'_, str>)>> {
    form.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?))
    })
}

/// Decodes a name or value; `None` if it is not UTF-8.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let text = text.replace('+', " ");
    Some(Cow::Owned(percent_decode_str(&text).decode_utf8().ok()?.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let form = "topic=https%3A%2F%2Fa%2Fb&data=a+b%2B%C3%A9%&&private&x=1=2";
        let read: Vec<_> = pairs(form).map(Option::unwrap).collect();
        let expected = [("topic", "https://a/b"), ("data", "a b+\u{e9}%"), ("private", ""), ("x", "1=2")]
            .map(|(a, b)| (a.into(), b.into()));
        assert_eq!(read, expected);
        assert_eq!(pairs("a=%FF").next(), Some(None));
        assert_eq!(pairs("").next(), None);
    }
}
