//! `docs/alerts.yml`, its unit tests, `docs/runbooks.md` and `docs/grafana.json`: they belong
//! together, and every metric that they ask for exists. Whether the rules fire when they should is
//! shown by `promtool`, which `scripts/test` runs.

use std::collections::BTreeMap;
use std::fs;

use compat_tests::queries::{self, Named, Rule};
use compat_tests::repository;

const SEVERITIES: [&str; 3] = ["page", "ticket", "info"];
/// What each section of the runbooks has, in this order.
const PARTS: [&str; 5] = [
    "**What it means.**",
    "**What clients notice.**",
    "**What to look at first.**",
    "**What to do.**",
    "**What not to do.**",
];

fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs").join(name)).expect("the page")
}

/// The type of each sample that `docs/metrics.md` lists. What is summed and counted of a summary or
/// of a histogram only rises.
fn samples(metrics: &str) -> BTreeMap<String, String> {
    let mut samples = BTreeMap::new();
    for row in metrics.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, name, of, ..] = cells.as_slice() else { continue };
        let ends: &[&str] = match *of {
            "counter" | "gauge" => &[],
            "summary" => &["_sum", "_count"],
            "histogram" => &["_sum", "_count", "_bucket"],
            _ => continue,
        };
        if *of != "histogram" {
            samples.insert((*name).to_owned(), (*of).to_owned());
        }
        samples.extend(ends.iter().map(|end| (format!("{name}{end}"), "counter".to_owned())));
    }
    // A scraper adds it.
    samples.insert("up".to_owned(), "gauge".to_owned());
    samples
}

/// What an expression asks for and nobody has, or uses as what it is not.
fn unknown(expression: &str, samples: &BTreeMap<String, String>) -> Vec<String> {
    let wrong = |Named { metric, function }: Named| {
        let Some(of) = samples.get(&metric) else { return Some(format!("no metric {metric}")) };
        let rises = matches!(function.as_deref(), Some("increase" | "rate"));
        let is_wrong = rises != (of == "counter") && function.is_some();
        is_wrong.then(|| format!("{function:?} of {metric}, a {of}"))
    };
    queries::metrics(expression).into_iter().filter_map(wrong).collect()
}

/// The sections on alerts: the heading of each, and what stands below it.
fn sections(runbooks: &str) -> BTreeMap<&str, &str> {
    let sections = runbooks.split("\n### ").skip(1);
    let section = |text: &str| text.find("\n## ").unwrap_or(text.len());
    sections
        .map(|text| text[..section(text)].split_once('\n').expect("a heading and what is below it"))
        .collect()
}

/// What is wrong with the rules and the runbooks.
fn mistakes(rules: &[Rule], runbooks: &str) -> Vec<String> {
    let mut mistakes = Vec::new();
    let sections = sections(runbooks);
    for Rule { name, severity, runbook, .. } in rules {
        if !SEVERITIES.contains(&severity.as_str()) {
            mistakes.push(format!("{name} has the severity {severity:?}"));
        }
        let anchor = name.to_lowercase();
        if *runbook != format!("docs/runbooks.md#{anchor}") {
            mistakes.push(format!("{name} has the runbook {runbook:?}"));
        }
        if !runbooks.contains(&format!("\n| [{name}](#{anchor}) | {severity} |")) {
            mistakes.push(format!("{name} is not in the list, with its severity"));
        }
        let Some(section) = sections.get(name.as_str()) else {
            mistakes.push(format!("{name} has no section"));
            continue;
        };
        let places: Vec<Option<usize>> = PARTS.iter().map(|part| section.find(part)).collect();
        if places.contains(&None) || !places.is_sorted() {
            mistakes.push(format!("the section {name} lacks a part, or has it elsewhere"));
        }
    }
    for heading in sections.keys().filter(|name| rules.iter().all(|rule| rule.name != **name)) {
        mistakes.push(format!("no rule for the section {heading}"));
    }
    mistakes
}

/// Whether the unit tests have a case in which an alert fires, and one in which it does not.
fn cases(tests: &str, alert: &str) -> [bool; 2] {
    let silent = format!(", alertname: {alert}}}\n");
    let firing = format!("\n        alertname: {alert}\n        exp_alerts:\n          - ");
    [tests.contains(&firing), tests.contains(&silent)]
}

/// Ids of messages.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("FK").map(|(at, _)| at);
    starts.filter_map(|at| text.get(at..at + 6)).filter(|id| id[2..].parse::<u16>().is_ok())
}

#[test]
fn every_alert_has_a_severity_a_runbook_and_tests() {
    let (rules, tests) = (queries::rules(&page("alerts.yml")), page("alerts_test.yml"));
    assert!(rules.len() > 20, "hardly a rule");
    let mut mistakes = mistakes(&rules, &page("runbooks.md"));
    for Rule { name, .. } in &rules {
        if cases(&tests, name) != [true, true] {
            mistakes
                .push(format!("{name}: no case in which it fires, or none in which it does not"));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_metric_that_a_rule_or_a_panel_asks_for_is_documented() {
    let samples = samples(&page("metrics.md"));
    assert!(samples.len() > 100, "the page has hardly a metric");
    let rules = queries::rules(&page("alerts.yml"));
    let of_rules = rules.into_iter().map(|rule| (rule.name, rule.expression));
    let panels = queries::panels(&page("grafana.json"));
    assert!(panels.len() > 10, "the dashboard has hardly a panel");
    let of_panels = panels.into_iter().map(|panel| ("grafana.json".to_owned(), panel));
    let mut mistakes = Vec::new();
    for (name, expression) in of_rules.chain(of_panels) {
        assert!(!queries::metrics(&expression).is_empty(), "{name} asks for nothing: {expression}");
        let unknown = unknown(&expression, &samples);
        mistakes.extend(unknown.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_message_that_the_runbooks_name_exists() {
    let (runbooks, messages) = (page("runbooks.md"), page("messages.md"));
    assert!(ids(&runbooks).count() > 20, "hardly an id");
    let unknown = ids(&runbooks).filter(|id| !messages.contains(&format!("\n| {id} | ")));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_does_not_exist_is_found() {
    let metrics = "| `a` | counter | x |\n| `b` | gauge | x |\n| `h` | histogram | x |\n";
    let samples = samples(metrics);
    let found = |expression: &str| unknown(expression, &samples);
    assert_eq!(found("increase(a{job=\"c\"}[5m]) > 0 and b"), [""; 0]);
    assert_eq!(found("sum by (c) (rate(h_bucket[5m])) / up"), [""; 0]);
    assert_eq!(found("increase(a_total[5m]) > 0"), ["no metric a_total"]);
    assert_eq!(found("h > 0"), ["no metric h"]);
    assert_eq!(found("rate(b[5m])"), ["Some(\"rate\") of b, a gauge"]);
    assert_eq!(found("deriv(a[5m])"), ["Some(\"deriv\") of a, a counter"]);

    let rule = |name: &str, severity: &str| Rule {
        name: name.to_owned(),
        severity: severity.to_owned(),
        runbook: format!("docs/runbooks.md#{}", name.to_lowercase()),
        ..Rule::default()
    };
    let section = |name: &str| format!("\n### {name}\n\n{}\n", PARTS.join("\n"));
    let runbooks =
        format!("| - |\n| [Good](#good) | page |\n## All\n{}{}", section("Good"), section("More"));
    let good = mistakes(&[rule("Good", "page"), rule("More", "info")], &runbooks);
    assert_eq!(good, ["More is not in the list, with its severity"]);
    let bad = mistakes(&[rule("Good", "high"), rule("Lost", "page")], &runbooks);
    assert_eq!(bad.len(), 5, "{bad:?}");
    let short = runbooks.replace(PARTS[4], "");
    assert_eq!(mistakes(&[rule("Good", "page")], &short).len(), 2);

    let tests = "      - {eval_time: 1m, alertname: A}\n      - eval_time: 2m\n        alertname: \
                 B\n        exp_alerts:\n          - exp_labels: {}\n";
    assert_eq!([cases(tests, "A"), cases(tests, "B")], [[false, true], [true, false]]);
    assert_eq!(ids("FK0101, FKnnnn and [FK0102]").collect::<Vec<_>>(), ["FK0101", "FK0102"]);
}
