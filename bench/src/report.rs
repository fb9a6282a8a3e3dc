//! What a run found, for people and for scripts.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::case::CASES;
use crate::comparison::{Failure, Findings, median};
use crate::machine::Machine;
use crate::measure::{Failed, NO_ANSWERS, compares, rises};
use crate::subject::Kind;

/// What a run found, and how it was made.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) machine: Machine,
    /// The words after `scripts/bench`.
    pub(crate) command: String,
    pub(crate) minutes: u64,
    pub(crate) rounds: u32,
    pub(crate) rows: Vec<Row>,
}

/// One figure of one case.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    /// Its name and unit, or why there is none.
    pub(crate) figure: String,
    pub(crate) apache: Option<f64>,
    pub(crate) ferrokeeper: Option<f64>,
    pub(crate) floor: Option<f64>,
    /// How many times better ferrokeeper is: more operations, less of anything else.
    pub(crate) ratio: Option<f64>,
    /// Each round's value, Apache ZooKeeper and ferrokeeper.
    pub(crate) rounds: [Vec<f64>; 2],
}

impl Row {
    /// A case, or a part of it, without figures.
    pub(crate) fn failed(case: &str, kind: Kind, failed: &Failed) -> Self {
        Self {
            case: case.to_owned(),
            figure: why(kind, failed),
            apache: None,
            ferrokeeper: None,
            floor: None,
            ratio: None,
            rounds: [Vec::new(), Vec::new()],
        }
    }
}

/// How the figure of what failed begins.
const FAILED: &str = "failed, ";

/// What stands where a figure would.
pub(crate) fn why(kind: Kind, Failed { part, why }: &Failed) -> String {
    let comma = if part.is_empty() { "" } else { ", " };
    format!("{FAILED}{}{comma}{part}: {why}", kind.name())
}

/// The end of an error: what a server said last is the reason.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace('|', "/");
    let Some((start, _)) = line.char_indices().rev().nth(300) else { return line };
    format!("... {}", &line[start..])
}

/// Why a case, or a part of it, has no figures, for each server: what several rounds say, once.
pub(crate) fn failures(rows: &[Row], case: &str) -> Vec<String> {
    let of_case = rows.iter().filter(|row| row.case == case && row.figure.starts_with(FAILED));
    gathered(of_case).into_iter().map(|(row, count)| counted(row, count)).collect()
}

/// Rows in their order, equal ones once, with their number.
fn gathered<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(&'a Row, u32)> {
    let mut gathered: Vec<(&Row, u32)> = Vec::new();
    for row in rows {
        let is_it =
            |(known, _): &&mut (&Row, u32)| known.case == row.case && known.figure == row.figure;
        match gathered.iter_mut().find(is_it) {
            Some((_, count)) => *count += 1,
            None => gathered.push((row, 1)),
        }
    }
    gathered
}

fn counted(row: &Row, count: u32) -> String {
    match count {
        1 => row.figure.clone(),
        count => format!("{} ({count} times)", row.figure),
    }
}

/// How many times better ferrokeeper is, where both have a figure that can be divided.
fn ratio(figure: &str, theirs: f64, ours: f64) -> Option<f64> {
    let (above, below) = if rises(figure) { (ours, theirs) } else { (theirs, ours) };
    let is_measured = above >= 0.0 && below > 0.0 && above.max(below) < NO_ANSWERS;
    (is_measured && compares(figure)).then(|| above / below)
}

/// The medians of a run.
pub(crate) fn rows(findings: &Findings, failures: &[Failure]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, kinds) in findings {
        let figures: std::collections::BTreeSet<_> =
            kinds.values().flat_map(|figures| figures.keys().copied()).collect();
        for figure in figures {
            let values = |kind| kinds.get(&kind).and_then(|figures| figures.get(figure));
            let middle = |kind| values(kind).map(|rounds: &Vec<f64>| median(rounds));
            let (apache, ferrokeeper) = (middle(Kind::Apache), middle(Kind::Ferrokeeper));
            let ratio =
                apache.zip(ferrokeeper).and_then(|(theirs, ours)| ratio(figure, theirs, ours));
            let rounds = [Kind::Apache, Kind::Ferrokeeper]
                .map(|kind| values(kind).cloned().unwrap_or_default());
            let case = CASES.get(*number).map_or("", |case| case.name).to_owned();
            let floor = middle(Kind::Floor);
            let figure: String = figure.to_owned();
            rows.push(Row { case, figure, apache, ferrokeeper, floor, ratio, rounds });
        }
    }
    let failed = |Failure { case, kind, failed }: &Failure| Row::failed(case, *kind, failed);
    rows.extend(failures.iter().map(failed));
    rows
}

/// A Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| case | figure | Apache ZooKeeper | ferrokeeper | times better | bare server |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    let cell = |value: Option<f64>| value.map_or_else(String::new, number);
    for (row, count) in gathered(rows.iter()) {
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {ratio} | {} |",
            row.case,
            counted(row, count),
            cell(row.apache),
            cell(row.ferrokeeper),
            cell(row.floor)
        );
    }
    text
}

/// Two to four significant digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value >= NO_ANSWERS {
        "no answers".to_owned()
    } else if size >= 1e6 {
        format!("{:.2}M", value / 1e6)
    } else if size >= 1e4 {
        format!("{:.0}k", value / 1e3)
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(case: &str, part: &str) -> Row {
        let failed = Failed { part: part.to_owned(), why: "it ended".to_owned() };
        Row::failed(case, Kind::Ferrokeeper, &failed)
    }

    #[test]
    fn what_several_rounds_failed_by_is_told_once() {
        let rows = [failed("a", "x"), failed("a", ""), failed("b", "x"), failed("a", "x")];
        assert_eq!(
            failures(&rows, "a"),
            ["failed, ferrokeeper, x: it ended (2 times)", "failed, ferrokeeper: it ended"]
        );
        assert_eq!(failures(&rows, "b"), ["failed, ferrokeeper, x: it ended"]);
        let table = table(&rows);
        let once = "| a | failed, ferrokeeper, x: it ended (2 times) |";
        assert_eq!(table.matches(once).count(), 1, "{table}");
        assert_eq!(table.matches("it ended").count(), 3, "{table}");
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        assert_eq!(ratio("p99 us", 6.0, 3.0), Some(2.0));
        assert_eq!(ratio("operations/s", 3.0, 6.0), Some(2.0));
        assert_eq!(ratio("operations/s", 3.0, 0.0), Some(0.0));
        for (theirs, ours) in [(NO_ANSWERS, 3.0), (3.0, NO_ANSWERS), (-3.0, 3.0), (3.0, -3.0)] {
            assert_eq!(ratio("p99 us", theirs, ours), None);
        }
        assert_eq!(ratio("p99 us", 3.0, 0.0), None);
        assert_eq!(ratio("timeouts, a crowd", 6.0, 3.0), None);
    }

    #[test]
    fn a_number_below_zero_has_as_many_digits() {
        assert_eq!(["-1234", "-12k", "-1.50"], [-1234.5, -12_345.0, -1.5].map(number));
    }
}
