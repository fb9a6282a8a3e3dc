//! What a stock client printed, step by step, and the difference of two such runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a client prints before a value that differs from run to run.
const VALUES: [(&str, Value); 15] = [
    ("cZxid = ", Value::HexZxid),
    ("mZxid = ", Value::HexZxid),
    ("pZxid = ", Value::HexZxid),
    ("czxid=", Value::HexZxid),
    ("mzxid=", Value::HexZxid),
    ("pzxid=", Value::HexZxid),
    (" zxid: ", Value::DecimalZxid),
    ("ctime = ", Value::Time),
    ("mtime = ", Value::Time),
    ("mtime=", Value::Time),
    ("ephemeralOwner = ", Value::Session),
    ("ephemeralOwner=", Value::Session),
    ("session id: ", Value::Session),
    ("session Id = ", Value::Session),
    ("session=", Value::Session),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    HexZxid,
    DecimalZxid,
    /// Up to the end of the line.
    Time,
    Session,
}

/// A run of a script: the lines of each step.
///
/// Times become `<time>`; a zxid its rank among all zxids of the run, so that servers may number
/// differently but not order differently; a session id the rank of its first appearance.
#[derive(Debug)]
pub struct Transcript {
    steps: BTreeMap<u32, Vec<String>>,
}

impl Transcript {
    /// Splits a run at its `== N` lines.
    pub fn new(lines: &[String]) -> Self {
        let zxids: BTreeSet<i64> = lines.iter().flat_map(|line| numbers(line, true)).collect();
        let zxids: Vec<i64> = zxids.into_iter().collect();
        let mut sessions: Vec<i64> = Vec::new();
        for id in lines.iter().flat_map(|line| numbers(line, false)) {
            if !sessions.contains(&id) {
                sessions.push(id);
            }
        }
        let mut steps: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut current = 0;
        for line in lines {
            if let Some(step) = line.strip_prefix("== ") {
                let number = step.split_whitespace().next().unwrap_or_default();
                current = number.parse().unwrap_or_else(|_| panic!("not a step: {line}"));
                assert!(steps.insert(current, Vec::new()).is_none(), "step {current} twice");
            } else {
                steps.entry(current).or_default().push(normal(line, &zxids, &sessions));
            }
        }
        Self { steps }
    }

    /// The lines of a step; None when the run never came there.
    pub fn step(&self, number: u32) -> Option<&[String]> {
        self.steps.get(&number).map(Vec::as_slice)
    }

    /// The steps that differ, each with both versions; empty when the runs are equal.
    pub fn diff(&self, expected: &Self, names: &[&str]) -> String {
        let mut out = String::new();
        let numbers: BTreeSet<&u32> = self.steps.keys().chain(expected.steps.keys()).collect();
        for number in numbers {
            let (ours, theirs) = (self.steps.get(number), expected.steps.get(number));
            if ours == theirs {
                continue;
            }
            let index = usize::try_from(*number).unwrap_or(0).wrapping_sub(1);
            let name = names.get(index).copied().unwrap_or("before the first step");
            out.push_str(&format!("step {number} {name}  (- reference, + subject)\n"));
            let empty = Vec::new();
            line_diff(theirs.unwrap_or(&empty), ours.unwrap_or(&empty), &mut out);
        }
        out
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, lines) in &self.steps {
            writeln!(f, "== {number}")?;
            lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        Ok(())
    }
}

/// Every value of a line: (start, end, kind).
fn values(line: &str) -> Vec<(usize, usize, Value)> {
    let mut found: Vec<(usize, usize, Value)> = Vec::new();
    for (key, value) in VALUES {
        for (at, _) in line.match_indices(key) {
            let start = at + key.len();
            let rest = line.get(start..).unwrap_or_default();
            let length = match value {
                Value::Time => rest.len(),
                _ => rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                    .unwrap_or(rest.len()),
            };
            found.push((start, start + length, value));
        }
    }
    found.sort_by_key(|(start, ..)| *start);
    // `mtime=` also ends in `time=`: overlapping finds keep the first.
    found.dedup_by(|next, kept| next.0 < kept.1 || next.0 == kept.0);
    found
}

fn parse(text: &str, value: Value) -> Option<i64> {
    let number = match value {
        Value::DecimalZxid => text.parse().ok(),
        Value::Time => None,
        Value::HexZxid | Value::Session => {
            i64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
        }
    };
    // 0 and -1 mean none, in both servers.
    number.filter(|number| *number > 0)
}

fn numbers(line: &str, zxids: bool) -> Vec<i64> {
    let wanted = |value: &Value| match value {
        Value::Time => false,
        Value::Session => !zxids,
        Value::HexZxid | Value::DecimalZxid => zxids,
    };
    values(line)
        .into_iter()
        .filter(|(_, _, value)| wanted(value))
        .filter_map(|(start, end, value)| parse(line.get(start..end)?, value))
        .collect()
}

fn normal(line: &str, zxids: &[i64], sessions: &[i64]) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (start, end, value) in values(line) {
        let text = line.get(start..end).unwrap_or_default();
        let rank = |known: &[i64]| {
            let position = known.iter().position(|number| Some(*number) == parse(text, value));
            position.map_or_else(|| text.to_string(), |rank| format!("#{rank}"))
        };
        out.push_str(line.get(done..start).unwrap_or_default());
        out.push_str(&match value {
            Value::Time => "<time>".to_string(),
            Value::Session => format!("<session {}>", rank(sessions)),
            Value::HexZxid | Value::DecimalZxid => format!("<zxid {}>", rank(zxids)),
        });
        done = end;
    }
    out.push_str(line.get(done..).unwrap_or_default());
    if out.len() > 2_000 { format!("<a line of {} bytes>", line.len()) } else { out }
}

/// Both versions as one list, common lines once: by the longest common subsequence.
fn line_diff(expected: &[String], actual: &[String], out: &mut String) {
    let mut show = |sign, line: &str| out.push_str(&format!("  {sign} {line}\n"));
    let common = common_lengths(expected, actual);
    let length = |i: usize, j: usize| common.get(i).and_then(|row| row.get(j)).copied();
    let (mut i, mut j) = (0, 0);
    loop {
        match (expected.get(i), actual.get(j)) {
            (Some(ours), Some(theirs)) if ours == theirs => {
                show(' ', ours);
                (i, j) = (i + 1, j + 1);
            }
            (Some(line), None) => {
                show('-', line);
                i += 1;
            }
            (Some(line), Some(_)) if length(i + 1, j) >= length(i, j + 1) => {
                show('-', line);
                i += 1;
            }
            (_, Some(line)) => {
                show('+', line);
                j += 1;
            }
            (None, None) => return,
        }
    }
}

/// At (i, j) the length of what `left[i..]` and `right[j..]` have in common.
fn common_lengths(left: &[String], right: &[String]) -> Vec<Vec<usize>> {
    let mut rows = vec![vec![0; right.len() + 1]];
    for line in left.iter().rev() {
        let below = rows.last().expect("there is always a row");
        let mut row = vec![0];
        for (other, pair) in right.iter().rev().zip(below.windows(2).rev()) {
            let [here, next] = pair else { unreachable!("windows of two") };
            let last = *row.last().expect("there is always a cell");
            row.push(if line == other { next + 1 } else { last.max(*here) });
        }
        row.reverse();
        rows.push(row);
    }
    rows.reverse();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(lines: &[&str]) -> Transcript {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        Transcript::new(&lines)
    }

    #[test]
    fn numbers_may_differ_but_not_their_order() {
        let run = |low: &str, high: &str, session: &str| {
            transcript(&[
                "== 1 create",
                &format!("cZxid = 0x{low}"),
                "mtime = Sat Nov 21 08:31:35 UTC 2026",
                &format!("ephemeralOwner = 0x{session}"),
                "== 2 set",
                &format!("WatchedEvent type:NodeDataChanged path:/a zxid: {high}"),
            ])
        };
        assert_eq!(run("a", "11", "77").diff(&run("5", "99", "1000"), &[]), "");
        let swapped = run("b", "9", "77").diff(&run("5", "99", "1000"), &["create", "set"]);
        assert!(swapped.contains("- cZxid = <zxid #0>\n  + cZxid = <zxid #1>"), "{swapped}");
        assert!(swapped.contains("step 2 set"), "{swapped}");
    }

    #[test]
    fn another_line_or_a_missing_step_is_a_difference() {
        let full = transcript(&["== 1", "a", "b", "c", "== 2", "x"]);
        let other = transcript(&["== 1", "a", "B", "c"]);
        let diff = other.diff(&full, &["one", "two"]);
        assert!(diff.contains("    a\n  - b\n  + B\n    c\n"), "{diff}");
        let moved =
            transcript(&["== 1", "b", "c", "d"]).diff(&transcript(&["== 1", "a", "b", "d"]), &[]);
        assert!(moved.ends_with("  - a\n    b\n  + c\n    d\n"), "{moved}");
        assert!(diff.contains("step 2 two  (- reference, + subject)\n  - x"), "{diff}");
    }
}
