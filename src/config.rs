//! From a zoo.cfg, `-D` words and the environment to one typed [`Config`].
//!
//! Owns the reading of what ZooKeeper 3.9.5 reads at start. A key has a field only if something
//! acts on it; what becomes of every other one that ZooKeeper knows, the table of `keys` says, and
//! one that it does not know never stops a start. Never logs: logging does not run yet, so what an
//! operator should know is handed back as [`Note`]s. Never shows the value of a key that may be a
//! secret.
//!
//! The way of a value: `properties` (file to lines) or `-D`, then `settings` (one value per
//! key, by `keys`), then `fields`, by the syntaxes of `value`.

mod access;
mod admin;
mod containers;
mod dynamic_file;
mod environment;
mod error;
mod fields;
mod files;
mod key_table;
mod keys;
mod logs;
mod members;
mod ports;
mod quorum;
mod server_line;
mod sessions;
mod settings;
mod shell;
mod shown_file;
mod throttle;
mod value;
mod whitelist;

#[cfg(test)]
mod config_test;

use std::env;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;

pub use access::{Access, DigestAlgorithm, DigestScheme, EnsembleScheme};
pub use admin::Admin;
pub use containers::Containers;
pub use error::ConfigError;
pub use fields::Config;
pub use files::{Purge, SnapshotCompression};
pub use keys::{Fate, KEYS, Key, Refusal, Section, known_key, nearest as nearest_key};
pub use logs::{AuditTo, Logs};
pub use members::{Ensemble, SessionsLive};
pub use ports::ListenAddress;
pub use quorum::{ClientAuth, Protocols, QuorumSecurity, QuorumTls};
pub use sessions::SessionPasswords;
pub use shown_file::ZooCfg;
pub use throttle::{ConnectionThrottle, LargeRequests, SessionWeights, Throttle};
pub use whitelist::FourLetterWords;

use environment::Environment;
use error::Found;
use fields::Defaults;
use settings::{Entry, SetIn, Settings};

use crate::message::MessageId;
use crate::properties::{self, Property};

/// A configuration, and what to log about how it came to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The values to run with.
    pub config: Config,
    /// Names of the keys that were set and have an effect, sorted.
    pub keys_in_effect: Vec<String>,
    /// Those of them that ZooKeeper does not know, or does not read where they stand.
    pub keys_only_here: Vec<String>,
    /// In the order of the sources; to be logged once logging runs.
    pub notes: Vec<Note>,
}

/// One line for the log about one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// One sentence that begins with the place, such as `zoo.cfg:7`.
    pub text: String,
}

/// How much a [`Note`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Info,
    /// Something differs from what was probably meant: which of the messages it is.
    Warning(MessageId),
}

impl Note {
    fn info(text: String) -> Self {
        Self { severity: Severity::Info, text }
    }

    fn warning(id: MessageId, text: String) -> Self {
        Self { severity: Severity::Warning(id), text }
    }

    /// The message that it is, of a warning.
    #[must_use]
    pub const fn warns_of(&self) -> Option<MessageId> {
        match self.severity {
            Severity::Info => None,
            Severity::Warning(id) => Some(id),
        }
    }
}

/// A system property, as after Java's `-D`: `zookeeper.snapCount=1000`.
///
/// Every key can be set so, with or without the prefix; zoo.cfg wins, except over the few keys that
/// ZooKeeper reads from `-D` only, such as `jute.maxbuffer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Define {
    name: String,
    value: String,
}

impl Define {
    /// The property `name` with `value`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl FromStr for Define {
    type Err = MissingValue;

    fn from_str(word: &str) -> Result<Self, MissingValue> {
        match word.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => Ok(Self::new(name, value)),
            _ => Err(MissingValue),
        }
    }
}

/// A `-D` word that is not `name=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected name=value")]
pub struct MissingValue;

/// What a configuration would come to.
#[derive(Debug)]
pub struct Examined {
    /// The values to run with, or what stands against that.
    pub outcome: Result<Config, Refusals>,
    /// Names of the keys that were set and have an effect, sorted.
    pub keys_in_effect: Vec<String>,
    /// Those of them that ZooKeeper does not know, or does not read where they stand.
    pub keys_only_here: Vec<String>,
    /// What a start would log about the keys.
    pub notes: Vec<Note>,
}

/// Why no server can be started; at least one reason.
#[derive(Debug)]
pub struct Refusals {
    /// What a start would end with.
    pub first: ConfigError,
    /// What is wrong besides.
    pub more: Vec<ConfigError>,
}

/// Reads the configuration of a start with `file`, or of one without any: what the variables of the
/// official image say, or 127.0.0.1:2181 and data in `./ferrokeeper-data`.
///
/// Beside zoo.cfg, in rising order: `JAVA_OPTS` of Debian's `environment`, `SERVER_JVMFLAGS` and
/// `JVMFLAGS` of the environment, `zookeeper-env.sh` and `java.env`, and `defines`. Host names are
/// resolved, which can take as long as the resolver takes.
pub fn load(file: Option<&Path>, defines: &[Define]) -> Result<Loaded, ConfigError> {
    loaded(examine(file, defines)?)
}

/// As [`load`], for every refusal that can be told, and not only the first.
pub fn examine(file: Option<&Path>, defines: &[Define]) -> Result<Examined, ConfigError> {
    let variable = |name: &str| Some(env::var_os(name)?.to_string_lossy().into_owned());
    let environment = Environment::new(&variable);
    let of_the_image =
        || Some(environment.image_folder()?.join("zoo.cfg")).filter(|file| file.is_file());
    match file.map(Path::to_owned).or_else(of_the_image) {
        None => assemble(None, defines, variable),
        Some(path) => assemble(Some((&path, &read(&path)?)), defines, variable),
    }
}

fn loaded(examined: Examined) -> Result<Loaded, ConfigError> {
    let Examined { outcome, notes, keys_in_effect, keys_only_here } = examined;
    let config = outcome.map_err(|refusals| refusals.first)?;
    Ok(Loaded { config, keys_in_effect, keys_only_here, notes })
}

/// [`examine`] of bytes already read.
fn assemble(
    file: Option<(&Path, &[u8])>,
    defines: &[Define],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Examined, ConfigError> {
    let environment = Environment::new(&environment);
    let mut notes = Vec::new();
    let folder = file.and_then(|(path, _)| path.parent());
    let mut entries = environment.flags(folder, &mut notes);
    entries.extend(defines.iter().map(|Define { name, value }| Entry {
        name: name.clone(),
        value: value.clone(),
        origin: SetIn::CommandLine,
    }));
    let is_image = file.is_none() && environment.is_image();
    let (defaults, place) = match file {
        None if is_image => {
            entries.extend(environment.image()?);
            (Defaults::WITH_FILE, "the ZOO_* variables".to_owned())
        }
        None => (Defaults::WITHOUT_FILE, "no configuration file".to_owned()),
        Some((path, bytes)) => {
            let place = path.display().to_string();
            entries.extend(lines(path, bytes, &place)?);
            notes.extend(unread(environment, &place));
            (Defaults::WITH_FILE, place)
        }
    };
    let mut settings = Settings::merge(entries, &mut notes);
    settings.my_id = environment.my_id(is_image);
    if let Some(list) = dynamic_file::read(&settings, file.map(|(path, _)| path))? {
        settings.add_list(list, &mut notes);
    }
    let keys_in_effect = settings.names();
    let keys_only_here = settings.names_only_here();
    let outcome = judge(settings, &defaults, &place, &mut notes).map(|config| Config {
        file: file.map(|(path, bytes)| ZooCfg::new(path, bytes)),
        ..config
    });
    Ok(Examined { outcome, notes, keys_in_effect, keys_only_here })
}

/// What zoo.cfg says.
fn lines(path: &Path, bytes: &[u8], place: &str) -> Result<Vec<Entry>, ConfigError> {
    let properties = properties::parse(bytes).map_err(|malformed| {
        ConfigError::MalformedEscape { place: format!("{place}:{}", malformed.line) }
    })?;
    let path = Rc::from(path);
    let entry = |property: Property| Entry {
        name: property.key,
        value: property.value,
        origin: SetIn::Line(Rc::clone(&path), property.line),
    };
    Ok(properties.into_iter().map(entry).collect())
}

/// That the variables of the official image count for nothing beside a zoo.cfg.
fn unread(environment: Environment<'_>, place: &str) -> Option<Note> {
    let unread: Vec<_> = environment.of_the_image().collect();
    let text = format!("environment: {} ignored, because there is {place}", unread.join(", "));
    (!unread.is_empty()).then(|| Note::info(text))
}

/// Every value that has an effect, or all that is wrong with them.
fn judge(
    mut settings: Settings,
    defaults: &Defaults,
    place: &str,
    notes: &mut Vec<Note>,
) -> Result<Config, Refusals> {
    let mut refusals = settings.judge(notes);
    let (outcome, left) = loop {
        let (mut of_values, mut found) = (Vec::new(), Found::default());
        let outcome = Config::from_settings(&settings, defaults, place, &mut of_values, &mut found);
        let outcome = found.take(outcome);
        // The other values are judged as if a bad one was not there.
        let forgotten =
            |error: &ConfigError| error.key_of_bad_value().is_some_and(|key| settings.forget(key));
        let (mut bad, left): (Vec<_>, Vec<_>) = found.into_iter().partition(forgotten);
        if bad.is_empty() {
            notes.append(&mut of_values);
            break (outcome, left);
        }
        refusals.append(&mut bad);
    };
    let mut refusals = refusals.into_iter().chain(left);
    match (refusals.next(), outcome) {
        (None, Some(config)) => Ok(config),
        (None, None) => unreachable!("without a refusal there is a configuration"),
        (Some(first), _) => Err(Refusals { first, more: refusals.collect() }),
    }
}

/// The bytes of a small file; a device or a log given by mistake does not fill memory.
fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    const SIZE_MAX: u64 = 1 << 20;
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(ConfigError::Directory { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}
