//! Where and of what a run was made.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What the figures of a run depend on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Of the checkout; "and changes" if it was not what was built.
    pub(crate) commit: String,
    /// In UTC.
    pub(crate) date: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) java: String,
    /// `fdatasync` after 8 kB: p50, p99 and p99.9 in microseconds.
    pub(crate) sync_us: [f64; 3],
}

impl Machine {
    /// Of this machine; `data` is on the disk that is measured.
    pub(crate) fn here(data: &Path, sync_us: [f64; 3]) -> io::Result<Self> {
        let changed = !said("git", &["status", "--porcelain"])?.is_empty();
        let commit = said("git", &["rev-parse", "--short=7", "HEAD"])?;
        let proc = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
        };
        let memory = field(&proc("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes = memory.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok());
        Ok(Self {
            commit: if changed { format!("{commit} and changes") } else { commit },
            date: said("date", &["--utc", "+%Y-%m-%d"])?,
            processor: field(&proc("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kilobytes.unwrap_or_default().div_ceil(1 << 20),
            kernel: proc("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: said("findmnt", &["-n", "-o", "FSTYPE", "-T", &data.to_string_lossy()])?,
            java: java(),
            sync_us,
        })
    }
}

/// What a program prints.
fn said(program: &str, words: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(words).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{program} {}: {}", words.join(" "), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `java -version` speaks on stderr.
fn java() -> String {
    let output = Command::new("java").arg("-version").output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    text.lines().nth(1).unwrap_or_default().trim().to_owned()
}
