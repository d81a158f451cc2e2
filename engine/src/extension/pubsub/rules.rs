//! The operator's rules for the publish-subscribe service.

/// Who may create nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Makers {
    /// Users of the server.
    #[default]
    Users,
    /// Its administrators.
    Admins,
    /// Nobody.
    Nobody,
}

/// The operator's rules for the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who may create nodes.
    pub makers: Makers,
    /// Limit of nodes per user who is not an administrator.
    pub nodes_max: u32,
    /// Only administrators may create nodes with these prefixes: they are channels for clients with
    /// a token.
    pub reserved: Box<[Box<str>]>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { makers: Makers::Users, nodes_max: 100, reserved: Box::default() }
    }
}
