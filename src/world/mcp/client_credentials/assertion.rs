//! Assertions with which a client proves that it has a private key (RFC 7523): signed JSON Web
//! Tokens for one authorization server, with a lifetime of minutes.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

use crate::config::keys::oauth::PRIVATE_KEY_BEGIN;

/// Lifetime of an assertion, in seconds.
const LIFETIME_SECONDS: u64 = 300;
/// The last line of a private key (PKCS#8 in PEM).
const PRIVATE_KEY_END: &str = "-----END PRIVATE KEY-----";

/// A key that signs assertions.
pub(super) enum AssertionKey {
    /// A key of the curve P-256.
    P256(Box<EcdsaKeyPair>),
    /// An RSA key.
    Rsa(Box<RsaKeyPair>),
}

impl AssertionKey {
    /// Parses a key in PEM, as PKCS#8.
    pub(super) fn parse(pem: &str) -> Result<Self, String> {
        let der = decode_pem(pem).ok_or("its `private_key` is not PKCS#8 in PEM")?;
        let random = SystemRandom::new();
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(curve, &der, &random) {
            return Ok(Self::P256(Box::new(key)));
        }
        match RsaKeyPair::from_pkcs8(&der) {
            Ok(key) => Ok(Self::Rsa(Box::new(key))),
            Err(error) => Err(format!(
                "its `private_key` is neither a P-256 key nor an RSA key of 2048 to 4096 bits \
                 ({error})"
            )),
        }
    }

    /// Returns the name of its algorithm in JSON Web Tokens.
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    /// Returns a JSON Web Token with these claims; `None` if it cannot be signed.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": self.algorithm(), "typ": "JWT"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.signature(message.as_bytes())?);
        Some(format!("{message}.{signature}"))
    }

    fn signature(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) => {
                let signature = key.sign(&random, message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
        }
    }
}

/// Returns the claims of an assertion of the client `client_id` for the authorization server
/// `issuer`; `now` is in seconds since the Unix epoch, and `id` is never used again.
pub(super) fn assertion_claims(client_id: &str, issuer: &str, now: u64, id: &str) -> Value {
    json!({
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now.saturating_add(LIFETIME_SECONDS),
        "jti": id,
    })
}

/// Returns the bytes of a private key in PEM.
fn decode_pem(pem: &str) -> Option<Vec<u8>> {
    let (_, after_begin) = pem.split_once(PRIVATE_KEY_BEGIN)?;
    let (body, _) = after_begin.split_once(PRIVATE_KEY_END)?;
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};

    use super::*;

    /// Returns a new P-256 key in PEM, and its public key.
    fn new_key() -> (String, Vec<u8>) {
        let random = SystemRandom::new();
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(curve, der.as_ref(), &random).unwrap();
        let body = STANDARD.encode(der.as_ref());
        let (first_line, second_line) = body.split_at(64);
        let pem = format!("{PRIVATE_KEY_BEGIN}\n{first_line}\n{second_line}\n{PRIVATE_KEY_END}\n");
        (pem, key.public_key().as_ref().to_vec())
    }

    #[test]
    fn an_assertion_names_the_client_and_one_authorization_server() {
        assert_eq!(
            assertion_claims("me", "https://login.example", 1000, "once"),
            json!({
                "iss": "me", "sub": "me", "aud": "https://login.example",
                "iat": 1000, "exp": 1300, "jti": "once",
            })
        );
    }

    #[test]
    fn an_assertion_is_signed_with_the_key() {
        let (pem, public_key) = new_key();
        let key = AssertionKey::parse(&pem).unwrap();
        let claims = assertion_claims("me", "https://login.example", 1000, "once");
        let token = key.sign(&claims).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let [header, body, signature] = parts.as_slice() else {
            panic!("{token}");
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
        let decoded_json = |part: &str| serde_json::from_slice::<Value>(&decode(part)).unwrap();
        assert_eq!(decoded_json(header), json!({"alg": "ES256", "typ": "JWT"}));
        assert_eq!(decoded_json(body), claims);
        let verifies = |public: &[u8]| {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.to_vec());
            let message = format!("{header}.{body}");
            key.verify(message.as_bytes(), &decode(signature)).is_ok()
        };
        assert!(verifies(&public_key));
        assert!(!verifies(&new_key().1));
    }

    #[test]
    fn malformed_private_keys_are_refused() {
        let no_key = STANDARD.encode("no key");
        for (pem, expected) in [
            ("MIGH".to_owned(), "not PKCS#8 in PEM"),
            (
                format!("{PRIVATE_KEY_BEGIN}\n?\n{PRIVATE_KEY_END}"),
                "not PKCS#8 in PEM",
            ),
            (
                format!("{PRIVATE_KEY_BEGIN}\n{no_key}"),
                "not PKCS#8 in PEM",
            ),
            (
                format!("{PRIVATE_KEY_BEGIN}\n{no_key}\n{PRIVATE_KEY_END}"),
                "neither",
            ),
        ] {
            let reason = AssertionKey::parse(&pem).err().unwrap();
            assert!(reason.contains(expected), "{pem}: {reason}");
        }
    }
}
