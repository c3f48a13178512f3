//! The identity, the one trusted CA, and who is to blame for a failed handshake.

use crate::limits::MAX_PEM;
use rustls::client::Resumption;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The files that say who we are and whom we trust. This host is to blame.
#[derive(Debug, Error)]
pub enum PemFileError {
    /// Not there, or not ours to read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Too long.
    #[error("{} is longer than {MAX_PEM} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Not PEM.
    #[error("{} is not a PEM file", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// No certificate in it.
    #[error("{} has no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Not exactly one private key in it.
    #[error("{} has {found} private keys; an identity has one", path.display())]
    NotOneKey {
        /// The file.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// A key or certificate that TLS cannot use.
    #[error("what {} holds cannot be used for TLS", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// A handshake that failed, by who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TlsFault {
    /// Ours is too old.
    #[error("the gateway refuses us: our certificate has expired")]
    OurCertificateExpired,
    /// Ours was revoked.
    #[error("the gateway refuses us: our certificate is revoked")]
    OurCertificateRevoked,
    /// Ours comes from another CA.
    #[error("the gateway refuses us: it does not know who issued our certificate")]
    OurCertificateForeign,
    /// Ours is refused for another reason.
    #[error("the gateway refuses us: it does not accept our certificate")]
    OurCertificateRefused,
    /// The gateway's comes from another CA.
    #[error("this is not our gateway: its certificate does not come from our CA")]
    GatewayForeign,
    /// The gateway's is for another name.
    #[error("this is not our gateway: its certificate is for another name")]
    GatewayName,
    /// The gateway's is out of its time, or our clock is wrong.
    #[error("the gateway's certificate is expired or not yet valid, or this host's clock is wrong")]
    GatewayCertificateTime,
    /// The gateway's is wrong in another way.
    #[error("the gateway's certificate is not good")]
    GatewayCertificate,
    /// They do not understand each other.
    #[error("the gateway does not speak our TLS")]
    Protocol,
}

impl TlsFault {
    /// Who is to blame. Alerts are what the gateway says of us: in TLS 1.3 they come with the first read,
    /// after our side of the handshake has succeeded.
    pub fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::of_alert(*alert),
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            _ => Self::Protocol,
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateExpired => Self::OurCertificateExpired,
            AlertDescription::CertificateRevoked => Self::OurCertificateRevoked,
            AlertDescription::UnknownCA => Self::OurCertificateForeign,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => Self::OurCertificateRefused,
            _ => Self::Protocol,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::GatewayForeign
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::GatewayName
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::GatewayCertificateTime,
            _ => Self::GatewayCertificate,
        }
    }
}

/// The TLS error inside an I/O error, if there is one.
pub fn inside(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The whole TLS configuration. Made anew for every dial, so that a renewed certificate is used at once.
pub fn client_config(identity: &Path, ca: &Path) -> Result<ClientConfig, PemFileError> {
    let (chain, key) = read_identity(identity)?;
    let roots = read_roots(ca)?;
    let unusable = |source| PemFileError::Unusable {
        path: identity.to_owned(),
        source,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(unusable)?;
    // A resumed session skips the check of the client's certificate, and with it a revocation.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn read_identity(
    path: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), PemFileError> {
    let (mut chain, mut keys) = (Vec::new(), Vec::new());
    for (kind, der) in sections(path)? {
        match kind {
            SectionKind::Certificate => chain.push(CertificateDer::from(der)),
            _ => keys.extend(PrivateKeyDer::from_pem(kind, der)),
        }
    }
    let found = keys.len();
    match keys.pop() {
        _ if chain.is_empty() => Err(PemFileError::NoCertificate {
            path: path.to_owned(),
        }),
        Some(key) if found == 1 => Ok((chain, key)),
        _ => Err(PemFileError::NotOneKey {
            path: path.to_owned(),
            found,
        }),
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, PemFileError> {
    let mut roots = RootCertStore::empty();
    for (kind, der) in sections(path)? {
        if kind == SectionKind::Certificate {
            roots
                .add(der.into())
                .map_err(|source| PemFileError::Unusable {
                    path: path.to_owned(),
                    source,
                })?;
        }
    }
    if roots.is_empty() {
        return Err(PemFileError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(roots)
}

fn sections(path: &Path) -> Result<Vec<(SectionKind, Vec<u8>)>, PemFileError> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|source| PemFileError::Pem {
            path: path.to_owned(),
            source,
        })
}

fn read(path: &Path) -> Result<Vec<u8>, PemFileError> {
    let failed = |source| PemFileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_PEM + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_PEM {
        return Err(PemFileError::TooLong {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}

/// Whether others than the owner can read the identity's key. False where the file cannot be looked at.
pub fn is_exposed(identity: &Path) -> bool {
    std::fs::metadata(identity).is_ok_and(|meta| meta.mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: rustls::Error, expected: TlsFault) {
        let wrapped = io::Error::other(error);
        assert_eq!(TlsFault::of(inside(&wrapped).unwrap()), expected);
    }

    #[test]
    fn an_alert_is_about_us_and_a_certificate_error_about_the_gateway() {
        use rustls::Error::{AlertReceived, InvalidCertificate};
        check(
            AlertReceived(AlertDescription::CertificateExpired),
            TlsFault::OurCertificateExpired,
        );
        check(
            AlertReceived(AlertDescription::UnknownCA),
            TlsFault::OurCertificateForeign,
        );
        check(
            InvalidCertificate(CertificateError::Expired),
            TlsFault::GatewayCertificateTime,
        );
        check(
            InvalidCertificate(CertificateError::NotValidForName),
            TlsFault::GatewayName,
        );
        check(
            AlertReceived(AlertDescription::ProtocolVersion),
            TlsFault::Protocol,
        );
    }

    #[track_caller]
    fn refuses(content: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.pem");
        std::fs::write(&file, content).unwrap();
        let error = client_config(&file, &file).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    }

    #[test]
    fn an_identity_that_is_none_is_refused_by_name() {
        refuses("", "has no certificate");
        refuses("-----BEGIN CERTIFICATE-----\nx", "is not a PEM file");
        refuses(
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "has 0 private keys; an identity has one",
        );
        let long = usize::try_from(MAX_PEM).unwrap() + 1;
        refuses(&"\n".repeat(long), "bytes");
    }
}
