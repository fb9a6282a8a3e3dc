//! A server process with its own data directory and port; it never outlives its value.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::{log_tail, repository};
use crate::{ConnectRequest, MetricsPage, RawClient, four_letter_words, metrics_page, syncs};

const START_DEADLINE: Duration = Duration::from_secs(40);
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// Which implementation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server under test.
    Ferrokeeper,
    /// Apache ZooKeeper 3.9.5, through `scripts/reference`.
    Reference,
    /// An older release of it that `scripts/reference --version` knows.
    Release(&'static str),
}

impl Kind {
    /// The server under test: ferrokeeper, or with `SUBJECT=reference` Apache ZooKeeper.
    pub fn subject() -> Self {
        match std::env::var("SUBJECT").as_deref() {
            Ok("reference") => Self::Reference,
            Ok("ferrokeeper") | Err(_) => Self::Ferrokeeper,
            Ok(other) => panic!("SUBJECT={other}: neither reference nor ferrokeeper"),
        }
    }
}

/// A running or stopped server on 127.0.0.1.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    port: Port,
    /// Of its AdminServer, where `admin.enableServer=true` asks for one.
    admin: Option<Port>,
    /// Where it shows its metrics, if it does.
    metrics_port: Option<Port>,
    /// Classes beside Apache ZooKeeper's.
    class_path: Option<String>,
    /// None while stopped.
    child: Option<Child>,
    /// Lines of the configuration that Apache ZooKeeper takes as properties of the JVM only.
    properties: Vec<String>,
    /// How many files and sockets ferrokeeper may have open, where that is told: by a comment in
    /// zoo.cfg.
    open_files: Option<u32>,
    /// Where its syncs are written down, if they are: by a comment in zoo.cfg, too.
    syncs: Option<String>,
    /// Holds zoo.cfg, the data directory and the log; removed at the end.
    dir: TempDir,
}

impl Server {
    /// Starts a server on a fresh directory. Each line of `config` replaces the default of the
    /// same key; returns once it serves.
    pub fn start(kind: Kind, config: &[&str]) -> Self {
        let mut server = Self::stopped(kind, config);
        server.run().unwrap_or_else(|why| panic!("{why}"));
        server
    }

    /// A server that was not started yet, on a copy of another's data directory.
    pub fn on_copy(kind: Kind, config: &[&str], data_dir: &Path) -> Self {
        let server = Self::stopped(kind, config);
        copy_folder(data_dir, &server.data_dir());
        server
    }

    /// A server on a fresh directory that was not started yet; `config` as of [`Self::start`].
    pub fn stopped(kind: Kind, config: &[&str]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("compat.")
            .tempdir()
            .expect("a temporary directory for the server");
        let port = Port::free();
        let admin = config.contains(&"admin.enableServer=true").then(Port::free);
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut defaults = vec![
            format!("dataDir={}", dir.path().join("data").display()),
            format!("clientPort={}", port.number),
            "clientPortAddress=127.0.0.1".into(),
            "tickTime=1000".into(),
            "maxClientCnxns=0".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=*".into(),
        ];
        if let Some(admin) = &admin {
            defaults.push("admin.serverAddress=127.0.0.1".into());
            defaults.push(format!("admin.serverPort={}", admin.number));
        }
        let metrics_port = config.contains(&metrics_page::PROVIDER).then(Port::free);
        let metrics_lines = metrics_port.as_ref().map(|port| {
            [
                "metricsProvider.httpHost=127.0.0.1".to_owned(),
                format!("metricsProvider.httpPort={}", port.number),
            ]
        });
        let defaults = defaults.iter().chain(metrics_lines.iter().flatten());
        for line in defaults.map(String::as_str).chain(config.iter().copied()) {
            let (key, value) = line.split_once('=').expect("a zoo.cfg line has a '='");
            lines.retain(|(known, _)| known != key);
            lines.push((key.into(), value.into()));
        }
        let text: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        fs::write(dir.path().join("zoo.cfg"), text).expect("zoo.cfg written");
        fs::create_dir(dir.path().join("data")).expect("data directory created");
        let properties = config
            .iter()
            .filter(|line| {
                let only_there = ["znode.container.", "jute.", "readonlymode."];
                only_there.iter().any(|prefix| line.starts_with(prefix))
            })
            .map(ToString::to_string)
            .collect();
        let class_path =
            config.iter().find_map(|line| line.strip_prefix("metricsProvider.classPath="));
        let class_path = class_path.map(ToOwned::to_owned);
        let open_files = config.iter().find_map(|line| line.strip_prefix("#open.files="));
        let open_files = open_files.map(|most| most.parse().expect("a number"));
        let syncs = config.iter().find_map(|line| line.strip_prefix(syncs::LINE));
        let syncs = syncs.map(ToOwned::to_owned);
        Self {
            kind,
            port,
            admin,
            metrics_port,
            class_path,
            child: None,
            properties,
            open_files,
            syncs,
            dir,
        }
    }

    /// The same with a zoo.cfg that is made of its directory, where `data` is empty.
    pub(crate) fn on_text(kind: Kind, port: Port, text: impl FnOnce(&Path) -> String) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("compat.")
            .tempdir()
            .expect("a temporary directory for the server");
        fs::write(dir.path().join("zoo.cfg"), text(dir.path())).expect("zoo.cfg written");
        fs::create_dir(dir.path().join("data")).expect("data directory created");
        Self {
            kind,
            port,
            admin: None,
            metrics_port: None,
            class_path: None,
            child: None,
            properties: Vec::new(),
            open_files: None,
            syncs: None,
            dir,
        }
    }

    /// Which implementation runs, or will at the next start.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The client address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number).into()
    }

    /// Where its AdminServer listens.
    ///
    /// # Panics
    /// If it was started without `admin.enableServer=true`.
    pub fn admin(&self) -> SocketAddr {
        let port = self.admin.as_ref().expect("a server with an AdminServer");
        (Ipv4Addr::LOCALHOST, port.number).into()
    }

    /// What it shows of itself to Prometheus.
    ///
    /// # Panics
    /// If it was not started to.
    pub fn metrics(&self) -> MetricsPage {
        let port = self.metrics_port.as_ref().expect("metrics_page::PROVIDER in its zoo.cfg");
        MetricsPage::fetch((Ipv4Addr::LOCALHOST, port.number).into())
    }

    /// The client address as stock clients want it.
    pub fn host_port(&self) -> String {
        self.address().to_string()
    }

    /// What the process has written to stdout and stderr, all runs.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// `dataDir`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Its zoo.cfg.
    pub fn config_file(&self) -> PathBuf {
        self.dir.path().join("zoo.cfg")
    }

    /// A raw client with a new session of `timeout` ms.
    pub fn connect(&self, timeout: i32) -> RawClient {
        let (client, _) = RawClient::open(self.address(), &ConnectRequest::new(timeout))
            .expect("a session with a server that serves");
        client
    }

    /// Ends the process by SIGTERM and waits for it.
    pub fn stop(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("only a running server is stopped");
        signal(child.id(), "TERM");
        let deadline = Instant::now() + STOP_DEADLINE;
        loop {
            if let Some(status) = child.try_wait().expect("the server is our child") {
                return status;
            }
            if Instant::now() > deadline {
                self.child = Some(child);
                panic!("the server does not end within {STOP_DEADLINE:?} after SIGTERM");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the process by SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("only a running server is killed");
        child.kill().expect("the server is our child");
        child.wait().expect("the server is our child");
    }

    /// Starts a stopped server again, same directory and port; returns once it serves.
    pub fn restart(&mut self) {
        self.try_restart().unwrap_or_else(|why| panic!("{why}"));
    }

    /// The same, for a directory that may be refused.
    ///
    /// # Errors
    /// What the server said in its end.
    pub fn try_restart(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "the server is still running");
        self.run()
    }

    /// From now on `kind` runs on this directory (takes effect at the next [`restart`]).
    ///
    /// [`restart`]: Self::restart
    pub fn hand_over_to(&mut self, kind: Kind) {
        assert!(self.child.is_none(), "the server is still running");
        self.kind = kind;
    }

    fn run(&mut self) -> Result<(), String> {
        self.begin();
        self.wait_until_serving()
    }

    /// Starts a stopped server; it serves later.
    pub fn begin(&mut self) {
        assert!(self.child.is_none(), "the server is still running");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("the server's log file opens");
        let mut command = self.command();
        command
            .arg(self.dir.path().join("zoo.cfg"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(dup(&log))
            .stderr(log);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
        self.child = Some(child);
    }

    fn command(&self) -> Command {
        match self.kind {
            Kind::Reference | Kind::Release(_) => {
                let mut command = Command::new(repository().join("scripts/reference"));
                if let Kind::Release(version) = self.kind {
                    command.args(["--version", version]);
                }
                // Short runs: start-up counts, throughput does not. A small tree never takes as
                // much.
                let mut flags = String::from("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx3g");
                for line in &self.properties {
                    flags.push_str(&format!(" -D{line}"));
                }
                command.env("JVMFLAGS", flags);
                if let Some(class_path) = &self.class_path {
                    command.env("CLASSPATH", class_path);
                }
                command
            }
            Kind::Ferrokeeper => {
                let mut command = match self.open_files {
                    None => Command::new(ferrokeeper()),
                    Some(most) => {
                        let mut command = Command::new("sh");
                        let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
                        command.args(["-c", &limited]).arg(ferrokeeper());
                        command
                    }
                };
                command.arg("server");
                if let Some(syncs) = &self.syncs {
                    syncs::load(&mut command, syncs);
                }
                command
            }
        }
    }

    /// The number of its process.
    ///
    /// # Panics
    /// If it does not run.
    pub fn process(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Waits for a server that was begun.
    ///
    /// # Errors
    /// What it said in its end.
    pub fn wait_until_serving(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_DEADLINE;
        let patience = match self.kind {
            // A word that comes in the instant between listening and serving is never answered:
            // next socket.
            Kind::Reference | Kind::Release(_) => Duration::from_millis(300),
            // One that comes while it reads a small directory waits for that, and more of them
            // would be counted.
            Kind::Ferrokeeper => Duration::from_secs(5),
        };
        let serves = |address| {
            four_letter_words::ask_within(address, "srvr", patience)
                .is_ok_and(|text| text.contains("Mode:"))
        };
        while !serves(self.address()) {
            let child = self.child.as_mut().expect("started above");
            if let Some(status) = child.try_wait().expect("the server is our child") {
                self.child = None;
                let said = log_tail(&self.log_path(), 40);
                return Err(format!("the server ended at start: {status}\n{said}"));
            }
            assert!(
                Instant::now() < deadline,
                "the server does not serve within {START_DEADLINE:?}\n{}",
                log_tail(&self.log_path(), 40)
            );
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the server said")]
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let tail = log_tail(&self.log_path(), 20);
            eprintln!("--- log of {:?} on port {}:\n{tail}", self.kind, self.port.number);
        }
    }
}

/// Copies what is in a folder whose files nobody writes.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder is made");
    for entry in fs::read_dir(from).expect("the folder can be listed") {
        let entry = entry.expect("an entry");
        let copy = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            fs::copy(entry.path(), copy).expect("a file is copied");
        }
    }
}

/// Sends a signal by name to a process that the caller started.
///
/// # Panics
/// If it is not there.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot send {name} to {pid}");
}

/// Whether this program's servers are those that users get.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// From here on this program runs the release binary: where speed decides what is tested.
pub fn run_the_release() {
    RELEASED.store(true, Ordering::Relaxed);
}

/// The binary under test: `FERROKEEPER_BIN`, or what cargo builds for tests, with all assertions;
/// after [`run_the_release`], what it builds for users.
pub fn ferrokeeper() -> PathBuf {
    let (folder, build) = match RELEASED.load(Ordering::Relaxed) {
        true => ("release", "cargo build --release"),
        false => ("debug", "cargo build"),
    };
    let path = std::env::var_os("FERROKEEPER_BIN").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
            repository().join(target).join(folder).join("ferrokeeper")
        },
        PathBuf::from,
    );
    assert!(
        Path::new(&path).exists(),
        "{} is missing: {build}, or set FERROKEEPER_BIN",
        path.display()
    );
    path
}

fn dup(file: &File) -> File {
    file.try_clone().expect("a second handle of the log file")
}

/// A TCP port of ours. It is below the range that the kernel hands to outgoing connections: those
/// would steal it while a server is down between two runs.
#[derive(Debug)]
pub struct Port {
    pub(crate) number: u16,
    /// The same port of UDP, which no server wants: who holds it owns the number, among all test
    /// runs on this machine and however often the server is down.
    _claim: UdpSocket,
}

impl Port {
    /// It.
    pub fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn free() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let base = std::process::id() % 11_000;
        for _ in 0..2_000 {
            let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let number = u16::try_from(20_000 + (base + step) % 12_000).expect("below 32,000");
            let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Self { number, _claim: claim };
            }
        }
        panic!("no free port between 20,000 and 32,000");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_nobody_elses() {
        let ours = Port::free();
        // As another test run would: nothing listens there yet.
        let theirs = UdpSocket::bind((Ipv4Addr::LOCALHOST, ours.number));
        assert!(theirs.is_err());
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, ours.number)).is_ok());
    }
}
