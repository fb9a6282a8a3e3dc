//! `log show` and `log verify`: transaction logs, record by record.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::CommandError;
use super::output::Output;
use super::place::Place;
use super::words::{Hex, Instant, ZxidRange, counted};
use super::{Finding, membership, txn};
use crate::message::MessageId;
use crate::storage::{self, LogAudit, LogRecord, LogSummary, Remark, ToolDisk, Writer};

/// Show or verify transaction logs.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// List the transactions, one per line.
    Show(ShowLog),
    /// Check every record, and that none is missing.
    Verify {
        /// A log, a folder of logs, or a zoo.cfg that names it.
        #[arg(value_name = "FILE|DIR|ZOO.CFG")]
        at: PathBuf,
        /// Print one JSON object per log.
        #[arg(long)]
        json: bool,
    },
}

/// Which transactions are shown.
#[derive(Debug, Args)]
pub struct ShowLog {
    /// A log, a folder of logs, or a zoo.cfg that names it.
    #[arg(value_name = "FILE|DIR|ZOO.CFG")]
    at: PathBuf,
    /// Only transactions on this znode or its descendants.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only these zxids: 0xA..0xB, 0xA.., ..0xB or 0xA.
    #[arg(long, value_name = "A..B")]
    zxid: Option<ZxidRange>,
    /// Only transactions of this session, such as 0x1000029fe520000.
    #[arg(long, value_name = "ID")]
    session: Option<Hex>,
    /// Only from this time on, such as 2026-03-01T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Instant>,
    /// Only up to this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Instant>,
    /// Include the data; in JSON as base64.
    #[arg(long)]
    data: bool,
    /// Print one JSON object per transaction.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &LogCommand, out: &mut Output) -> Result<Finding, CommandError> {
    match command {
        LogCommand::Show(arguments) => show(arguments, out),
        LogCommand::Verify { at, json } => verify(at, *json, out),
    }
}

fn show(arguments: &ShowLog, out: &mut Output) -> Result<Finding, CommandError> {
    let mut verdict = Finding::Fine;
    audit(
        &arguments.at,
        |path, record| {
            if !arguments.wants(record) {
                return Ok(());
            }
            if arguments.json {
                return out.json(&line_for_scripts(path, record, arguments.data));
            }
            let header = &record.txn.header;
            let (name, what) = match membership::change_of(record) {
                Some(change) => (membership::NAME, membership::for_people(change)),
                None => {
                    (txn::name(&record.txn.txn), txn::for_people(&record.txn.txn, arguments.data))
                }
            };
            out.line(format_args!(
                "{} {} session {} cxid {:#x} {name} {what}",
                Hex(header.zxid),
                Instant(header.time),
                Hex(header.client_id),
                header.cxid,
            ))
        },
        |summary| {
            if !summary.problems.is_empty() {
                verdict = Finding::Problems;
            }
        },
    )?;
    if verdict == Finding::Problems {
        return Err(CommandError::Refused(
            MessageId::LOG_SHOWN_IN_PART,
            format!(
                "not every record of {} can be read; to see what is wrong, run: ferrokeeper log \
                 verify {}",
                arguments.at.display(),
                arguments.at.display()
            ),
        ));
    }
    Ok(verdict)
}

impl ShowLog {
    fn wants(&self, record: &LogRecord<'_>) -> bool {
        let header = &record.txn.header;
        self.zxid.is_none_or(|range| (range.first..=range.last).contains(&header.zxid))
            && self.session.is_none_or(|session| session.0 == header.client_id)
            && self.since.is_none_or(|since| header.time >= since.0)
            && self.until.is_none_or(|until| header.time <= until.0)
            && self.path.as_deref().is_none_or(|path| txn::touches(&record.txn.txn, path))
    }
}

fn line_for_scripts(path: &Path, record: &LogRecord<'_>, with_data: bool) -> Map<String, Value> {
    let header = &record.txn.header;
    let mut line = Map::new();
    let mut put = |key: &str, value: Value| {
        line.insert(key.to_owned(), value);
    };
    put("file", json!(path));
    put("offset", record.offset.into());
    put("group", json!(record.group));
    put("zxid", json!(Hex(header.zxid)));
    put("time", json!(Instant(header.time)));
    put("session", json!(Hex(header.client_id)));
    put("cxid", header.cxid.into());
    put("digest", json!(record.txn.digest.as_ref().map(|digest| Hex(digest.tree_digest))));
    line.extend(match membership::change_of(record) {
        Some(change) => membership::for_scripts(change),
        None => txn::for_scripts(&record.txn.txn, with_data),
    });
    line
}

fn verify(at: &Path, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    let mut summaries = Vec::new();
    audit(at, |_, _| Ok(()), |summary| summaries.push(summary))?;
    let mut verdict = Finding::Fine;
    for summary in &summaries {
        if !summary.problems.is_empty() {
            verdict = Finding::Problems;
        }
        if json {
            out.json(&LogReport::of(summary))?;
        } else {
            for_people(summary, out)?;
        }
    }
    Ok(verdict)
}

#[derive(Serialize)]
struct LogReport<'a> {
    file: &'a Path,
    writer: Option<&'static str>,
    txns: u64,
    groups: Option<u64>,
    first_zxid: Option<Hex>,
    last_zxid: Option<Hex>,
    first_time: Option<Instant>,
    last_time: Option<Instant>,
    end: u64,
    torn_bytes: u64,
    notes: Vec<Value>,
    problems: Vec<Value>,
}

impl<'a> LogReport<'a> {
    fn of(summary: &'a LogSummary) -> Self {
        let remarks = |remarks: &[Remark]| {
            let one = |remark: &Remark| json!({ "offset": remark.offset, "text": remark.text });
            remarks.iter().map(one).collect()
        };
        Self {
            file: &summary.path,
            writer: summary.writer.map(writer_name),
            txns: summary.txns,
            groups: summary.groups,
            first_zxid: summary.first.map(|(zxid, _)| Hex(zxid)),
            last_zxid: summary.last.map(|(zxid, _)| Hex(zxid)),
            first_time: summary.first.map(|(_, time)| Instant(time)),
            last_time: summary.last.map(|(_, time)| Instant(time)),
            end: summary.end,
            torn_bytes: summary.torn_bytes,
            notes: remarks(&summary.notes),
            problems: remarks(&summary.problems),
        }
    }
}

fn for_people(summary: &LogSummary, out: &mut Output) -> Result<(), CommandError> {
    let mut line = format!("{}: ", summary.path.display());
    match summary.writer {
        None => line.push_str("no header"),
        Some(writer) => {
            line.push_str(&format!(
                "written by {}, {}",
                writer_name(writer),
                counted(summary.txns, "transaction")
            ));
        }
    }
    if let Some(groups) = summary.groups {
        line.push_str(&format!(" in {}", counted(groups, "group")));
    }
    if let (Some((first, begin)), Some((last, end))) = (summary.first, summary.last) {
        line.push_str(&format!(
            ", {} to {}, {} to {}",
            Hex(first),
            Hex(last),
            Instant(begin),
            Instant(end)
        ));
    }
    out.line(format_args!("{line}"))?;
    for note in &summary.notes {
        out.line(format_args!("  note, offset {}: {}", note.offset, note.text))?;
    }
    for problem in &summary.problems {
        out.line(format_args!("  PROBLEM, offset {}: {}", problem.offset, problem.text))?;
    }
    Ok(())
}

pub(super) fn writer_name(writer: Writer) -> &'static str {
    match writer {
        Writer::ZooKeeper => "zookeeper",
        Writer::Ferrokeeper => "ferrokeeper",
    }
}

/// Reads the log at `at`, or those in that folder or of that zoo.cfg, oldest first.
fn audit(
    at: &Path,
    mut each: impl FnMut(&Path, &LogRecord<'_>) -> Result<(), CommandError>,
    mut done: impl FnMut(LogSummary),
) -> Result<(), CommandError> {
    let files = files(at)?;
    let mut audit = LogAudit::default();
    for (position, path) in files.iter().enumerate() {
        let is_last = position.saturating_add(1) == files.len();
        let summary = audit.file(&ToolDisk, path, is_last, |record| each(path, record))?;
        done(summary);
    }
    Ok(())
}

fn files(at: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let failed = |source| CommandError::Io { action: "read", path: at.to_owned(), source };
    let its = std::fs::metadata(at).map_err(failed)?;
    if !(its.is_dir() || its.is_file() && is_configuration(at).map_err(failed)?) {
        return Ok(vec![at.to_owned()]);
    }
    let folders = Place::of_folder(at).folders()?;
    let version = folders.data_log_dir.join("version-2");
    let folder = if version.is_dir() { version } else { folders.data_log_dir.clone() };
    let files = storage::logs_in(&ToolDisk, &folder)?;
    if !files.is_empty() {
        return Ok(files);
    }
    folders.expect_log()?;
    Err(CommandError::Refused(
        MessageId::NO_LOG,
        format!(
            "{} contains no log; give the zoo.cfg, dataLogDir as in it, or a file log.*",
            folder.display()
        ),
    ))
}

/// Whether it is a zoo.cfg and no log: it is text, and a log has zeros in its header.
fn is_configuration(file: &Path) -> io::Result<bool> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut head = Vec::new();
    File::open(file)?.take(512).read_to_end(&mut head)?;
    let is_text = head.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace());
    Ok(is_text && !head.is_empty() && !name.starts_with("log."))
}
