//! Merges zoo.cfg, `-D` words and the environment into one value per key.
//!
//! Owns precedence and everything said about keys as such: unknown, not in effect, overridden.
//! Never judges a value; that is done where the value becomes a field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use super::keys::{self, Effect, Reason};
use super::properties::Property;
use super::{Define, Note};

/// Environment variables whose `-D` words ZooKeeper's start script passes on, the later one wins.
pub(super) const ENVIRONMENT: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line of zoo.cfg, from 1.
    Line(Rc<Path>, usize),
    CommandLine,
    Environment(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::CommandLine => write!(f, "command line, -D"),
            Self::Environment(variable) => write!(f, "environment, {variable}"),
        }
    }
}

/// A value as it was written, without surrounding blanks.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: String,
    pub(super) origin: Origin,
    /// Name under which it was written.
    written: String,
    rank: Rank,
}

/// Which of two values of one key counts: the greater; of equals, the later.
///
/// The order is that of what ZooKeeper itself would use, so that a spelling which it ignores never
/// overrides one that it reads.
type Rank = (SourceRank, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SourceRank {
    FileButIgnoredThere,
    Environment,
    CommandLine,
    File,
}

/// The one value of each key that has an effect.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<String, Setting>,
    servers: BTreeMap<String, Setting>,
    not_in_effect: BTreeSet<String>,
}

impl Settings {
    /// Merges all sources; `notes` gets what an operator should know about the keys.
    pub(super) fn merge(
        file: Option<(&Path, Vec<Property>)>,
        defines: &[Define],
        environment: impl Fn(&str) -> Option<String>,
        notes: &mut Vec<Note>,
    ) -> Self {
        let mut settings = Self::default();
        for variable in ENVIRONMENT {
            for define in environment(variable).as_deref().map(words).unwrap_or_default() {
                settings.add(
                    define.name,
                    &define.value,
                    Origin::Environment(variable),
                    SourceRank::Environment,
                    notes,
                );
            }
        }
        for define in defines {
            settings.add(
                define.name.clone(),
                &define.value,
                Origin::CommandLine,
                SourceRank::CommandLine,
                notes,
            );
        }
        if let Some((path, properties)) = file {
            let path = Rc::from(path);
            for property in properties {
                let origin = Origin::Line(Rc::clone(&path), property.line);
                settings.add(property.key, &property.value, origin, SourceRank::File, notes);
            }
        }
        settings
    }

    /// The value of a key that has an effect.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        debug_assert!(keys::NOW.contains(&key), "{key} is missing in the table of keys");
        self.values.get(key)
    }

    /// The lines of the server list, by what stands for N in `server.N`.
    pub(super) fn servers(&self) -> impl ExactSizeIterator<Item = (&str, &Setting)> {
        self.servers.iter().map(|(id, setting)| (id.as_str(), setting))
    }

    /// Where a line of the server list stands, for a message.
    pub(super) fn place_of_server(&self, key: &str) -> String {
        let id = key.strip_prefix("server.").unwrap_or(key);
        self.servers.get(id).map_or_else(|| key.to_owned(), |setting| setting.origin.to_string())
    }

    /// The names of the keys that have an effect and of the lines of the server list, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let servers = self.servers.keys().map(|id| format!("server.{id}"));
        self.values.keys().cloned().chain(servers).collect()
    }

    fn add(
        &mut self,
        written: String,
        value: &str,
        origin: Origin,
        source: SourceRank,
        notes: &mut Vec<Note>,
    ) {
        let written = trim(&written).to_owned();
        if written.is_empty() {
            notes.push(Note::warning(format!("{origin}: a value without a key is ignored")));
            return;
        }
        let key = keys::canonical(&written);
        let source = match source {
            SourceRank::File if keys::is_define_only(key) => SourceRank::FileButIgnoredThere,
            other => other,
        };
        let rank = (source, written == key || source != SourceRank::File);
        let setting =
            Setting { value: trim(value).to_owned(), origin, written: written.clone(), rank };
        match keys::effect(key) {
            Some(Effect::Now) => keep(&mut self.values, key, setting, notes),
            Some(Effect::ServerLine) => {
                let id = key.split_once('.').map_or(key, |(_, id)| id);
                keep(&mut self.servers, id, setting, notes);
            }
            Some(Effect::NotHere(reason)) => {
                if self.not_in_effect.insert(key.to_owned()) {
                    notes.push(not_in_effect(&setting, key, reason));
                }
            }
            None => notes.push(unknown(&setting)),
        }
    }
}

/// The `-D` words of a shell variable that are a ZooKeeper server's.
fn words(flags: &str) -> Vec<Define> {
    flags
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("-D")?.split_once('='))
        .filter(|(name, _)| keys::is_server_property(name))
        .map(|(name, value)| Define::new(name, value))
        .collect()
}

fn keep(
    values: &mut BTreeMap<String, Setting>,
    key: &str,
    setting: Setting,
    notes: &mut Vec<Note>,
) {
    let Some(present) = values.get_mut(key) else {
        values.insert(key.to_owned(), setting);
        return;
    };
    let (winner, loser) = if setting.rank >= present.rank {
        let loser = std::mem::replace(present, setting);
        (&*present, loser)
    } else {
        (&*present, setting)
    };
    if winner.value != loser.value {
        notes.push(Note::warning(format!(
            "{}: {} is overridden by {} ({})",
            loser.origin,
            loser.written.escape_debug(),
            winner.written.escape_debug(),
            winner.origin
        )));
    }
}

fn not_in_effect(setting: &Setting, key: &str, reason: Reason) -> Note {
    let why = match reason {
        Reason::Later => "this version does not have what it sets",
        Reason::Security => {
            "this version has no TLS for clients, encrypted keys, revocation, SASL, authentication providers or audit log"
        }
        Reason::Ensemble => "servers work together in another way here, or stand alone",
        Reason::Internal => "it tunes the JVM or the inside of Apache ZooKeeper",
        Reason::Client => "it is read by clients only",
    };
    let known_as = match setting.written.as_str() {
        written if written.ends_with(key) => key.to_owned(),
        written => format!("{written} ({key})"),
    };
    let text = format!("{}: {known_as} is known, not in effect here: {why}", setting.origin);
    match reason {
        Reason::Later | Reason::Security => Note::warning(text),
        Reason::Ensemble | Reason::Internal | Reason::Client => Note::info(text),
    }
}

fn unknown(setting: &Setting) -> Note {
    let meant = match keys::nearest(&setting.written) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
    let Setting { origin, written, .. } = setting;
    Note::warning(format!("{origin}: unknown key {} is ignored{meant}", written.escape_debug()))
}

/// Java's `String.trim`.
fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}
