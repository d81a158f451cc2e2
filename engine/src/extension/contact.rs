//! Contact addresses of a service (XEP-0157), one or more per purpose, published in the extended
//! information of service discovery.

use std::fmt;
use std::str::FromStr;

/// The purpose of an address (XEP-0157 5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Abusive traffic.
    Abuse,
    /// The administrators.
    Admin,
    /// Feedback from customers.
    Feedback,
    /// Sales and marketing.
    Sales,
    /// Security.
    Security,
    /// A page with the service's status.
    Status,
    /// Customer support.
    Support,
}

impl Role {
    /// All of them, sorted by the names of their fields.
    const ALL: [Role; 7] =
        [Role::Abuse, Role::Admin, Role::Feedback, Role::Sales, Role::Security, Role::Status, Role::Support];

    /// Its name in options.
    const fn word(self) -> &'static str {
        match self {
            Role::Abuse => "abuse",
            Role::Admin => "admin",
            Role::Feedback => "feedback",
            Role::Sales => "sales",
            Role::Security => "security",
            Role::Status => "status",
            Role::Support => "support",
        }
    }

    /// Its field in the form (XEP-0157 5.1).
    pub const fn field(self) -> &'static str {
        match self {
            Role::Abuse => "abuse-addresses",
            Role::Admin => "admin-addresses",
            Role::Feedback => "feedback-addresses",
            Role::Sales => "sales-addresses",
            Role::Security => "security-addresses",
            Role::Status => "status-addresses",
            Role::Support => "support-addresses",
        }
    }
}

/// Length limit of an address in bytes.
const URI_BYTES_MAX: usize = 512;

/// One address: `abuse=mailto:abuse@example.org`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Contact {
    /// Its purpose.
    pub role: Role,
    /// A URI (RFC 3986), as XEP-0157 2 requires.
    pub uri: Box<str>,
}

impl FromStr for Contact {
    type Err = ();

    /// Parses `ROLE=URI`. Of the URI, only the scheme and the characters are checked.
    fn from_str(text: &str) -> Result<Contact, ()> {
        let (role, uri) = text.split_once('=').ok_or(())?;
        let role = Role::ALL.into_iter().find(|known| known.word() == role.trim()).ok_or(())?;
        let uri = uri.trim();
        let (scheme, rest) = uri.split_once(':').ok_or(())?;
        // RFC 3986 3.1.
        let scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        let rest = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&b));
        if !scheme || !rest || uri.len() > URI_BYTES_MAX {
            return Err(());
        }
        Ok(Contact { role, uri: uri.into() })
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.role.word(), self.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_uris_xep_0157_2() {
        for good in [
            "abuse=mailto:abuse@shakespeare.lit",
            "admin=xmpp:admins@shakespeare.lit?message",
            "status=https://status.shakespeare.lit",
        ] {
            assert_eq!(good.parse::<Contact>().expect(good).to_string(), good);
        }
        for bad in
            ["abuse", "abuse=", "abuse=bard@x", "king=mailto:a@b", "abuse=mailto:", "abuse=mailto:a b", "abuse=x:<"]
        {
            assert_eq!(bad.parse::<Contact>(), Err(()), "{bad}");
        }
        assert!(format!("abuse=x:{}", "y".repeat(URI_BYTES_MAX)).parse::<Contact>().is_err());
    }
}
