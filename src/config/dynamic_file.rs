//! The file of the server list that `dynamicConfigFile` names, as ZooKeeper reads it.
//!
//! Owns what may stand beside it. Where no such key is set, zoo.cfg has the list.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::ConfigError;
use super::settings::{Entry, SetIn, Settings};
use crate::list::files::{POINTER, parse_dynamic_file};
use crate::list::line::Addresses;
use crate::list::{ListError, MOST_TEXT};
use crate::properties;

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct DynamicFile {
    /// Its lines.
    pub(super) entries: Vec<Entry>,
    /// The version of the list, which its name has.
    pub(super) version: i64,
}

/// The file that zoo.cfg names, if it names one. A relative path is relative to the working
/// directory.
pub(super) fn read(
    settings: &Settings,
    zoo_cfg: Option<&Path>,
) -> Result<Option<DynamicFile>, ConfigError> {
    let Some(setting) = settings.get(POINTER) else { return Ok(None) };
    if let Some((id, line)) = settings.servers().next() {
        return Err(ConfigError::Contradiction {
            place: line.origin.to_string(),
            what: format!("server.{id} is here, and {POINTER} says that the list is in a file"),
        });
    }
    let path = PathBuf::from(&setting.value);
    let bytes = read_list(&path).map_err(|source| ConfigError::DynamicFile {
        place: setting.origin.to_string(),
        path: path.clone(),
        source,
    })?;
    let bad = |error| ConfigError::List { path: path.clone(), error };
    let list = parse_dynamic_file(&setting.value, &bytes, Addresses::First).map_err(bad)?;
    // ZooKeeper would be a standalone server, and each server of the ensemble another one.
    if list.servers.voters() == 0 {
        return Err(bad(ListError::NoVoter));
    }
    if let Some(zoo_cfg) = zoo_cfg {
        let mut proposed = OsString::from(zoo_cfg);
        proposed.push(".dynamic.next");
        let proposed = PathBuf::from(proposed);
        if proposed.exists() {
            return Err(ConfigError::ProposedList { path: proposed });
        }
    }
    let lines = properties::parse(&bytes).map_err(|error| bad(error.into()))?;
    let path: Rc<Path> = Rc::from(path);
    let entries = lines.into_iter().map(|property| Entry {
        name: property.key,
        value: property.value,
        origin: SetIn::Line(Rc::clone(&path), property.line),
    });
    Ok(Some(DynamicFile { entries: entries.collect(), version: list.version }))
}

/// No more than says that it is too long.
fn read_list(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
