//! The links of an invitation: an `xmpp:` URI, and the URL of a web page for recipients without a
//! client (XEP-0401 5.2).

use crate::store::invitation::Invitation;

/// An invitation as given to its issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    /// The URI (RFC 5122, XEP-0401 6).
    pub uri: String,
    /// The URL of the page, if the operator has configured one.
    pub page: Option<String>,
    /// When the invitation expires, seconds since the Unix epoch.
    pub until_s: u64,
}

/// The placeholder for the token in the operator's URL of a page.
pub const TOKEN: &str = "{token}";

/// The placeholder there for the invitation's URI without `xmpp:`.
pub const URI: &str = "{uri}";

/// Appends a part of a URI; all characters except unreserved ones are percent-encoded (RFC 3986
/// 2.1).
fn escape(out: &mut String, part: &str) {
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

fn escaped_jid(jid: &str) -> String {
    let mut out = String::new();
    let domain = match jid.split_once('@') {
        Some((local, domain)) => {
            escape(&mut out, local);
            out.push('@');
            domain
        }
        None => jid,
    };
    // A domain may be an IPv6 address (RFC 7622 3.2).
    match domain.starts_with('[') {
        true => out.push_str(domain),
        false => escape(&mut out, domain),
    }
    out
}

impl Links {
    /// The links of an invitation stored by this actor. `page` is the operator's URL.
    pub fn of(actor: &str, invitation: &Invitation, token: &str, page: Option<&str>) -> Links {
        // If the inviter becomes a contact, the URI has the inviter's address (XEP-0401 6.1, 6.4).
        let own = match invitation.befriends && !invitation.is_named && actor.contains('@') {
            true if invitation.registers => format!("{}?roster;preauth={token};ibr=y", escaped_jid(actor)),
            true => format!("{}?roster;preauth={token}", escaped_jid(actor)),
            false => {
                let domain = actor.split_once('@').map_or(actor, |(_, domain)| domain);
                let whose = if invitation.is_named { actor } else { domain };
                format!("{}?register;preauth={token}", escaped_jid(whose))
            }
        };
        let page = page.map(|page| page.replace(TOKEN, token).replace(URI, &own));
        Links { uri: format!("xmpp:{own}"), page, until_s: invitation.until_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_the_texts_have_them() {
        let of = |actor: &str, invitation: Invitation| Links::of(actor, &invitation, "TOKEN", None).uri;
        let contact = Invitation { befriends: true, ..Invitation::default() };
        let both = Invitation { befriends: true, registers: true, ..Invitation::default() };
        let account = Invitation { registers: true, ..Invitation::default() };
        let named = Invitation { registers: true, is_named: true, befriends: true, ..Invitation::default() };
        // XEP-0379 3.2, XEP-0401 6.1 and 6.4.
        assert_eq!(of("inviter@example.com", contact.clone()), "xmpp:inviter@example.com?roster;preauth=TOKEN");
        assert_eq!(of("inviter@example.com", both), "xmpp:inviter@example.com?roster;preauth=TOKEN;ibr=y");
        assert_eq!(of("example.com", account.clone()), "xmpp:example.com?register;preauth=TOKEN");
        assert_eq!(of("admin@example.com", account), "xmpp:example.com?register;preauth=TOKEN");
        assert_eq!(of("juliet@example.com", named), "xmpp:juliet@example.com?register;preauth=TOKEN");
        assert_eq!(of("o'r&m\u{e9}o@[::1]", contact.clone()), "xmpp:o%27r%26m%C3%A9o@[::1]?roster;preauth=TOKEN");
        let page = |page| Links::of("a@b", &contact, "T", Some(page)).page.expect("one");
        assert_eq!(page("https://b/invite/#{token}"), "https://b/invite/#T");
        assert_eq!(page("https://b/i/#{uri}"), "https://b/i/#a@b?roster;preauth=T");
    }
}
