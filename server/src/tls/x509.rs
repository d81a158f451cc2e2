//! Reads facts from a certificate: its validity period, its names, and the hash of its signature.
//!
//! Not a validator: it reads the server's own certificate, and those of clients, which the TLS
//! library has verified. It walks the DER (X.690) without ever going out of bounds.

use std::net::IpAddr;

use jiff::civil::DateTime;
use ring::digest;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;
const OID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
/// The extensions of a certificate (RFC 5280 4.1).
const CONTEXT_3: u8 = 0xa3;
/// Tags of a GeneralName (RFC 5280 4.2.1.6): dNSName, iPAddress; otherName is `CONTEXT_0`.
const RFC822_NAME: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The facts of a certificate.
#[derive(Debug)]
pub(super) struct Facts {
    /// `notBefore`, in seconds since 1970-01-01T00:00:00Z.
    pub(super) not_before: i64,
    /// `notAfter`, in seconds since 1970-01-01T00:00:00Z.
    pub(super) not_after: i64,
    /// The hash for `tls-server-end-point` (RFC 5929 4.1), where defined.
    pub(super) end_point: Option<Vec<u8>>,
    /// Its subject names: those in `subjectAltName` that identify an XMPP server or user.
    pub(super) names: Vec<Name>,
    /// The serial number, as encoded (RFC 5280 4.1.2.2).
    pub(super) serial: Vec<u8>,
    /// The identifier of its authority's key (RFC 5280 4.2.1.1), empty if it has none.
    pub(super) authority_key: Vec<u8>,
    /// It is only valid with a stapled OCSP response (RFC 7633).
    pub(super) must_staple: bool,
    /// The common name of its subject, the last one if there are several.
    pub(super) common_name: Option<String>,
}

/// A subject name of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Name {
    /// A host, or all hosts directly below a domain: `*.example.org` (RFC 6125 1.8).
    Dns(String),
    /// A service at a host: `_xmpp-client.example.org` (RFC 4985).
    Service(String),
    /// An XMPP domain, or the address of a user (RFC 6120 13.7.1.4).
    Xmpp(String),
    /// A mailbox (RFC 5280 4.2.1.6).
    Mail(String),
    /// An address.
    Address(IpAddr),
}

/// Reads the facts; `None` if this is not an X.509 certificate.
pub(super) fn facts(certificate: &[u8]) -> Option<Facts> {
    let mut outer = Der(certificate);
    let mut fields = Der(outer.expect(SEQUENCE)?);
    let mut tbs = Der(fields.expect(SEQUENCE)?);
    let mut algorithm = Der(fields.expect(SEQUENCE)?);

    let (tag, first) = tbs.next()?;
    let serial = if tag == CONTEXT_0 { tbs.next()?.1 } else { first }; // the version may come first
    tbs.expect(SEQUENCE)?; // signature algorithm
    tbs.expect(SEQUENCE)?; // issuer
    let mut validity = Der(tbs.expect(SEQUENCE)?);
    let (tag, time) = validity.next()?;
    let not_before = seconds(tag, time)?;
    let (tag, time) = validity.next()?;
    let not_after = seconds(tag, time)?;
    let common_name = common_name(tbs.expect(SEQUENCE)?);
    tbs.expect(SEQUENCE)?; // its key
    let extensions = std::iter::from_fn(|| tbs.next()).find(|(tag, _)| *tag == CONTEXT_3);
    let extensions = extensions.map_or(&[][..], |(_, extensions)| extensions);
    let names = alternative_names(extensions).unwrap_or_default();

    let oid = algorithm.expect(OID)?;
    let hash = hash_of_signature(oid, algorithm);
    Some(Facts {
        not_before,
        not_after,
        names,
        serial: serial.to_vec(),
        authority_key: authority_key(extensions).unwrap_or_default().to_vec(),
        must_staple: must_staple(extensions),
        common_name,
        end_point: hash.map(|hash| digest::digest(hash, certificate).as_ref().to_vec()),
    })
}

/// The common name in a subject (RFC 5280 4.1.2.4, 4.1.2.6), if it is text in UTF-8 or ASCII.
fn common_name(subject: &[u8]) -> Option<String> {
    /// 2.5.4.3
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    let (mut subject, mut found) = (Der(subject), None);
    while let Some(parts) = subject.expect(SET) {
        let mut parts = Der(parts);
        while let Some(part) = parts.expect(SEQUENCE) {
            let mut part = Der(part);
            if part.expect(OID)? == COMMON_NAME
                && let Some((UTF8_STRING | PRINTABLE_STRING | IA5_STRING, text)) = part.next()
            {
                found = str::from_utf8(text).ok().map(str::to_owned);
            }
        }
    }
    found
}

/// The value of an extension.
fn extension<'a>(extensions: &'a [u8], which: &[u8]) -> Option<&'a [u8]> {
    let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
    loop {
        let mut extension = Der(extensions.expect(SEQUENCE)?);
        if extension.expect(OID)? == which {
            // `critical` may precede the value.
            return std::iter::from_fn(|| extension.next())
                .find(|(tag, _)| *tag == OCTET_STRING)
                .map(|(_, value)| value);
        }
    }
}

/// The `keyIdentifier` in the extension `authorityKeyIdentifier`.
fn authority_key(extensions: &[u8]) -> Option<&[u8]> {
    /// 2.5.29.35
    const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];
    const KEY_IDENTIFIER: u8 = 0x80;
    Der(Der(extension(extensions, AUTHORITY_KEY)?).expect(SEQUENCE)?).expect(KEY_IDENTIFIER)
}

/// Whether the TLS features demanded of a server include `status_request` (RFC 7633 4).
fn must_staple(extensions: &[u8]) -> bool {
    /// 1.3.6.1.5.5.7.1.24
    const TLS_FEATURE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x18];
    const STATUS_REQUEST: &[u8] = &[5];
    let features = extension(extensions, TLS_FEATURE).and_then(|value| Der(value).expect(SEQUENCE));
    let mut features = Der(features.unwrap_or_default());
    std::iter::from_fn(|| features.next()).any(|feature| feature == (INTEGER, STATUS_REQUEST))
}

/// The names in the extension `subjectAltName`; any number of names in forms other than [`Name`]'s
/// are ignored.
fn alternative_names(extensions: &[u8]) -> Option<Vec<Name>> {
    /// 2.5.29.17
    const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
    let mut names = Der(Der(extension(extensions, SUBJECT_ALT_NAME)?).expect(SEQUENCE)?);
    Some(std::iter::from_fn(|| names.next()).filter_map(|(tag, name)| general_name(tag, name)).collect())
}

fn general_name(tag: u8, value: &[u8]) -> Option<Name> {
    /// 1.3.6.1.5.5.7.8
    const OTHER_NAMES: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08];
    let text = |bytes: &[u8]| str::from_utf8(bytes).ok().map(str::to_owned);
    match tag {
        DNS_NAME => text(value).map(Name::Dns),
        RFC822_NAME => text(value).map(Name::Mail),
        IP_ADDRESS => match value.len() {
            4 => <[u8; 4]>::try_from(value).ok().map(|four| Name::Address(four.into())),
            _ => <[u8; 16]>::try_from(value).ok().map(|sixteen| Name::Address(sixteen.into())),
        },
        CONTEXT_0 => {
            let mut other = Der(value);
            let which = other.expect(OID)?.strip_prefix(OTHER_NAMES)?;
            match (which, Der(other.expect(CONTEXT_0)?).next()?) {
                ([5], (UTF8_STRING, name)) => text(name).map(Name::Xmpp),
                ([7], (IA5_STRING, name)) => text(name).map(Name::Service),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The hash function of a signature algorithm; SHA-256 in place of MD5 and SHA-1 (RFC 5929 4.1).
fn hash_of_signature(oid: &[u8], parameters: Der<'_>) -> Option<&'static digest::Algorithm> {
    /// 1.2.840.113549.1.1
    const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    /// 1.2.840.10045.4
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    if let Some(which) = oid.strip_prefix(PKCS1) {
        return match which {
            [4 | 5 | 11] => Some(&digest::SHA256),
            [12] => Some(&digest::SHA384),
            [13] => Some(&digest::SHA512),
            [10] => pss_hash(parameters),
            _ => None,
        };
    }
    match oid.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(&digest::SHA256),
        [3, 3] => Some(&digest::SHA384),
        [3, 4] => Some(&digest::SHA512),
        _ => None,
    }
}

/// RFC 4055 3.1: the hash is the first parameter, SHA-1 if omitted.
fn pss_hash(mut parameters: Der<'_>) -> Option<&'static digest::Algorithm> {
    /// 2.16.840.1.101.3.4.2
    const NIST: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
    let mut parameters = Der(parameters.expect(SEQUENCE)?);
    let Some((CONTEXT_0, hash)) = parameters.next() else {
        return Some(&digest::SHA256);
    };
    let oid = Der(Der(hash).expect(SEQUENCE)?).expect(OID)?;
    match oid.strip_prefix(NIST) {
        Some([1]) => Some(&digest::SHA256),
        Some([2]) => Some(&digest::SHA384),
        Some([3]) => Some(&digest::SHA512),
        Some(_) => None,
        None => Some(&digest::SHA256), // SHA-1, the only other one in use
    }
}

/// Consecutive values in a piece of DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (len, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if bytes.is_empty() || bytes.len() > 3 {
                return None;
            }
            let len = bytes.iter().fold(0, |len, &b| len << 8 | usize::from(b));
            (len, rest)
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }
}

/// `UTCTime` and `GeneralizedTime` as RFC 5280 4.1.2.5 allows them.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let century = match (tag, text) {
        (UTC_TIME, [tens @ b'0'..=b'9', ..]) if text.len() == 13 => {
            if *tens < b'5' {
                "20"
            } else {
                "19"
            }
        }
        (GENERALIZED_TIME, _) if text.len() == 15 => "",
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", [century.as_bytes(), text].concat()).ok()?;
    // A `Timestamp` ends before 99991231235959Z, which marks a certificate without expiry.
    Some(time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rfc_5280_4_1_2_5_are_read() {
        assert_eq!(seconds(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
        assert_eq!(seconds(UTC_TIME, b"000229120000Z"), Some(951_825_600));
        for bad in [&b"700101000000"[..], b"7001010000Z", b"70010100000xZ", b"Z"] {
            assert_eq!(seconds(UTC_TIME, bad), None);
        }
        assert_eq!(seconds(UTC_TIME, b"701301000000Z"), None);
        assert_eq!(seconds(GENERALIZED_TIME, b"99991231235959Z"), Some(253_402_300_799));
    }

    #[test]
    fn no_piece_of_a_certificate_reads_past_its_end() {
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.use_authority_key_identifier_extension = true;
        let staple = [0x30, 3, INTEGER, 1, 5];
        let feature = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], staple.to_vec());
        parameters.custom_extensions.push(feature);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let der = certificate.der();
        let whole = facts(der).unwrap();
        assert!(whole.must_staple && !whole.authority_key.is_empty() && !whole.serial.is_empty());
        for end in 0..der.len() {
            assert!(facts(&der[..end]).is_none());
        }
        for at in 0..der.len() {
            for value in [0, 0x7f, 0x80, 0x83, 0xff] {
                let mut altered = der.to_vec();
                altered[at] = value;
                let _ = facts(&altered);
            }
        }
    }
}
