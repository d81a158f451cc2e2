//! What an operator says of the publish-subscribe service.

/// Who may make nodes.
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

/// What the operator says of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who may make nodes.
    pub makers: Makers,
    /// Nodes that a user may own that is no administrator.
    pub nodes_max: u32,
    /// Nodes whose names begin so are made by administrators only: they are channels for those who have a token.
    pub reserved: Box<[Box<str>]>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { makers: Makers::Users, nodes_max: 100, reserved: Box::default() }
    }
}
