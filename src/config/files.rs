//! The directories of a server, and how its log and its snapshots are kept there.
//!
//! Never opens one of them.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::settings::{SetIn, Settings};
use super::value;
use super::{ConfigError, Note};
use crate::message::MessageId;

/// When old snapshots and logs are purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// 0 and less.
    Never,
    /// At the start, and then so often. Also after each snapshot, where that is not seldom.
    Every(Duration),
}

impl Purge {
    /// Whoever sets more than the default, an hour, wants no more purges than that.
    #[must_use]
    pub fn is_seldom(self) -> bool {
        matches!(self, Self::Every(every) if every > Duration::from_secs(3600))
    }
}

/// How snapshots are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotCompression {
    /// Not at all.
    None,
    /// `gz`.
    Gzip,
    /// `snappy`.
    Snappy,
}

/// The parents of the snapshots and of the log; `default` counts where nothing is set.
pub(super) fn directories(
    settings: &Settings,
    default: Option<&str>,
    place: &str,
    notes: &mut Vec<Note>,
) -> Result<(PathBuf, PathBuf), ConfigError> {
    let data_dir = directory(settings, "dataDir", notes)?
        .or_else(|| default.map(PathBuf::from))
        .ok_or_else(|| ConfigError::NotSet {
            place: place.to_owned(),
            key: "dataDir",
            remedy: "Add a line dataDir=<directory of the snapshots and the log>.",
        })?;
    let log_dir = directory(settings, "dataLogDir", notes)?.unwrap_or_else(|| data_dir.clone());
    Ok((data_dir, log_dir))
}

fn directory(
    settings: &Settings,
    key: &'static str,
    notes: &mut Vec<Note>,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(setting) = settings.get(key) else {
        return Ok(None);
    };
    let origin = &setting.origin;
    if setting.value.is_empty() || setting.value.contains('\0') {
        return Err(value::bad_value(key, setting, "a directory".to_owned()));
    }
    let path = PathBuf::from(&setting.value);
    if path.is_relative() && !path.starts_with(".") {
        let text = format!(
            "{origin}: {key} is relative to the working directory: {}; write ./{} if that is \
             intended",
            path.display(),
            path.display()
        );
        notes.push(Note::warning(MessageId::RELATIVE_DIRECTORY, text));
    }
    if !setting.value.is_ascii() && matches!(origin, SetIn::Line(..)) {
        notes.push(Note::warning(
            MessageId::DIRECTORY_IN_LATIN_1,
            format!("{origin}: {key} was read as Latin-1, as Java reads it: {}", path.display()),
        ));
    }
    Ok(Some(path))
}

/// Any case counts, and what is neither word leaves snapshots plain, as in ZooKeeper.
pub(super) fn snapshot_compression(
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> SnapshotCompression {
    let Some(setting) = settings.get("snapshot.compression.method") else {
        return SnapshotCompression::None;
    };
    match setting.value.to_ascii_lowercase().as_str() {
        "" => SnapshotCompression::None,
        "gz" => SnapshotCompression::Gzip,
        "snappy" => SnapshotCompression::Snappy,
        other => {
            let text = format!(
                "{}: snapshot.compression.method is {other:?}, neither gz nor snappy: snapshots \
                 are not compressed",
                setting.origin
            );
            notes.push(Note::warning(MessageId::UNKNOWN_WORD, text));
            SnapshotCompression::None
        }
    }
}

pub(super) fn snap_count(settings: &Settings, notes: &mut Vec<Note>) -> Result<u32, ConfigError> {
    raised(settings, "snapCount", 2, notes)
}

pub(super) fn snap_retain_count(
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<u32, ConfigError> {
    raised(settings, "autopurge.snapRetainCount", 3, notes)
}

/// A value below the least is raised to it, as ZooKeeper does, with a warning.
fn raised(
    settings: &Settings,
    key: &'static str,
    least: u32,
    notes: &mut Vec<Note>,
) -> Result<u32, ConfigError> {
    let value = value::signed(settings, key)?;
    if value >= least.into() {
        return Ok(u32::try_from(value).unwrap_or(u32::MAX));
    }
    if let Some(setting) = settings.get(key) {
        notes.push(Note::warning(
            MessageId::NUMBER_OUT_OF_RANGE,
            format!("{}: {key} is {value}, raised to {least}, the minimum", setting.origin),
        ));
    }
    Ok(least)
}

/// Only the word `no` switches syncing off: whoever writes anything else keeps it, as in ZooKeeper.
pub(super) fn force_sync(settings: &Settings, notes: &mut Vec<Note>) -> bool {
    let Some(setting) = settings.get("forceSync") else {
        return true;
    };
    let origin = &setting.origin;
    match setting.value.as_str() {
        "yes" => true,
        "no" => {
            notes.push(Note::warning(
                MessageId::FORCE_SYNC_OFF,
                format!(
                    "{origin}: forceSync=no: ACKNOWLEDGED CHANGES CAN BE LOST when this machine \
                 crashes or loses power, because the log is not synced"
                ),
            ));
            false
        }
        other => {
            notes.push(Note::warning(
                MessageId::UNKNOWN_WORD,
                format!("{origin}: forceSync is {other:?}, neither yes nor no: the log is synced"),
            ));
            true
        }
    }
}

/// ZooKeeper purges nothing by default, and its operators' disks fill up.
pub(super) fn purge(settings: &Settings) -> Result<Purge, ConfigError> {
    let hours = value::limit(settings, "autopurge.purgeInterval")?;
    let every = |hours: NonZeroU32| Duration::from_secs(u64::from(hours.get()) * 3600);
    Ok(hours.map_or(Purge::Never, |hours| Purge::Every(every(hours))))
}
