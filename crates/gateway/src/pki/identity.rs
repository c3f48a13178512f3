//! Whom a certificate names.

use rustls_pki_types::CertificateDer;
use thiserror::Error;
use willcall_protocol::ids::{AgentId, IdError};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate that names no agent.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The peer showed none. The TLS layer does not let that happen.
    #[error("the peer showed no certificate")]
    Missing,
    /// Not a certificate.
    #[error("the peer's certificate cannot be parsed")]
    Unreadable(#[source] x509_parser::error::X509Error),
    /// Not exactly one name, or not a URI.
    #[error("the peer's certificate has to have exactly one alternative name, a URI")]
    NotOneUri,
    /// A URI that names no agent.
    #[error("the peer's certificate names no agent")]
    NotAnAgent(#[from] IdError),
}

/// The agent that an authenticated peer's certificate names: the first of its chain.
pub fn agent_of(chain: Option<&[CertificateDer<'_>]>) -> Result<AgentId, IdentityError> {
    let leaf = chain.and_then(<[_]>::first).ok_or(IdentityError::Missing)?;
    let (_, certificate) = X509Certificate::from_der(leaf)
        .map_err(|e| IdentityError::Unreadable(x509_parser::error::X509Error::from(e)))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(IdentityError::Unreadable)?;
    match names.map(|names| names.value.general_names.as_slice()) {
        Some([GeneralName::URI(uri)]) => Ok(AgentId::from_uri(uri)?),
        _ => Err(IdentityError::NotOneUri),
    }
}
