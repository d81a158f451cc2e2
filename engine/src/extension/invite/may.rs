//! What the operator lets users invite to.

/// What users may invite to (XEP-0401 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Invitations {
    /// Nothing.
    Off,
    /// To become a contact.
    #[default]
    Contacts,
    /// And to register an account here.
    Accounts,
}
