//! The answer to a certificate authority that checks, by TLS, who controls a name (TLS-ALPN-01, RFC
//! 8737).
//!
//! A listener answers by a certificate of its own, which is shown only to a client that offers the
//! protocol `acme-tls/1` and nothing else. Such a connection ends with its handshake.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::pem::CertificateError;

/// RFC 8737 6.2.
pub(super) const ALPN_ACME: &[u8] = b"acme-tls/1";

/// The challenge of an order under way, if any.
#[derive(Debug, Default)]
pub struct Challenge(ArcSwapOption<(String, Arc<CertifiedKey>)>);

impl Challenge {
    /// Answers from now on for this name, in ASCII, with the digest of the key authorization (RFC
    /// 8737 3: 32 bytes).
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn show(&self, name: &str, digest: &[u8]) -> Result<(), CertificateError> {
        let make = |error: rcgen::Error| CertificateError::Make(error.to_string());
        let mut parameters = CertificateParams::new([name.to_owned()]).map_err(make)?;
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate().map_err(make)?;
        let certificate = parameters.self_signed(&key).map_err(make)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let key = any_ecdsa_type(&key).map_err(|error| CertificateError::Library(error.to_string()))?;
        // Not by `CertifiedKey::from_der`, which refuses the critical extension.
        let key = CertifiedKey::new(vec![certificate.der().clone()], key);
        self.0.store(Some(Arc::new((name.to_ascii_lowercase(), Arc::new(key)))));
        Ok(())
    }

    /// Answers no longer.
    pub fn hide(&self) {
        self.0.store(None);
    }

    /// The certificate for a client of this kind; `None` ends the handshake.
    pub(super) fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.load();
        let (of, key) = shown.as_deref()?;
        (name == Some(of)).then(|| Arc::clone(key))
    }
}

/// Whether a client asks for the answer to a challenge.
pub(super) fn is_asked(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|offered| offered.eq([ALPN_ACME]))
}
