//! TLS to servers: their certificates are checked as those of a browser are, and a certificate that
//! this machine trusts may be that of a server, too, as for curl. Such a certificate is what
//! `openssl req -x509` creates for a server on the own network.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};

/// Returns the configuration of TLS with the certificates that this machine trusts: those in
/// `SSL_CERT_FILE` and `SSL_CERT_DIR`, or else the system's.
pub(super) fn client_config() -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusted = rustls_native_certs::load_native_certs().certs;
    let mut authorities = RootCertStore::empty();
    let signers = trusted
        .iter()
        .filter(|certificate| may_be_authority(certificate));
    authorities.add_parsable_certificates(signers.cloned());
    let verifier = TrustedCertificateVerifier {
        authorities,
        trusted,
        algorithms: provider.signature_verification_algorithms,
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// Accepts a certificate that a trusted authority has signed, and a trusted one itself.
#[derive(Debug)]
struct TrustedCertificateVerifier {
    authorities: RootCertStore,
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for TrustedCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let verdict = verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.authorities,
            intermediates,
            now,
            self.algorithms.all,
        );
        match verdict {
            // The dates are checked before this is found. Whoever has the key of a trusted authority
            // could sign a certificate for that name.
            Err(error) if has_no_authority(&error) => {
                if !self.trusted.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
            }
            verdict => verdict?,
        }
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The identifier of the basic constraints of a certificate, in DER (RFC 5280, section 4.2.1.9).
const BASIC_CONSTRAINTS: &[u8] = b"\x06\x03\x55\x1d\x13";
/// The version of a certificate that has extensions, in DER.
const VERSION_3: &[u8] = b"\xa0\x03\x02\x01\x02";
/// How many bytes are before the version: the heads of two sequences.
const HEAD_BYTES_MAX: usize = 12;

/// Returns whether `certificate` says that it may sign others, or is of a version in which none says
/// so; `webpki` does not look at that in a trusted certificate.
fn may_be_authority(certificate: &[u8]) -> bool {
    let find = |bytes: &[u8], wanted: &[u8]| {
        let mut places = bytes.windows(wanted.len());
        places.position(|place| place == wanted)
    };
    let head = certificate.len().min(HEAD_BYTES_MAX + VERSION_3.len());
    if certificate
        .get(..head)
        .and_then(|head| find(head, VERSION_3))
        .is_none()
    {
        return true;
    }
    let Some(place) = find(certificate, BASIC_CONSTRAINTS) else {
        return false;
    };
    let value = certificate.get(place.saturating_add(BASIC_CONSTRAINTS.len())..);
    let value = value.unwrap_or_default();
    // Perhaps it is critical; then an octet string, and in it a sequence that begins with `true`.
    let value = value.strip_prefix(b"\x01\x01\xff").unwrap_or(value);
    matches!(value, [4, _, 0x30, _, 1, 1, 0xff, ..])
}

/// Returns whether a certificate was refused only because no authority has signed it, or because it is
/// that of an authority itself.
fn has_no_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(error) = error else {
        return false;
    };
    let is_authority = matches!(
        error,
        CertificateError::Other(OtherError(cause))
            if cause.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
    );
    is_authority || *error == CertificateError::UnknownIssuer
}
