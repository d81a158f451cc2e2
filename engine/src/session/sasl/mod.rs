//! Authentication, the server's side, as pure state machines (RFC 6120 6).
