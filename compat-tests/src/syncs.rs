//! What a server syncs, as the kernel is asked for it: a library that is loaded before libc writes
//! it down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::repository;

/// The line of zoo.cfg that has [`Server`] load the library; a comment to the servers themselves.
///
/// [`Server`]: crate::Server
pub(crate) const LINE: &str = "#syncs.of=";

/// A record of syncs.
#[derive(Debug)]
pub struct Syncs {
    folder: TempDir,
    dropped: bool,
}

impl Syncs {
    /// Builds the library. With `dropped`, the server's syncs do nothing.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new(dropped: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("syncs.").tempdir().expect("a folder");
        let source = repository().join("compat-tests/clients/syncs/syncs.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&library(folder.path()), &source])
            .status();
        assert!(built.is_ok_and(|status| status.success()), "cc does not build {source:?}");
        Self { folder, dropped }
    }

    /// The line of zoo.cfg for servers whose syncs are to be written down here.
    pub fn line(&self) -> String {
        let dropped = if self.dropped { "dropped:" } else { "" };
        format!("{LINE}{dropped}{}", self.folder.path().display())
    }

    /// The files and folders that were synced below a folder, in their order.
    pub fn below(&self, folder: &Path) -> Vec<PathBuf> {
        let text = fs::read_to_string(record(self.folder.path())).unwrap_or_default();
        let paths = text.lines().filter_map(|line| line.split_once(' '));
        let paths = paths.map(|(_, path)| PathBuf::from(path.trim_end_matches(" (deleted)")));
        paths.filter(|path| path.starts_with(folder)).collect()
    }
}

fn library(folder: &Path) -> PathBuf {
    folder.join("syncs.so")
}

fn record(folder: &Path) -> PathBuf {
    folder.join("record")
}

/// Has a server's process load the library.
pub(crate) fn load(command: &mut Command, of: &str) {
    let (of, is_dropped) = of.strip_prefix("dropped:").map_or((of, false), |of| (of, true));
    let folder = Path::new(of);
    command.env("LD_PRELOAD", library(folder)).env("SYNCS_RECORD", record(folder));
    if is_dropped {
        command.env("SYNCS_DROPPED", "1");
    }
}
