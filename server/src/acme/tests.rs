//! When orders are due, and what the folder keeps.

use std::os::unix::fs::PermissionsExt;

use super::kept::{Attempts, Folder, file, folder};
use super::when::{is_valid, pause_s, renewal, rest_s};
use super::*;

const DAY_S: i64 = 86_400;

fn issued(serial: u8, days: i64) -> Issued {
    Issued { from_s: 1_000, until_s: 1_000 + days * DAY_S, authority_key: vec![1; 20], serial: vec![serial] }
}

#[test]
fn certificates_are_renewed_after_two_thirds_of_their_life_each_at_another_time() {
    let of_90_days: Vec<i64> = (0..100).map(|serial| renewal(&issued(serial, 90), None) - 1_000).collect();
    let (first, last) = (of_90_days.iter().min().unwrap(), of_90_days.iter().max().unwrap());
    assert!(*first >= 60 * DAY_S && *last <= 64 * DAY_S + DAY_S / 2, "{first} {last}");
    assert!(last - first > 3 * DAY_S, "they are spread: {first} {last}");
    assert_eq!(renewal(&issued(7, 90), None), renewal(&issued(7, 90), None), "a restart changes nothing");
    let of_6_days = renewal(&issued(7, 6), None) - 1_000;
    assert!((4 * DAY_S..=5 * DAY_S).contains(&of_6_days), "{of_6_days}");
    // RFC 9773 4.2: a random point within the suggested window; also one that is over.
    for window in [(5_000, 6_000), (-6_000, -5_000)] {
        let at = renewal(&issued(7, 90), Some(window));
        assert!(is_valid(window) && (window.0..=window.1).contains(&at), "{at}");
    }
    // "invalid. [...] clients MUST treat one as though they failed to receive any response".
    assert!(!is_valid((9, 3)) && !is_valid((5_000, 5_000)));
    // A window after the certificate's end does not leave the name without one.
    let late = (1_000 + 90 * DAY_S, 1_000 + 900 * DAY_S);
    assert_eq!(renewal(&issued(7, 90), Some(late)), 1_000 + 81 * DAY_S);
    let broken = Issued { until_s: 0, ..issued(7, 1) };
    assert!(renewal(&broken, None) <= 1_000 && renewal(&broken, Some(late)) <= 0);
    // However short its life is, the next one is not ordered at once.
    assert_eq!(rest_s(&broken), 60);
}

/// Let's Encrypt permits five failed validations of a name per hour.
#[test]
fn a_failed_order_waits_longer_each_time_and_as_long_as_the_authority_asks() {
    let mut at = 0;
    let in_an_hour = (1..).take_while(|failed| {
        at += pause_s(*failed, 0);
        at <= 3_600
    });
    assert_eq!(1 + in_an_hour.count(), 4, "with the first one");
    assert_eq!((pause_s(1, 0), pause_s(2, 0), pause_s(3, 0)), (120, 360, 1_080));
    assert_eq!((pause_s(10, 0), pause_s(u32::MAX, 0)), (43_200, 43_200));
    assert_eq!((pause_s(1, 3_600), pause_s(10, 60), pause_s(1, i64::MAX)), (3_600, 43_200, DAY_S));
}

#[test]
fn a_certificate_that_just_came_rests_even_if_a_wrong_clock_says_that_it_is_due() {
    assert_eq!((rest_s(&issued(1, 90)), rest_s(&issued(1, 6)), rest_s(&issued(1, 0))), (21_600, 21_600, 60));
    let mut name = Name {
        name: "example.org".into(),
        issued: Some(issued(1, 90)),
        attempts: Attempts { not_before_s: 300 * DAY_S, ..Attempts::default() },
        failures: 0,
        window: None,
        window_next_s: 0,
    };
    assert_eq!((name.order_s(), name.next_s()), (300 * DAY_S, 300 * DAY_S));
    name.attempts.not_before_s = 0;
    assert_eq!(name.next_s(), 0, "the authority is asked when to renew");
    name.issued = None;
    (name.attempts.not_before_s, name.window_next_s) = (77, 7);
    assert_eq!((name.order_s(), name.next_s()), (77, 77), "nothing to renew yet");
    // Both were noted while the clock was a year ahead.
    (name.attempts.not_before_s, name.window_next_s) = (365 * DAY_S, 366 * DAY_S);
    name.bound(1_000);
    assert_eq!((name.order_s(), name.window_next_s), (1_000 + DAY_S, 1_000 + DAY_S));
    name.bound(1_000 + DAY_S);
    assert_eq!(name.order_s(), 1_000 + DAY_S, "it is due then");
}

#[test]
fn an_authority_has_a_folder_of_its_own_that_only_this_user_can_read() {
    let data = tempfile::tempdir().unwrap();
    let at = folder(data.path(), PRODUCTION);
    assert_eq!(at, data.path().join("acme/acme-v02.api.letsencrypt.org-directory"));
    assert_ne!(at, folder(data.path(), STAGING));
    let odd = folder(data.path(), "https://../../x%/[::1]:14000/dir");
    assert_eq!(odd, data.path().join("acme/-..-x-----1--14000-dir"), "it stays below the data folder");
    let kept = Folder::open(&at).unwrap();
    let pair = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
    let pem = pair.signing_key.serialize_pem() + &pair.cert.pem();
    assert!(kept.issued("example.org").is_none());
    let issued = kept.keep("example.org", &pem).unwrap();
    assert_eq!(kept.issued("example.org"), Some(issued.clone()));
    // One that cannot be used does not replace it.
    let other = rcgen::KeyPair::generate().unwrap();
    let wrong = kept.keep("example.org", &(other.serialize_pem() + &pair.cert.pem())).unwrap_err();
    assert!(wrong.contains("it is not the key of the certificate"), "{wrong}");
    assert_eq!(kept.issued("example.org"), Some(issued));
    let attempts = Attempts { failed: 3, not_before_s: 9, fault: Some("why".into()), ..Attempts::default() };
    kept.keep_attempts("example.org", &attempts).unwrap();
    assert_eq!((kept.attempts("example.org"), kept.attempts("example.net")), (attempts, Attempts::default()));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data.path().join("acme")), mode(&at)), (0o700, 0o700));
    for file in [file(&at, "example.org"), at.join("example.org.json")] {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    assert!(kept.account().unwrap().is_none());
    std::fs::write(at.join("@account.json"), "{").unwrap();
    assert!(kept.account().is_err(), "one that cannot be read is not replaced by another");
}
