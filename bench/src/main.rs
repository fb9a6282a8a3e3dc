//! Measures ferrokeeper and Apache ZooKeeper in turn, in one run, and the floors below both.
//!
//! `compare` is what `scripts/bench` runs; `load` puts one load on a server that runs already.

mod case;
mod comparison;
mod connection;
mod ensemble;
mod fan_out;
mod floor;
mod load;
mod machine;
mod measure;
mod outage;
mod page;
mod plot;
mod population;
mod report;
mod request;
mod sessions;
mod snapshot;
mod start;
mod steady_writer;
mod storm;
mod subject;
mod warmth;
mod watches;

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::case::Spans;
use crate::comparison::Plan;
use crate::load::{Load, Pace};
use crate::machine::Machine;
use crate::report::Run;
use crate::request::Workload;
use crate::subject::{Kind, Programs};
use crate::warmth::Steady;

/// Between two looks at whether Apache ZooKeeper still becomes faster, in seconds.
const STEP: f64 = 5.0;

/// Measures ferrokeeper and Apache ZooKeeper.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Both servers in turn, the medians and the ratios.
    Compare(Compare),
    /// One load on a running server, which gets a znode /bench with children.
    Load(OneLoad),
    /// The tables of README.md and docs/performance.md, of the figures of a run.
    Page {
        /// What `--json` of a run has written.
        #[arg(default_value = "docs/performance.json")]
        figures: PathBuf,
        /// Only says whether the pages have them.
        #[arg(long)]
        check: bool,
    },
    /// The bare server.
    #[command(hide = true)]
    Floor { port: u16 },
}

#[derive(Debug, Args)]
struct Compare {
    /// Only cases whose name has this part; repeatable.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Of the storm only what has this part in its name.
    #[arg(long, value_name = "PART")]
    storm: Option<String>,
    /// How often each server has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// How long a case is measured.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// How long it runs before that.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// The longest that Apache ZooKeeper is loaded before that: until it does no more than 3 % more
    /// than 5 s earlier.
    #[arg(long, default_value_t = 60.0)]
    warm_at_most: f64,
    /// How long the open loop at half of Apache ZooKeeper's maximum is measured.
    #[arg(long, default_value_t = 60.0)]
    open_loop_seconds: f64,
    /// How often the leader of an ensemble is killed, ended and frozen.
    #[arg(long, default_value_t = 5)]
    outages: u32,
    /// Everything once, small and short: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// With the largest cases too: five and ten million znodes need 16 GB of memory and
    /// 20 GB of disk.
    #[arg(long)]
    large: bool,
    /// Without Apache ZooKeeper.
    #[arg(long)]
    alone: bool,
    /// Writes the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws latency against rate (a further run, some minutes).
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The server's binary.
    #[arg(long, default_value = "target/release/ferrokeeper")]
    ferrokeeper: PathBuf,
    /// The script that runs Apache ZooKeeper.
    #[arg(long, default_value = "scripts/reference")]
    reference: PathBuf,
    /// Where the data directories are made: on the disk to be measured.
    #[arg(long, default_value = ".")]
    data: PathBuf,
}

#[derive(Debug, Args)]
struct OneLoad {
    /// Address and port of the server.
    server: SocketAddr,
    #[arg(long, value_enum, default_value = "get")]
    workload: Workload,
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 32)]
    window: u32,
    /// Requests a second over all connections, instead of a window.
    #[arg(long)]
    rate: Option<f64>,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_len: usize,
    /// Znodes to choose from; made at first if /bench is not there.
    #[arg(long, default_value = "1000")]
    keys: NonZeroU32,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Floor { port } => floor::serve(port).map_err(Into::into),
        Command::Page { figures, check: true } => page::check(Path::new("."), &figures),
        Command::Page { figures, check: false } => page::write(Path::new("."), &figures),
        Command::Load(load) => one_load(&load),
        Command::Compare(compare) => self::compare(compare),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Thousands of connections need as many descriptors.
fn raise_limit_of_files() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

fn compare(compare: Compare) -> Result<(), Box<dyn Error>> {
    raise_limit_of_files()?;
    let programs = Programs {
        ferrokeeper: subject::existing(&compare.ferrokeeper, "cargo build --release")?,
        reference: subject::existing(&compare.reference, "run it in a checkout")?,
        data: subject::existing(&compare.data, "name a folder that exists")?,
    };
    let seconds = |seconds: f64| Duration::from_secs_f64(if compare.quick { 0.1 } else { seconds });
    let spans = Spans {
        warm_up: seconds(compare.warm_up),
        steady: Steady { step: seconds(STEP), at_most: seconds(compare.warm_at_most) },
        measured: seconds(compare.seconds),
        open_loop: seconds(compare.open_loop_seconds),
        outages: if compare.quick { 1 } else { compare.outages.max(1) },
        scale: NonZeroU32::new(if compare.quick { 100 } else { 1 }).unwrap_or(NonZeroU32::MIN),
    };
    let kinds = [Kind::Floor, Kind::Apache, Kind::Ferrokeeper];
    let plan = Plan {
        spans,
        rounds: if compare.quick { 1 } else { compare.rounds },
        only: compare.only,
        storm: compare.storm,
        large: compare.large,
        kinds: kinds.into_iter().filter(|kind| !compare.alone || *kind != Kind::Apache).collect(),
    };
    let began = Instant::now();
    let synced = comparison::sync_floor(&programs, spans.measured)?;
    let micros = |quantile| synced.value_at_quantile(quantile) as f64 / 1e3;
    let mut run = Run {
        machine: Machine::here(&programs.data, [0.5, 0.99, 0.999].map(micros))?,
        command: command_line(),
        minutes: 0,
        rounds: 0,
        rows: Vec::new(),
    };
    // What `page` reads has only ever the whole of a run.
    let unfinished = compare.json.as_ref().map(|path| path.with_extension("unfinished"));
    let mut failed = comparison::run(&plan, &programs, tell, |round, findings, failures| {
        run.rows = report::rows(findings, failures);
        run.rounds = round;
        run.minutes = began.elapsed().as_secs() / 60;
        let Some(path) = &unfinished else { return Ok(()) };
        fs::write(path, serde_json::to_vec_pretty(&run)?)
    })?;
    writeln!(
        io::stdout(),
        "fdatasync after 8 kB: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, maximum {:.0} us\n\n{}",
        micros(0.5),
        micros(0.99),
        micros(0.999),
        micros(1.0),
        report::table(&run.rows)
    )?;
    if let Some((from, to)) = unfinished.zip(compare.json.as_ref()) {
        fs::rename(from, to)?;
    }
    if let Some(path) = compare.plot {
        let curves = plot::sweep(&programs, &spans, tell);
        plot::draw(&path, &curves)?;
        failed += plot::failures(&curves).len();
        run.rows.extend(plot::failures(&curves));
        if let Some(path) = compare.json {
            fs::write(path, serde_json::to_vec_pretty(&run)?)?;
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} failures, see above").into()),
    }
}

/// What was chosen, as `scripts/bench` takes it: without the paths that it adds itself.
fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let mut chosen = vec!["scripts/bench".to_owned()];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if ["--ferrokeeper", "--json", "--plot", "--data", "--reference"].contains(&word) {
            words.next();
        } else {
            let is_one = word.chars().all(|its| its.is_ascii_alphanumeric() || "-.,".contains(its));
            chosen.push(if is_one { word.to_owned() } else { format!("'{word}'") });
        }
    }
    chosen.join(" ")
}

fn one_load(one: &OneLoad) -> Result<(), Box<dyn Error>> {
    raise_limit_of_files()?;
    let mut connection = connection::Connection::open(one.server, 0)?;
    if connection.call(&request::get(request::ROOT, false))?.error != 0 {
        population::create(one.server, one.keys.get(), one.value_len)?;
    }
    drop(connection);
    let load = Load {
        workload: one.workload,
        connections: one.connections,
        pace: one.rate.map_or(Pace::Window(one.window), Pace::Rate),
        value_len: one.value_len,
        keys: one.keys,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs_f64(one.seconds),
        slice: None,
    };
    let measured = load::run(&[one.server], &load, || {}, || {})?;
    let micros = |quantile| measured.latency.value_at_quantile(quantile) as f64 / 1e3;
    writeln!(
        io::stdout(),
        "{:.0} operations/s, p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us",
        measured.operations as f64 / one.seconds,
        micros(0.5),
        micros(0.99),
        micros(0.999)
    )?;
    Ok(())
}
