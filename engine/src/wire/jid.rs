//! Addresses: JIDs, parsed, normalised and compared as RFC 7622 requires.
//!
//! Everything else uses normalised addresses as keys: two addresses are equal if and only if their
//! normalised texts are the same bytes. This file knows text only. It must never know whether an
//! address exists, is local, or where its home is.
//!
//! Most addresses on the path of a message are lowercase ASCII already. For those, one pass over
//! the bytes proves that the text is its own normal form ([`parse_into`], [`normalise`]). Only the
//! others pay for PRECIS and UTS-46.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;

use idna::uts46::{AsciiDenyList, Hyphens, Uts46};
use precis_core::profile::{PrecisFastInvocation, Rules};
use precis_core::{DerivedPropertyValue, FreeformClass, IdentifierClass, StringClass};
use precis_profiles::{OpaqueString, UsernameCaseMapped};

use crate::limits::{JID_CONTEXT_MAX, JID_PART_BYTES_MAX};

/// Maximum length of a normalised address in bytes: three full parts, `@` and `/`.
pub const JID_BYTES_MAX: usize = 3 * JID_PART_BYTES_MAX + 2;

// The offsets of a `Jid` are u16.
const _: () = assert!(JID_BYTES_MAX <= u16::MAX as usize);

/// PRECIS may need a few rounds before its output is stable. Text that is still unstable after this
/// many rounds is rejected (RFC 8264 7).
const PRECIS_ROUNDS_MAX: usize = 4;

/// The part of an address that an error concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// The localpart, before the `@` (RFC 7622 3.3).
    Local,
    /// The domainpart, which is mandatory (RFC 7622 3.2).
    Domain,
    /// The resourcepart, after the first `/` (RFC 7622 3.4).
    Resource,
}

/// Why a text is not a valid address. It is always the peer's fault: a stanza is answered with
/// `<jid-malformed/>` (RFC 6120 8.3.3.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum JidError {
    /// The part is present but empty.
    Empty(Part),
    /// The part, after normalisation, is longer than 1,023 bytes.
    TooLong(Part),
    /// The part contains a character that its profile forbids.
    Forbidden(Part),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Local => "localpart",
            Part::Domain => "domainpart",
            Part::Resource => "resourcepart",
        })
    }
}

impl fmt::Display for JidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JidError::Empty(part) => write!(f, "the {part} is empty"),
            JidError::TooLong(part) => {
                write!(f, "the {part} is longer than {JID_PART_BYTES_MAX} bytes")
            }
            JidError::Forbidden(part) => write!(f, "the {part} holds a character or sequence that is not allowed"),
        }
    }
}

impl std::error::Error for JidError {}

/// The range of the domainpart in a text. `from` is 0 without a localpart, otherwise the offset
/// after the `@`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cut {
    from: u16,
    until: u16,
}

impl Cut {
    /// RFC 7622 3.1: the first `/` starts the resourcepart; before it, the first `@` ends the
    /// localpart.
    fn find(text: &str) -> Cut {
        let bytes = text.as_bytes();
        let until = memchr::memchr(b'/', bytes).unwrap_or(bytes.len());
        let from = memchr::memchr(b'@', &bytes[..until]).map_or(0, |at| at + 1);
        // Only called with texts of at most `JID_BYTES_MAX` bytes; see the assertion above.
        Cut { from: from as u16, until: until as u16 }
    }

    fn local(self, text: &str) -> Option<&str> {
        (self.from > 0).then(|| &text[..usize::from(self.from) - 1])
    }

    fn domain(self, text: &str) -> &str {
        &text[usize::from(self.from)..usize::from(self.until)]
    }

    fn bare(self, text: &str) -> &str {
        &text[..usize::from(self.until)]
    }

    fn resource(self, text: &str) -> Option<&str> {
        text.get(usize::from(self.until) + 1..)
    }
}

/// A normalised address that owns its text: 24 bytes and one allocation.
///
/// Equality, order and hash are those of the text.
#[derive(Clone)]
pub struct Jid {
    text: Box<str>,
    cut: Cut,
}

/// A normalised address that borrows its text.
///
/// Equality, order and hash are those of the text.
#[derive(Clone, Copy)]
pub struct JidRef<'a> {
    text: &'a str,
    cut: Cut,
}

impl Jid {
    /// Parses and normalises an address.
    ///
    /// # Errors
    /// If a part is empty, longer than 1,023 bytes, or not allowed by its profile (RFC 7622
    /// 3.2-3.4).
    pub fn parse(input: &str) -> Result<Jid, JidError> {
        let mut scratch = String::new();
        parse_into(input, &mut scratch).map(JidRef::to_jid)
    }

    /// Joins parts that may not be normalised yet.
    ///
    /// # Errors
    /// As [`Jid::parse`], for the invalid part.
    pub fn from_parts(local: Option<&str>, domain: &str, resource: Option<&str>) -> Result<Jid, JidError> {
        let local = local.map(normalise_local).transpose()?;
        let domain = normalise_domain(domain)?;
        let resource = resource.map(normalise_resource).transpose()?;
        let mut text = String::new();
        join(&mut text, local.as_deref(), &domain, resource.as_deref());
        Ok(Jid::from_normalised(text))
    }

    /// Takes a text that is known to be normalised: one that came from a `Jid`, for example out of
    /// the store. The text is split into its parts again, but not validated.
    pub fn from_normalised(text: impl Into<Box<str>>) -> Jid {
        let text = text.into();
        debug_assert!(matches!(normalise(&text), Ok(Cow::Borrowed(_))), "{text:?} is not normalised");
        Jid { cut: Cut::find(&text), text }
    }

    /// This address, borrowed.
    pub fn as_ref(&self) -> JidRef<'_> {
        JidRef { text: &self.text, cut: self.cut }
    }

    /// The whole normalised text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The localpart; the address of a server or service has none.
    pub fn local(&self) -> Option<&str> {
        self.cut.local(&self.text)
    }

    /// The domainpart.
    pub fn domain(&self) -> &str {
        self.cut.domain(&self.text)
    }

    /// The resourcepart.
    pub fn resource(&self) -> Option<&str> {
        self.cut.resource(&self.text)
    }

    /// Whether there is no resourcepart.
    pub fn is_bare(&self) -> bool {
        usize::from(self.cut.until) == self.text.len()
    }

    /// The address without its resourcepart.
    pub fn bare(&self) -> JidRef<'_> {
        self.as_ref().bare()
    }

    /// The address without its resourcepart, as text: the basis of homes and keys.
    pub fn bare_str(&self) -> &str {
        self.cut.bare(&self.text)
    }

    /// The bare address with this resourcepart, which is normalised first.
    ///
    /// # Errors
    /// If the resourcepart is not allowed.
    pub fn with_resource(&self, resource: &str) -> Result<Jid, JidError> {
        self.as_ref().with_resource(resource)
    }
}

impl<'a> JidRef<'a> {
    /// Takes a text that is known to be normalised, as [`Jid::from_normalised`].
    pub fn from_normalised(text: &'a str) -> JidRef<'a> {
        debug_assert!(matches!(normalise(text), Ok(Cow::Borrowed(_))), "{text:?} is not normalised");
        JidRef { text, cut: Cut::find(text) }
    }

    /// Makes an owned copy.
    pub fn to_jid(self) -> Jid {
        Jid { text: self.text.into(), cut: self.cut }
    }

    /// The whole normalised text.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// The localpart; the address of a server or service has none.
    pub fn local(self) -> Option<&'a str> {
        self.cut.local(self.text)
    }

    /// The domainpart.
    pub fn domain(self) -> &'a str {
        self.cut.domain(self.text)
    }

    /// The resourcepart.
    pub fn resource(self) -> Option<&'a str> {
        self.cut.resource(self.text)
    }

    /// Whether there is no resourcepart.
    pub fn is_bare(self) -> bool {
        usize::from(self.cut.until) == self.text.len()
    }

    /// The address without its resourcepart.
    pub fn bare(self) -> JidRef<'a> {
        JidRef { text: self.cut.bare(self.text), cut: self.cut }
    }

    /// The bare address with this resourcepart, which is normalised first.
    ///
    /// # Errors
    /// If the resourcepart is not allowed.
    pub fn with_resource(self, resource: &str) -> Result<Jid, JidError> {
        let resource = normalise_resource(resource)?;
        let bare = self.cut.bare(self.text);
        let mut text = String::with_capacity(bare.len() + 1 + resource.len());
        text.push_str(bare);
        text.push('/');
        text.push_str(&resource);
        Ok(Jid { text: text.into(), cut: self.cut })
    }
}

/// Parses an address. A text that is its own normal form is borrowed without an allocation. Any
/// other is normalised into `scratch`, whose previous content is dropped.
///
/// # Errors
/// As [`Jid::parse`].
pub fn parse_into<'a>(input: &'a str, scratch: &'a mut String) -> Result<JidRef<'a>, JidError> {
    if let Some(cut) = fast_cut(input) {
        return Ok(JidRef { text: input, cut });
    }
    normalise_slow(input, scratch)?;
    Ok(JidRef { cut: Cut::find(scratch), text: scratch })
}

/// The normal form of an address; borrows the input if it is normal already.
///
/// # Errors
/// As [`Jid::parse`].
pub fn normalise(input: &str) -> Result<Cow<'_, str>, JidError> {
    if fast_cut(input).is_some() {
        return Ok(Cow::Borrowed(input));
    }
    let mut text = String::new();
    normalise_slow(input, &mut text)?;
    Ok(if text == input { Cow::Borrowed(input) } else { Cow::Owned(text) })
}

/// The normal form of a localpart (RFC 7622 3.3); also applied to user names at login.
///
/// # Errors
/// As [`Jid::parse`].
pub fn normalise_local(input: &str) -> Result<Cow<'_, str>, JidError> {
    if is_plain(input, LOCAL) { Ok(Cow::Borrowed(input)) } else { local_slow(input) }
}

/// The normal form of a domainpart (RFC 7622 3.2): U-labels in lower case, or an address literal,
/// without a final dot.
///
/// # Errors
/// As [`Jid::parse`].
pub fn normalise_domain(input: &str) -> Result<Cow<'_, str>, JidError> {
    if is_plain_domain(input) { Ok(Cow::Borrowed(input)) } else { domain_slow(input) }
}

/// The normal form of a resourcepart (RFC 7622 3.4).
///
/// # Errors
/// As [`Jid::parse`].
pub fn normalise_resource(input: &str) -> Result<Cow<'_, str>, JidError> {
    if is_plain(input, RESOURCE) { Ok(Cow::Borrowed(input)) } else { resource_slow(input) }
}

/// Bits of [`CLASS`]: the parts in which a byte is unchanged by normalisation.
const LOCAL: u8 = 1;
const DOMAIN: u8 = 2;
const RESOURCE: u8 = 4;

/// For each byte, the parts in which it is its own normal form at any position (in a domainpart:
/// within a label).
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0x20u8;
    while byte < 0x7f {
        class[byte as usize] = RESOURCE;
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' {
            class[byte as usize] |= LOCAL | DOMAIN;
        } else if byte != b' ' && !byte.is_ascii_uppercase() && !is_excluded(byte) {
            class[byte as usize] |= LOCAL;
        }
        byte += 1;
    }
    class
};

/// The characters that RFC 7622 3.3.1 excludes from localparts in addition to the profile.
const fn is_excluded(byte: u8) -> bool {
    matches!(byte, b'"' | b'&' | b'\'' | b'/' | b':' | b'<' | b'>' | b'@')
}

fn is_plain(part: &str, class: u8) -> bool {
    let within = (1..=JID_PART_BYTES_MAX).contains(&part.len());
    // Without an early exit the loop has no branch per byte; parts are short.
    within && part.bytes().fold(class, |all, byte| all & CLASS[usize::from(byte)]) != 0
}

/// Whether a domainpart consists of labels of lowercase letters, digits and hyphens that neither
/// start nor end with a hyphen and are not A-labels. This includes IPv4 literals.
fn is_plain_domain(domain: &str) -> bool {
    if !(1..=JID_PART_BYTES_MAX).contains(&domain.len()) {
        return false;
    }
    let bytes = domain.as_bytes();
    let mut before = b'.';
    for (at, &byte) in bytes.iter().enumerate() {
        let label_starts = before == b'.';
        let allowed = match byte {
            b'.' => !label_starts && before != b'-',
            b'-' => !label_starts,
            b'x' => !label_starts || !bytes[at..].starts_with(b"xn--"),
            _ => CLASS[usize::from(byte)] & DOMAIN != 0,
        };
        if !allowed {
            return false;
        }
        before = byte;
    }
    before != b'.' && before != b'-'
}

/// The cut of a text whose parts are all plain.
fn fast_cut(input: &str) -> Option<Cut> {
    if input.len() > JID_BYTES_MAX {
        return None;
    }
    let cut = Cut::find(input);
    let plain = is_plain_domain(cut.domain(input))
        && cut.local(input).is_none_or(|local| is_plain(local, LOCAL))
        && cut.resource(input).is_none_or(|resource| is_plain(resource, RESOURCE));
    plain.then_some(cut)
}

fn normalise_slow(input: &str, text: &mut String) -> Result<(), JidError> {
    let (bare, resource) = split_resource(input);
    let (local, domain) = match bare.split_once('@') {
        Some((local, domain)) => (Some(local), domain),
        None => (None, bare),
    };
    let domain = normalise_domain(domain)?;
    let local = local.map(normalise_local).transpose()?;
    let resource = resource.map(normalise_resource).transpose()?;
    text.clear();
    join(text, local.as_deref(), &domain, resource.as_deref());
    Ok(())
}

fn join(text: &mut String, local: Option<&str>, domain: &str, resource: Option<&str>) {
    text.reserve_exact(local.map_or(0, |l| l.len() + 1) + domain.len() + resource.map_or(0, |r| r.len() + 1));
    if let Some(local) = local {
        text.push_str(local);
        text.push('@');
    }
    text.push_str(domain);
    if let Some(resource) = resource {
        text.push('/');
        text.push_str(resource);
    }
}

fn local_slow(input: &str) -> Result<Cow<'_, str>, JidError> {
    // For ASCII the profile only maps letter case.
    let graphic = |byte: u8| byte.is_ascii_graphic() && !is_excluded(byte);
    if (1..=JID_PART_BYTES_MAX).contains(&input.len()) && input.bytes().all(graphic) {
        return Ok(Cow::Owned(input.to_ascii_lowercase()));
    }
    let local = enforce(input, Part::Local, username)?;
    // After the profile, because width mapping turns U+FF20 into `@`.
    if local.bytes().any(is_excluded) { Err(JidError::Forbidden(Part::Local)) } else { Ok(local) }
}

fn resource_slow(input: &str) -> Result<Cow<'_, str>, JidError> {
    enforce(input, Part::Resource, opaque_string)
}

/// The UsernameCaseMapped profile (RFC 8265 3.3).
fn username(text: &str) -> Option<Cow<'_, str>> {
    let profile = UsernameCaseMapped::new();
    // Rules that look up each character in a table are applied only if the text has characters that
    // they concern.
    let mut text = Cow::Borrowed(text);
    if text.contains(has_width) {
        text = profile.width_mapping_rule(text).ok()?;
    }
    IdentifierClass::default().allows(asked_of_context(&text)?).ok()?;
    text = profile.case_mapping_rule(text).and_then(|text| profile.normalization_rule(text)).ok()?;
    if text.contains(|c| c >= FIRST_FROM_THE_RIGHT) {
        text = profile.directionality_rule(text).ok()?;
    }
    (!text.is_empty()).then_some(text)
}

/// The first right-to-left character (Unicode 3.5: Hebrew is the first such block).
const FIRST_FROM_THE_RIGHT: char = '\u{590}';

/// Whether a character may have a counterpart of another width (Unicode, "wide" and "narrow"
/// decompositions).
fn has_width(c: char) -> bool {
    matches!(c, '\u{3000}' | '\u{ff00}'..='\u{ffef}')
}

/// A text that can replace the original one for the context rules (RFC 5892 A), with the same
/// result; `None` if it would need too many checks. The library scans the whole text for each
/// character with a context rule, so a text of only such characters would take quadratic time.
///
/// If a rule concerns the text as a whole, the first such character is checked for all of them: the
/// others are replaced by a letter without a rule. If it concerns the neighbours, a part may have a
/// few.
fn asked_of_context(text: &str) -> Option<Cow<'_, str>> {
    let has_rule = |c: char| {
        matches!(c, '\u{b7}' | '\u{375}' | '\u{5f3}' | '\u{5f4}' | '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}'
            | '\u{200c}' | '\u{200d}' | '\u{30fb}')
    };
    if !text.contains(has_rule) {
        return Some(Cow::Borrowed(text));
    }
    let (mut seen, mut neighbours) = ([false; 3], 0);
    let ask = |c: char| {
        let kind = match c {
            '\u{660}'..='\u{669}' => 0,
            '\u{6f0}'..='\u{6f9}' => 1,
            '\u{30fb}' => 2,
            _ => {
                neighbours += usize::from(has_rule(c));
                return c;
            }
        };
        if std::mem::replace(&mut seen[kind], true) { 'a' } else { c }
    };
    let asked: String = text.chars().map(ask).collect();
    (neighbours <= JID_CONTEXT_MAX).then_some(Cow::Owned(asked))
}

/// The OpaqueString profile (RFC 8265 4.2). The registry from which its classes are generated is of
/// Unicode 6.3. Letters and pictographs that were assigned later are classified by their current
/// properties; otherwise present-day nicknames would be rejected.
fn opaque_string(text: &str) -> Option<Cow<'_, str>> {
    let class = FreeformClass::default();
    let (mut in_context, mut asked) = (false, String::with_capacity(text.len()));
    for c in text.chars() {
        asked.push(match class.get_value_from_char(c) {
            DerivedPropertyValue::PValid | DerivedPropertyValue::SpecClassPval => c,
            // The library is given an older pictograph in place of each new one.
            DerivedPropertyValue::Unassigned if is_new(c) => '\u{2603}',
            DerivedPropertyValue::ContextJ | DerivedPropertyValue::ContextO => {
                in_context = true;
                c
            }
            _ => return None,
        });
    }
    if in_context {
        OpaqueString::prepare(asked_of_context(&asked)?).ok()?;
    }
    let profile = OpaqueString::new();
    let text = profile.additional_mapping_rule(text).and_then(|text| profile.normalization_rule(text)).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Whether a character is a letter, digit or pictograph of current Unicode. If the registry does
/// not know it, it was assigned after version 6.3.
fn is_new(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{1f000}'..='\u{1faff}')
}

/// Applies a profile until its output is stable (RFC 8264 7), and enforces the length limit.
fn enforce<'a>(
    input: &'a str,
    part: Part,
    profile: impl for<'b> Fn(&'b str) -> Option<Cow<'b, str>>,
) -> Result<Cow<'a, str>, JidError> {
    check_length(input, part)?;
    let mut text = Cow::Borrowed(input);
    for _ in 0..PRECIS_ROUNDS_MAX {
        let next = profile(&text).ok_or(JidError::Forbidden(part))?;
        if *next == *text {
            return check_length(&text, part).map(|()| text);
        }
        // Only the first round can make a text longer.
        check_length(&next, part)?;
        text = Cow::Owned(next.into_owned());
    }
    Err(JidError::Forbidden(part))
}

fn domain_slow(input: &str) -> Result<Cow<'_, str>, JidError> {
    check_length(input, Part::Domain)?;
    if let Some(rest) = input.strip_prefix('[') {
        return ipv6_literal(rest).map(|text| if text == input { Cow::Borrowed(input) } else { Cow::Owned(text) });
    }
    // They decompose to sentences with spaces, which are rejected, but only after each has been
    // expanded to eighteen letters.
    if input.contains(['\u{fdfa}', '\u{fdfb}']) {
        return Err(JidError::Forbidden(Part::Domain));
    }
    // The deny list leaves ASCII letters, digits, hyphens and dots, after mapping: U+2100 cannot
    // smuggle in a slash. Hyphens in the third and fourth position are permitted, because such
    // names exist in the DNS.
    let (domain, result) = Uts46::new().to_unicode(input.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    result.map_err(|_| JidError::Forbidden(Part::Domain))?;
    let mut domain = if *domain == *input { Cow::Borrowed(input) } else { Cow::Owned(domain.into_owned()) };
    if domain.ends_with('.') {
        domain = match domain {
            Cow::Borrowed(domain) => Cow::Borrowed(&domain[..domain.len() - 1]),
            Cow::Owned(mut domain) => {
                domain.pop();
                Cow::Owned(domain)
            }
        };
    }
    // A label that still starts like an A-label was decoded from one, and would be decoded again
    // the next time (UTS-46 4.1).
    if domain.split('.').any(|label| label.is_empty() || label.starts_with("xn--")) {
        return Err(if domain.is_empty() { JidError::Empty(Part::Domain) } else { JidError::Forbidden(Part::Domain) });
    }
    check_length(&domain, Part::Domain).map(|()| domain)
}

/// Parses an IPv6 literal after its opening bracket (RFC 7622 3.2, RFC 3986 3.2.2), and writes it
/// in the canonical form of RFC 5952.
fn ipv6_literal(rest: &str) -> Result<String, JidError> {
    let address: Option<Ipv6Addr> = rest.strip_suffix(']').and_then(|text| text.parse().ok());
    address.map(|address| format!("[{address}]")).ok_or(JidError::Forbidden(Part::Domain))
}

fn check_length(text: &str, part: Part) -> Result<(), JidError> {
    match text.len() {
        0 => Err(JidError::Empty(part)),
        1..=JID_PART_BYTES_MAX => Ok(()),
        _ => Err(JidError::TooLong(part)),
    }
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for JidRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Debug for JidRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text, f)
    }
}

impl std::str::FromStr for Jid {
    type Err = JidError;

    fn from_str(input: &str) -> Result<Jid, JidError> {
        Jid::parse(input)
    }
}

impl Borrow<str> for Jid {
    fn borrow(&self) -> &str {
        &self.text
    }
}

/// Implements equality, order and hash by text, for both types and between them.
macro_rules! compare_by_text {
    ($($type:ty),*) => {$(
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.text == other.text
            }
        }
        impl Eq for $type {}
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.text.cmp(&other.text)
            }
        }
        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.text.hash(state);
            }
        }
        impl PartialEq<str> for $type {
            fn eq(&self, other: &str) -> bool {
                *self.text == *other
            }
        }
        impl PartialEq<&str> for $type {
            fn eq(&self, other: &&str) -> bool {
                *self.text == **other
            }
        }
    )*};
}

compare_by_text!(Jid, JidRef<'_>);

impl PartialEq<JidRef<'_>> for Jid {
    fn eq(&self, other: &JidRef<'_>) -> bool {
        *self.text == *other.text
    }
}

impl PartialEq<Jid> for JidRef<'_> {
    fn eq(&self, other: &Jid) -> bool {
        *self.text == *other.text
    }
}

/// Splits a JID at its first slash (RFC 7622 3.2) into the bare JID and the resourcepart, if it has
/// one.
pub fn split_resource(jid: &str) -> (&str, Option<&str>) {
    // This costs a third of a search for a character, and runs several times per message.
    match memchr::memchr(b'/', jid.as_bytes()) {
        Some(at) => (&jid[..at], Some(&jid[at + 1..])),
        None => (jid, None),
    }
}

/// A JID without its resourcepart.
pub fn bare_of(jid: &str) -> &str {
    split_resource(jid).0
}

/// The resourcepart of a JID, if it has one.
pub fn resource_of(jid: &str) -> Option<&str> {
    split_resource(jid).1
}

/// The localpart of a normalised JID of the served domain.
pub fn local_of(jid: &str) -> &str {
    jid.split_once('@').map_or("", |(local, _)| local)
}

/// Whether a JID matches a normalised pattern: the JID itself, for a bare JID also any of its
/// resources, for a domain any JID at it (XEP-0191 5, XEP-0016 2.1).
pub fn matches(pattern: &str, jid: &str) -> bool {
    let bare = bare_of(jid);
    pattern == jid || pattern == bare || pattern == bare.split_once('@').map_or(bare, |(_, domain)| domain)
}

#[cfg(test)]
#[path = "jid_tests.rs"]
mod tests;
