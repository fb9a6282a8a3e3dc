//! Merges zoo.cfg, `-D` words and the environment into one value per key.
//!
//! Owns precedence and everything said about keys as such: unknown, overridden, and what their fate
//! has to say. Judges a value only where nothing here reads it and ZooKeeper would refuse it; else
//! that is done where it becomes a field.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use super::dynamic_file::DynamicFile;
use super::keys::{self, Fate, Key, Refusal};
use super::{ConfigError, Note, value};
use crate::message::MessageId;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SetIn {
    /// A line of zoo.cfg, or of the file of the list, from 1.
    Line(Rc<Path>, usize),
    CommandLine,
    /// A variable of the environment with `-D` words.
    Environment(&'static str),
    /// A line, from 1, of a shell file with such a variable.
    Script(Rc<Path>, usize),
    /// A variable of the official image, which stands for a line of zoo.cfg.
    Image(&'static str),
}

impl SetIn {
    fn rank(&self) -> SourceRank {
        match self {
            Self::Line(..) | Self::Image(_) => SourceRank::File,
            Self::CommandLine => SourceRank::CommandLine,
            Self::Environment(_) | Self::Script(..) => SourceRank::Environment,
        }
    }
}

impl fmt::Display for SetIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) | Self::Script(file, line) => {
                write!(f, "{}:{line}", file.display())
            }
            Self::CommandLine => write!(f, "command line, -D"),
            Self::Environment(variable) | Self::Image(variable) => {
                write!(f, "environment, {variable}")
            }
        }
    }
}

/// A name and a value as they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) origin: SetIn,
}

/// Which server this is, as the environment has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MyId {
    pub(super) value: String,
    pub(super) origin: SetIn,
}

/// A value as it was written, without surrounding blanks.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: String,
    pub(super) origin: SetIn,
    /// Name under which it was written.
    written: String,
    rank: Rank,
    /// Which entry of all it was.
    number: usize,
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

/// The one value of each known key.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<String, Setting>,
    servers: BTreeMap<String, Setting>,
    /// What counts where there is no file `myid`.
    pub(super) my_id: Option<MyId>,
    /// The version of the server list: 0 for one of zoo.cfg.
    pub(super) list_version: i64,
}

impl Settings {
    /// Merges what was found, later before earlier within a source; `notes` gets what an operator
    /// should know about the names.
    pub(super) fn merge(entries: impl IntoIterator<Item = Entry>, notes: &mut Vec<Note>) -> Self {
        let mut settings = Self::default();
        for (number, entry) in entries.into_iter().enumerate() {
            settings.add(entry, number, notes);
        }
        settings
    }

    /// Has the list that stands in a file of its own.
    pub(super) fn add_list(&mut self, file: DynamicFile, notes: &mut Vec<Note>) {
        for entry in file.entries {
            // Only keys without an effect are told of by their numbers.
            self.add(entry, 0, notes);
        }
        self.list_version = file.version;
    }

    /// What the table says of the keys that are set, in the order in which they were found, and
    /// which of them stop a start. A property that is no number is forgotten, as ZooKeeper forgets
    /// it.
    pub(super) fn judge(&mut self, notes: &mut Vec<Note>) -> Vec<ConfigError> {
        let mut refusals = Vec::new();
        let mut forgotten = Vec::new();
        let mut found: Vec<_> = self.values.iter().collect();
        found.sort_by_key(|(_, setting)| setting.number);
        for (name, setting) in found {
            let Some(key) = keys::find(name) else { continue };
            match value::misread(key, setting) {
                Some(error) if key.is_read_from_file() => {
                    // What is read is judged again there, against its range.
                    if !key.is_in_effect() {
                        refusals.push(error);
                    }
                    continue;
                }
                Some(error) => {
                    notes.push(Note::warning(
                        MessageId::VALUE_IGNORED,
                        format!("{error}; the default is used, as in ZooKeeper"),
                    ));
                    forgotten.push(name.clone());
                    continue;
                }
                None => {}
            }
            match key.fate {
                Fate::Works | Fate::Better => {}
                Fate::NotYet(off) if setting.value.eq_ignore_ascii_case(off) => {}
                Fate::NotYet(_) => notes.push(Note::warning(
                    MessageId::KEY_NOT_IN_EFFECT,
                    not_in_effect(setting, name, key.note),
                )),
                Fate::Meaningless => notes.push(Note::info(not_in_effect(setting, name, key.note))),
                Fate::Refused(when) => match self.refuses(when, setting) {
                    Refusable::Refused(what, why) => refusals.push(ConfigError::Refused {
                        place: setting.origin.to_string(),
                        key: name.clone(),
                        what,
                        why: why.unwrap_or_else(|| because(key.note)),
                    }),
                    Refusable::Without(why) => {
                        notes.push(Note::warning(
                            MessageId::KEY_NOT_IN_EFFECT,
                            not_in_effect(setting, name, why),
                        ));
                    }
                    Refusable::Fine => {}
                },
            }
        }
        for name in forgotten {
            self.values.remove(&name);
        }
        refusals.extend(self.contradictions());
        refusals
    }

    /// Keys without effect that ZooKeeper does not start with.
    fn contradictions(&self) -> Vec<ConfigError> {
        let mut found = Vec::new();
        if let (Some(setting), None) =
            (self.values.get("secureClientPortAddress"), self.values.get("secureClientPort"))
        {
            found.push(ConfigError::NotSet {
                place: setting.origin.to_string(),
                key: "secureClientPort",
                remedy: "Add secureClientPort, or remove secureClientPortAddress.",
            });
        }
        for (asks, needs) in [
            ("quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl"),
            ("quorum.auth.serverRequireSasl", "quorum.auth.enableSasl"),
            ("quorum.auth.learnerRequireSasl", "quorum.auth.enableSasl"),
        ] {
            if let (Some(setting), false) = (self.values.get(asks), self.says_true(needs))
                && self.says_true(asks)
            {
                found.push(ConfigError::Contradiction {
                    place: setting.origin.to_string(),
                    what: format!("{asks} is true but {needs} is not"),
                });
            }
        }
        found
    }

    /// Whether a key says `true`, one without effect as well.
    pub(super) fn says_true(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|setting| setting.value.eq_ignore_ascii_case("true"))
    }

    fn refuses(&self, when: Refusal, setting: &Setting) -> Refusable {
        let is_true = setting.value.eq_ignore_ascii_case("true");
        let ensemble = self.is_ensemble();
        let tls = ensemble && (self.says_true("sslQuorum") || self.says_true("portUnification"));
        let (refused, what) = match when {
            Refusal::Always => (true, ""),
            Refusal::IfTrue => (is_true, "=true"),
            Refusal::IfTrueInEnsemble => (is_true && ensemble, "=true"),
            Refusal::IfTrueWithTls => (is_true && tls, "=true"),
            Refusal::WithTls => (tls, ""),
            Refusal::UnknownProvider => return provider(&setting.value),
        };
        if refused { Refusable::Refused(what, None) } else { Refusable::Fine }
    }

    /// The value of a key that has an effect.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        debug_assert!(
            keys::find(key).is_some_and(Key::is_in_effect),
            "{key} is read, and the table of keys does not say so"
        );
        self.values.get(key)
    }

    /// Whether an `authProvider.N` names this class of ZooKeeper's.
    pub(super) fn has_provider(&self, class: &str) -> bool {
        self.values.iter().any(|(key, setting)| {
            key.starts_with("authProvider.") && own_provider(&setting.value) == Some(class)
        })
    }

    /// Whether a known key is set that has no effect.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Takes out a value that was refused; whether it was there.
    pub(super) fn forget(&mut self, key: &str) -> bool {
        self.values.remove(key).is_some()
    }

    /// The lines of the server list, by what stands for N in `server.N`.
    pub(super) fn servers(&self) -> impl ExactSizeIterator<Item = (&str, &Setting)> {
        self.servers.iter().map(|(id, setting)| (id.as_str(), setting))
    }

    /// Whether this is a server of an ensemble: of several, or of one where `standaloneEnabled`
    /// says that nobody is alone without one.
    pub(super) fn is_ensemble(&self) -> bool {
        let standalone = self.get("standaloneEnabled");
        let is_none_standalone =
            standalone.is_some_and(|its| its.value.eq_ignore_ascii_case("false"));
        self.servers.len() > usize::from(!is_none_standalone)
    }

    /// Where a key or a line of the server list stands, for a message about what it needs; else
    /// `place`.
    pub(super) fn place_of(&self, key: &str, place: &str) -> String {
        let setting = match key.strip_prefix("server.") {
            Some(id) => self.servers.get(id),
            None => self.values.get(key),
        };
        setting.map_or_else(|| place.to_owned(), |setting| setting.origin.to_string())
    }

    /// The names of the keys that have an effect and of the lines of the server list, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let servers = self.servers.keys().map(|id| format!("server.{id}"));
        let in_effect = |key: &&String| keys::find(key).is_some_and(Key::is_in_effect);
        self.values.keys().filter(in_effect).cloned().chain(servers).collect()
    }

    /// The names of the keys that have an effect here and none in ZooKeeper where they stand,
    /// sorted.
    pub(super) fn names_only_here(&self) -> Vec<String> {
        let is_only_here = |(name, setting): &(&String, &Setting)| {
            let is_ignored = setting.rank.0 == SourceRank::FileButIgnoredThere;
            keys::find(name).is_some_and(|key| key.is_in_effect() && (key.is_own() || is_ignored))
        };
        self.values.iter().filter(is_only_here).map(|(name, _)| name.clone()).collect()
    }

    fn add(&mut self, entry: Entry, number: usize, notes: &mut Vec<Note>) {
        let Entry { name, value, origin } = entry;
        let written = trim(&name).to_owned();
        if written.is_empty() {
            notes.push(Note::warning(
                MessageId::VALUE_WITHOUT_KEY,
                format!("{origin}: a value without a key is ignored"),
            ));
            return;
        }
        let name = keys::canonical(&written).to_owned();
        let Some(key) = keys::find(&name) else {
            notes.push(unknown(&written, &origin));
            return;
        };
        let is_in_file = origin.rank() == SourceRank::File;
        let source = if is_in_file && key.is_define_only() {
            SourceRank::FileButIgnoredThere
        } else {
            origin.rank()
        };
        let rank = (source, written == name || !is_in_file);
        // After -D, ZooKeeper's clients have properties that begin like the lines of the list.
        let is_server = |id: &&str| is_in_file || id.parse::<i64>().is_ok();
        let value = trim(&value).to_owned();
        let setting = Setting { value, origin, written, rank, number };
        match name.strip_prefix("server.").filter(is_server) {
            Some(id) => keep(&mut self.servers, id, setting, notes),
            None => keep(&mut self.values, &name, setting, notes),
        }
    }
}

/// What a value of a key comes to that may be refused.
enum Refusable {
    Fine,
    /// What stands after the name of the key, and why, where that is not in the table.
    Refused(&'static str, Option<&'static str>),
    /// What is missed is no danger.
    Without(&'static str),
}

/// What becomes of a class after `authProvider.N`.
fn provider(class: &str) -> Refusable {
    match own_provider(class) {
        Some(
            "DigestAuthenticationProvider"
            | "IPAuthenticationProvider"
            | "EnsembleAuthenticationProvider",
        ) => Refusable::Fine,
        Some("KeyAuthenticationProvider") => Refusable::Without(
            "It is a sample that accepts everybody while there is no /key; a client that \
             authenticates with it is refused, and ACLs cannot name its identities.",
        ),
        Some("SASLAuthenticationProvider" | "X509AuthenticationProvider") => Refusable::Without(
            "Not yet: there is no such scheme; a client that authenticates with it is refused, \
             and ACLs cannot name its identities.",
        ),
        _ => Refusable::Refused(
            "",
            Some("the class is not ZooKeeper's own, and what it would check is unknown."),
        ),
    }
}

/// A class of ZooKeeper's own, without its package.
fn own_provider(class: &str) -> Option<&str> {
    class.strip_prefix("org.apache.zookeeper.server.auth.")
}

/// What a note of the table says after `is refused: `.
fn because(note: &'static str) -> &'static str {
    note.split_once(": ").map_or(note, |(_, why)| why)
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
        notes.push(Note::warning(
            MessageId::KEY_OVERRIDDEN,
            format!(
                "{}: {} is overridden by {} ({})",
                loser.origin,
                loser.written.escape_debug(),
                winner.written.escape_debug(),
                winner.origin
            ),
        ));
    }
}

fn not_in_effect(setting: &Setting, name: &str, note: &str) -> String {
    let known_as = match setting.written.as_str() {
        written if written.ends_with(name) => name.to_owned(),
        written => format!("{written} ({name})"),
    };
    format!("{}: {known_as} is known but has no effect here. {note}", setting.origin)
}

fn unknown(written: &str, origin: &SetIn) -> Note {
    let meant = match keys::nearest(written) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
    Note::warning(
        MessageId::UNKNOWN_KEY,
        format!("{origin}: unknown key {} is ignored{meant}", written.escape_debug()),
    )
}

/// Java's `String.trim`.
fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}
