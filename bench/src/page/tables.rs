//! Which figures stand in which table, and what they are to reach.

use std::fmt::Write as _;

use crate::measure::PER_SECOND;
use crate::report::{Row, Run, number};

/// A line of a table: what it is called, and the figure that it shows.
struct Line {
    name: &'static str,
    case: &'static str,
    figure: &'static str,
    target: Target,
}

/// What ferrokeeper is to reach.
#[derive(Clone, Copy)]
enum Target {
    None,
    /// So many times better than Apache ZooKeeper.
    Times(f64),
    /// At most this.
    AtMost(f64),
}

/// A case by its operations, CPU time and p99.
struct Load {
    case: &'static str,
    times: Target,
}

const fn load(case: &'static str, times: f64) -> Load {
    Load { case, times: Target::Times(times) }
}

const fn free(case: &'static str) -> Load {
    Load { case, times: Target::None }
}

const REQUESTS: &[Load] = &[
    load("get 16 x 32", 18.0),
    load("set 16 x 32", 6.0),
    free("exists 16 x 32"),
    free("children 16 x 32"),
    free("ping 16 x 32"),
    load("mixed 90/10 16 x 32", 8.0),
    free("multi 16 x 32"),
    load("ephemeral 16 x 32", 6.0),
    load("create 16 x 32", 6.0),
    free("get 1 kB 16 x 32"),
    free("set 1 kB 16 x 32"),
    free("get 10 kB 16 x 8"),
    free("set 10 kB 16 x 8"),
    free("get 100 kB 16 x 2"),
    free("set 100 kB 16 x 2"),
];

const ONE_IN_FLIGHT: &[Load] = &[
    load("get 16 x 1", 2.6),
    free("get 10 x 1"),
    load("get 1 x 1", 2.2),
    load("set 16 x 1", 2.5),
    free("set 10 x 1"),
    load("set 1 x 1", 1.6),
];

const GROWTH: &[Load] = &[
    free("growth, 1 k znodes: get"),
    free("growth, 100 k znodes: get"),
    free("growth, 1 M znodes: get"),
    free("growth, 5 M znodes: get"),
    free("growth, 1 M watches: get"),
    free("growth, 1 k znodes: set"),
    free("growth, 100 k znodes: set"),
    free("growth, 1 M znodes: set"),
    free("growth, 5 M znodes: set"),
    free("growth, 1 M watches: set"),
    free("growth, 1 k znodes: create and delete"),
    free("growth, 100 k znodes: create and delete"),
    free("growth, 5 M znodes: create and delete"),
    free("growth, 1 M watches: create and delete"),
    free("growth, 1 M children of one parent: create and delete"),
    free("growth, 1 k znodes: create"),
    free("growth, 100 k znodes: create"),
    free("growth, 5 M znodes: create"),
    free("growth, 1 M children of one parent: create"),
];

const fn line(
    name: &'static str,
    case: &'static str,
    figure: &'static str,
    target: Target,
) -> Line {
    Line { name, case, figure, target }
}

const OTHERS: &[Line] = &[
    line("sets at half of ZooKeeper's rate, open loop: p50, us", OPEN, "p50 us", Target::None),
    line("the same: p99, us", OPEN, "p99 us", Target::None),
    line("the same: p99.9, us", OPEN, "p99.9 us", Target::None),
    line(
        "5,000 connections, one get a second each: p99, us",
        "5,000 connections, 1 get/s each",
        "p99 us",
        Target::Times(2.0),
    ),
    line(
        "a change told to 5,000 watchers: median, ms",
        "fan-out to 5,000",
        "median ms",
        Target::None,
    ),
    line("the same: worst, ms", "fan-out to 5,000", "maximum ms", Target::None),
    line(
        "sessions opened and closed on 16 connections, a second",
        "new sessions",
        PER_SECOND,
        Target::Times(8.0),
    ),
    line("RSS with 1 M znodes of 100 bytes, MB", MEMORY, "RSS MB", Target::AtMost(256.0)),
    line("an idle session, bytes", MEMORY, "bytes/idle session", Target::AtMost(4_096.0)),
    line(
        "a watch beyond its path, bytes",
        MEMORY,
        "bytes/watch beyond its path",
        Target::AtMost(64.0),
    ),
];

const OPEN: &str = "set, open loop";
const MEMORY: &str = "memory, 1 M znodes";

const START: &[Line] = &[
    line("seconds", "start, 1 M znodes", "s to the first reply", Target::None),
    line("CPU, seconds", "start, 1 M znodes", "CPU s", Target::None),
    line("peak RSS, MB", "start, 1 M znodes", "peak RSS MB", Target::None),
];

const SNAPSHOT: &[Line] = &[
    line("sets a second", SNAPSHOTS, "sets/s", Target::None),
    line("p99.9 without a snapshot, ms", SNAPSHOTS, "p99.9 ms without", Target::None),
    line("p99.9 with one, ms", SNAPSHOTS, "p99.9 ms with", Target::None),
    line("worst pair: more, ms", SNAPSHOTS, "p99.9 ms more, worst pair", Target::None),
    line("maximum without, ms", SNAPSHOTS, "maximum ms without", Target::None),
    line("maximum with one, ms", SNAPSHOTS, "maximum ms with", Target::None),
    line("a snapshot takes, s", SNAPSHOTS, "s a snapshot takes", Target::None),
    line("peak memory more, worst pair, %", SNAPSHOTS, "VmHWM % more, worst pair", Target::None),
];

const SNAPSHOTS: &str = "snapshot, 1 M znodes";

const ENSEMBLE: &[Line] = &[
    line("set 15 x 32, operations/s", SETS, PER_SECOND, Target::Times(6.0)),
    line("set 15 x 32, CPU us/operation", SETS, CPU, Target::Times(6.0)),
    line("set 1 x 1, operations/s", "ensemble, set 1 x 1", PER_SECOND, Target::Times(1.8)),
    line("get 15 x 32, operations/s", "ensemble, get 15 x 32", PER_SECOND, Target::Times(20.0)),
    line(
        "mixed 90/10 15 x 32, operations/s",
        "ensemble, mixed 90/10 15 x 32",
        PER_SECOND,
        Target::Times(8.0),
    ),
    line("leader killed (-9): to the next write, p50, ms", KILLED, FIRST, Target::AtMost(100.0)),
    line("the same: worst, ms", KILLED, FIRST_WORST, Target::AtMost(300.0)),
    line(
        "leader ended (SIGTERM): between writes, p50, ms",
        ENDED,
        "ms between acknowledged writes, p50",
        Target::None,
    ),
    line(
        "the same: worst, ms",
        ENDED,
        "ms between acknowledged writes, maximum",
        Target::AtMost(20.0),
    ),
    line(
        "the same: connections of the other servers cut",
        ENDED,
        "connections cut elsewhere",
        Target::AtMost(0.0),
    ),
    line("leader frozen (SIGSTOP): to the next write, p50, ms", FROZEN, FIRST, Target::None),
    line("the same: worst, ms", FROZEN, FIRST_WORST, Target::AtMost(1_000.0)),
    line(
        "the same: acknowledged writes lost",
        FROZEN,
        "acknowledged writes lost",
        Target::AtMost(0.0),
    ),
    line(
        "follower emptied, 1 M znodes: to its first reply, s",
        "ensemble, follower emptied, 1 M znodes",
        "s to the first reply",
        Target::Times(4.0),
    ),
    line(
        "RSS of all three, 1 M znodes, MB",
        "ensemble, RSS with 1 M znodes",
        "RSS MB, all three",
        Target::Times(4.0),
    ),
];

const SETS: &str = "ensemble, set 15 x 32";
const CPU: &str = "CPU us/operation";
const KILLED: &str = "ensemble, leader killed";
const ENDED: &str = "ensemble, leader ended by SIGTERM";
const FROZEN: &str = "ensemble, leader frozen";
const FIRST: &str = "ms to the first acknowledged write, p50";
const FIRST_WORST: &str = "ms to the first acknowledged write, maximum";

const STORM: &str = "storm, 1,000 operations/s beside it";
/// A victim's p99 may double.
const STORM_AT_MOST: f64 = 2.0;

const README: &[Line] = &[
    line(
        "gets a second, 16 connections with 32 in flight",
        "get 16 x 32",
        PER_SECOND,
        Target::None,
    ),
    line("CPU time of a get, us", "get 16 x 32", CPU, Target::None),
    line("sets a second, the same, each on disk", "set 16 x 32", PER_SECOND, Target::None),
    line("CPU time of a set, us", "set 16 x 32", CPU, Target::None),
    line("three servers: sets a second, 15 x 32", SETS, PER_SECOND, Target::None),
    line(
        "start with a million znodes, s",
        "start, 1 M znodes",
        "s to the first reply",
        Target::None,
    ),
    line("memory with a million znodes, MB", MEMORY, "RSS MB", Target::None),
    line("leader killed: to the next write, ms", KILLED, FIRST, Target::None),
];

/// The table of this name, with what of it the run has.
pub(super) fn table(name: &str, run: &Run) -> Option<String> {
    let table = whole(name, run)?;
    // A head, a rule, and nothing.
    let is_empty = table.lines().count() == 2;
    Some(if is_empty { "This run has not measured it.\n".to_owned() } else { table })
}

fn whole(name: &str, run: &Run) -> Option<String> {
    Some(match name {
        "machine" => machine(run),
        "requests" => loads(REQUESTS, run, false),
        "one in flight" => loads(ONE_IN_FLIGHT, run, true),
        "growth" => loads(GROWTH, run, false),
        "others" => lines(OTHERS, run, true),
        "start" => lines(START, run, false),
        "snapshot" => lines(SNAPSHOT, run, false),
        "ensemble" => lines(ENSEMBLE, run, true),
        "storm" => storm(run),
        "README" => lines(README, run, false),
        _ => return None,
    })
}

fn found<'a>(run: &'a Run, case: &str, figure: &str) -> Option<&'a Row> {
    run.rows.iter().find(|row| row.case == case && row.figure == figure)
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

fn times(row: &Row) -> String {
    row.ratio.map_or_else(String::new, |times| match times < 10.0 {
        true => format!("{times:.2}"),
        false => format!("{times:.1}"),
    })
}

/// Half of the way from the least to the greatest round, in percent of the median: of both.
fn spread(row: &Row) -> String {
    let half = |rounds: &[f64], median: Option<f64>| {
        // One round has none.
        rounds.get(1)?;
        let least = rounds.iter().copied().reduce(f64::min)?;
        let greatest = rounds.iter().copied().reduce(f64::max)?;
        let percent = (greatest - least) / 2.0 / median.filter(|median| *median > 0.0)? * 100.0;
        Some(format!("{percent:.0}"))
    };
    let [theirs, ours] = &row.rounds;
    let halves = [half(theirs, row.apache), half(ours, row.ferrokeeper)];
    halves.map(|half| half.unwrap_or_else(|| "-".into())).join(", ")
}

fn target(target: Target, row: &Row) -> String {
    let (text, is_met) = match target {
        Target::None => return String::new(),
        Target::Times(times) => (format!("x {times}"), row.ratio.map(|ratio| ratio >= times)),
        Target::AtMost(most) => {
            (format!("at most {}", number(most)), row.ferrokeeper.map(|ours| ours <= most))
        }
    };
    let missed = if is_met == Some(false) { ", missed" } else { "" };
    text + missed
}

fn loads(loads: &[Load], run: &Run, with_floor: bool) -> String {
    let floor = |text| if with_floor { text } else { "" };
    let mut out = format!(
        "| case | ZooKeeper, operations/s | ferrokeeper |{} times | spread, % | target | \
         ZooKeeper, CPU us/operation | ferrokeeper | ZooKeeper, p99 us | ferrokeeper |\n\
         |---|---:|---:|{}---:|---:|---|---:|---:|---:|---:|\n",
        floor(" bare server |"),
        floor("---:|"),
    );
    for Load { case, times: aim } in loads {
        let Some(rate) = found(run, case, PER_SECOND) else { continue };
        let pair = |figure| {
            let row = found(run, case, figure);
            let [theirs, ours] =
                [row.and_then(|row| row.apache), row.and_then(|row| row.ferrokeeper)];
            format!("{} | {}", cell(theirs), cell(ours))
        };
        let floor = if with_floor { format!(" {} |", cell(rate.floor)) } else { String::new() };
        let _ = writeln!(
            out,
            "| {} | {} | {} |{floor} {} | {} | {} | {} | {} |",
            case.strip_prefix("growth, ").unwrap_or(case),
            cell(rate.apache),
            cell(rate.ferrokeeper),
            times(rate),
            spread(rate),
            target(*aim, rate),
            pair(CPU),
            pair("p99 us"),
        );
    }
    out
}

fn lines(lines: &[Line], run: &Run, with_targets: bool) -> String {
    let (head, rule) = if with_targets { (" target |", "---|") } else { ("", "") };
    let mut out = format!(
        "| | ZooKeeper | ferrokeeper | times | spread, % |{head}\n|---|---:|---:|---:|---:|{rule}\n"
    );
    for Line { name, case, figure, target: aim } in lines {
        let Some(row) = found(run, case, figure) else { continue };
        let aim = if with_targets { format!(" {} |", target(*aim, row)) } else { String::new() };
        let (theirs, ours) = (cell(row.apache), cell(row.ferrokeeper));
        let _ =
            writeln!(out, "| {name} | {theirs} | {ours} | {} | {} |{aim}", times(row), spread(row));
    }
    out
}

fn storm(run: &Run) -> String {
    const HERE: &str = "times its usual p99, ";
    const ELSEWHERE: &str = "times its usual p99, at another server, ";
    let mut out = String::from(
        "| overload | here | spread, % | at another server | target |\n|---|---:|---:|---:|---|\n",
    );
    let shapes = run.rows.iter().filter(|row| row.case == STORM && row.ferrokeeper.is_some());
    let mut found_here: Vec<(&str, &Row)> = shapes
        .filter(|row| !row.figure.starts_with(ELSEWHERE))
        .filter_map(|row| Some((row.figure.strip_prefix(HERE)?, row)))
        .collect();
    found_here.sort_by(|a, b| a.1.ferrokeeper.partial_cmp(&b.1.ferrokeeper).expect("numbers"));
    for (shape, row) in found_here {
        let elsewhere = found(run, STORM, &format!("{ELSEWHERE}{shape}"));
        let _ = writeln!(
            out,
            "| {shape} | {} | {} | {} | {} |",
            cell(row.ferrokeeper),
            spread(row).split_once(", ").map_or("", |(_, ours)| ours),
            cell(elsewhere.and_then(|row| row.ferrokeeper)),
            target(Target::AtMost(STORM_AT_MOST), row),
        );
    }
    out
}

fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let [p50, p99, p999] = machine.sync_us.map(number);
    format!(
        "| | |\n|---|---|\n\
         | command | `{}`, took {} min |\n\
         | commit, day | {}, {} |\n\
         | machine | {}, {} cores for server and load, {} GB, Linux {} |\n\
         | disk | {}; `fdatasync` after 8 kB: p50 {p50}, p99 {p99}, p99.9 {p999} us |\n\
         | Java | {} |\n",
        run.command,
        run.minutes,
        machine.commit,
        machine.date,
        machine.processor,
        machine.cores,
        machine.memory_gb,
        machine.kernel,
        machine.file_system,
        machine.java,
    )
}
