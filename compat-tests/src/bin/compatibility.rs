//! Makes `docs/compatibility.md` of the rows that a run of the tests has left, or compares the two.
//!
//! ```text
//! compatibility write COMMAND   every row of the run of COMMAND; what did not run is not in the
//!                               table
//! compatibility check           each row of the run stands in the document, except for its last
//!                               column, below the right text and a line about some run; the run
//!                               has left a row for each test that every run has
//! ```

use std::fs;
use std::io;
use std::process::{Command, ExitCode};
use std::thread;

use compat_tests::compatibility::{self, without_second_try};
use compat_tests::repository;

const DOCUMENT: &str = "docs/compatibility.md";

const HEAD: &str = "\
# Compatibility

Third-party clients and applications, run against Apache ZooKeeper 3.9.5 and against this server.
`scripts/test --all` writes this page from what the run found. If a shorter run gives a different
row, `scripts/test` fails; it does not compare the last column.

- \"24 of 25\" counts the checks of a row that hold, and the others are named. A check that holds on
  Apache ZooKeeper and is skipped here counts as failed.
- \"(recorded)\": what Apache ZooKeeper did is recorded in the repository, and \"here\" is compared
  with the record. `scripts/test --all` also runs the suite against Apache ZooKeeper and compares
  that with the record.
- \"second try\" names the checks that failed at first, and the server on which they did. Where the
  leader is killed, a failed check makes the whole program run again, at most twice. Each run has
  new servers, whose leader is killed and comes back, and a check that failed once must hold in a
  run in which it ends after the kill. In kazoo's suite, failed tests run once more if there are at
  most five of them. All other checks run once.

";

const TABLE: &str = "
| client or application | version | what ran | Apache ZooKeeper 3.9.5 | here | second try |
|---|---|---|---|---|---|
";

/// The client and what ran, of the rows that tests leave which are not ignored.
const IN_EVERY_RUN: [(&str, &str); 13] = [
    ("C client, cli_mt", "forty steps, its output"),
    ("C client, libzookeeper_mt", "a program on its API, cut connections and expiry too"),
    ("Curator", "recipes, clients in competition, connections cut, sessions ended"),
    ("kazoo", "forty steps, its output"),
    ("kazoo", "its own test suite"),
    ("zkCli", "a command for each run, output and exit code"),
    ("zkCli", "every command and option, wrong usage too, its output"),
    ("zkCli", "forty steps, its output"),
    ("zkCli.sh", "every command and option, wrong usage too, its output"),
    ("zkCli.sh", "forty steps, its output"),
    ("ZooKeeper's recipes", "DistributedQueue, connections cut, sessions ended"),
    ("ZooKeeper's recipes", "LeaderElectionSupport, five candidates, cut and killed"),
    ("ZooKeeper's recipes", "WriteLock, five clients, connections cut, sessions ended"),
];

/// What a run was, as the document says it: a paragraph of two lines.
#[derive(Debug)]
struct Run {
    /// Of UTC, as 2026-11-22.
    date: String,
    commit: String,
    /// Whether the files were not those of the commit.
    is_changed: bool,
    command: String,
    cores: usize,
    memory_gib: u64,
    /// The releases.
    debian: String,
    java: String,
}

impl Run {
    /// This machine, now.
    fn here(command: &str) -> io::Result<Self> {
        let memory = fs::read_to_string("/proc/meminfo")?;
        let debian = fs::read_to_string("/etc/debian_version")?;
        Ok(Self {
            date: said(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
            commit: said(git().args(["rev-parse", "--short", "HEAD"]))?,
            is_changed: !said(git().args(["status", "--porcelain"]))?.is_empty(),
            command: command.to_owned(),
            cores: thread::available_parallelism()?.get(),
            memory_gib: gib(&memory).ok_or_else(|| io::Error::other("/proc/meminfo: no total"))?,
            debian: debian.trim().to_owned(),
            java: java_version(&said(Command::new("java").arg("--version"))?)
                .ok_or_else(|| io::Error::other("java --version says no number"))?,
        })
    }

    fn paragraph(&self) -> String {
        let Self { date, commit, command, cores, memory_gib, debian, java, .. } = self;
        let changes = if self.is_changed { " and changes" } else { "" };
        format!(
            "Run once on {date} (UTC), at commit {commit}{changes}, by `{command}`,\n\
             on {cores} cores, {memory_gib} GiB of memory, Debian {debian}, Java {java}.\n"
        )
    }
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository());
    git
}

/// What a command prints.
fn said(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{:?}: {why}", command.get_program())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The total of `/proc/meminfo`, rounded: the kernel keeps a little for itself.
fn gib(memory: &str) -> Option<u64> {
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

/// The version in the first line of `java --version`, as in `openjdk 17.0.15 2025-04-15`.
fn java_version(said: &str) -> Option<String> {
    let version = said.lines().next()?.split_whitespace().nth(1)?;
    is_version(version).then(|| version.to_owned())
}

fn is_version(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains(' ')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([4, 2, 2]) && parts.into_iter().all(is_number)
}

/// Whether a paragraph is one of [`Run::paragraph`], of whatever run.
fn is_of_a_run(paragraph: &str) -> bool {
    let line = paragraph.trim_end().replace('\n', " ");
    let Some(line) = line.strip_suffix('.') else { return false };
    let parts: Vec<&str> = line.split(", ").collect();
    let [date, commit, command, cores, memory, debian, java] = parts[..] else { return false };
    let within = |text: &str, start: &str, end: &str, is: fn(&str) -> bool| {
        let its = text.strip_prefix(start).and_then(|text| text.strip_suffix(end));
        its.is_some_and(is)
    };
    let is_hash = |text: &str| text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    within(date, "Run once on ", " (UTC)", is_date)
        && within(commit.trim_end_matches(" and changes"), "at commit ", "", is_hash)
        && within(command, "by `", "`", |command| command.starts_with("scripts/test"))
        && within(cores, "on ", " cores", is_number)
        && within(memory, "", " GiB of memory", is_number)
        && within(debian, "Debian ", "", |release| !release.is_empty())
        && within(java, "Java ", "", is_version)
}

/// What is wrong in the document, which has to have these rows.
fn wrong(document: &str, rows: &[String]) -> Vec<String> {
    let Some(rest) = document.strip_prefix(HEAD) else {
        return vec![format!("it does not begin with this:\n{HEAD}")];
    };
    let Some((run, table)) = rest.split_once(TABLE) else {
        return vec![format!("it has no table with this head:{TABLE}")];
    };
    let mut wrong = Vec::new();
    if !is_of_a_run(run) {
        wrong.push(format!("this does not say what ran, and where:\n{run}"));
    }
    let known: Vec<&str> = table.lines().filter_map(without_second_try).collect();
    let is_known = |row: &&String| without_second_try(row).is_some_and(|row| known.contains(&row));
    wrong.extend(rows.iter().filter(|row| !is_known(row)).map(|row| format!("it lacks: {row}")));
    wrong
}

/// What every run leaves, and these rows do not have.
fn not_left<'a>(rows: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names = |row: &str| -> Option<(String, String)> {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.nth(1)?))
    };
    let left: Vec<(String, String)> = rows.filter_map(names).collect();
    let is_left = |(client, what): &(&str, &str)| {
        left.iter().any(|(its, ran)| (its.as_str(), ran.as_str()) == (*client, *what))
    };
    let missing = IN_EVERY_RUN.iter().filter(|row| !is_left(row));
    missing.map(|(client, what)| format!("the run left no row of {client}, {what}")).collect()
}

/// The rows of the run, in the order of their clients.
fn rows() -> io::Result<Vec<String>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(compatibility::rows())? {
        rows.push(fs::read_to_string(entry?.path())?);
    }
    rows.sort_by_key(|row| row.to_lowercase());
    Ok(rows)
}

fn write(command: &str) -> io::Result<()> {
    let run = Run::here(command)?.paragraph();
    if !is_of_a_run(&run) {
        return Err(io::Error::other(format!("`check` would not know this line:\n{run}")));
    }
    let table = TABLE.to_owned() + &rows()?.concat();
    fs::write(repository().join(DOCUMENT), HEAD.to_owned() + &run + &table)
}

fn check() -> io::Result<()> {
    let rows = rows()?;
    let mut wrong = wrong(&fs::read_to_string(repository().join(DOCUMENT))?, &rows);
    wrong.extend(not_left(rows.iter().map(String::as_str)));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("{DOCUMENT} is not what this run found:\n{}", wrong.join("\n"))))
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["write", command] => write(command),
        ["check"] => check(),
        _ => Err(io::Error::other("say write COMMAND or check")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compatibility: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            date: "2026-11-22".into(),
            commit: "3d02ecc".into(),
            is_changed: false,
            command: "scripts/test --all".into(),
            cores: 2,
            memory_gib: 24,
            debian: "12.11".into(),
            java: "17.0.15".into(),
        }
    }

    #[test]
    fn what_a_run_was_is_said_in_one_form() {
        let said = run().paragraph();
        let due = "Run once on 2026-11-22 (UTC), at commit 3d02ecc, by `scripts/test --all`,\n\
                   on 2 cores, 24 GiB of memory, Debian 12.11, Java 17.0.15.\n";
        assert_eq!(said, due);
        assert!(is_of_a_run(&said));
        let changed = Run { is_changed: true, ..run() }.paragraph();
        assert!(changed.contains("3d02ecc and changes, "));
        assert!(is_of_a_run(&changed));
        let date = Run { date: "22.11.2026".into(), ..run() };
        let java = Run { java: "unknown".into(), ..run() };
        let command = Run { command: "cargo test".into(), ..run() };
        for other in [date, java, command] {
            assert!(!is_of_a_run(&other.paragraph()), "{other:?}");
        }
        assert!(!is_of_a_run(""));
        assert!(!is_of_a_run(said.trim_end().trim_end_matches('.')));
    }

    #[test]
    fn a_machine_is_read_from_what_it_says() {
        assert_eq!(gib("MemTotal:       24684096 kB\nMemFree: 1 kB\n"), Some(24));
        assert_eq!(gib("MemFree: 1 kB\n"), None);
        let said = "openjdk 17.0.15 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)";
        assert_eq!(java_version(said).as_deref(), Some("17.0.15"));
        assert_eq!(java_version("openjdk"), None);
    }

    #[test]
    fn rows_are_compared_without_their_last_column() {
        let document = HEAD.to_owned()
            + &run().paragraph()
            + TABLE
            + "| a | 1 | what | 2 of 2 | 2 of 2 | here: x |\n";
        let row = |here: &str| format!("| a | 1 | what | 2 of 2 | {here} | |\n");
        assert_eq!(wrong(&document, &[row("2 of 2")]), [""; 0]);
        assert_eq!(wrong(&document, &[row("1 of 2, not y")]).len(), 1);
        for (part, other) in [("second try", "second"), ("Run once", "Run"), ("24 of 25", "all")] {
            assert_eq!(wrong(&document.replace(part, other), &[row("2 of 2")]).len(), 1, "{part}");
        }
    }

    #[test]
    fn the_document_is_in_this_form() {
        let document = fs::read_to_string(repository().join(DOCUMENT)).expect("the document");
        assert_eq!(wrong(&document, &[]), [""; 0]);
        assert_eq!(not_left(document.lines()), [""; 0]);
    }

    #[test]
    fn a_run_without_its_rows_is_found() {
        assert_eq!(not_left(std::iter::empty()).len(), IN_EVERY_RUN.len());
        let row = "| kazoo | 2.11.0 | its own test suite | 1 of 1 | 1 of 1 | |";
        assert_eq!(not_left([row].into_iter()).len(), IN_EVERY_RUN.len() - 1);
    }
}
