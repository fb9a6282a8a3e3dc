//! Runs the tests of `features.toml` with the faults that are named beside them, to see that each
//! test notices its fault.
//!
//! ```text
//! planted [--rows N] [--seed S]
//! ```
//!
//! It takes all rows that have a fault, or with `--rows` N of them by chance; a seed repeats the
//! choice. A row is as it is meant to be if its test ran and failed, and if what failed is the
//! row's part, or the test printed what the row `says`. What a test printed is kept in
//! `target/planted`, in a file for each fault.

use std::env;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::features::{self, Row};
use compat_tests::named_test::{CargoTest, steps_with};
use compat_tests::random::{Random, seed_of_now};
use compat_tests::{Signal, repository, signal_group};

/// How long a test may take with its fault.
const LIMIT: Duration = Duration::from_secs(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// The test of the rows that name a recipe of Curator's.
const RECIPES: &str = "compat-tests::curator::recipes";
/// How a test of recipes names those that do not hold.
const NOT_HELD: &str = "not ok: ";
/// What a test says that could not do its work. Only rows that name nothing need it: what others
/// name is not said then.
const NOT_DONE: [&str; 3] = ["is missing:", "nothing is skipped", "Address already in use"];
/// The most that is shown of what failed instead.
const SHOWN: usize = 3;

/// What is to run.
#[derive(Debug)]
struct Plan {
    rows: Option<usize>,
    seed: u64,
}

/// What is to stand in the output of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    /// The row names nothing.
    Nothing,
    /// One of these: the part, or a step of a script that has it as a line; or what the test says
    /// of this fault.
    Part(Vec<String>),
    /// A recipe, among those that do not hold.
    Recipe(String),
}

/// A row with a fault.
#[derive(Clone, Debug)]
struct Case {
    number: u32,
    fault: String,
    test: CargoTest,
    named: Named,
}

/// What a test said of a fault.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Noticed,
    Passed,
    /// Something failed, and not what the row names.
    Elsewhere(String),
    Hung,
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed => f.write_str("fails"),
            Self::Passed => f.write_str("PASSES"),
            Self::Elsewhere(what) => write!(f, "FAILED ELSEWHERE: {what}"),
            Self::Hung => write!(f, "HANGS: no end within {} s", LIMIT.as_secs()),
            Self::NotRun => f.write_str("DID NOT RUN"),
        }
    }
}

/// Files of a run.
struct Files {
    /// The binary with the faults.
    binary: PathBuf,
    /// What the tests print.
    folder: PathBuf,
}

fn main() -> ExitCode {
    match plan().and_then(|plan| run(&plan)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "planted: {error}");
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn plan() -> Result<Plan, Box<dyn Error>> {
    let mut plan = Plan { rows: None, seed: seed_of_now() };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} of what?"));
        match word.as_str() {
            "--rows" => plan.rows = Some(value()?.parse()?),
            "--seed" => plan.seed = value()?.parse()?,
            _ => return Err(format!("{word}: not an option").into()),
        }
    }
    Ok(plan)
}

/// Runs the rows; whether each test noticed its fault.
fn run(plan: &Plan) -> Result<bool, Box<dyn Error>> {
    let mut cases = cases(&features::all())?;
    if let Some(rows) = plan.rows {
        let seed = plan.seed;
        say(&format!(
            "{rows} rows of {}; again: cargo run -p compat-tests --bin planted -- --rows {rows} \
             --seed {seed}",
            cases.len()
        ));
        cases = chosen(cases, rows, seed);
    }
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = repository().join(target);
    let files = Files { binary: target.join("debug/ferrokeeper"), folder: target.join("planted") };
    fs::create_dir_all(&files.folder)?;
    build(&files)?;

    let next = AtomicUsize::new(0);
    let noticed = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let verdict = run_case(case, &files)?;
            if verdict == Verdict::Noticed {
                noticed.fetch_add(1, Ordering::Relaxed);
            }
            let (number, fault, seconds) = (case.number, &case.fault, began.elapsed().as_secs());
            say(&format!("{number:>3}  {fault:<30} {seconds:>3} s  {verdict}"));
        }
        Ok(())
    };
    let at_a_time = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let (noticed, all) = (noticed.into_inner(), cases.len());
    say(&format!("{noticed} of {all} rows fail with their faults"));
    Ok(noticed == all)
}

/// The rows that have a fault.
fn cases(rows: &[Row]) -> Result<Vec<Case>, String> {
    let with_fault = rows.iter().filter_map(|row| Some((row, row.get("fault")?)));
    with_fault
        .map(|(row, fault)| {
            let key =
                |key: &str| row.get(key).ok_or_else(|| format!("{fault}: its row has no {key}"));
            let test = key("test")?;
            let recipe = test.strip_prefix("curator ");
            let named = match (recipe, row.get("part"), row.get("says")) {
                (Some(recipe), ..) => Named::Recipe(recipe.to_owned()),
                (None, Some(part), _) => {
                    let mut names = steps_with(part);
                    names.insert(0, part.clone());
                    Named::Part(names)
                }
                (None, None, Some(says)) => Named::Part(vec![says.clone()]),
                (None, None, None) => Named::Nothing,
            };
            Ok(Case {
                number: key("number")?.parse().map_err(|_| format!("{fault}: no number"))?,
                fault: fault.clone(),
                test: CargoTest::of(if recipe.is_some() { RECIPES } else { test })?,
                named,
            })
        })
        .collect()
}

/// So many of them by chance, in the order of the rows.
fn chosen(mut cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    let mut random = Random::new(seed);
    let mut chosen = Vec::new();
    while chosen.len() < count && !cases.is_empty() {
        chosen.push(cases.swap_remove(random.below(cases.len())));
    }
    chosen.sort_by_key(|case| case.number);
    chosen
}

/// Cargo as its user starts it: what it tells a program that it runs would have some crates built
/// again.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(repository()).stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Builds what the rows need, so that none of them takes the time for it.
fn build(files: &Files) -> Result<(), Box<dyn Error>> {
    if !cargo().args(["test", "--workspace", "--no-run", "--quiet"]).status()?.success() {
        return Err("the tests cannot be built".into());
    }
    match files.binary.exists() {
        true => Ok(()),
        false => Err(format!("{} is missing", files.binary.display()).into()),
    }
}

/// Runs the test of a row with its fault.
fn run_case(case: &Case, files: &Files) -> io::Result<Verdict> {
    let path = files.folder.join(format!("{}.log", case.fault));
    let log = File::create(&path)?;
    let mut command = cargo();
    command
        .arg("test")
        .args(&case.test.target)
        .arg(&case.test.name)
        .args(["--", "--exact", "--include-ignored"])
        .env("FERROKEEPER_PLANTED", &case.fault)
        .env("FERROKEEPER_BIN", &files.binary)
        // What a client says of a server with a fault belongs to no document.
        .env("COMPATIBILITY_ROWS", files.folder.join("compatibility"))
        .env_remove("SUBJECT")
        .stdout(log.try_clone()?)
        .stderr(log);
    let status = run_to_end(&mut command)?;
    let output = read(&path)?;
    Ok(status.map_or(Verdict::Hung, |status| judged(case, status.success(), &output)))
}

/// Runs a command, and ends it if it takes too long. Whatever it leaves behind ends with it.
fn run_to_end(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.process_group(0).spawn()?;
    let began = Instant::now();
    let mut status = child.try_wait()?;
    while status.is_none() && began.elapsed() < LIMIT {
        thread::sleep(BETWEEN_LOOKS);
        status = child.try_wait()?;
    }
    // Servers of a test that has failed, too. Mostly there is nobody.
    let _ = signal_group(&child, Signal::KILL);
    if status.is_none() {
        child.wait()?;
    }
    Ok(status)
}

fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn judged(case: &Case, succeeded: bool, output: &str) -> Verdict {
    let has_line = |start: &str| output.lines().any(|line| line.starts_with(start));
    if succeeded && has_line("test result: ok. 1 passed; 0 failed") {
        return Verdict::Passed;
    }
    if succeeded || !has_line("test result: FAILED. 0 passed; 1 failed") {
        return Verdict::NotRun;
    }
    if case.named == Named::Nothing && NOT_DONE.iter().any(|said| output.contains(said)) {
        return Verdict::NotRun;
    }
    let is_named = match &case.named {
        Named::Nothing => true,
        Named::Part(names) => names.iter().any(|name| output.contains(name)),
        Named::Recipe(recipe) => {
            let failed = output.lines().filter_map(|line| line.strip_prefix(NOT_HELD));
            failed.flat_map(|names| names.split(", ")).any(|name| name == recipe)
        }
    };
    if is_named { Verdict::Noticed } else { Verdict::Elsewhere(what_failed(output)) }
}

/// What a test says that failed: rows of a table, steps of a script, files of transcripts, recipes;
/// otherwise what it panicked with.
fn what_failed(output: &str) -> String {
    let starts = ["- ", "step ", "--- the script stopped", NOT_HELD];
    let is_name =
        |line: &&str| starts.iter().any(|start| line.starts_with(start)) || line.ends_with(".txt:");
    let mut failed: Vec<&str> = output.lines().filter(is_name).collect();
    failed.dedup();
    if failed.is_empty() {
        let after_panic = output.lines().skip_while(|line| !line.contains("panicked at "));
        failed.extend(after_panic.skip(1).take(1));
    }
    let more = failed.len().saturating_sub(SHOWN);
    failed.truncate(SHOWN);
    let mut text = failed.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(named: Named) -> Case {
        let test = CargoTest { target: Vec::new(), name: "subject".to_owned() };
        Case { number: 1, fault: "one".to_owned(), test, named }
    }

    fn part(name: &str) -> Case {
        case(Named::Part(vec![name.to_owned(), "10 quotas".to_owned()]))
    }

    const FAILED: &str = "\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; finished in 1 s\n";

    #[test]
    fn a_test_that_fails_notices_if_it_names_the_part() {
        let fails = |case: &Case, said: &str| judged(case, false, &format!("{said}{FAILED}"));
        let elsewhere = |what: &str| Verdict::Elsewhere(what.to_owned());
        assert_eq!(fails(&case(Named::Nothing), "anything"), Verdict::Noticed);
        assert_eq!(fails(&part("the timeout"), "- the timeout"), Verdict::Noticed);
        assert_eq!(fails(&part("listquota /q"), "step 10 quotas  (-"), Verdict::Noticed);
        assert_eq!(
            fails(&part("other"), "- b\n- c\n- d\n- e"),
            elsewhere("- b; - c; - d; and 1 more")
        );
        let panic = "thread 'x' panicked at y.rs:1:2:\nno snapshot\n";
        assert_eq!(fails(&part("other"), panic), elsewhere("no snapshot"));
    }

    #[test]
    fn a_recipe_is_among_those_that_do_not_hold() {
        let recipe = case(Named::Recipe("transactions".to_owned()));
        let fails = |said: &str| judged(&recipe, false, &format!("{said}{FAILED}"));
        assert_eq!(fails("not ok: queue, transactions\nok latch"), Verdict::Noticed);
        let other = Verdict::Elsewhere("not ok: queue".to_owned());
        assert_eq!(fails("not ok: queue\nok transactions"), other);
        let there = "on Apache ZooKeeper not ok: transactions";
        assert!(matches!(fails(there), Verdict::Elsewhere(_)));
    }

    #[test]
    fn a_test_that_passes_or_did_not_run_has_noticed_nothing() {
        let case = case(Named::Nothing);
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored";
        assert_eq!(judged(&case, true, passed), Verdict::Passed);
        let nothing = "test result: ok. 0 passed; 0 failed; 0 ignored; 9 filtered out";
        assert_eq!(judged(&case, true, nothing), Verdict::NotRun);
        assert_eq!(judged(&case, false, "error: could not compile"), Verdict::NotRun);
        let lacking = format!("x.jar is missing: scripts/test installs its package\n{FAILED}");
        assert_eq!(judged(&case, false, &lacking), Verdict::NotRun);
    }

    #[test]
    fn a_seed_repeats_the_choice_and_every_row_can_be_chosen() {
        let all = cases(&features::all()).expect("each row with a fault has its test");
        let numbers = |count, seed| -> Vec<u32> {
            chosen(all.clone(), count, seed).iter().map(|case| case.number).collect()
        };
        assert_eq!(numbers(5, 7), numbers(5, 7));
        assert_ne!(numbers(5, 7), numbers(5, 8));
        let every: Vec<u32> = all.iter().map(|case| case.number).collect();
        assert_eq!(numbers(usize::MAX, 1), every);
    }
}
