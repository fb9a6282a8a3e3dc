//! What the environment says: the flags that ZooKeeper's start scripts pass to the JVM, and the
//! variables of which the official image makes a zoo.cfg.
//!
//! Owns which variables and which files beside zoo.cfg are read, and in which order. Executes
//! nothing.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::keys;
use super::settings::{Entry, MyId, SetIn};
use super::shell::{self, Unknown};
use super::{ConfigError, Note};
use crate::message::MessageId;

/// Files beside zoo.cfg that are part of a start script: Debian's, and those of zkEnv.sh in its
/// order.
const SCRIPTS: [&str; 3] = ["environment", "zookeeper-env.sh", "java.env"];

/// Variables with words for the JVM, the later one wins. Debian's counts in its file only.
const FLAGS: [&str; 3] = [DEBIAN_FLAGS, "SERVER_JVMFLAGS", "JVMFLAGS"];
const DEBIAN_FLAGS: &str = "JAVA_OPTS";

/// zkServer.sh makes `-Dzookeeper.datadir.autocreate=false` of it.
const NO_AUTOCREATE: &str = "ZOO_DATADIR_AUTOCREATE_DISABLE";

/// zkServer.sh makes `-Dzookeeper.log.dir` and `-Dzookeeper.log.file` of them.
const LOGS: [(&str, &str); 2] = [("ZOO_LOG_DIR", "log.dir"), ("ZOO_LOG_FILE", "log.file")];

/// The lines that the official image writes, with its default where that is not the server's own.
const IMAGE: [(&str, &str, &str); 10] = [
    ("ZOO_DATA_DIR", "dataDir", "/data"),
    ("ZOO_DATA_LOG_DIR", "dataLogDir", "/datalog"),
    ("ZOO_TICK_TIME", "tickTime", "2000"),
    ("ZOO_INIT_LIMIT", "initLimit", "5"),
    ("ZOO_SYNC_LIMIT", "syncLimit", "2"),
    ("ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60"),
    ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount", ""),
    ("ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval", ""),
    ("ZOO_STANDALONE_ENABLED", "standaloneEnabled", ""),
    ("ZOO_ADMINSERVER_ENABLED", "admin.enableServer", ""),
];
const IMAGE_WHITELIST: (&str, &str) = ("ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist");
const IMAGE_SERVERS: (&str, &str) = ("ZOO_SERVERS", "server.1=localhost:2888:3888;2181");
const IMAGE_EXTRA: &str = "ZOO_CFG_EXTRA";
const IMAGE_MY_ID: &str = "ZOO_MY_ID";
const IMAGE_FOLDER: (&str, &str) = ("ZOO_CONF_DIR", "/conf");

/// The variables of the process; one that is empty is not there.
#[derive(Clone, Copy)]
pub(super) struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Environment<'a> {
    pub(super) fn new(variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { variable }
    }

    fn get(self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    /// The `-D` words that are a ZooKeeper server's, with what the shell files in the folder of
    /// zoo.cfg say.
    pub(super) fn flags(self, folder: Option<&Path>, notes: &mut Vec<Note>) -> Vec<Entry> {
        let mut scripts = Scripts { environment: self, assigned: Vec::new() };
        for name in SCRIPTS {
            if let Some(path) = folder.map(|folder| folder.join(name)).filter(|path| path.is_file())
            {
                scripts.read(&path, notes);
            }
        }
        let mut entries = Vec::new();
        if let Some((_, origin)) = scripts.value(NO_AUTOCREATE) {
            let (name, value) = ("datadir.autocreate".to_owned(), "false".to_owned());
            entries.push(Entry { name, value, origin });
        }
        for (variable, key) in LOGS {
            if let Some((value, origin)) = scripts.value(variable) {
                entries.push(Entry { name: key.to_owned(), value, origin });
            }
        }
        for variable in FLAGS {
            if let Some((flags, origin)) = scripts.value(variable) {
                entries.extend(words(&flags, &origin));
            }
        }
        entries
    }

    /// Where the official image keeps its zoo.cfg, if its variables are there.
    pub(super) fn image_folder(self) -> Option<PathBuf> {
        let (variable, default) = IMAGE_FOLDER;
        match self.get(variable) {
            Some(folder) => Some(folder.into()),
            None => self.is_image().then(|| default.into()),
        }
    }

    /// Whether there is a variable of which the image makes a zoo.cfg, or that stands beside one.
    pub(super) fn is_image(self) -> bool {
        self.of_the_image().next().is_some() || self.get(IMAGE_MY_ID).is_some()
    }

    /// Those of which the image makes a zoo.cfg.
    pub(super) fn of_the_image(self) -> impl Iterator<Item = &'static str> {
        let lines = IMAGE.into_iter().map(|(variable, ..)| variable);
        let others = [IMAGE_SERVERS.0, IMAGE_WHITELIST.0, IMAGE_EXTRA];
        lines.chain(others).filter(move |variable| self.get(variable).is_some())
    }

    /// The lines of the zoo.cfg that the official image writes where there is none.
    pub(super) fn image(self) -> Result<Vec<Entry>, ConfigError> {
        let mut entries = Vec::new();
        let mut add = |variable: &'static str, name: &str, value: String| {
            let origin = SetIn::Image(variable);
            entries.push(Entry { name: name.to_owned(), value, origin });
        };
        for (variable, key, default) in IMAGE {
            let value = self.get(variable).unwrap_or_else(|| default.to_owned());
            if !value.is_empty() {
                add(variable, key, value);
            }
        }
        if let Some(words) = self.get(IMAGE_WHITELIST.0) {
            add(IMAGE_WHITELIST.0, IMAGE_WHITELIST.1, words);
        }
        let servers = self.get(IMAGE_SERVERS.0).unwrap_or_else(|| IMAGE_SERVERS.1.to_owned());
        let extra = self.get(IMAGE_EXTRA).unwrap_or_default();
        let (mut lines, mut bad) = (Vec::new(), None);
        for word in servers.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if name.starts_with("server.") => {
                    lines.push((IMAGE_SERVERS.0, name, value));
                }
                _ => bad = bad.or(Some(word)),
            }
        }
        if let Some(word) = bad {
            return Err(ConfigError::BadValue {
                place: SetIn::Image(IMAGE_SERVERS.0).to_string(),
                key: IMAGE_SERVERS.0.to_owned(),
                value: word.to_owned(),
                expected: "server.N=host:port:port;port entries separated by blanks".to_owned(),
            });
        }
        for word in extra.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            lines.push((IMAGE_EXTRA, name, value));
        }
        for (variable, name, value) in lines {
            add(variable, name, value.to_owned());
        }
        Ok(entries)
    }

    /// Which server this is where there is no file `myid`; in the image, the first.
    pub(super) fn my_id(self, is_in_image: bool) -> Option<MyId> {
        let default = || is_in_image.then(|| "1".to_owned());
        let value = self.get(IMAGE_MY_ID).or_else(default)?.trim().to_owned();
        Some(MyId { value, origin: SetIn::Image(IMAGE_MY_ID) })
    }
}

/// The variables as the shell files leave them.
struct Scripts<'a> {
    environment: Environment<'a>,
    assigned: Vec<(String, String, SetIn)>,
}

impl Scripts<'_> {
    /// A variable that is not empty, and where it was set last.
    fn value(&self, name: &'static str) -> Option<(String, SetIn)> {
        let assigned = self.assigned.iter().rev().find(|(assigned, ..)| assigned == name);
        match assigned {
            Some((_, value, origin)) => Some((value.clone(), origin.clone())),
            None if name == DEBIAN_FLAGS => None,
            None => Some((self.environment.get(name)?, SetIn::Environment(name))),
        }
        .filter(|(value, _)| !value.trim().is_empty())
    }

    fn read(&mut self, path: &Path, notes: &mut Vec<Note>) {
        let bytes = match super::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                notes.push(Note::warning(MessageId::SCRIPT_UNREADABLE, error.to_string()));
                return;
            }
        };
        let before = |name: &str| {
            let assigned = self.assigned.iter().rev().find(|(assigned, ..)| assigned == name);
            match assigned {
                Some((_, value, _)) => Some(value.clone()),
                None => (self.environment.variable)(name),
            }
        };
        let assignments = shell::assignments(&String::from_utf8_lossy(&bytes), before);
        let path: Rc<Path> = Rc::from(path);
        for shell::Assignment { line, name, value } in assignments {
            let origin = SetIn::Script(Rc::clone(&path), line);
            let why = match value {
                Ok(value) => {
                    self.assigned.push((name, value, origin));
                    continue;
                }
                Err(Unknown::NeedsShell) => "only a shell could evaluate it",
                Err(Unknown::Conditional) => "only a shell could tell whether it is executed",
            };
            if FLAGS.contains(&name.as_str()) || name == NO_AUTOCREATE {
                notes.push(Note::warning(
                    MessageId::SCRIPT_NEEDS_SHELL,
                    format!("{origin}: this assignment of {name} is ignored: {why}"),
                ));
            }
        }
    }
}

fn words(flags: &str, origin: &SetIn) -> Vec<Entry> {
    flags
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("-D")?.split_once('='))
        .filter(|(name, _)| keys::is_server_property(name))
        .map(|(name, value)| Entry {
            name: name.into(),
            value: value.into(),
            origin: origin.clone(),
        })
        .collect()
}

#[cfg(test)]
#[path = "environment_test.rs"]
mod environment_test;
