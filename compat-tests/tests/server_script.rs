//! `scripts/zkServer.sh`: each of its words, with ZooKeeper's messages, exit codes and pid file.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::{ferrokeeper, free_port, repository, signal};

const DEADLINE: Duration = Duration::from_secs(20);

/// A directory with a conf folder, and what is said there.
struct Place {
    dir: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Place {
    fn new(port: u16) -> Self {
        let dir = tempfile::Builder::new().prefix("compat.").tempdir().expect("a directory");
        fs::create_dir(dir.path().join("conf")).expect("a folder");
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n",
            dir.path().join("data").display()
        );
        fs::write(dir.path().join("conf/zoo.cfg"), text).expect("zoo.cfg");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let environment = vec![("ZOOCFGDIR", path("conf")), ("ZOO_LOG_DIR", path("logs"))];
        Self { dir, environment }
    }

    fn pid_file(&self) -> std::path::PathBuf {
        self.dir.path().join("data/zookeeper_server.pid")
    }

    fn pid(&self) -> u32 {
        let text = fs::read_to_string(self.pid_file()).expect("a pid file");
        // No line's end, as there.
        text.parse().expect("a number and nothing more")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/zkServer.sh"));
        for name in ["ZOOCFG", "ZOOPIDFILE", "SERVER_JVMFLAGS", "JVMFLAGS"] {
            command.env_remove(name);
        }
        command.args(words).env("FERROKEEPER", ferrokeeper()).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Exit code and what was said to stdout.
    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.command(words).output().expect("the script runs");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.code(), text)
    }
}

impl Drop for Place {
    /// Whatever a failed test leaves.
    fn drop(&mut self) {
        let left = fs::read_to_string(self.pid_file()).ok();
        let pid = left.filter(|pid| is_ferrokeeper(pid)).and_then(|pid| pid.parse().ok());
        if let Some(pid) = pid {
            signal(pid, "KILL");
        }
    }
}

fn is_ferrokeeper(pid: &str) -> bool {
    fs::read_link(Path::new("/proc").join(pid).join("exe")).is_ok_and(|exe| {
        exe.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ferrokeeper"))
    })
}

fn says(place: &Place, words: &[&str], code: i32, text: &str) {
    assert_eq!(place.run(words), (Some(code), text.to_owned()), "{words:?}");
}

fn wait_for_status(place: &Place, served: &str) {
    let deadline = Instant::now() + DEADLINE;
    while place.run(&["status"]) != (Some(0), served.to_owned()) {
        assert!(Instant::now() < deadline, "it does not serve: {:?}", place.run(&["status"]));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn start_status_restart_and_stop() {
    let port = free_port();
    let place = Place::new(port.number());
    let pid_file = place.pid_file().display().to_string();
    let found = format!(
        "Client port found: {}. Client address: 127.0.0.1. Client SSL: false.\n",
        port.number()
    );
    let none = format!("{found}Error contacting service. It is probably not running.\n");
    let none_to_stop =
        format!("Stopping zookeeper ... no zookeeper to stop (could not find file {pid_file})\n");
    says(&place, &["status"], 1, &none);
    says(&place, &["stop"], 0, &none_to_stop);

    says(&place, &["start"], 0, "Starting zookeeper ... STARTED\n");
    let served = format!("{found}Mode: standalone\n");
    wait_for_status(&place, &served);
    let (first, script) = (place.pid(), repository().join("scripts/zkServer.sh"));
    let running = format!(
        "Starting zookeeper ... {} already running as process {first}.\n",
        script.display()
    );
    says(&place, &["start"], 1, &running);

    let restarted = "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n";
    says(&place, &["restart"], 0, restarted);
    wait_for_status(&place, &served);
    assert_ne!(place.pid(), first);

    let last = place.pid().to_string();
    says(&place, &["stop"], 0, "Stopping zookeeper ... STOPPED\n");
    assert!(!is_ferrokeeper(&last), "it is still there");
    assert!(!place.pid_file().exists());
    says(&place, &["status"], 1, &none);

    // What it cannot start with is in the log directory.
    let config = place.dir.path().join("conf/zoo.cfg");
    fs::write(&config, format!("{}clientPort=x\n", fs::read_to_string(&config).expect("it")))
        .expect("it");
    says(&place, &["start"], 1, "Starting zookeeper ... FAILED TO START\n");
    let outs = fs::read_dir(place.dir.path().join("logs")).expect("a log directory");
    let mut outs = outs.map(|entry| entry.expect("an entry").path());
    let is_out = |path: &std::path::PathBuf| path.extension().is_some_and(|its| its == "out");
    let out = outs.find(is_out).expect("what it said");
    assert!(fs::read_to_string(out).expect("text").contains("clientPort"));
    // Nobody has that number any more: it is removed as the next stop would.
    fs::remove_file(place.pid_file()).expect("its pid file");
}

/// ZooKeeper's script says STOPPED after a second, whatever became of it.
#[test]
fn what_does_not_stop_is_not_said_to_have_stopped() {
    let port = free_port();
    let place = Place::new(port.number());
    fs::create_dir(place.dir.path().join("data")).expect("a folder");
    let mut deaf = Command::new("sh")
        .args(["-c", "trap '' TERM; echo deaf; exec sleep 300"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = [0; 5];
    deaf.stdout.take().expect("its words").read_exact(&mut said).expect("it is deaf now");
    fs::write(place.pid_file(), deaf.id().to_string()).expect("a pid file");
    for words in ["stop", "restart"] {
        let (code, text) = place.run(&[words]);
        assert_eq!(code, Some(1), "{text}");
        let failed =
            format!("Stopping zookeeper ... FAILED TO STOP: process {} has not", deaf.id());
        assert!(text.starts_with(&failed) && !text.contains("Starting"), "{text}");
        assert_eq!(place.pid(), deaf.id());
    }
    deaf.kill().expect("our child");
    deaf.wait().expect("our child");
    says(&place, &["stop"], 0, "Stopping zookeeper ... STOPPED\n");
    assert!(!place.pid_file().exists());
}

#[test]
fn in_the_foreground_with_files_of_other_names() {
    let port = free_port();
    let mut place = Place::new(port.number());
    let conf = place.dir.path().join("conf");
    fs::rename(conf.join("zoo.cfg"), conf.join("other.cfg")).expect("renamed");
    place.environment.push(("ZOOCFG", "other.cfg".to_owned()));
    // A flag of the JVM that means something here, too.
    place.environment.push(("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false".to_owned()));
    let mut child = place
        .command(&["start-foreground"])
        .stderr(Stdio::null())
        .spawn()
        .expect("the script runs");
    let served = format!(
        "Client port found: {}. Client address: 127.0.0.1. Client SSL: false.\nMode: standalone\n",
        port.number()
    );
    wait_for_status(&place, &served);
    assert!(!place.pid_file().exists());
    // The script has become the server.
    assert!(is_ferrokeeper(&child.id().to_string()));
    signal(child.id(), "TERM");
    assert!(child.wait().expect("our child").success());
}

#[test]
fn words_that_start_nothing() {
    let place = Place::new(1);
    let (code, text) = place.run(&["version"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("ferrokeeper, version 3.9.5-ferrokeeper."), "{text}");
    let (code, text) = place.run(&["print-cmd"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("\" server \"") && text.contains("conf/zoo.cfg"), "{text}");
    assert_eq!(place.run(&["upgrade"]).0, Some(1));
    let output = place.command(&["nonsense"]).output().expect("the script runs");
    let usage = String::from_utf8(output.stderr).expect("text");
    assert!(
        usage.starts_with("Usage: ") && usage.contains("{start|start-foreground|stop|"),
        "{usage}"
    );

    let mut strict = Place::new(1);
    strict.environment.push(("ZOO_DATADIR_AUTOCREATE_DISABLE", "yes".to_owned()));
    let (code, text) = strict.run(&["start"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("ZooKeeper data directory is missing at "), "{text}");
}
