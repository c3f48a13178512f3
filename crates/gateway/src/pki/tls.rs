//! The hosts' listener's TLS: 1.3 only, both sides authenticated, nothing resumed.

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use thiserror::Error;

/// A key or certificate that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// Not PEM, or not with what it has to have in it.
    #[error("the {0} is not the PEM that was expected")]
    Pem(&'static str, #[source] rustls_pki_types::pem::Error),
    /// Refused by the TLS library.
    #[error("the server's key and certificate, or its CA, cannot be used")]
    Rustls(#[from] rustls::Error),
    /// The CA cannot verify clients.
    #[error("clients cannot be verified against the CA")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The configuration for hosts: `ca` is whom their certificates come from, `server` our key and certificate.
pub fn server_config(ca: &str, server: &str) -> Result<ServerConfig, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for root in certificates("CA certificate", ca)? {
        roots.add(root)?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()?;
    let key = PrivateKeyDer::from_pem_slice(server.as_bytes())
        .map_err(|e| TlsError::Pem("server key", e))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("server certificate", server)?, key)?;
    // A resumed session skips the check of the client's certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |e| TlsError::Pem(what, e);
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    if all.is_empty() {
        return Err(wrong(rustls_pki_types::pem::Error::NoItemsFound));
    }
    Ok(all)
}
