//! Requests to a web service about operations on channels, and its answers, as JSON.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use throng_engine::io::{Decision, Inquiry};
use throng_engine::web::access::token::is_name;

/// The body of a request.
pub(super) fn body(inquiry: &Inquiry) -> Value {
    let fields = inquiry.sent.fields.iter().map(|(name, value)| (name.to_string(), Value::from(&**value)));
    json!({
        "operation": inquiry.operation(),
        "channels": inquiry.channels,
        "occupancy": inquiry.occupancy,
        "address": inquiry.address.to_string(),
        "origin": inquiry.sent.origin,
        "headers": fields.collect::<Map<_, _>>(),
    })
}

/// Parses an answer.
///
/// # Errors
/// Why it is invalid.
pub(super) fn answer(body: &[u8]) -> Result<Decision, &'static str> {
    let told: Value = serde_json::from_slice(body).map_err(|_| "its answer is not JSON")?;
    let allowed = told.get("allow").and_then(Value::as_bool).ok_or("its answer lacks allow as true or false")?;
    if !allowed {
        return Ok(Decision::Denied);
    }
    let member = |name: &str| told.get(name).filter(|value| !value.is_null());
    let name = match member("name") {
        None => None,
        Some(name) => {
            let name = name.as_str().filter(|name| is_name(name));
            Some(Arc::from(name.ok_or("name must be one line of 1 to 128 bytes")?))
        }
    };
    let seconds = match member("seconds") {
        None => None,
        Some(seconds) => {
            let seconds = seconds.as_u64().filter(|seconds| *seconds > 0);
            let seconds = seconds.ok_or("seconds must be a positive integer")?;
            Some(u32::try_from(seconds).unwrap_or(u32::MAX))
        }
    };
    Ok(Decision::Allowed { name, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_engine::web::access::Act;
    use throng_engine::web::inquiry::Sent;

    #[test]
    fn a_question_says_who_asks_for_what() {
        let sent = Sent {
            origin: Some("https://app.example".into()),
            fields: vec![("cookie".into(), "session=\"1\"; b=\u{e9}".into())],
        };
        let channels = vec!["room.1".into(), "room.2".into()];
        let address = "2001:db8::1".parse().expect("an address");
        let mut inquiry = Inquiry { act: Act::Subscribe, deletes: false, occupancy: true, channels, address, sent };
        assert_eq!(
            body(&inquiry),
            json!({
                "operation": "subscribe", "channels": ["room.1", "room.2"], "occupancy": true, "address": "2001:db8::1",
                "origin": "https://app.example", "headers": { "cookie": "session=\"1\"; b=\u{e9}" },
            })
        );
        inquiry.sent = Sent::default();
        assert_eq!((body(&inquiry)["origin"].clone(), body(&inquiry)["headers"].clone()), (Value::Null, json!({})));
    }

    #[test]
    fn an_answer_is_what_the_page_says_it_is_and_nothing_else() {
        let allowed = |name: Option<&str>, seconds| Ok(Decision::Allowed { name: name.map(Into::into), seconds });
        for (body, wanted) in [
            (r#"{"allow":true}"#, allowed(None, None)),
            (r#"{"allow":true,"name":"romeo","seconds":60,"more":[1]}"#, allowed(Some("romeo"), Some(60))),
            (r#"{"allow":true,"name":null,"seconds":null}"#, allowed(None, None)),
            (r#"{"allow":true,"seconds":99999999999}"#, allowed(None, Some(u32::MAX))),
            (r#"{"allow":false,"name":7}"#, Ok(Decision::Denied)),
        ] {
            assert_eq!(answer(body.as_bytes()), wanted, "{body}");
        }
        for wrong in [
            "",
            "true",
            "[]",
            "{}",
            r#"{"allow":"true"}"#,
            r#"{"allow":1}"#,
            r#"{"allow":true,"name":""}"#,
            r#"{"allow":true,"name":"a\nb"}"#,
            r#"{"allow":true,"name":1}"#,
            r#"{"allow":true,"seconds":0}"#,
            r#"{"allow":true,"seconds":-1}"#,
            r#"{"allow":true,"seconds":1.5}"#,
            r#"{"allow":true,"seconds":"60"}"#,
            "<html>true</html>",
            "{\"allow\":true}x",
        ] {
            assert!(answer(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let long = format!(r#"{{"allow":true,"name":"{}"}}"#, "x".repeat(129));
        assert!(answer(long.as_bytes()).is_err());
    }
}
