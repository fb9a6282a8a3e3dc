//! How the servers of an ensemble know each other: TLS, a shared secret, or not at all.
//!
//! Owns the keys `ssl.quorum.*` and their checks. Never opens a certificate, a key or the secret:
//! that is done at each change of those files, by whoever uses them.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use super::error::Found;
use super::settings::{Setting, Settings};
use super::value::{bad_value, kilobytes, native_bool, property_bool};
use super::{ConfigError, Note};
use crate::message::MessageId;

/// What stands between a server's port for the others and whoever reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuorumSecurity {
    /// Certificates, where there are any.
    pub tls: Option<QuorumTls>,
    /// Whether others are dialled by TLS (`sslQuorum`).
    pub dials_tls: bool,
    /// A file with what every server knows and nobody else (`quorum.auth.secretFile`).
    pub secret_file: Option<PathBuf>,
    /// Whether those without TLS, or without the secret, are welcome all the same
    /// (`portUnification`).
    pub is_lenient: bool,
}

/// TLS between servers (`ssl.quorum.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumTls {
    /// PEM with the own certificate, what leads from it to the issuer, and the key
    /// (`keyStore.location`).
    pub key_store: PathBuf,
    /// PEM with the certificates of those who may issue one (`trustStore.location`).
    pub trust_store: PathBuf,
    /// Whether who calls shows a certificate (`clientAuth`, need).
    pub client_auth: ClientAuth,
    /// Whether the certificate of a server that is dialled must name it (`hostnameVerification`).
    pub checks_called: bool,
    /// Whether the certificate of a server that calls must name it (`clientHostnameVerification`).
    pub checks_caller: bool,
    /// `TLSv1.2` and `TLSv1.3`: those that are spoken (`enabledProtocols`, both).
    pub protocols: Protocols,
    /// Ciphers, by the names that Java has for them (`ciphersuites`); `None` is all that are any
    /// good.
    pub cipher_suites: Option<Vec<String>>,
}

/// Versions of TLS; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// `TLSv1.2`.
    pub tls12: bool,
    /// `TLSv1.3`.
    pub tls13: bool,
}

/// What a server asks of whoever calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// Nothing.
    None,
    /// A certificate that is good, if there is one.
    Want,
    /// A certificate.
    Need,
}

impl QuorumSecurity {
    pub(super) fn from_settings(
        settings: &Settings,
        place: &str,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Option<Self> {
        let dials_tls = found.take(native_bool(settings, "sslQuorum"));
        let is_lenient = found.take(native_bool(settings, "portUnification"));
        let (dials_tls, is_lenient) = (dials_tls?, is_lenient?);
        let has_stores = settings.get("ssl.quorum.keyStore.location").is_some();
        let tls = match dials_tls || is_lenient && has_stores {
            true => Some(QuorumTls::from_settings(settings, place, notes, found)?),
            false => None,
        };
        let secret_file = settings.get("quorum.auth.secretFile");
        let secret_file = secret_file.map(|setting| PathBuf::from(&setting.value));
        Some(Self { tls, dials_tls, secret_file, is_lenient })
    }
}

impl QuorumTls {
    fn from_settings(
        settings: &Settings,
        place: &str,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Option<Self> {
        let key_store = Store {
            location: "ssl.quorum.keyStore.location",
            kind: "ssl.quorum.keyStore.type",
            remedy: "Add ssl.quorum.keyStore.location=<a PEM file with this server's certificate \
                     and key>.",
        };
        let trust_store = Store {
            location: "ssl.quorum.trustStore.location",
            kind: "ssl.quorum.trustStore.type",
            remedy: "Add ssl.quorum.trustStore.location=<a PEM file with the issuer's \
                     certificate>.",
        };
        let key_store = found.take(key_store.read(settings, place));
        let trust_store = found.take(trust_store.read(settings, place));
        let client_auth = found.take(client_auth(settings));
        let protocols = found.take(protocols(settings));
        let mut yes = |key| property_bool(settings, key, notes);
        let checks_called = yes("ssl.quorum.hostnameVerification");
        let checks_caller = yes("ssl.quorum.clientHostnameVerification") && checks_called;
        Some(Self {
            key_store: key_store?,
            trust_store: trust_store?,
            client_auth: client_auth?,
            checks_called,
            checks_caller,
            protocols: protocols?,
            cipher_suites: settings
                .get("ssl.quorum.ciphersuites")
                .map(|setting| words(&setting.value).map(str::to_owned).collect()),
        })
    }
}

/// The keys of one of the two files.
struct Store {
    location: &'static str,
    kind: &'static str,
    remedy: &'static str,
}

impl Store {
    /// Its path. As in ZooKeeper its type is said, or shows by the end of its name.
    fn read(&self, settings: &Settings, place: &str) -> Result<PathBuf, ConfigError> {
        let not_set = || ConfigError::NotSet {
            place: place.to_owned(),
            key: self.location,
            remedy: self.remedy,
        };
        let location = settings.get(self.location).ok_or_else(not_set)?;
        let path = PathBuf::from(&location.value);
        let (setting, kind) = match settings.get(self.kind).filter(|said| !said.value.is_empty()) {
            Some(said) => (said, said.value.to_uppercase()),
            None => (location, kind_of(&path).to_owned()),
        };
        match kind.as_str() {
            "PEM" => Ok(path),
            "JKS" | "PKCS12" | "BCFKS" => Err(ConfigError::NotPem {
                place: setting.origin.to_string(),
                key: self.location,
                path,
                kind,
            }),
            _ => Err(bad_value(self.kind, setting, "PEM".to_owned())),
        }
    }
}

fn kind_of(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("jks") => "JKS",
        Some("p12") => "PKCS12",
        Some("bcfks") => "BCFKS",
        _ => "PEM",
    }
}

fn client_auth(settings: &Settings) -> Result<ClientAuth, ConfigError> {
    let Some(setting) = settings.get("ssl.quorum.clientAuth") else { return Ok(ClientAuth::Need) };
    match setting.value.to_lowercase().as_str() {
        "none" => Ok(ClientAuth::None),
        "want" => Ok(ClientAuth::Want),
        "need" | "" => Ok(ClientAuth::Need),
        _ => {
            let expected = "none, want or need".to_owned();
            Err(bad_value("ssl.quorum.clientAuth", setting, expected))
        }
    }
}

fn protocols(settings: &Settings) -> Result<Protocols, ConfigError> {
    let bad = |key: &str, setting: &Setting| {
        bad_value(key, setting, "TLSv1.2, TLSv1.3, or both separated by a comma".to_owned())
    };
    if let Some(setting) = settings.get("ssl.quorum.enabledProtocols") {
        let mut protocols = Protocols { tls12: false, tls13: false };
        for word in words(&setting.value) {
            match word {
                "TLSv1.2" => protocols.tls12 = true,
                "TLSv1.3" => protocols.tls13 = true,
                _ => return Err(bad("ssl.quorum.enabledProtocols", setting)),
            }
        }
        return match protocols.tls12 || protocols.tls13 {
            true => Ok(protocols),
            false => Err(bad("ssl.quorum.enabledProtocols", setting)),
        };
    }
    // As Java has it: TLSv1.3 means 1.2 as well.
    match settings.get("ssl.quorum.protocol").map(|setting| (setting, setting.value.as_str())) {
        None | Some((_, "TLSv1.3" | "TLS")) => Ok(Protocols { tls12: true, tls13: true }),
        Some((_, "TLSv1.2")) => Ok(Protocols { tls12: true, tls13: false }),
        Some((setting, _)) => {
            let expected = "TLSv1.2 or TLSv1.3".to_owned();
            Err(bad_value("ssl.quorum.protocol", setting, expected))
        }
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Bytes a second that all snapshots together may take on their way to others; `None` is no limit.
pub(super) fn snap_sync_bytes(settings: &Settings) -> Result<Option<NonZeroU64>, ConfigError> {
    kilobytes(settings, "leader.snapSyncLimitInKbPerSecond")
}

/// Only `no` means no to ZooKeeper, and not `NO` or `false`.
pub(super) fn leader_serves(settings: &Settings, notes: &mut Vec<Note>) -> bool {
    let Some(Setting { value, origin, .. }) = settings.get("leaderServes") else { return true };
    if value != "no" && value != "yes" {
        let text = format!(
            "{origin}: leaderServes is {value:?}, which means yes; as in ZooKeeper, only no means \
             no"
        );
        notes.push(Note::warning(MessageId::UNKNOWN_WORD, text));
    }
    value != "no"
}

#[cfg(test)]
#[path = "quorum_test.rs"]
mod quorum_test;
