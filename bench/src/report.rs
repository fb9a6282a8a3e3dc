//! What a run found, for people and for scripts.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::case::CASES;
use crate::comparison::{Failure, Findings, median};
use crate::machine::Machine;
use crate::measure::{NO_ANSWERS, compares, rises};
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
            let ratio = apache
                .zip(ferrokeeper)
                .filter(|_| compares(figure))
                .map(|(theirs, ours)| if rises(figure) { ours / theirs } else { theirs / ours });
            let rounds = [Kind::Apache, Kind::Ferrokeeper]
                .map(|kind| values(kind).cloned().unwrap_or_default());
            let case = CASES.get(*number).map_or("", |case| case.name).to_owned();
            let floor = middle(Kind::Floor);
            let figure: String = figure.to_owned();
            rows.push(Row { case, figure, apache, ferrokeeper, floor, ratio, rounds });
        }
    }
    rows.extend(failures.iter().map(|Failure { case, kind, why }| Row {
        case: (*case).to_owned(),
        figure: format!("failed, {}: {why}", kind.name()),
        apache: None,
        ferrokeeper: None,
        floor: None,
        ratio: None,
        rounds: [Vec::new(), Vec::new()],
    }));
    rows
}

/// A Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| case | figure | Apache ZooKeeper | ferrokeeper | times better | bare server |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    let cell = |value: Option<f64>| value.map_or_else(String::new, number);
    for row in rows {
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {ratio} | {} |",
            row.case,
            row.figure,
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
