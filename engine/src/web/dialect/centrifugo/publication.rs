//! Items as publications. JSON content is embedded as JSON, other content as a string, with its
//! media type in a tag.

use super::command::is_json;
use crate::web::item::Item;
use crate::wire::json;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// Appends an item, given as the home's line of JSON, as a publication with this offset.
pub fn write(out: &mut Vec<u8>, number: u64, item: &[u8]) {
    let item = Item::read(item);
    out.extend_from_slice(b"{\"data\":");
    let kind = item.kind.split(';').next().unwrap_or_default().trim();
    let is_plain = kind.eq_ignore_ascii_case(JSON) && !item.base64 && is_json(&item.data);
    match is_plain {
        // A line end can only be between values, since JSON strings contain none.
        true => {
            out.extend(item.data.trim().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }))
        }
        false => json::write(out, &*item.data),
    }
    out.extend_from_slice(format!(",\"offset\":{number}").as_bytes());
    if !is_plain {
        out.extend_from_slice(b",\"tags\":{\"type\":");
        json::write(out, &*item.kind);
        if item.base64 {
            out.extend_from_slice(b",\"encoding\":\"base64\"");
        }
        out.push(b'}');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(kind: &str, data: &str, more: &str) -> String {
        let quote = |text: &str| serde_json::to_string(text).unwrap();
        let (kind, data) = (quote(kind), quote(data));
        let item = format!(
            "{{\"channel\":\"a\",\"id\":\"7\",\"item\":\"i\\\"\",\"time\":\"t\",\"type\":{kind}{more},\"data\":{data}}}"
        );
        let mut out = Vec::new();
        write(&mut out, 7, item.as_bytes());
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains(['\n', '\r']) && is_json(&out), "{out}");
        out
    }

    #[test]
    fn json_is_json_and_anything_else_a_string() {
        assert_eq!(publication("application/json", "{\"a\": [1]}", ""), "{\"data\":{\"a\": [1]},\"offset\":7}");
        assert_eq!(publication("Application/JSON; charset=utf-8", "\r\n[\n1 ]\n", ""), "{\"data\":[ 1 ],\"offset\":7}");
        let text = publication("text/plain", "a\"\n{}", "");
        assert_eq!(text, "{\"data\":\"a\\\"\\n{}\",\"offset\":7,\"tags\":{\"type\":\"text/plain\"}}");
        let bytes = publication("image/x", "//4A", ",\"base64\":true");
        assert_eq!(bytes, "{\"data\":\"//4A\",\"offset\":7,\"tags\":{\"type\":\"image/x\",\"encoding\":\"base64\"}}");
        // A publisher at `/n/` can declare content to be JSON that is not, or that no client can
        // parse.
        let deep = "[".repeat(10_000);
        for wrong in ["", "{", "1}}],\"offset\":9,{", "\"\n\"", "x\n", &deep] {
            assert!(publication("application/json", wrong, "").starts_with("{\"data\":\""), "{wrong}");
        }
    }

    #[test]
    fn an_item_without_content_is_an_empty_string() {
        for item in ["", "{}", "x", "{\"channel\":\"a\",\"id\":\"7\",\"item\":\"i\",\"time\":\"t\"}"] {
            let mut out = Vec::new();
            write(&mut out, 8, item.as_bytes());
            assert_eq!(
                String::from_utf8(out).unwrap(),
                "{\"data\":\"\",\"offset\":8,\"tags\":{\"type\":\"\"}}",
                "{item}"
            );
        }
    }
}
