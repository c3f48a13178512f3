//! The CA, what it issues, and whom a certificate names.
//!
//! Every field of a certificate is made here; nothing is taken from the side that asks but, one day, its public key.

mod identity;
mod tls;

pub use identity::{IdentityError, agent_of};
pub use tls::{TlsError, server_config};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use willcall_protocol::ids::AgentId;

const DAY: Duration = Duration::from_hours(24);
/// A lost or expired CA means that every host is enrolled anew, so it lasts.
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);
/// There is no renewal yet; the server's certificate is made once, by `init`.
const SERVER_LIFE: Duration = Duration::from_hours(2 * 365 * 24);
/// There is no renewal yet: days, of a certificate that `agent-cert` makes.
pub const AGENT_LIFE_DAYS: u32 = 90;
/// A host whose clock is a little behind must not find its certificate not yet valid.
const BACKDATED: Duration = Duration::from_mins(10);

/// Something that the CA could not make.
#[derive(Debug, Error)]
pub enum PkiError {
    /// The library refused.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// Not a DNS name or an address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
}

/// A key and the certificate for it, as PEM.
#[derive(Debug)]
pub struct Identity {
    key: String,
    certificate: String,
}

impl Identity {
    /// Key and certificate in one text, so that one can never be replaced without the other.
    pub fn pem(&self) -> String {
        format!("{}{}", self.key, self.certificate)
    }
}

/// The CA of this gateway: it signs for hosts and for the server itself.
#[derive(Debug)]
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Ca {
    /// Makes a new CA.
    pub fn generate(now: SystemTime) -> Result<Self, PkiError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params("Willcall CA", now, CA_LIFE);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        let pem = key.serialize_pem();
        let issuer = Issuer::new(params, key);
        Ok(Self {
            issuer,
            certificate,
            key: pem,
        })
    }

    /// Reads back what [`Ca::certificate_pem`] and [`Ca::key_pem`] gave.
    pub fn from_pem(certificate: String, key: String) -> Result<Self, PkiError> {
        let pair = KeyPair::from_pem(&key)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, pair)?;
        Ok(Self {
            issuer,
            certificate,
            key,
        })
    }

    /// The CA's certificate: what hosts trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The CA's key: whoever has it can be any host.
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// A certificate for the server itself, under the given names.
    pub fn issue_server(&self, names: &[String], now: SystemTime) -> Result<Identity, PkiError> {
        let mut params = params("Willcall gateway", now, SERVER_LIFE);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = names
            .iter()
            .map(|name| server_name(name))
            .collect::<Result<_, _>>()?;
        self.issue(params)
    }

    /// A certificate for a host's agent, valid from `now` for [`AGENT_LIFE_DAYS`]. Its one SAN is the identity.
    pub fn issue_agent(&self, agent: AgentId, now: SystemTime) -> Result<Identity, PkiError> {
        let mut params = params("Willcall agent", now, DAY * AGENT_LIFE_DAYS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![SanType::URI(agent.to_uri().try_into()?)];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Identity, PkiError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity {
            key: key.serialize_pem(),
            certificate,
        })
    }
}

fn params(name: &str, now: SystemTime, life: Duration) -> CertificateParams {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.serial_number = Some(serial());
    params.not_before = epoch + since_1970.saturating_sub(BACKDATED);
    params.not_after = epoch + since_1970 + life;
    params
}

/// 128 random bits; the encoder keeps them positive.
fn serial() -> SerialNumber {
    SerialNumber::from(rand::random::<[u8; 16]>().to_vec())
}

fn server_name(name: &str) -> Result<SanType, PkiError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let dns = rustls_pki_types::DnsName::try_from(name).map_err(|_| PkiError::Name(name.into()))?;
    Ok(SanType::DnsName(dns.as_ref().try_into()?))
}

#[cfg(test)]
mod tests;
