//! TLS to servers: their certificates are checked as those of a browser are, and a certificate that
//! this machine trusts may be that of a server, too, as for curl. Such a certificate is what
//! `openssl req -x509` creates for a server on the own network.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
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
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let authorities =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| Error::Other(OtherError(Arc::new(error))))?;
    let verifier = TrustedCertificateVerifier {
        authorities,
        trusted,
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
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustedCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // The dates are checked before this is found, the name after it. Whoever has the key of
            // a trusted authority could sign a certificate for that name.
            Err(error) if is_authority(&error) => {
                if !self.trusted.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Returns whether a certificate was refused only because it is that of an authority.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
        return false;
    };
    cause.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}
