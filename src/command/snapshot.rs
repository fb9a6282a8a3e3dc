//! `snapshot show`, `verify` and `diff`: snapshot files, znode by znode.

mod verify;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jute::Acl;
use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::DIGEST_VERSION;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Finding;
use super::error::CommandError;
use super::log::writer_name;
use super::output::Output;
use super::words::{
    AclEntry, Hex, Instant, Plain, acl_for_people, acl_for_scripts, counted, data_for_people,
    data_for_scripts, is_below,
};
use crate::engine::digest;
use crate::ensemble::wrong_digest;
use crate::storage::{
    self, Loaded, Refused, Replay, SnapshotId, SnapshotOrigin, ToolDisk, Writer, load_snapshot,
};

/// Show, verify or compare snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// List the sessions and the znodes, one per line, in the order of the file.
    Show(ShowSnapshot),
    /// Check that every byte is covered by a matching checksum, that the znodes form a tree, and
    /// that its digest and its name match them.
    Verify {
        /// The snapshot.
        file: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List what was added, removed and changed from A to B.
    Diff {
        /// The first snapshot.
        a: PathBuf,
        /// The second snapshot.
        b: PathBuf,
        /// Print one JSON object per znode.
        #[arg(long)]
        json: bool,
    },
}

/// What is shown.
#[derive(Debug, Args)]
pub struct ShowSnapshot {
    /// The snapshot.
    file: PathBuf,
    /// Only this znode and its descendants.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Include the data; in JSON as base64.
    #[arg(long)]
    data: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &SnapshotCommand, out: &mut Output) -> Result<Finding, CommandError> {
    match command {
        SnapshotCommand::Show(arguments) => show(arguments, out),
        SnapshotCommand::Verify { file, json } => verify::verify(file, *json, out),
        SnapshotCommand::Diff { a, b, json } => diff(a, b, *json, out),
    }
}

/// What one reads of a snapshot.
trait Visit {
    fn header(&mut self, _id: &SnapshotId) -> Result<(), CommandError> {
        Ok(())
    }

    fn session(&mut self, _id: i64, _timeout_ms: i32) -> Result<(), CommandError> {
        Ok(())
    }

    fn node(
        &mut self,
        path: &str,
        node: &SnapshotNode<'_>,
        acl: &[Acl<'_>],
    ) -> Result<(), CommandError>;
}

/// What is in a snapshot, counted.
#[derive(Debug, Default)]
struct Counts {
    sessions: u64,
    znodes: u64,
    ephemerals: u64,
    data_bytes: u64,
    /// What the snapshot says.
    digest: Option<i64>,
    digest_zxid: Option<i64>,
    /// What the znodes make.
    sum: i64,
}

impl Counts {
    /// The digest that is of the very znodes of the snapshot, if there is one. One of ZooKeeper
    /// that was written while transactions went on has that of a later instant.
    fn comparable(&self, id: &SnapshotId) -> Option<i64> {
        self.digest.filter(|_| is_exact(id) || self.digest_zxid == Some(id.zxid))
    }
}

/// Whether it is the tree of one instant: ours are, whatever their names say.
fn is_exact(id: &SnapshotId) -> bool {
    id.origin != SnapshotOrigin::Java
}

/// Reads the snapshot, znode by znode. Where it `is_summed`, one of ours whose digest is not that
/// of its znodes is refused at its end, as a start does.
fn read(
    path: &Path,
    is_summed: bool,
    visit: &mut dyn Visit,
) -> Result<(Loaded, Counts), CommandError> {
    let mut reading = Reading {
        visit,
        is_summed,
        id: SnapshotId { zxid: 0, origin: SnapshotOrigin::None },
        acls: HashMap::new(),
        counts: Counts::default(),
        failed: None,
    };
    let zxid = name_zxid(path).unwrap_or(0);
    let loaded = load_snapshot(&ToolDisk, path, zxid, &mut reading);
    match (reading.failed, loaded) {
        (Some(error), _) => Err(error),
        (None, Ok(loaded)) => Ok((loaded, reading.counts)),
        (None, Err(error)) => Err(error.into()),
    }
}

/// The zxid of a snapshot is that of its name, where it has such a name.
pub(super) fn name_zxid(path: &Path) -> Option<i64> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let zxid = name.strip_prefix("snapshot.")?.split('.').next().unwrap_or_default();
    i64::from_str_radix(zxid, 16).ok()
}

struct Reading<'a> {
    visit: &'a mut dyn Visit,
    is_summed: bool,
    id: SnapshotId,
    acls: HashMap<i64, Vec<Acl<'static>>>,
    counts: Counts,
    /// Why the visit ended early.
    failed: Option<CommandError>,
}

impl Reading<'_> {
    fn hand(&mut self, result: Result<(), CommandError>) -> Result<(), Refused> {
        result.map_err(|error| {
            self.failed = Some(error);
            Refused("not shown to the end".to_owned())
        })
    }
}

impl Replay for Reading<'_> {
    fn begin(&mut self, snapshot: &SnapshotId) {
        self.id = *snapshot;
        self.acls.clear();
        self.counts = Counts::default();
        if let Err(error) = self.visit.header(snapshot) {
            self.failed = Some(error);
        }
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused> {
        self.counts.sessions = self.counts.sessions.saturating_add(1);
        let shown = self.visit.session(id, timeout_ms);
        self.hand(shown)
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        self.acls.insert(id, acl.into_iter().map(jute::IntoStatic::into_static).collect());
        Ok(())
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        let counts = &mut self.counts;
        counts.znodes = counts.znodes.saturating_add(1);
        counts.data_bytes = counts
            .data_bytes
            .saturating_add(node.data.as_ref().map_or(0, |data| data.len() as u64));
        if node.stat.ephemeral_owner != 0 {
            counts.ephemerals = counts.ephemerals.saturating_add(1);
        }
        if self.is_summed {
            counts.sum = counts.sum.wrapping_add(digest::of_node(path, node));
        }
        let (open, nobody) = ([Acl::anyone(jute::perms::ALL)], [Acl::anyone(0)]);
        let acl = match self.acls.get(&node.acl) {
            Some(acl) => acl.as_slice(),
            None if node.acl == -1 => &open,
            // Only the log has it.
            None if self.id.origin == SnapshotOrigin::Java => &nobody,
            None => {
                return Err(Refused(format!("{path} has ACL {}, which does not exist", node.acl)));
            }
        };
        let shown = self.visit.node(if path.is_empty() { "/" } else { path }, node, acl);
        self.hand(shown)
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        let digest = digest.filter(|digest| digest.version == DIGEST_VERSION);
        self.counts.digest = digest.as_ref().map(|digest| digest.digest);
        self.counts.digest_zxid = digest.map(|digest| digest.zxid);
        match self.counts.comparable(&self.id) {
            Some(said) if self.is_summed && is_exact(&self.id) && said != self.counts.sum => {
                Err(wrong_digest(said, self.counts.sum))
            }
            _ => Ok(()),
        }
    }

    fn progress(&mut self, _: storage::Reading, _: u64, _: u64) {}

    fn is_another_history(&self) -> bool {
        false
    }

    fn txn(&mut self, _record: &jute::txn::TxnRecord<'_>) -> Result<(), Refused> {
        Ok(())
    }
}

fn writer(id: &SnapshotId) -> &'static str {
    match id.origin {
        SnapshotOrigin::Java => writer_name(Writer::ZooKeeper),
        SnapshotOrigin::None | SnapshotOrigin::Exact { .. } => writer_name(Writer::Ferrokeeper),
    }
}

struct Show<'a> {
    arguments: &'a ShowSnapshot,
    out: &'a mut Output,
}

#[derive(Serialize)]
struct ZnodeLine<'a> {
    r#type: &'static str,
    path: &'a str,
    czxid: Hex,
    mzxid: Hex,
    pzxid: Hex,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: Hex,
    length: usize,
    acl: Vec<AclEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Option<String>>,
}

impl Visit for Show<'_> {
    fn header(&mut self, id: &SnapshotId) -> Result<(), CommandError> {
        if self.arguments.json {
            return self.out.json(&json!({
                "type": "snapshot", "file": self.arguments.file, "zxid": Hex(id.zxid),
                "writer": writer(id),
            }));
        }
        let file = self.arguments.file.display();
        self.out.line(format_args!("# {file}: {}, written by {}", Hex(id.zxid), writer(id)))
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), CommandError> {
        if self.arguments.path.is_some() {
            return Ok(());
        }
        if self.arguments.json {
            let line = json!({ "type": "session", "session": Hex(id), "timeout_ms": timeout_ms });
            return self.out.json(&line);
        }
        self.out.line(format_args!("session {} timeout={timeout_ms}ms", Hex(id)))
    }

    fn node(
        &mut self,
        path: &str,
        node: &SnapshotNode<'_>,
        acl: &[Acl<'_>],
    ) -> Result<(), CommandError> {
        if self.arguments.path.as_deref().is_some_and(|top| !is_below(path, top)) {
            return Ok(());
        }
        let (stat, data) = (&node.stat, node.data.as_deref());
        if self.arguments.json {
            return self.out.json(&ZnodeLine {
                r#type: "znode",
                path,
                czxid: Hex(stat.czxid),
                mzxid: Hex(stat.mzxid),
                pzxid: Hex(stat.pzxid),
                ctime: stat.ctime,
                mtime: stat.mtime,
                version: stat.version,
                cversion: stat.cversion,
                aversion: stat.aversion,
                ephemeral_owner: Hex(stat.ephemeral_owner),
                length: data.map_or(0, <[u8]>::len),
                acl: acl_for_scripts(acl),
                data: self.arguments.data.then(|| data_for_scripts(data)),
            });
        }
        let shown = match self.arguments.data {
            true => format!("data={}", data_for_people(data)),
            false => format!("length={}", data.map_or(0, <[u8]>::len)),
        };
        let owner = match stat.ephemeral_owner {
            0 => String::new(),
            owner => format!(" owner={}", Hex(owner)),
        };
        self.out.line(format_args!(
            "{} {shown} czxid={} mzxid={} pzxid={} ctime={} mtime={} version={} cversion={} \
             aversion={}{owner} acl={}",
            Plain(path),
            Hex(stat.czxid),
            Hex(stat.mzxid),
            Hex(stat.pzxid),
            Instant(stat.ctime),
            Instant(stat.mtime),
            stat.version,
            stat.cversion,
            stat.aversion,
            acl_for_people(acl),
        ))
    }
}

fn show(arguments: &ShowSnapshot, out: &mut Output) -> Result<Finding, CommandError> {
    let (loaded, counts) = read(&arguments.file, true, &mut Show { arguments, out: &mut *out })?;
    if arguments.json {
        out.json(&json!({
            "type": "end", "znodes": counts.znodes, "sessions": counts.sessions,
            "digest": counts.digest.map(Hex), "sum": Hex(counts.sum),
        }))?;
    } else {
        let (znodes, sessions) =
            (counted(counts.znodes, "znode"), counted(counts.sessions, "session"));
        let digest = digest_for_people(&loaded.id, &counts);
        out.line(format_args!("# {znodes}, {sessions}; every checksum matches; {digest}"))?;
    }
    Ok(Finding::Fine)
}

/// What is said of the digest where nothing is wrong.
fn digest_for_people(id: &SnapshotId, counts: &Counts) -> String {
    let sum = Hex(counts.sum);
    match (counts.digest.map(Hex), counts.comparable(id)) {
        (None, _) => format!("it has no digest; its znodes give {sum}"),
        (Some(_), Some(said)) if said == counts.sum => {
            format!("the digest {sum} is that of its znodes")
        }
        // A start goes on as well.
        (Some(said), Some(_)) => format!(
            "ZooKeeper recorded the digest {said}, but the znodes give {sum}: ZooKeeper's digests \
             are wrong after a create with the flags of a container"
        ),
        (Some(said), None) => format!(
            "the digest {said} is that of the tree at its end; the znodes as written give {sum}"
        ),
    }
}

/// What tells a znode from another of the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fingerprint {
    stat: jute::StatPersisted,
    data: [u8; 32],
    acl: [u8; 32],
}

impl Fingerprint {
    fn of(node: &SnapshotNode<'_>, acl: &[Acl<'_>]) -> Self {
        let mut data = Sha256::new();
        match node.data.as_deref() {
            None => data.update([0]),
            Some(bytes) => {
                data.update([1]);
                data.update(bytes);
            }
        }
        let mut list = Vec::new();
        for acl in acl {
            jute::Record::encode(acl, &mut list);
        }
        Self { stat: node.stat, data: data.finalize().into(), acl: Sha256::digest(&list).into() }
    }

    /// What differs in `other`.
    fn changes(&self, other: &Self) -> Vec<&'static str> {
        let mut changes = Vec::new();
        if self.data != other.data {
            changes.push("data");
        }
        if self.acl != other.acl {
            changes.push("acl");
        }
        if self.stat != other.stat {
            changes.push("stat");
        }
        changes
    }
}

/// The znodes of the first snapshot.
#[derive(Default)]
struct Left(BTreeMap<Box<str>, Fingerprint>);

impl Visit for Left {
    fn node(
        &mut self,
        path: &str,
        node: &SnapshotNode<'_>,
        acl: &[Acl<'_>],
    ) -> Result<(), CommandError> {
        self.0.insert(path.into(), Fingerprint::of(node, acl));
        Ok(())
    }
}

/// Reads the second one and leaves in `left` what it has not.
struct Right<'a> {
    left: &'a mut Left,
    json: bool,
    out: &'a mut Output,
    differs: bool,
}

impl Visit for Right<'_> {
    fn node(
        &mut self,
        path: &str,
        node: &SnapshotNode<'_>,
        acl: &[Acl<'_>],
    ) -> Result<(), CommandError> {
        let now = Fingerprint::of(node, acl);
        match self.left.0.remove(path) {
            None => {
                self.differs = true;
                difference(path, "added", &[], self.json, self.out)
            }
            Some(before) if before == now => Ok(()),
            Some(before) => {
                self.differs = true;
                difference(path, "changed", &before.changes(&now), self.json, self.out)
            }
        }
    }
}

fn difference(
    path: &str,
    what: &'static str,
    changes: &[&'static str],
    json: bool,
    out: &mut Output,
) -> Result<(), CommandError> {
    if json {
        return out.json(&json!({ "path": path, "difference": what, "changed": changes }));
    }
    let changes =
        if changes.is_empty() { String::new() } else { format!(" ({})", changes.join(", ")) };
    out.line(format_args!("{what} {}{changes}", Plain(path)))
}

fn diff(a: &Path, b: &Path, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    let mut left = Left::default();
    read(a, false, &mut left)?;
    let mut right = Right { left: &mut left, json, out: &mut *out, differs: false };
    read(b, false, &mut right)?;
    let differs = right.differs || !left.0.is_empty();
    for path in left.0.keys() {
        difference(path, "removed", &[], json, out)?;
    }
    Ok(if differs { Finding::Problems } else { Finding::Fine })
}
