//! Where blocks run: a network and folders that only the test sees, so that the port and the paths
//! of a page are free.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use compat_tests::{Program, Signal, ferrokeeper, python, skipped};
use tempfile::TempDir;

/// Set for the test that runs inside.
const INSIDE: &str = "FERROKEEPER_PAGE_TEST";
/// Folders of pages, empty for the test.
const FOLDERS: [&str; 2] = ["/var/lib", "/var/backups"];
const DEADLINE: Duration = Duration::from_secs(40);

/// Runs the body of a test, by running the test itself once more in namespaces of its own.
pub(crate) fn in_a_world_of_its_own(test: &str, body: impl FnOnce(&mut Terminals)) {
    if env::var_os(INSIDE).is_some() {
        return body(&mut Terminals::open());
    }
    let mounts: Vec<String> =
        FOLDERS.iter().map(|folder| format!("mount -t tmpfs tmpfs {folder}")).collect();
    let prepare = format!("ip link set lo up && {}", mounts.join(" && "));
    let word = ["-mn", "-rmn"].into_iter().find(|word| {
        let mut probe = Command::new("unshare");
        probe.args([word, "sh", "-c", &prepare]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    let Some(word) = word else {
        return skipped(
            "this user may not make a network and mounts of his own",
            "Run the test as root, or as a user for whom `unshare -rmn true` works, with iproute2 \
             installed",
        );
    };
    let this = env::current_exe().expect("the test's own program");
    let status = Command::new("unshare")
        .args([word, "sh", "-c", &format!("{prepare} && exec \"$0\" \"$@\"")])
        .arg(this)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "yes")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "see above");
}

/// A folder with what a page takes for granted, and the programs that run on in it.
#[derive(Debug)]
pub(crate) struct Terminals {
    folder: TempDir,
    path: String,
    /// Those that were not ended yet, in the order of their starts.
    running: Vec<(String, Program)>,
}

impl Terminals {
    fn open() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let bin = folder.path().join("target/release");
        fs::create_dir_all(&bin).expect("a folder");
        symlink(ferrokeeper(), bin.join("ferrokeeper")).expect("a link to the binary");
        let venv = python().ancestors().nth(2).expect("its environment").to_path_buf();
        symlink(venv, folder.path().join("venv")).expect("a link to kazoo's environment");
        let path = format!("{}:{}", bin.display(), env::var("PATH").expect("a PATH"));
        Self { folder, path, running: Vec::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self, words: [&str; 3]) -> Program {
        let folder = self.folder().display().to_string();
        // Whoever runs this test may leave Ctrl-C to others.
        let env = ["env", "--default-signal=INT", "-C", &folder];
        let words: Vec<String> = env.into_iter().chain(words).map(String::from).collect();
        Program::start(&words, &[("PATH", &self.path)])
    }

    /// Runs lines of a shell to their end; returns whether the last one succeeded, and what was
    /// printed.
    pub(crate) fn run(&self, lines: &str) -> (bool, Vec<String>) {
        self.start(["bash", "-ec", lines]).finish()
    }

    pub(crate) fn run_python(&self, text: &str) -> (bool, Vec<String>) {
        self.start(["venv/bin/python", "-c", text]).finish()
    }

    /// Starts what runs on, and waits for a line of it that has these words.
    pub(crate) fn stay(&mut self, lines: &str, words: &str) {
        let mut program = self.start(["bash", "-ec", lines]);
        wait_for(&mut program, words);
        self.running.push((lines.into(), program));
    }

    /// Starts a server in the foreground, and waits until clients can connect.
    pub(crate) fn serve(&mut self, lines: &str) {
        self.stay(lines, "serving");
    }

    /// Types lines into the program that was started last; the last one once it has printed these
    /// words.
    pub(crate) fn type_lines(&mut self, lines: &[String], words: &str) {
        let (name, mut program) = self.running.pop().expect("a program that reads");
        let (last, others) = lines.split_last().expect("lines to type");
        others.iter().for_each(|line| program.say(line));
        wait_for(&mut program, words);
        program.say(last);
        let (ended, printed) = program.finish();
        assert!(ended, "{name}: {}", printed.join("\n"));
    }

    /// Waits until the program that was started last has printed these words.
    pub(crate) fn wait_for(&mut self, words: &str) {
        wait_for(&mut self.running.last_mut().expect("a program that runs").1, words);
    }

    /// Ends the program that was started last, as Ctrl-C does.
    pub(crate) fn interrupt(&mut self) -> bool {
        let (_, program) = self.running.pop().expect("a program that runs");
        program.signal(Signal::INT);
        program.finish().0
    }

    /// Ends what runs on.
    pub(crate) fn interrupt_all(&mut self) {
        while let Some((name, _)) = self.running.last() {
            let name = name.clone();
            assert!(self.interrupt(), "Ctrl-C stops {name}");
        }
    }

    /// Ends what runs on, and continues in another folder.
    pub(crate) fn begin_anew(&mut self) {
        self.interrupt_all();
        *self = Self::open();
    }
}

fn wait_for(program: &mut Program, words: &str) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let line = program.next_line().unwrap_or_else(|| panic!("it ended without {words}"));
        if line.contains(words) {
            return;
        }
        assert!(Instant::now() < deadline, "{words} was not printed");
    }
}
