//! What the environment says: the flags that ZooKeeper's start script passes to the JVM.

use super::keys;
use super::settings::{Entry, Origin};

/// Variables whose `-D` words ZooKeeper's start script passes on, the later one wins.
const FLAGS: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];

/// The `-D` words of the environment that are a ZooKeeper server's.
pub(super) fn flags(variable: impl Fn(&str) -> Option<String>) -> Vec<Entry> {
    let words =
        |name: &'static str| words(&variable(name).unwrap_or_default(), &Origin::Environment(name));
    FLAGS.into_iter().flat_map(words).collect()
}

fn words(flags: &str, origin: &Origin) -> Vec<Entry> {
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
