//! Facts about a connection that come from its host: where it was accepted, and what its TLS handshake agreed on.

/// What a listener promises and demands of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerKind {
    /// TLS from the first byte (XEP-0368); otherwise STARTTLS is offered.
    pub direct_tls: bool,
    /// STARTTLS can be offered, because the host has a certificate.
    pub starttls: bool,
    /// PLAIN, and SCRAM, without TLS: only on loopback and only if the operator says so.
    pub plain_auth: bool,
    /// In-band registration is open here (XEP-0077).
    pub registration: bool,
}

/// Facts of a finished TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// Keying material for `tls-exporter` (RFC 9266), where it may be used.
    pub exporter: Option<[u8; 32]>,
    /// Hash of the server's certificate for `tls-server-end-point` (RFC 5929 4).
    pub server_end_point: Vec<u8>,
    /// The certificate that the client has shown, if it was asked for one: an authority that the operator trusts has issued it.
    pub certificate: Option<ClientCertificate>,
}

/// Whose a client's certificate is, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its XMPP addresses (RFC 6120 13.7.1.4), as they are in it.
    pub addresses: Box<[Box<str>]>,
    /// If it has none: addresses that the operator's rule finds (XEP-0178 2, step 11 c).
    pub mapped: Box<[Box<str>]>,
}

/// Why a connection ends that nobody here has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The peer has ended its direction, in TCP or in TLS.
    Finished,
    /// The peer vanished, or reset it.
    Broken,
    /// What came was not TLS as it should be.
    Tls,
    /// What came did not begin as the listener has it.
    Misled,
}
