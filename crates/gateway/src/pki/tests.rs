//! Every field of what the CA issues, read back by another library.

use super::*;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use uuid::Uuid;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

fn seconds(time: SystemTime) -> i64 {
    i64::try_from(
        time.duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_secs(),
    )
    .expect("small")
}

#[test]
fn an_agents_certificate_has_exactly_the_fields_that_it_has_to_have() {
    let now = SystemTime::now();
    let ca = Ca::generate(now).expect("a CA");
    let agent = AgentId(Uuid::from_u128(7));
    let issued = der(&ca.issue_agent(agent, now).expect("issued").pem());
    let (_, certificate) = X509Certificate::from_der(&issued).expect("parsed");
    let names = certificate
        .subject_alternative_name()
        .expect("sound")
        .expect("there");
    let uri = agent.to_uri();
    assert_eq!(names.value.general_names, vec![GeneralName::URI(&uri)]);
    let usage = certificate
        .extended_key_usage()
        .expect("sound")
        .expect("there")
        .value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    let key_usage = certificate
        .key_usage()
        .expect("sound")
        .expect("there")
        .value;
    assert!(key_usage.digital_signature() && !key_usage.key_cert_sign());
    assert!(!certificate.is_ca());
    let validity = certificate.validity();
    assert_eq!(validity.not_before.timestamp(), seconds(now - BACKDATED));
    assert_eq!(
        validity.not_after.timestamp(),
        seconds(now + DAY * AGENT_LIFE_DAYS)
    );
    let serial = certificate.raw_serial();
    assert!(
        (14..=17).contains(&serial.len()) && serial[0] < 0x80,
        "{serial:?}"
    );
    assert_eq!(agent_of(Some(&[issued])).expect("an agent"), agent);
}

#[test]
fn the_servers_certificate_is_for_servers_and_names_no_agent() {
    let now = SystemTime::now();
    let ca = Ca::generate(now).expect("a CA");
    let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
    let issued = der(&ca.issue_server(&names, now).expect("issued").pem());
    let (_, certificate) = X509Certificate::from_der(&issued).expect("parsed");
    let usage = certificate
        .extended_key_usage()
        .expect("sound")
        .expect("there")
        .value;
    assert!(usage.server_auth && !usage.client_auth && !usage.any);
    let names = certificate
        .subject_alternative_name()
        .expect("sound")
        .expect("there");
    assert_eq!(names.value.general_names.len(), 3);
    assert!(matches!(
        agent_of(Some(&[issued])),
        Err(IdentityError::NotOneUri)
    ));
    assert!(matches!(agent_of(None), Err(IdentityError::Missing)));
    assert!(matches!(
        ca.issue_server(&["a b".into()], now),
        Err(PkiError::Name(_))
    ));
}

#[test]
fn a_ca_is_read_back_and_signs_for_the_same_root() {
    let now = SystemTime::now();
    let made = Ca::generate(now).expect("a CA");
    let read = Ca::from_pem(made.certificate_pem().into(), made.key_pem().into()).expect("read");
    let issued = der(&read
        .issue_agent(AgentId(Uuid::from_u128(1)), now)
        .expect("issued")
        .pem());
    let root = der(made.certificate_pem());
    let (_, leaf) = X509Certificate::from_der(&issued).expect("parsed");
    let (_, root) = X509Certificate::from_der(&root).expect("parsed");
    assert_eq!(leaf.issuer(), root.subject());
    assert!(root.is_ca());
}

#[test]
fn serials_are_positive_long_and_different() {
    let all: std::collections::BTreeSet<_> = (0..200).map(|_| serial().to_bytes()).collect();
    assert_eq!(all.len(), 200);
    assert!(all.iter().all(|s| s.len() == 16));
}
