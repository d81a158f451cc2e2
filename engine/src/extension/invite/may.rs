//! Which invitations the operator permits.

/// The invitations that users may issue (XEP-0401 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Invitations {
    /// None.
    Off,
    /// To become a contact of the inviter.
    #[default]
    Contacts,
    /// Also to register an account.
    Accounts,
}
