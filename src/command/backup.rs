//! `backup`: a copy that is a data directory itself, with a manifest beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Finding;
use super::error::CommandError;
use super::output::Output;
use super::place::Place;
use super::progress::Progress;
use super::state::contents;
use super::words::{Hex, Instant, counted};
use crate::storage::{self, Access, Copied, Disk, Target, ToolDisk};

/// The manifest's name in the folder of a backup.
pub(super) const MANIFEST: &str = "backup.json";
/// Between two looks at a write that goes on.
const PAUSE: Duration = Duration::from_millis(15);

/// Copy the data directory of a running or stopped server.
#[derive(Debug, Args)]
pub struct BackupArguments {
    #[command(flatten)]
    place: Place,
    /// An empty folder, or one to be created.
    target: PathBuf,
    /// Only report what would be copied.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object: the manifest, or what would be copied.
    #[arg(long)]
    json: bool,
}

/// What a backup is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Of this file.
    pub(super) format: u32,
    /// When it was taken.
    pub(super) taken: String,
    /// The zxid of the state.
    pub(super) zxid: String,
    /// When the last transaction was made.
    pub(super) last_time: Option<String>,
    pub(super) znodes: usize,
    pub(super) sessions: usize,
    /// What is in `version-2`.
    pub(super) files: Vec<ManifestFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManifestFile {
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) sha256: String,
}

impl From<&Copied> for ManifestFile {
    fn from(copied: &Copied) -> Self {
        let sha256 = in_hex(&copied.sha256);
        Self { name: copied.name.clone(), length: copied.len, sha256 }
    }
}

pub(super) fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn run(arguments: &BackupArguments, out: &mut Output) -> Result<Finding, CommandError> {
    let folders = arguments.place.folders()?;
    let source = folders.look()?;
    let target = &arguments.target;
    expect_empty(target)?;
    let mut pause = || thread::sleep(PAUSE);
    let plan = storage::plan_backup(&source, &mut pause)?;
    let total: u64 = plan.iter().map(|(_, len)| len).sum();
    if arguments.dry_run && arguments.json {
        let files: Vec<Value> =
            (plan.iter()).map(|(file, len)| json!({ "file": file, "length": len })).collect();
        out.json(&json!({ "done": false, "files": files, "bytes": total }))?;
        return Ok(Finding::Fine);
    }
    if arguments.dry_run {
        for (file, len) in &plan {
            out.line(format_args!("would copy {} of {}", counted(*len, "byte"), file.display()))?;
        }
        out.line(format_args!("would need {} in {}", counted(total, "byte"), target.display()))?;
        return Ok(Finding::Fine);
    }
    let disk: Arc<dyn Disk> = Arc::new(ToolDisk);
    let place = Target::new(Arc::clone(&disk), target.clone(), target.clone());
    let mut rebuild = folders.rebuild(&source)?.of_former_member();
    let progress = Progress::bytes("copying", total);
    let backup = storage::backup(&source, &place, &mut rebuild, &mut pause, &mut |bytes| {
        progress.advance(bytes);
    })?;
    drop(progress);
    let database = rebuild.finish();
    let manifest = Manifest {
        format: 1,
        taken: Instant(now()).to_string(),
        zxid: Hex(backup.examined.last_zxid).to_string(),
        last_time: backup.examined.last_time.map(|time| Instant(time).to_string()),
        znodes: database.tree().count(),
        sessions: database.sessions().len(),
        files: backup.files.iter().map(ManifestFile::from).collect(),
    };
    write_manifest(target, &manifest)?;
    place.publish()?;
    if arguments.json {
        out.json(&manifest)?;
        return Ok(Finding::Fine);
    }
    let bytes = backup.files.iter().map(|file| file.len).sum();
    out.line(format_args!(
        "{} in {}, {}, read back and verified",
        counted(backup.files.len() as u64, "file"),
        target.display(),
        counted(bytes, "byte")
    ))?;
    let of = manifest.last_time.map(|time| format!(", of {time}")).unwrap_or_default();
    out.line(format_args!("state      {}{of}", manifest.zxid))?;
    for line in contents(&database) {
        out.line(format_args!("{line}"))?;
    }
    Ok(Finding::Fine)
}

fn expect_empty(target: &Path) -> Result<(), CommandError> {
    let failed = |source| CommandError::Io { action: "read", path: target.to_owned(), source };
    match std::fs::read_dir(target) {
        // What an earlier backup that did not end left is written over.
        Ok(mut entries) => match entries
            .find(|entry| entry.as_ref().map_or(true, |entry| entry.file_name() != "tmp.version-2"))
        {
            None => Ok(()),
            Some(Ok(_)) => Err(CommandError::NotEmpty { path: target.to_owned(), hint: "" }),
            Some(Err(error)) => Err(failed(error)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), CommandError> {
    let path = folder.join(MANIFEST);
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| CommandError::Manifest {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    text.push(b'\n');
    let write = || {
        let file = ToolDisk.create(&path, Access::Shared)?;
        file.write_all_at(&text, 0)?;
        file.sync_all()
    };
    write().map_err(|source| CommandError::Io { action: "write", path: path.clone(), source })
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
