//! What Prometheus is asked: the rules of `docs/alerts.yml` and the panels of `docs/grafana.json`,
//! and which metrics their expressions name.
//!
//! The rules are read by line: of YAML, only what that file uses.

use std::collections::BTreeSet;

/// A rule that alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    pub expression: String,
    pub severity: String,
    pub runbook: String,
}

/// All rules of a page.
pub fn rules(page: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        if let Some(name) = text.strip_prefix("- alert: ") {
            rules.push(Rule { name: name.to_owned(), ..Rule::default() });
        }
        let Some(rule) = rules.last_mut() else { continue };
        if let Some(expression) = text.strip_prefix("expr: ") {
            rule.expression = expression.to_owned();
            if expression == ">-" {
                let indent = line.len() - text.len();
                let is_more = |line: &&str| line.len() - line.trim_start().len() > indent;
                let mut folded = Vec::new();
                while let Some(more) = lines.next_if(is_more) {
                    folded.push(more.trim());
                }
                rule.expression = folded.join(" ");
            }
        } else if let Some(severity) = text.strip_prefix("labels: {severity: ") {
            rule.severity = severity.trim_end_matches('}').to_owned();
        } else if let Some(url) = text.strip_prefix("runbook_url: ") {
            rule.runbook = url.trim_matches('"').to_owned();
        }
    }
    rules
}

/// All expressions of a dashboard.
///
/// # Panics
/// If it is none.
pub fn panels(dashboard: &str) -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("text").to_owned()).collect()
}

/// A metric of an expression, and the function that it is the first argument of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub metric: String,
    pub function: Option<String>,
}

/// What stands between the parts of an expression, or before one.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
/// These have labels in parentheses.
const BY_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// The metrics that an expression names.
pub fn metrics(expression: &str) -> BTreeSet<Named> {
    let words = words(expression);
    let mut named = BTreeSet::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let next = words.get(at + 1).map_or("", String::as_str);
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if BY_LABELS.contains(&word.as_str()) && next == "(" {
            while words.get(at).is_some_and(|word| word != ")") {
                at += 1;
            }
        } else if is_name && !OPERATORS.contains(&word.as_str()) && !is_called(next) {
            let before = |back: usize| at.checked_sub(back).map(|at| words[at].as_str());
            let function = before(1).filter(|word| *word == "(").and_then(|_| before(2));
            let is_function = |word: &&str| {
                word.starts_with(|c: char| c.is_ascii_lowercase()) && !OPERATORS.contains(word)
            };
            let function = function.filter(is_function).map(str::to_owned);
            named.insert(Named { metric: word.clone(), function });
        }
        at += 1;
    }
    named
}

/// Whether a name before this is that of a function or of a sum.
fn is_called(next: &str) -> bool {
    next == "(" || next == "by" || next == "without"
}

/// Names, numbers and signs. What is in quotes, braces and brackets is left out: selectors and
/// ranges.
fn words(expression: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = expression.chars().peekable();
    let is_of_word = |c: &char| c.is_ascii_alphanumeric() || "_:.".contains(*c);
    while let Some(c) = chars.next() {
        if let Some(end) = [('"', '"'), ('[', ']'), ('{', '}')].iter().find(|pair| pair.0 == c) {
            let mut is_quoted = false;
            for c in chars.by_ref() {
                if c == end.1 && !is_quoted {
                    break;
                }
                is_quoted ^= c == '"';
            }
        } else if is_of_word(&c) {
            let mut word = c.to_string();
            while let Some(more) = chars.next_if(is_of_word) {
                word.push(more);
            }
            words.push(word);
        } else if !c.is_whitespace() {
            words.push(c.to_string());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(expression: &str) -> Vec<(String, String)> {
        let name = |named: Named| (named.metric, named.function.unwrap_or_default());
        metrics(expression).into_iter().map(name).collect()
    }

    #[test]
    fn functions_labels_selectors_and_ranges_are_no_metrics() {
        let expression = "histogram_quantile(0.99, sum by (job, le) \
                          (rate(a_bucket{job=~\"x{2}.*\"}[5m]))) > 0.1 and on (job) b offset 15m";
        let pair = |metric: &str, function: &str| (metric.to_owned(), function.to_owned());
        assert_eq!(names(expression), [pair("a_bucket", "rate"), pair("b", "")]);
        let expression = "count(a) by (job) - 1e3 * (b > 2) or (c unless d)";
        let expected = [pair("a", "count"), pair("b", ""), pair("c", ""), pair("d", "")];
        assert_eq!(names(expression), expected);
    }

    #[test]
    fn a_rule_is_read_with_its_folded_expression() {
        let page = "groups:\n  - name: g\n    rules:\n      - alert: A\n        # Why.\n        \
                    expr: >-\n          a\n          > 1\n        for: 1m\n        labels: \
                    {severity: page}\n        annotations:\n          summary: \"s\"\n          \
                    runbook_url: \"docs/x.md#a\"\n      - alert: B\n        expr: b == 0\n";
        let rules = rules(page);
        let [a, b] = rules.as_slice() else { panic!("two rules") };
        assert_eq!((a.name.as_str(), a.expression.as_str()), ("A", "a > 1"));
        assert_eq!((a.severity.as_str(), a.runbook.as_str()), ("page", "docs/x.md#a"));
        assert_eq!((b.name.as_str(), b.expression.as_str()), ("B", "b == 0"));
        assert_eq!((b.severity.as_str(), b.runbook.as_str()), ("", ""));
    }
}
