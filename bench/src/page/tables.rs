//! Which figures stand in which table, and what they are to reach.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::measure::{NO_ANSWERS, PER_SECOND, WARMED};
use crate::plot::PLOT;
use crate::report::{Row, Run, failures, number};

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
    /// At most so many times what the bare server needs.
    TimesBare(f64),
    /// In microseconds, at most so many times the p99.9 of the bare `fdatasync`.
    TimesSync(f64),
}

/// A case by its operations, CPU time and p99.
struct LoadCase {
    case: &'static str,
    times: Target,
}

const fn load(case: &'static str, times: f64) -> LoadCase {
    LoadCase { case, times: Target::Times(times) }
}

const fn free(case: &'static str) -> LoadCase {
    LoadCase { case, times: Target::None }
}

const REQUESTS: &[LoadCase] = &[
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

const ONE_IN_FLIGHT: &[LoadCase] = &[
    load("get 16 x 1", 2.6),
    load("get 1 x 1", 2.2),
    load("set 16 x 1", 2.5),
    load("set 1 x 1", 1.6),
];

const GROWTH: &[LoadCase] = &[
    free("get 16 x 32"),
    free("growth, 100 k znodes: get"),
    free("growth, 1 M znodes: get"),
    free("growth, 5 M znodes: get"),
    free("growth, 1 M watches: get"),
    free("set 16 x 32"),
    free("growth, 100 k znodes: set"),
    free("growth, 1 M znodes: set"),
    free("growth, 5 M znodes: set"),
    free("growth, 1 M watches: set"),
    free("ephemeral 16 x 32"),
    free("growth, 100 k znodes: create and delete"),
    free("growth, 5 M znodes: create and delete"),
    free("growth, 1 M watches: create and delete"),
    free("growth, 1 M children of one parent: create and delete"),
    free("create 16 x 32"),
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
    line("the same: p99.9, us", OPEN, "p99.9 us", Target::TimesSync(2.0)),
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
        Target::TimesBare(1.3),
    ),
    line("the same: worst, ms", "fan-out to 5,000", "maximum ms", Target::TimesBare(1.3)),
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
    line("p99.9 more, worst pair, ms", SNAPSHOTS, "p99.9 ms more, worst pair", Target::None),
    line("maximum without, ms", SNAPSHOTS, "maximum ms without", Target::None),
    line("maximum with one, ms", SNAPSHOTS, "maximum ms with", Target::None),
    line("maximum more, worst pair, ms", SNAPSHOTS, "maximum ms more, worst pair", Target::None),
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
    line("the same: connections of the other servers cut", KILLED, CUT, Target::None),
    line("the same: acknowledged writes lost", KILLED, LOST, Target::AtMost(0.0)),
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
    line("the same: connections of the other servers cut", ENDED, CUT, Target::AtMost(0.0)),
    line("the same: acknowledged writes lost", ENDED, LOST, Target::AtMost(0.0)),
    line("leader frozen (SIGSTOP): to the next write, p50, ms", FROZEN, FIRST, Target::None),
    line("the same: worst, ms", FROZEN, FIRST_WORST, Target::AtMost(1_000.0)),
    line("the same: connections of the other servers cut", FROZEN, CUT, Target::None),
    line("the same: acknowledged writes lost", FROZEN, LOST, Target::AtMost(0.0)),
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
const CUT: &str = "connections cut elsewhere";
const LOST: &str = "acknowledged writes lost";

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
    line("leader killed: to the next write, median, ms", KILLED, FIRST, Target::None),
];

/// The table of this name, with what of it the run has.
pub(super) fn table(name: &str, run: &Run) -> Option<String> {
    let table = whole(name, run)?;
    // A head, a rule, and nothing.
    let is_empty = name != "plot" && table.trim_end().lines().count() == 2;
    Some(if is_empty { "This run has not measured it.\n".to_owned() } else { table })
}

fn whole(name: &str, run: &Run) -> Option<String> {
    Some(match name {
        "machine" => machine(run),
        "requests" => loads(REQUESTS, run, Columns::Plain),
        "one in flight" => loads(ONE_IN_FLIGHT, run, Columns::WithBare),
        "growth" => loads(GROWTH, run, Columns::Plain),
        "others" => lines(OTHERS, run, Columns::WithBare),
        "start" => lines(START, run, Columns::Plain),
        "snapshot" => lines(SNAPSHOT, run, Columns::Plain),
        "ensemble" => lines(ENSEMBLE, run, Columns::Plain),
        "storm" => storm(run),
        "plot" => plot(run),
        "README" => lines(README, run, Columns::Plain),
        _ => return None,
    })
}

/// Whether there is one for the bare server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Plain,
    WithBare,
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
fn spreads(row: &Row) -> [String; 2] {
    let half = |rounds: &[f64], median: Option<f64>| {
        // One round has none, and a server that does not answer has no other.
        rounds.get(1)?;
        let least = rounds.iter().copied().reduce(f64::min)?;
        let greatest = rounds.iter().copied().reduce(f64::max).filter(|most| *most < NO_ANSWERS)?;
        let percent = (greatest - least) / 2.0 / median.filter(|median| *median > 0.0)? * 100.0;
        Some(format!("{percent:.0}"))
    };
    let [theirs, ours] = &row.rounds;
    let halves = [half(theirs, row.apache), half(ours, row.ferrokeeper)];
    halves.map(|half| half.unwrap_or_else(|| "-".into()))
}

/// What is to be reached, and whether it is.
fn aimed(target: Target, row: &Row, run: &Run) -> String {
    // What is below zero was not to be measured.
    let ours = row.ferrokeeper.filter(|ours| *ours >= 0.0);
    let at_most = |most: Option<f64>| ours.zip(most).map(|(ours, most)| ours <= most);
    let (text, is_met) = match target {
        Target::None => return String::new(),
        Target::Times(times) => (format!("x {times}"), row.ratio.map(|ratio| ratio >= times)),
        Target::AtMost(most) => (format!("at most {}", number(most)), at_most(Some(most))),
        Target::TimesBare(times) => {
            (format!("{times} x bare"), at_most(row.floor.map(|bare| bare * times)))
        }
        Target::TimesSync(times) => {
            (format!("{times} x fdatasync"), at_most(Some(run.machine.sync_us[2] * times)))
        }
    };
    let verdict = match is_met {
        Some(true) => "",
        Some(false) => ", missed",
        None => ", not compared",
    };
    text + verdict
}

fn loads(cases: &[LoadCase], run: &Run, columns: Columns) -> String {
    let with_bare = columns == Columns::WithBare;
    let bare = |text| if with_bare { text } else { "" };
    let mut out = format!(
        "| case | ZooKeeper, operations/s | ferrokeeper |{} times | spread, % | target | \
         ZooKeeper, CPU us/operation | ferrokeeper | ZooKeeper, p99 us | ferrokeeper | \
         ZooKeeper warmed up, s |\n|---|---:|---:|{}---:|---:|---|---:|---:|---:|---:|---:|\n",
        bare(" bare server |"),
        bare("---:|"),
    );
    for LoadCase { case, times: aim } in cases {
        let name = case.strip_prefix("growth, ").unwrap_or(case);
        for why in failures(&run.rows, case) {
            let _ = writeln!(out, "| {name} | {why} |");
        }
        let Some(rate) = found(run, case, PER_SECOND) else { continue };
        let pair = |figure| {
            let row = found(run, case, figure);
            let [theirs, ours] =
                [row.and_then(|row| row.apache), row.and_then(|row| row.ferrokeeper)];
            format!("{} | {}", cell(theirs), cell(ours))
        };
        let floor = if with_bare { format!(" {} |", cell(rate.floor)) } else { String::new() };
        let _ = writeln!(
            out,
            "| {name} | {} | {} |{floor} {} | {} | {} | {} | {} | {} |",
            cell(rate.apache),
            cell(rate.ferrokeeper),
            times(rate),
            spreads(rate).join(", "),
            aimed(*aim, rate, run),
            pair(CPU),
            pair("p99 us"),
            cell(found(run, case, WARMED).and_then(|row| row.apache)),
        );
    }
    out
}

fn lines(figures: &[Line], run: &Run, columns: Columns) -> String {
    let with_bare = columns == Columns::WithBare;
    let with_targets = figures.iter().any(|line| !matches!(line.target, Target::None));
    let bare = |text| if with_bare { text } else { "" };
    let aim = |text| if with_targets { text } else { "" };
    let mut out = format!(
        "| | ZooKeeper | ferrokeeper |{} times | spread, % |{}\n|---|---:|---:|{}---:|---:|{}\n",
        bare(" bare server |"),
        aim(" target |"),
        bare("---:|"),
        aim("---|"),
    );
    let mut told = BTreeSet::new();
    for Line { name, case, figure, target } in figures {
        if told.insert(case) {
            for why in failures(&run.rows, case) {
                let _ = writeln!(out, "| {name} | {why} |");
            }
        }
        let Some(row) = found(run, case, figure) else { continue };
        let floor = if with_bare { format!(" {} |", cell(row.floor)) } else { String::new() };
        let aim =
            if with_targets { format!(" {} |", aimed(*target, row, run)) } else { String::new() };
        let (theirs, ours) = (cell(row.apache), cell(row.ferrokeeper));
        let spread = spreads(row).join(", ");
        let _ =
            writeln!(out, "| {name} | {theirs} | {ours} |{floor} {} | {spread} |{aim}", times(row));
    }
    out
}

fn storm(run: &Run) -> String {
    const HERE: &str = "times its usual p99, ";
    const ELSEWHERE: &str = "times its usual p99, at another server, ";
    const TIMEOUTS: &str = "timeouts, ";
    let mut out = String::from(
        "| overload | ZooKeeper | ferrokeeper | spread, % | target | \
         ZooKeeper, storm at another server | ferrokeeper | ZooKeeper, timeouts | ferrokeeper |\n\
         |---|---:|---:|---:|---|---:|---:|---:|---:|\n",
    );
    let shapes = run.rows.iter().filter(|row| row.case == STORM);
    let mut found_here: Vec<(&str, &Row)> = shapes
        .filter(|row| !row.figure.starts_with(ELSEWHERE))
        .filter_map(|row| Some((row.figure.strip_prefix(HERE)?, row)))
        .collect();
    let times = |row: &Row| row.ferrokeeper.unwrap_or_default();
    found_here.sort_by(|a, b| times(a.1).total_cmp(&times(b.1)));
    let pair = |row: Option<&Row>| {
        let [theirs, ours] = [row.and_then(|row| row.apache), row.and_then(|row| row.ferrokeeper)];
        format!("{} | {}", cell(theirs), cell(ours))
    };
    for why in failures(&run.rows, STORM) {
        let _ = writeln!(out, "| {why} |");
    }
    for (shape, row) in found_here {
        let of = |prefix| pair(found(run, STORM, &format!("{prefix}{shape}")));
        let _ = writeln!(
            out,
            "| {shape} | {} | {} | {} | {} | {} |",
            pair(Some(row)),
            spreads(row).join(", "),
            aimed(Target::AtMost(STORM_AT_MOST), row, run),
            of(ELSEWHERE),
            of(TIMEOUTS),
        );
    }
    let ended = "storms that ended it, or the victim's connections";
    if let Some(row) = found(run, STORM, ended) {
        let _ = writeln!(out, "| all: {ended} | {} | | | | | | |", pair(Some(row)));
    }
    out
}

/// Where the curves of the plot end too early; nothing where none does.
fn plot(run: &Run) -> String {
    failures(&run.rows, PLOT).iter().map(|why| format!("- {why}\n")).collect()
}

fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let [p50, p99, p999] = machine.sync_us.map(number);
    format!(
        "| | |\n|---|---|\n\
         | command | `{}`, took {} min |\n\
         | rounds | the medians of {} |\n\
         | commit, day | {}, {} |\n\
         | machine | {}, {} cores for server and load, {} GiB, Linux {} |\n\
         | disk | {}; `fdatasync` after 8 kB: p50 {p50}, p99 {p99}, p99.9 {p999} us |\n\
         | Java | {} |\n",
        run.command,
        run.minutes,
        run.rounds,
        machine.commit,
        machine.date,
        machine.processor,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.file_system,
        machine.java,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, figure: &str, ferrokeeper: Option<f64>) -> Row {
        Row {
            case: case.to_owned(),
            figure: figure.to_owned(),
            apache: None,
            ferrokeeper,
            floor: None,
            ratio: None,
            rounds: [Vec::new(), ferrokeeper.into_iter().collect()],
        }
    }

    /// As it is read from what a run has written.
    fn run(rows: Vec<Row>) -> Run {
        let text = serde_json::to_vec(&Run { rows, ..Run::default() }).expect("JSON");
        serde_json::from_slice(&text).expect("the same run")
    }

    #[test]
    fn what_failed_and_what_is_answered_no_more_stand_in_the_tables() {
        let failed = "failed, ferrokeeper, many: it ended";
        let run = run(vec![
            row(STORM, "times its usual p99, a crowd", Some(NO_ANSWERS)),
            row(STORM, "times its usual p99, a few", Some(1.5)),
            row("get 16 x 32", "failed, ferrokeeper: it ended", None),
            row(STORM, failed, None),
            row(STORM, failed, None),
        ]);
        let storm = table("storm", &run).expect("a table");
        assert!(
            storm.contains("| a crowd |  | no answers | -, - | at most 2.00, missed |  |  |"),
            "{storm}"
        );
        assert!(storm.contains("| a few |  | 1.50 | -, - | at most 2.00 |  |  |"), "{storm}");
        assert_eq!(storm.matches(&format!("| {failed} (2 times) |\n")).count(), 1, "{storm}");
        assert_eq!(storm.matches("failed").count(), 1, "{storm}");
        let requests = table("requests", &run).expect("a table");
        assert!(requests.contains("| get 16 x 32 | failed, ferrokeeper: it ended |"), "{requests}");
        assert_eq!(table("start", &run).as_deref(), Some("This run has not measured it.\n"));
    }

    #[test]
    fn a_storm_at_another_server_and_timeouts_are_there_for_both_servers() {
        let both = |figure, theirs, ours| Row { apache: Some(theirs), ..row(STORM, figure, ours) };
        let run = run(vec![
            both("times its usual p99, a few", 4.0, Some(1.5)),
            both("times its usual p99, at another server, a few", 3.0, Some(1.25)),
            both("timeouts, a few", 12.0, Some(0.0)),
            both("times its usual p99, a crowd", NO_ANSWERS, None),
        ]);
        let storm = table("storm", &run).expect("a table");
        let few = "| a few | 4.00 | 1.50 | -, - | at most 2.00 | 3.00 | 1.25 | 12.00 | 0.00 |\n";
        assert!(storm.contains(few), "{storm}");
        let crowd = "| a crowd | no answers |  | -, - | at most 2.00, not compared |  |  |  |  |\n";
        assert!(storm.contains(crowd), "{storm}");
        let columns = |line: &str| line.matches('|').count();
        assert!(storm.lines().all(|line| columns(line) == 10), "{storm}");
    }

    #[test]
    fn a_curve_that_ends_too_early_is_told_below_the_plot() {
        assert_eq!(table("plot", &Run::default()).as_deref(), Some(""));
        let failed = row(PLOT, "failed, ferrokeeper, at 1000 sets/s: it ended", None);
        assert_eq!(
            table("plot", &run(vec![failed])).as_deref(),
            Some("- failed, ferrokeeper, at 1000 sets/s: it ended\n")
        );
    }

    #[test]
    fn a_target_that_cannot_be_compared_is_not_met() {
        let rate = row("get 16 x 32", PER_SECOND, Some(1.0));
        assert_eq!(aimed(Target::Times(2.0), &rate, &Run::default()), "x 2, not compared");
        let rate = Row { ratio: Some(1.9), ..rate };
        assert_eq!(aimed(Target::Times(2.0), &rate, &Run::default()), "x 2, missed");
        assert_eq!(aimed(Target::Times(1.9), &rate, &Run::default()), "x 1.9");
        let idle = row(MEMORY, "bytes/idle session", Some(-8.0));
        let aim = aimed(Target::AtMost(4_096.0), &idle, &Run::default());
        assert_eq!(aim, "at most 4096, not compared");
    }
}
