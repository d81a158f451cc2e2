//! Downloads (RFC 9110): a whole file or a range of it, or nothing if the client already has it.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use throng_engine::extension::upload::slot::encode_segment;

use super::About;
use super::reply::{Content, NOT_NOW, Named, Part, Shared, aside, empty, said};

/// Maximum time for which caches may retain a file, seconds: its owner may delete the account.
const CACHED_S: u64 = 86_400;

/// Types that a browser may display inline: none of them is active content (XEP-0363 9).
const SHOWN: &[&str] = &[
    "image/jpeg",
    "image/png",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/opus",
    "audio/wav",
    "audio/webm",
    "audio/flac",
    "video/mp4",
    "video/webm",
    "video/ogg",
    "video/quicktime",
    "text/plain",
];

pub(super) async fn get(shared: &Shared, named: Named, request: &Request<Incoming>, now_s: u64) -> Response<Content> {
    let (files, id) = (shared.files.clone(), named.id.clone());
    let found = aside(move || files.find(&named.id, &named.name, now_s)).await;
    let (file, about, begins) = match found {
        Some(Ok(found)) => found,
        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            return said(StatusCode::SERVICE_UNAVAILABLE, NOT_NOW);
        }
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = id, "cannot read an uploaded file");
            return said(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read\n");
        }
        Some(Err(_)) => return said(StatusCode::NOT_FOUND, "there is no such file\n"),
        None => return said(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read\n"),
    };
    let tag = format!("\"{id}\"");
    let came = UNIX_EPOCH + Duration::from_secs(about.came_s);
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let (status, part) = match condition(request.headers(), &tag, came) {
        Some(status) => (status, None),
        None => {
            // RFC 9110 14.2: a range applies to GET; 13.1.5: to the version of which the client
            // already has a part.
            let same = text(header::IF_RANGE).is_none_or(|shown| shown == tag || date(shown) == Some(came));
            let wanted = text(header::RANGE).filter(|_| same && request.method() == Method::GET);
            match wanted.and_then(|wanted| range(wanted, about.size)) {
                None => (StatusCode::OK, Some((0, about.size))),
                Some(Some(part)) => (StatusCode::PARTIAL_CONTENT, Some(part)),
                Some(None) => (StatusCode::RANGE_NOT_SATISFIABLE, None),
            }
        }
    };
    let mut response = match part {
        Some((at, length)) => {
            let mut response = Response::new(Content::File(Part::of(file, begins + at, length)));
            *response.status_mut() = status;
            response
        }
        None => empty(status),
    };
    let range = match (status, part) {
        (StatusCode::PARTIAL_CONTENT, Some((at, length))) => {
            Some(format!("bytes {at}-{}/{}", at + length - 1, about.size))
        }
        (StatusCode::RANGE_NOT_SATISFIABLE, _) => Some(format!("bytes */{}", about.size)),
        _ => None,
    };
    let kept_s = about.expires_s.saturating_sub(now_s).min(CACHED_S);
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            response.headers_mut().insert(name, value);
        }
    };
    put(header::ETAG, &tag);
    put(header::LAST_MODIFIED, &httpdate::fmt_http_date(came));
    put(header::CACHE_CONTROL, &format!("private, max-age={kept_s}, immutable"));
    put(header::ACCEPT_RANGES, "bytes");
    if part.is_some() {
        put(header::CONTENT_TYPE, &about.content_type);
        put(header::CONTENT_DISPOSITION, &disposition(&about));
    }
    if let Some(range) = range {
        put(header::CONTENT_RANGE, &range);
    }
    response
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// The response to the conditions of a request, in the order of RFC 9110 13.2.2; `None` if they
/// permit a full response.
fn condition(headers: &HeaderMap, tag: &str, came: SystemTime) -> Option<StatusCode> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // 13.1.1 compares tags strongly, 13.1.2 weakly; files never change, so no tag of ours is weak.
    let has = |list: &str, weak: bool| {
        let bare = |shown: &str| if weak { shown.strip_prefix("W/").unwrap_or(shown) == tag } else { shown == tag };
        list.split(',').map(str::trim).any(|shown| shown == "*" || bare(shown))
    };
    match (text(header::IF_MATCH), text(header::IF_UNMODIFIED_SINCE).and_then(date)) {
        (Some(list), _) if !has(list, false) => return Some(StatusCode::PRECONDITION_FAILED),
        (None, Some(since)) if came > since => return Some(StatusCode::PRECONDITION_FAILED),
        _ => {}
    }
    let unchanged = match (text(header::IF_NONE_MATCH), text(header::IF_MODIFIED_SINCE).and_then(date)) {
        (Some(list), _) => has(list, true),
        (None, Some(since)) => came <= since,
        (None, None) => false,
    };
    unchanged.then_some(StatusCode::NOT_MODIFIED)
}

/// The requested range of bytes, as offset and length; `Some(None)` if it is unsatisfiable. `None`
/// if it is invalid, or if there are several: then the whole file is sent (RFC 9110 14.2).
fn range(text: &str, size: u64) -> Option<Option<(u64, u64)>> {
    let (from, to) = text.strip_prefix("bytes=")?.trim().split_once('-')?;
    let digits = |text: &str| {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (from, to) = match (from, to) {
        ("", last) => (size.saturating_sub(digits(last)?), if digits(last)? == 0 { 0 } else { size }),
        (from, "") => (digits(from)?, size),
        (from, to) => {
            let (from, to) = (digits(from)?, digits(to)?);
            if from > to {
                return None;
            }
            (from, to.saturating_add(1).min(size))
        }
    };
    Some((from < to).then(|| (from, to - from)))
}

/// The content disposition of a file (RFC 6266): types that may be active content can only be
/// saved.
fn disposition(about: &About) -> String {
    let essence = about.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let how = if SHOWN.contains(&&*essence) { "inline" } else { "attachment" };
    let plain = |c: char| if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') || c == ' ' { c } else { '_' };
    let ascii: String = about.name.chars().map(plain).collect();
    let mut text = format!("{how}; filename=\"{ascii}\"; filename*=UTF-8''");
    encode_segment(&mut text, &about.name);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9110 14.1.2 and 14.2.
    #[test]
    fn ranges_are_those_of_rfc9110_14_1_2() {
        for (text, found) in [
            ("bytes=0-499", Some(Some((0, 500)))),
            ("bytes=500-999", Some(Some((500, 500)))),
            ("bytes=-500", Some(Some((9_500, 500)))),
            ("bytes=9500-", Some(Some((9_500, 500)))),
            ("bytes=0-0", Some(Some((0, 1)))),
            ("bytes=-20000", Some(Some((0, 10_000)))),
            ("bytes=9999-99999999999999999999999", Some(Some((9_999, 1)))),
            ("bytes=10000-", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=5-4", None),
            ("bytes=0-1,3-4", None),
            ("bytes=a-b", None),
            ("bytes=+1-2", None),
            ("bytes=-", None),
            ("items=0-1", None),
            ("bytes", None),
        ] {
            assert_eq!(range(text, 10_000), found, "{text}");
        }
    }

    /// RFC 9110 13.2.2.
    #[test]
    fn conditions_are_judged_in_the_order_of_rfc9110_13_2_2() {
        let came = UNIX_EPOCH + Duration::from_secs(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT
        let judged = |pairs: &[(HeaderName, &str)]| {
            let headers =
                pairs.iter().map(|(name, text)| (name.clone(), HeaderValue::from_str(text).expect("a value")));
            condition(&headers.collect(), "\"a\"", came).map(|status| status.as_u16())
        };
        use header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
        let (same, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(judged(&[]), None);
        assert_eq!(judged(&[(IF_NONE_MATCH, "\"b\", W/\"a\"")]), Some(304));
        assert_eq!(judged(&[(IF_NONE_MATCH, "*")]), Some(304));
        assert_eq!(judged(&[(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, same)]), None, "the tag counts");
        assert_eq!(judged(&[(IF_MODIFIED_SINCE, same)]), Some(304));
        assert_eq!(judged(&[(IF_MODIFIED_SINCE, before)]), None);
        assert_eq!(judged(&[(IF_MODIFIED_SINCE, "soon")]), None);
        assert_eq!(judged(&[(IF_MATCH, "\"a\"")]), None);
        assert_eq!(judged(&[(IF_MATCH, "W/\"a\"")]), Some(412), "13.1.1 compares strongly");
        assert_eq!(judged(&[(IF_UNMODIFIED_SINCE, before)]), Some(412));
        assert_eq!(judged(&[(IF_MATCH, "\"a\""), (IF_UNMODIFIED_SINCE, before)]), None);
    }

    #[test]
    fn nothing_that_may_run_is_shown_in_place_xep0363_9() {
        let of = |content_type: &str, name: &str| {
            let about = About {
                owner: "a@b".into(),
                account: "0".into(),
                name: name.into(),
                content_type: content_type.into(),
                size: 1,
                came_s: 0,
                expires_s: 1,
            };
            disposition(&about)
        };
        assert_eq!(of("image/jpeg", "a.jpg"), "inline; filename=\"a.jpg\"; filename*=UTF-8''a.jpg");
        assert!(of("Text/Plain; charset=utf-8", "a").starts_with("inline;"));
        for active in [
            "text/html",
            "image/svg+xml",
            "application/xhtml+xml",
            "text/xml",
            "application/pdf",
            "text/javascript",
            "nonsense",
        ] {
            assert!(of(active, "a").starts_with("attachment;"), "{active}");
        }
        assert_eq!(of("image/png", "\"ü\\.png"), "inline; filename=\"___.png\"; filename*=UTF-8''%22%C3%BC%5C.png");
    }

    proptest! {
        #[test]
        fn a_range_lies_within_its_file(text in "bytes=[0-9]{0,6}-[0-9]{0,6}", size in 0..2_000_000_u64) {
            if let Some(Some((at, length))) = range(&text, size) {
                prop_assert!(length > 0 && at + length <= size);
            }
        }
    }
}
