//! Who may do what: the part of the configuration that ACLs and authentication read.

use std::fmt;

use super::Note;
use super::error::ConfigError;
use super::settings::Settings;
use super::value::{bad_value, property_bool};
use crate::message::MessageId;

/// The schemes that a connection can be required to have shown an identity of.
const SCHEMES: [&str; 2] = ["digest", "ip"];

/// Access control.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// `skipACL=yes`: no ACL is checked.
    pub skip_acl: bool,
    /// The scheme `digest`; `None` where it is switched off.
    pub digest: Option<DigestScheme>,
    /// The scheme `ensemble`; `None` where no `authProvider` names it.
    pub ensemble: Option<EnsembleScheme>,
    /// `enforce.auth`: every request needs an identity of one of these schemes; `None` where it is
    /// off.
    pub enforced: Option<Vec<String>>,
}

/// The scheme `digest`.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestScheme {
    /// How ids are made of passwords.
    pub algorithm: DigestAlgorithm,
    /// The id (`super:hash`) that makes its owner the super user.
    pub super_digest: Option<String>,
}

/// The scheme `ensemble`: a client says where it means to be. It is no identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleScheme {
    /// The names that are right; `None` where all are.
    pub names: Option<Vec<String>>,
}

/// A hash by its Java name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// `SHA1`, the default.
    Sha1,
    /// `SHA-224`.
    Sha224,
    /// `SHA-256`.
    Sha256,
    /// `SHA-384`.
    Sha384,
    /// `SHA-512`.
    Sha512,
    /// `SHA-512/224`.
    Sha512Cut224,
    /// `SHA-512/256`.
    Sha512Cut256,
    /// `SHA3-224`.
    Sha3At224,
    /// `SHA3-256`.
    Sha3At256,
    /// `SHA3-384`.
    Sha3At384,
    /// `SHA3-512`.
    Sha3At512,
}

/// Without the super user's hash.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("skip_acl", &self.skip_acl)
            .field("digest", &self.digest)
            .field("ensemble", &self.ensemble)
            .field("enforced", &self.enforced)
            .finish()
    }
}

impl fmt::Debug for DigestScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestScheme")
            .field("algorithm", &self.algorithm)
            .field("has_super_digest", &self.super_digest.is_some())
            .finish()
    }
}

impl Access {
    pub(super) fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        let skip_acl = settings.get("skipACL").is_some_and(|setting| setting.value == "yes");
        if skip_acl {
            let place = settings.place_of("skipACL", "skipACL");
            notes.push(Note::warning(
                MessageId::ACLS_OFF,
                format!("{place}: skipACL=yes: ACLs are not checked, anyone may do anything"),
            ));
        }
        let digest = property_bool(settings, "DigestAuthenticationProvider.enabled", notes)
            .then(|| DigestScheme::from_settings(settings))
            .transpose()?;
        let ensemble =
            settings.has_provider("EnsembleAuthenticationProvider").then(|| EnsembleScheme {
                names: settings.get("ensembleAuthName").map(|setting| {
                    setting.value.split(',').map(|name| name.trim().to_owned()).collect()
                }),
            });
        Ok(Self { skip_acl, digest, ensemble, enforced: enforced(settings, notes)? })
    }
}

impl DigestScheme {
    fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let key = "DigestAuthenticationProvider.digestAlg";
        let algorithm = match settings.get(key) {
            None => DigestAlgorithm::Sha1,
            Some(setting) => match setting.value.to_ascii_uppercase().as_str() {
                "SHA1" | "SHA-1" | "SHA" => DigestAlgorithm::Sha1,
                "SHA-224" => DigestAlgorithm::Sha224,
                "SHA-256" => DigestAlgorithm::Sha256,
                "SHA-384" => DigestAlgorithm::Sha384,
                "SHA-512" => DigestAlgorithm::Sha512,
                "SHA-512/224" => DigestAlgorithm::Sha512Cut224,
                "SHA-512/256" => DigestAlgorithm::Sha512Cut256,
                "SHA3-224" => DigestAlgorithm::Sha3At224,
                "SHA3-256" => DigestAlgorithm::Sha3At256,
                "SHA3-384" => DigestAlgorithm::Sha3At384,
                "SHA3-512" => DigestAlgorithm::Sha3At512,
                _ => {
                    let expected = "SHA1, SHA-224, SHA-256, SHA-384, SHA-512, SHA-512/224, \
                                    SHA-512/256, SHA3-224, SHA3-256, SHA3-384 or SHA3-512";
                    return Err(bad_value(key, setting, expected.to_owned()));
                }
            },
        };
        let super_digest = settings
            .get("DigestAuthenticationProvider.superDigest")
            .map(|setting| setting.value.clone());
        Ok(Self { algorithm, super_digest })
    }
}

/// The schemes of `enforce.auth`. A start that could not enforce what is asked for would be less
/// safe than none.
fn enforced(
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Option<Vec<String>>, ConfigError> {
    if !property_bool(settings, "enforce.auth.enabled", notes) {
        return Ok(None);
    }
    let key = "enforce.auth.schemes";
    let Some(setting) = settings.get(key) else {
        return Err(ConfigError::NotSet {
            place: settings.place_of("enforce.auth.enabled", key),
            key,
            remedy: "Add enforce.auth.schemes, such as enforce.auth.schemes=digest.",
        });
    };
    let schemes: Vec<String> = setting
        .value
        .split(',')
        .map(str::trim)
        .filter(|scheme| !scheme.is_empty())
        .map(str::to_owned)
        .collect();
    if schemes.is_empty() || schemes.iter().any(|scheme| !SCHEMES.contains(&scheme.as_str())) {
        let expected = "a list of digest and ip, the schemes that this version supports".to_owned();
        return Err(bad_value(key, setting, expected));
    }
    Ok(Some(schemes))
}
