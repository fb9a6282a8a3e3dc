//! Shell files that only assign variables: text in, assignments out. Nothing is executed.
//!
//! Owns quoting, `$NAME`, `${NAME}` and `${NAME:-default}`. What would take a shell to know (a
//! command's output, a condition) is told as such. Never reads a file, and never knows what a
//! variable is for.

use std::iter::Peekable;
use std::str::Chars;

/// `NAME=value`, for all that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    /// From 1.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) value: Result<String, Unknown>,
}

/// Why a value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It is, or holds, what a command prints or an expansion that is not understood.
    NeedsShell,
    /// The assignment is part of a condition, a loop or a function.
    Conditional,
}

/// All assignments of a file in its order; `variable` knows those that were there before.
pub(super) fn assignments(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Assignment> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
        depth: 0,
        is_joined: false,
        found: Vec::new(),
        variable: &variable,
    };
    while reader.command() {}
    reader.found
}

/// Begin what may not be executed.
const OPENING: [&str; 7] = ["if", "case", "for", "while", "until", "select", "{"];
const CLOSING: [&str; 4] = ["fi", "esac", "done", "}"];
/// Stand before a command of the same block.
const BETWEEN: [&str; 5] = ["then", "else", "elif", "do", "!"];
/// Take assignments as their arguments.
const DECLARING: [&str; 5] = ["export", "declare", "typeset", "readonly", "local"];

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    /// Blocks around this place.
    depth: usize,
    /// Whether the command depends on how the one before ended.
    is_joined: bool,
    found: Vec<Assignment>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A word of a command.
struct Word {
    line: usize,
    /// As far as it stands there without quotes and expansions.
    plain: String,
    /// The name before an unquoted `=`.
    name: Option<String>,
    /// What it comes to, after the `=` where there is one.
    value: Option<String>,
}

impl Reader<'_> {
    /// Reads to the end of a command; `false` at the end of the text.
    fn command(&mut self) -> bool {
        let mut assigned = Vec::new();
        let mut first = true;
        let mut declares = false;
        let mut runs = false;
        let conditional = self.depth > 0 || self.is_joined;
        while let Some(word) = self.word() {
            if word.plain == "{" {
                self.depth += 1;
            } else if first && OPENING.contains(&word.plain.as_str()) {
                self.depth += 1;
                runs = true;
            } else if first && CLOSING.contains(&word.plain.as_str()) {
                self.depth = self.depth.saturating_sub(1);
            } else if first && BETWEEN.contains(&word.plain.as_str()) {
                continue;
            } else if first && DECLARING.contains(&word.plain.as_str()) {
                declares = true;
            } else if let (Some(name), true) = (word.name, declares || !runs) {
                let value = word.value.ok_or(Unknown::NeedsShell);
                assigned.push(Assignment { line: word.line, name, value });
                continue;
            } else if !declares {
                runs = true;
            }
            first = false;
        }
        self.is_joined = self.end_of_command();
        // NAME=value in front of a command is for that command only.
        if !runs {
            for mut assignment in assigned {
                if conditional {
                    assignment.value = Err(Unknown::Conditional);
                }
                self.found.push(assignment);
            }
        }
        self.rest.peek().is_some()
    }

    /// Passes over what ends a command; whether what follows is executed or not.
    fn end_of_command(&mut self) -> bool {
        match self.next() {
            Some(first @ ('&' | '|')) if self.rest.peek() == Some(&first) => {
                self.next();
                true
            }
            Some(end) => end == '|',
            None => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
    }

    /// The next word of this command; `None` ahead of what ends it.
    fn word(&mut self) -> Option<Word> {
        loop {
            match self.rest.peek()? {
                ' ' | '\t' | '\r' => {
                    self.next();
                }
                '#' => {
                    while self.rest.peek().is_some_and(|next| *next != '\n') {
                        self.next();
                    }
                }
                '\\' => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    if ahead.next() != Some('\n') {
                        break;
                    }
                    self.next();
                    self.next();
                }
                '\n' | ';' | '&' | '|' => return None,
                _ => break,
            }
        }
        let mut word =
            Word { line: self.line, plain: String::new(), name: None, value: Some(String::new()) };
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' => break,
                '=' if word.name.is_none() && is_name(&word.plain) && is_same(&word) => {
                    self.next();
                    word.name = Some(std::mem::take(&mut word.plain));
                    word.value = Some(String::new());
                }
                '\'' => {
                    self.next();
                    let quoted = self.until('\'');
                    add(&mut word.value, quoted);
                }
                '"' => {
                    self.next();
                    let quoted = self.double_quoted();
                    add(&mut word.value, quoted);
                }
                '$' => {
                    self.next();
                    let expanded = self.expansion();
                    add(&mut word.value, expanded);
                }
                '`' => {
                    self.next();
                    self.until('`');
                    word.value = None;
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped) => add(&mut word.value, Some(escaped.to_string())),
                    }
                }
                _ => {
                    self.next();
                    word.plain.push(next);
                    add(&mut word.value, Some(next.to_string()));
                }
            }
        }
        Some(word)
    }

    /// All up to `end`, which is passed over; `None` if it does not come.
    fn until(&mut self, end: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                next if next == end => return Some(text),
                next => text.push(next),
            }
        }
    }

    /// What stands in double quotes, after the first.
    fn double_quoted(&mut self) -> Option<String> {
        let mut text = Some(String::new());
        loop {
            match self.next()? {
                '"' => return text,
                '$' => {
                    let expanded = self.expansion();
                    add(&mut text, expanded);
                }
                '`' => {
                    self.until('`')?;
                    text = None;
                }
                '\\' => match self.next()? {
                    '\n' => {}
                    escaped @ ('$' | '`' | '"' | '\\') => add(&mut text, Some(escaped.to_string())),
                    other => add(&mut text, Some(format!("\\{other}"))),
                },
                next => add(&mut text, Some(next.to_string())),
            }
        }
    }

    /// What a `$` stands for, after it; `None` where only a shell would know.
    fn expansion(&mut self) -> Option<String> {
        match self.rest.peek() {
            Some('{') => {
                self.next();
                let inside = self.until('}')?;
                let (name, default) = match inside.split_once(":-") {
                    Some((name, default)) => (name, default),
                    None => (inside.as_str(), ""),
                };
                if !is_name(name) || default.contains(['$', '`', '"', '\'', '\\']) {
                    return None;
                }
                let value = self.value(name)?;
                Some(if value.is_empty() { default.to_owned() } else { value })
            }
            Some('(') => {
                let mut open = 0_usize;
                while let Some(next) = self.next() {
                    match next {
                        '(' => open += 1,
                        ')' if open == 1 => break,
                        ')' => open -= 1,
                        _ => {}
                    }
                }
                None
            }
            Some(first) if first.is_ascii_alphabetic() || *first == '_' => {
                let mut name = String::new();
                while let Some(next) = self.rest.peek().copied() {
                    if !next.is_ascii_alphanumeric() && next != '_' {
                        break;
                    }
                    name.push(next);
                    self.next();
                }
                self.value(&name)
            }
            Some(next) if next.is_ascii_digit() || "?!@*#$-".contains(*next) => {
                self.next();
                None
            }
            _ => Some("$".to_owned()),
        }
    }

    /// A variable as it stands here; one that is not set is empty.
    fn value(&self, name: &str) -> Option<String> {
        match self.found.iter().rev().find(|assignment| assignment.name == name) {
            Some(assignment) => assignment.value.clone().ok(),
            None => Some((self.variable)(name).unwrap_or_default()),
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

/// Whether all of a word so far is plain.
fn is_same(word: &Word) -> bool {
    word.value.as_deref() == Some(word.plain.as_str())
}

fn add(value: &mut Option<String>, more: Option<String>) {
    match (value.as_mut(), more) {
        (Some(value), Some(more)) => value.push_str(&more),
        _ => *value = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String, Result<String, Unknown>)> {
        let variable = |name: &str| (name == "FROM").then(|| "env".to_owned());
        let list = assignments(text, variable);
        list.into_iter().map(|found| (found.line, found.name, found.value)).collect()
    }

    /// Expected values: what bash 5 has in the variable after the text.
    #[test]
    fn a_value_is_what_a_shell_makes_of_it() {
        for (text, expected) in [
            ("A=b", "b"),
            ("export A=b", "b"),
            ("  A=b # c", "b"),
            ("A=b#c", "b#c"),
            ("A=", ""),
            ("A='b $FROM \" \\'", "b $FROM \" \\"),
            ("A=\"b c\"", "b c"),
            ("A=\"b\\\"c\\$d\\e\"", "b\"c$d\\e"),
            ("A=b\\ c", "b c"),
            ("A=\"b\"'c'd", "bcd"),
            ("A=\"$FROM/x\"", "env/x"),
            ("A=${FROM}x", "envx"),
            ("A=${FROM:-y}", "env"),
            ("A=${NONE:-y}", "y"),
            ("A=$NONE", ""),
            ("A=\"-Da=b \\\n -Dc=d\"", "-Da=b  -Dc=d"),
            ("A=b\\\nc", "bc"),
            ("B=1; A=$B$B", "11"),
            ("A=1 B=2; A=\"$A $B\"", "1 2"),
            ("A=x\nA=\"$A y\"\nexport A", "x y"),
            ("export B=1 A=2", "2"),
            ("A=-Dx=y", "-Dx=y"),
            ("A=a=b", "a=b"),
            ("A=5$", "5$"),
            ("echo A=1\nA=2", "2"),
            ("if true; then\n  B=1\nfi\nA=3", "3"),
            ("f() {\n  B=1\n}\nA=4", "4"),
        ] {
            let found = read(text);
            let last = found.iter().rev().find(|(_, name, _)| name == "A");
            let value = last.map(|(_, _, value)| value.clone());
            assert_eq!(value, Some(Ok(expected.to_owned())), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_said_with_its_line() {
        use Unknown::{Conditional, NeedsShell};
        for (text, line, why) in [
            ("A=$(date)", 1, NeedsShell),
            ("\nA=\"x $(echo \"(\")\"", 2, NeedsShell),
            ("A=`date`", 1, NeedsShell),
            ("A=${FROM%x}", 1, NeedsShell),
            ("A=$1", 1, NeedsShell),
            ("A=\"open", 1, NeedsShell),
            ("B=$(date)\nA=$B", 2, NeedsShell),
            ("if [ -n \"$B\" ]; then\n  A=1\nfi", 2, Conditional),
            ("if true\nthen A=1\nfi", 2, Conditional),
            ("[ -n \"$B\" ] && A=1", 1, Conditional),
            ("[ -n \"$B\" ] ||\\\n  export A=1", 2, Conditional),
            ("for x in 1 2; do A=1; done", 1, Conditional),
            ("f() {\n A=1\n}", 2, Conditional),
        ] {
            let found = read(text);
            let last = found.iter().rev().find(|(_, name, _)| name == "A");
            assert_eq!(last, Some(&(line, "A".to_owned(), Err(why))), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_for_one_command_or_none_is_no_assignment() {
        for text in ["A=1 true", "echo A=1", "# A=1", "'A'=1", "A =1", "1A=2", "true; echo A=1", ""]
        {
            assert_eq!(read(text), [], "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[AB=$(){}`'\"\\\\;&| \n#a-]{0,60}") {
            let _ = read(&text);
        }
    }
}
