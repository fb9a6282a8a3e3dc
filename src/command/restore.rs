//! `restore`: a data directory out of a backup, as it was at its end or at an earlier zxid or time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::Finding;
use super::backup::{MANIFEST, Manifest, in_hex};
use super::error::CommandError;
use super::output::Output;
use super::place::{Folders, Place};
use super::progress::Progress;
use super::state::contents;
use super::words::{Hex, Instant, counted, stamp};
use crate::engine::database::Database;
use crate::message::MessageId;
use crate::storage::{self, Examined, LogEnd, Loss, StorageError, Target, ToolDisk};

/// Create a data directory from a backup, or from a copy of a ZooKeeper data directory.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// A backup, or a copy of a data directory that no server is writing to.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    #[command(flatten)]
    target: Place,
    /// Omit every transaction after this one, such as 0x50000000a.
    #[arg(long, value_name = "ZXID", conflicts_with = "to_time")]
    to_zxid: Option<Hex>,
    /// Omit the first transaction after this time, such as 2026-03-01T12:00:00Z, and everything
    /// that follows it.
    #[arg(long, value_name = "TIME")]
    to_time: Option<Instant>,
    /// If dataDir contains data, which is refused otherwise, move its files into a folder
    /// replaced-* next to version-2.
    #[arg(long)]
    replace: bool,
    /// Only report what would be created or replaced, or why it would be refused.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &RestoreArguments, out: &mut Output) -> Result<Finding, CommandError> {
    let target_folders = arguments.target.folders()?;
    target_folders.expect_log()?;
    let folders = Place::of_folder(&arguments.backup).folders()?;
    let is_snapshot_only = folders.is_snapshot_only()?;
    // A backup has what belongs to it, and says so.
    let is_all = is_snapshot_only || folders.data_dir.join(MANIFEST).is_file();
    let folders = if is_all { folders.with_all_there() } else { folders };
    let source = folders.look()?;
    let manifest = verify(&folders.data_dir)?;

    let Folders { data_dir, data_log_dir, .. } = target_folders.clone();
    let target = Target::new(Arc::new(ToolDisk), data_dir.clone(), data_log_dir);
    let has_data = has_data(&target, arguments.replace)?;
    if has_data {
        target_folders.expect_unused()?;
    }

    let zxid_max = match (arguments.to_zxid, arguments.to_time) {
        (Some(zxid), _) => zxid.0,
        (None, Some(time)) => storage::zxid_at(&source, time.0)?,
        (None, None) => i64::MAX,
    };
    let progress = Progress::waiting("reading the backup");
    let mut rebuild = folders.rebuild(&source)?;
    let examined = storage::examine(&source, false, zxid_max, &mut rebuild)?;
    drop(progress);
    expect_reached(&examined, zxid_max)?;
    let left_out = left_out(&source, &examined)?;
    let database = rebuild.finish();

    let mut moved = None;
    if !arguments.dry_run {
        let progress = Progress::waiting("copying");
        // Held until the new data is in its place: no server starts in between.
        let held = match has_data {
            true => target_folders.hold()?,
            false => Vec::new(),
        };
        storage::restore(&source, &examined, &target, &mut |bytes| progress.advance(bytes))?;
        if has_data {
            let name = format!("replaced-{}", stamp());
            target.replace(&name)?;
            moved = Some(data_dir.join(name));
        } else {
            target.publish()?;
        }
        drop(held);
    }

    let dry_run = arguments.dry_run;
    let data_dir = &data_dir;
    let report = Report {
        dry_run,
        has_data,
        is_snapshot_only: is_snapshot_only && manifest.is_none(),
        data_dir,
        manifest,
        examined,
        database,
        left_out,
        moved,
    };
    match arguments.json {
        true => report.for_scripts(out)?,
        false => report.for_people(out)?,
    }
    Ok(Finding::Fine)
}

/// Whether there is data that `replaces` allows to move.
fn has_data(target: &Target, replaces: bool) -> Result<bool, CommandError> {
    match target.expect_empty() {
        Ok(()) => Ok(false),
        Err(StorageError::NotEmpty { .. }) if replaces => Ok(true),
        Err(StorageError::NotEmpty { folder }) => {
            let hint =
                ", or use --replace, which moves the existing files into a folder next to it";
            Err(CommandError::NotEmpty { path: folder, hint })
        }
        Err(error) => Err(error.into()),
    }
}

/// What was done, or would be.
struct Report<'a> {
    dry_run: bool,
    /// Whether there was data, which is replaced.
    has_data: bool,
    /// Whether the source has neither a log nor anything else.
    is_snapshot_only: bool,
    data_dir: &'a Path,
    manifest: Option<Manifest>,
    examined: Examined,
    database: Database,
    left_out: Loss,
    /// The folder that the previous files are in.
    moved: Option<PathBuf>,
}

impl Report<'_> {
    fn for_scripts(&self, out: &mut Output) -> Result<(), CommandError> {
        out.json(&json!({
            "done": !self.dry_run,
            "replaces": self.has_data,
            "verified": self.manifest.is_some(),
            "snapshot_only": self.is_snapshot_only,
            "zxid": Hex(self.examined.last_zxid),
            "last_time": self.examined.last_time.map(Instant),
            "znodes": self.database.tree().count(),
            "sessions": self.database.sessions().len(),
            "digest": self.database.tree().digest().map(Hex),
            "left_out": self.left_out.txns,
            "moved": self.moved,
        }))
    }

    fn for_people(&self, out: &mut Output) -> Result<(), CommandError> {
        let did = match (self.has_data, self.dry_run) {
            (false, true) => "would create",
            (false, false) => "created",
            (true, true) => "would replace",
            (true, false) => "replaced",
        };
        out.line(format_args!("{did} {}", self.data_dir.display()))?;
        match &self.manifest {
            Some(manifest) => out.line(format_args!(
                "backup     taken {}, {} with matching checksums",
                manifest.taken,
                counted(manifest.files.len() as u64, "file")
            ))?,
            None => out.line(format_args!(
                "backup     a plain copy, without a manifest to check it against"
            ))?,
        }
        if self.is_snapshot_only {
            out.line(format_args!(
                "remark     one snapshot, and no log: what was written after it is not there"
            ))?;
        }
        let of = self
            .examined
            .last_time
            .map(|time| format!(", of {}", Instant(time)))
            .unwrap_or_default();
        out.line(format_args!("state      {}{of}", Hex(self.examined.last_zxid)))?;
        for line in contents(&self.database) {
            out.line(format_args!("{line}"))?;
        }
        if let (Some((first, begin)), Some((last, end))) = (self.left_out.first, self.left_out.last)
        {
            out.line(format_args!(
                "left out   {}, {} of {} to {} of {}",
                counted(self.left_out.txns, "transaction"),
                Hex(first),
                Instant(begin),
                Hex(last),
                Instant(end)
            ))?;
        }
        match &self.moved {
            Some(moved) => {
                out.line(format_args!("moved      the previous files to {}", moved.display()))
            }
            None if self.has_data => out.line(format_args!(
                "           the files that are there would be moved to {}/replaced-<time>",
                self.data_dir.display()
            )),
            None => Ok(()),
        }
    }
}

/// Compares the files with the manifest; `None` for a folder without one.
fn verify(folder: &Path) -> Result<Option<Manifest>, CommandError> {
    let path = folder.join(MANIFEST);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CommandError::Io { action: "read", path, source }),
        Ok(text) => text,
    };
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
        CommandError::Manifest { path: path.clone(), reason: error.to_string() }
    })?;
    if manifest.format != 1 {
        let reason = format!("format {} is unknown to this version", manifest.format);
        return Err(CommandError::Manifest { path, reason });
    }
    let progress =
        Progress::bytes("verifying", manifest.files.iter().map(|file| file.length).sum());
    for file in &manifest.files {
        // A name with a folder in it would reach outside of the backup.
        if file.name.contains('/') {
            let reason = format!("{:?} is not a file name", file.name);
            return Err(CommandError::Manifest { path, reason });
        }
        let path = folder.join("version-2").join(&file.name);
        let altered = |what| CommandError::Altered { path: path.clone(), what };
        let found = storage::sha256(&ToolDisk, &path, &mut |bytes| progress.advance(bytes));
        match found {
            Ok((len, _)) if len != file.length => return Err(altered("its length differs")),
            Ok((_, sum)) if in_hex(&sum) != file.sha256 => {
                return Err(altered("its SHA-256 differs"));
            }
            Ok(_) => {}
            Err(StorageError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Err(altered("it is missing"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for path in storage::logs_in(&ToolDisk, &folder.join("version-2"))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !manifest.files.iter().any(|file| file.name == name) {
            return Err(CommandError::Altered {
                path: path.clone(),
                what: "the file is not listed in it",
            });
        }
    }
    Ok(Some(manifest))
}

/// Damage before the wanted state leaves a hole; damage right after it does not matter.
fn expect_reached(examined: &Examined, zxid_max: i64) -> Result<(), CommandError> {
    match &examined.end {
        LogEnd::Damaged(StorageError::Damage { .. } | StorageError::Unfit { .. })
            if examined.last_zxid == zxid_max =>
        {
            Ok(())
        }
        LogEnd::Clean | LogEnd::Torn { .. }
            if zxid_max < i64::MAX && examined.last_zxid < zxid_max =>
        {
            let (last, wanted) = (Hex(examined.last_zxid), Hex(zxid_max));
            Err(CommandError::Refused(
                MessageId::BACKUP_TOO_OLD,
                format!(
                    "the backup ends at {last}, before {wanted}; use a newer one, or omit --to-zxid"
                ),
            ))
        }
        LogEnd::Damaged(error) => Err(CommandError::Refused(
            error.id(),
            format!(
                "{error}\n  To restore everything before the damage: --to-zxid {}",
                Hex(examined.last_zxid)
            ),
        )),
        _ => Ok(()),
    }
}

fn left_out(source: &storage::DataDirectory, examined: &Examined) -> Result<Loss, CommandError> {
    let (path, offset) = match &examined.end {
        LogEnd::Reached { path, offset }
        | LogEnd::Damaged(
            StorageError::Damage { path, offset, .. } | StorageError::Unfit { path, offset, .. },
        ) => (path, *offset),
        _ => return Ok(Loss::default()),
    };
    Ok(storage::behind(source, storage::log_zxid(path), offset, examined.last_zxid)?)
}
