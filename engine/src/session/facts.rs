//! Facts about a connection that its host provides: where it was accepted, and the result of its
//! TLS handshake.

/// What a listener offers to its connections and requires of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ListenerKind {
    /// TLS from the first byte (XEP-0368); otherwise STARTTLS is offered.
    pub direct_tls: bool,
    /// Whether STARTTLS can be offered, because the host has a certificate.
    pub starttls: bool,
    /// Whether PLAIN and SCRAM are permitted without TLS: only on loopback, and only if the
    /// operator permits it.
    pub plain_auth: bool,
    /// Whether in-band registration is open here (XEP-0077).
    pub registration: bool,
}

/// Facts of a finished TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TlsFacts {
    /// Keying material for `tls-exporter` (RFC 9266), if it may be used.
    pub exporter: Option<[u8; 32]>,
    /// Hash of the server's certificate for `tls-server-end-point` (RFC 5929 4).
    pub server_end_point: Vec<u8>,
    /// The client's certificate, if one was requested. An authority that the operator trusts has
    /// issued it.
    pub certificate: Option<ClientCertificate>,
}

/// The identities in a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClientCertificate {
    /// Its XMPP addresses (RFC 6120 13.7.1.4), verbatim.
    pub addresses: Box<[Box<str>]>,
    /// If it has none, the addresses found by the operator's rule (XEP-0178 2, step 11 c).
    pub mapped: Box<[Box<str>]>,
}

/// Why a connection ends that this server did not close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The peer has closed its direction, in TCP or in TLS.
    Finished,
    /// The peer disappeared, or reset the connection.
    Broken,
    /// The input was not valid TLS.
    Tls,
    /// The input did not begin as the listener requires.
    Misled,
}
