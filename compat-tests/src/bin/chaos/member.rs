//! One server as a process on a host of its own.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use compat_tests::{Kind, ferrokeeper, repository};

use crate::world::SERVERS;

pub(crate) const TICK: Duration = Duration::from_millis(500);
pub(crate) const SYNC_LIMIT: u32 = 5;
/// The server whose file system is small.
pub(crate) const SMALL: u8 = 3;
const SMALL_MB: u32 = 400;
pub(crate) const CLIENT_PORT: u16 = 2181;
/// Debian's libfaketime, below a folder of the machine's kind: it steps the wall clock of one
/// process, not the monotonic one, as an operator or NTP would the machine's.
const FAKETIME: &str = "faketime/libfaketime.so.1";
/// Tries of a copy in which no file is replaced by another.
const COPIES: usize = 5;

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) number: u8,
    pub(crate) host: u8,
    pub(crate) kind: Kind,
    pub(crate) folder: PathBuf,
    pub(crate) child: Option<Child>,
    /// Whether the run has filled the disk of this process, and the servers were not together
    /// again since: it may end by itself then.
    pub(crate) has_met_full_disk: bool,
    pub(crate) ended_by_itself: u32,
}

impl Member {
    pub(crate) fn new(number: u8, host: u8, kind: Kind, folder: PathBuf) -> io::Result<Self> {
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        if host == SMALL {
            let (size, data) = (format!("size={SMALL_MB}m"), data.display().to_string());
            run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs", &data])?;
        }
        let mut text = format!(
            "tickTime={}\ninitLimit=20\nsyncLimit={SYNC_LIMIT}\ndataDir={}\n\
             clientPort={CLIENT_PORT}\nsnapCount=3000\nautopurge.purgeInterval=1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            TICK.as_millis(),
            data.display()
        );
        for server in SERVERS {
            let its = if server == number { host } else { server };
            text.push_str(&format!("server.{server}=10.77.0.{its}:2888:3888\n"));
        }
        fs::write(folder.join("zoo.cfg"), text)?;
        fs::write(data.join("myid"), number.to_string())?;
        let member = Self {
            number,
            host,
            kind,
            folder,
            child: None,
            has_met_full_disk: false,
            ended_by_itself: 0,
        };
        fs::write(member.clock(), "+0\n")?;
        Ok(member)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    pub(crate) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.folder.join("data/ballast")
    }

    pub(crate) fn start(&mut self) -> io::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("host{}", self.host), "env"]);
        // A JVM takes a minute to start with it.
        if self.kind == Kind::Ferrokeeper {
            command
                .arg(format!("LD_PRELOAD={}", faketime()?.display()))
                .arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock().display()))
                .args(["FAKETIME_CACHE_DURATION=1", "DONT_FAKE_MONOTONIC=1"])
                .arg("FAKETIME_DONT_FAKE_MONOTONIC=1");
        }
        match self.kind {
            Kind::Ferrokeeper => command.arg(ferrokeeper()).arg("server"),
            Kind::Reference | Kind::Release(_) => command
                .arg("JVMFLAGS=-Xmx400m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
                .arg(repository().join("scripts/reference")),
        };
        command
            .arg(self.folder.join("zoo.cfg"))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Whether it may end by itself, and with any status.
    pub(crate) fn is_excused(&self) -> bool {
        self.has_met_full_disk || self.kind != Kind::Ferrokeeper
    }

    /// Ends it by SIGKILL; how it ended, if it was there.
    pub(crate) fn kill(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        child.kill()?;
        child.wait().map(Some)
    }
}

fn faketime() -> io::Result<PathBuf> {
    let libraries = fs::read_dir("/usr/lib")?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = libraries.map(|library| library.join(FAKETIME)).find(|path| path.exists());
    found.ok_or_else(|| io::Error::other("libfaketime is missing: apt-get install libfaketime"))
}

pub(crate) fn run(words: &[&str]) -> io::Result<()> {
    let status = Command::new(words[0]).args(&words[1..]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{words:?}: {status}"))) }
}

/// Copies a folder in which a server writes. A file that the server removes meanwhile may be
/// missing in the copy, and nothing else.
pub(crate) fn copy_what_stays(from: &Path, to: &Path) -> io::Result<()> {
    let mut last = String::new();
    for _ in 0..COPIES {
        let mut cp = Command::new("cp");
        let output = cp.env("LC_ALL", "C").arg("-a").arg(from.join(".")).arg(to).output()?;
        last = String::from_utf8_lossy(&output.stderr).into_owned();
        let says = |is: fn(&str) -> bool| !last.is_empty() && last.lines().all(is);
        if output.status.success() || says(is_gone) {
            return Ok(());
        }
        if !says(|line| is_gone(line) || is_replaced(line)) {
            break;
        }
        fs::remove_dir_all(to)?;
        fs::create_dir(to)?;
    }
    Err(io::Error::other(format!("cp -a {}: {last}", from.display())))
}

/// Whether `cp` says that a file has gone before it was opened.
fn is_gone(line: &str) -> bool {
    line.starts_with("cp: cannot ") && line.ends_with(": No such file or directory")
}

/// Whether it says that another file has come in the place of one, of which it has copied neither.
fn is_replaced(line: &str) -> bool {
    line.ends_with(", as it was replaced while being copied")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_miss_what_goes_and_nothing_else() {
        assert!(is_gone("cp: cannot stat '/a/spare.1': No such file or directory"));
        assert!(!is_gone("cp: error writing '/b/log.1': No space left on device"));
        assert!(is_replaced("cp: skipping file '/a/b', as it was replaced while being copied"));
        let (from, to) = (tempfile::tempdir(), tempfile::tempdir());
        let (from, to) = (from.expect("a folder"), to.expect("a folder"));
        fs::write(from.path().join("log.1"), "data").expect("written");
        copy_what_stays(from.path(), to.path()).expect("copied");
        assert_eq!(fs::read(to.path().join("log.1")).expect("the copy"), b"data");
        let file = to.path().join("log.1");
        let error = copy_what_stays(from.path(), &file).expect_err("a file is no folder");
        assert!(error.to_string().contains("cannot overwrite non-directory"), "{error}");
    }
}
