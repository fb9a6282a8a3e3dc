//! What keeps the house in order: which part may use which other, how long a file, a function and a
//! line may be, where dependencies come from.
//!
//! `exceptions.txt` lists what is longer today, with its length and the reason. A line of it may
//! only be taken out or get a smaller number.

mod lock_files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;

/// The parts of the server, and which others each may use. All may use [`BY_ALL`].
const MAY_USE: [(&str, &[&str]); 13] = [
    ("message", &[]),
    (BY_ALL, &[]),
    ("old_name", &["message"]),
    ("properties", &[]),
    ("list", &["properties"]),
    ("config", &["list", "message", "properties"]),
    ("logging", &["message", "old_name"]),
    ("engine", &["list"]),
    ("storage", &["message", "old_name"]),
    ("ensemble", &["engine", "storage", "list", "message"]),
    (
        "server",
        &["engine", "ensemble", "storage", "config", "list", "logging", "message", "old_name"],
    ),
    ("cli", &[]),
    ("command", &["storage", "ensemble", "engine", "config", "message"]),
];

/// A fault can be anywhere.
const BY_ALL: &str = "planted";

/// A room, and the others of its part that it may use.
type Rule = (&'static str, &'static [&'static str]);

/// The rooms of a part that is divided, and which others of it each may use. All may use what
/// stands at the root of the part.
const ROOMS_MAY_USE: [(&str, &[Rule]); 3] = [
    (
        "storage",
        &[
            ("disk", &[]),
            ("files", &["disk"]),
            ("log", &["files", "disk"]),
            ("snapshot", &["files", "disk"]),
            ("recovery", &["log", "snapshot", "files", "disk"]),
            ("tools", &["recovery", "log", "snapshot", "files", "disk"]),
        ],
    ),
    (
        "engine",
        &[
            ("access", &[]),
            ("tree", &["access"]),
            ("watch", &["access"]),
            ("answer", &["watch", "tree", "access"]),
            ("decide", &["answer", "watch", "tree", "access"]),
        ],
    ),
    (
        "server",
        &[
            ("figures", &[]),
            ("peers", &[]),
            ("client", &["figures"]),
            ("orderer", &["client", "figures", "peers"]),
            ("operator", &["orderer", "client", "figures"]),
            ("intake", &["operator", "client", "figures"]),
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All source files below these folders, by their names from the root.
fn sources(folders: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("it is below the root");
                let text = fs::read_to_string(&path).expect("it is text");
                found.insert(name.display().to_string(), text);
            }
        }
    }
    found
}

const ALL: [&str; 7] = [
    "src",
    "jute/src",
    "bench/src",
    "compat-tests/src",
    "compat-tests/tests",
    "tests",
    "jute/tests",
];

/// Functions with their lengths in lines, as rustfmt leaves them: the brace that ends one stands
/// alone, as far to the right as its first word.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let start = words.split('(').next().unwrap_or_default();
        let mut words_before = start.split(' ').take_while(|word| *word != "fn");
        let is_function = start.split(' ').any(|word| word == "fn")
            && words_before.all(|word| ["pub", "const", "async", "unsafe"].contains(&word));
        // `pub(crate) fn`: what stands in the parentheses is not the parameters.
        let rest = words.strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
        let is_function = is_function
            || rest.is_some_and(|(_, rest)| {
                rest.starts_with("fn ")
                    || ["const fn ", "async fn ", "unsafe fn "]
                        .iter()
                        .any(|word| rest.starts_with(word))
            });
        if !is_function || line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let name = words.split("fn ").nth(1).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        let last = format!("{indent}}}");
        if let Some(length) = lines[at..].iter().position(|line| *line == last) {
            found.push((name.to_owned(), length + 1));
        }
    }
    found
}

/// What is longer than it may be: which limit, where, and how long.
fn too_long() -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for (name, text) in sources(&ALL) {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            found.insert(("file".to_owned(), name.clone()), lines);
        }
        // A text that operators read stands on one line there, as it is shown.
        let is_messages = name.starts_with("src/message/");
        let wide = text.lines().filter(|line| line.chars().count() > COLUMNS).count();
        if wide > 0 && !is_messages {
            found.insert(("wide".to_owned(), name.clone()), wide);
        }
        for (function, length) in functions(&text) {
            if length > FUNCTION_LINES {
                found.insert(("function".to_owned(), format!("{name}::{function}")), length);
            }
        }
    }
    found
}

/// A place and what is too long there: its length, and why that is left.
type Exceptions = BTreeMap<(String, String), (usize, String)>;

fn exceptions() -> Exceptions {
    let text = fs::read_to_string(root().join("tests/tidy/exceptions.txt")).expect("the list");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (what, reason) =
                line.split_once(": ").unwrap_or_else(|| (line.trim_end_matches(':'), ""));
            let words: Vec<&str> = what.split(' ').collect();
            let [limit, length, place] = words[..] else { panic!("{line}") };
            let length = length.parse().expect("a length");
            ((limit.to_owned(), place.to_owned()), (length, reason.to_owned()))
        })
        .collect()
}

/// `FERROKEEPER_TIDY=write` writes the list anew, to be looked at before it is kept.
#[test]
fn nothing_is_longer_than_it_may_be() {
    let found = too_long();
    let known = exceptions();
    if std::env::var("FERROKEEPER_TIDY").is_ok_and(|word| word == "write") {
        let head = "# What is longer than the limits of main.rs: the limit, the length (or how \
            many lines are too wide), the place, the reason.\n# A line may only go or get a \
            smaller number.\n";
        let lines = found.iter().map(|(what, length)| {
            let reason = known.get(what).map_or("", |(_, reason)| reason);
            format!("{} {length} {}: {reason}\n", what.0, what.1)
        });
        let text = head.to_owned() + &lines.collect::<String>();
        fs::write(root().join("tests/tidy/exceptions.txt"), text).expect("it is written");
        return;
    }
    let longer: Vec<String> = found
        .iter()
        .filter(|(what, length)| known.get(what).is_none_or(|(known, _)| *length > known))
        .map(|((limit, place), length)| format!("{limit} {length} {place}"))
        .collect();
    assert!(longer.is_empty(), "longer than it may be:\n{}", longer.join("\n"));
    let gone: Vec<&(String, String)> =
        known.keys().filter(|what| !found.contains_key(what)).collect();
    assert!(gone.is_empty(), "to be taken out of exceptions.txt: {gone:?}");
    let unreasoned: Vec<_> = known.iter().filter(|(_, (_, reason))| reason.is_empty()).collect();
    assert!(unreasoned.is_empty(), "no reason in exceptions.txt: {unreasoned:?}");
}

/// The part that a file belongs to.
fn part(name: &str) -> &str {
    let name = name.strip_prefix("src/").unwrap_or(name);
    name.split(['/', '.']).next().unwrap_or_default()
}

#[test]
fn parts_use_only_what_is_below_them() {
    let rules: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|(part, others)| (*part, others.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (name, text) in sources(&["src"]) {
        // Tests look wherever they like; main and the library hold everything together.
        if name.contains("_test") || ["src/main.rs", "src/lib.rs"].contains(&name.as_str()) {
            continue;
        }
        let own = part(&name);
        let rule = rules.get(own).unwrap_or_else(|| panic!("{name} is of a part without a rule"));
        let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for used in product.split("crate::").skip(1) {
            let end = used.find(|c: char| c != '_' && !c.is_ascii_lowercase());
            let used = &used[..end.unwrap_or(used.len())];
            let may_use = used == own || used == BY_ALL || rule.contains(used);
            if rules.contains_key(used) && !may_use {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The modules of a part that a file names: `crate::part::room`, and `super::room` where that is
/// the part's.
fn rooms_used<'a>(part: &str, name: &str, text: &'a str) -> BTreeSet<&'a str> {
    let mut ways = vec![format!("crate::{part}::")];
    // How far up the part is from the file.
    let depth = name.matches('/').count() - 1;
    if depth > 0 {
        ways.push(format!(" {}", "super::".repeat(depth)));
    }
    let uses = ways.iter().flat_map(|way| text.split(way.as_str()).skip(1));
    uses.map(|used| {
        let end = used.find(|c: char| c != '_' && !c.is_ascii_lowercase());
        &used[..end.unwrap_or(used.len())]
    })
    .collect()
}

#[test]
fn rooms_use_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for (part, rooms) in ROOMS_MAY_USE {
        let known: BTreeMap<&str, &[&str]> = rooms.iter().copied().collect();
        for (name, text) in sources(&[&format!("src/{part}")]) {
            let within = name.strip_prefix(&format!("src/{part}/")).unwrap_or_default();
            let room = within.split(['/', '.']).next().unwrap_or_default();
            let Some(may_use) = known.get(room) else { continue };
            if name.contains("_test") {
                continue;
            }
            let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for used in rooms_used(part, &name, product) {
                if used != room && known.contains_key(used) && !may_use.contains(&used) {
                    wrong.push(format!("{name} uses {used}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_function_is_as_long_as_it_stands_there() {
    let text = "impl X {\n    pub(super) const fn one(\n        a: u8,\n    ) -> u8 {\n        \
        a\n    }\n\n    fn two() {}\n}\n\npub fn three<T>() {\n    let f = |x| {\n    };\n}\n";
    let expected = [("one".to_owned(), 5), ("three".to_owned(), 4)];
    assert_eq!(functions(text), expected);
}

/// What a planted fault has been called besides: one thing has one name.
const OTHER_NAMES_OF_A_PLANTED_FAULT: [&str; 8] = [
    "planted mistake",
    "mistakes are planted",
    "mistakes that are planted",
    "mistake that is planted",
    "mistakes made on purpose",
    "mistake that is switched on",
    "broken on purpose",
    "injected fault",
];

/// The files below a folder whose names end so, with their words on one line.
fn texts(folder: &Path, endings: &[&str], found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root()).expect("it is below the root").display().to_string();
        if path.is_dir() {
            texts(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let text = fs::read_to_string(&path).expect("it is text");
            // The mark of a comment stands between two of its words, too.
            let words =
                text.split_whitespace().filter(|word| !["///", "//!", "//", "#"].contains(word));
            found.insert(name, words.collect::<Vec<_>>().join(" ").to_lowercase());
        }
    }
}

#[test]
fn a_planted_fault_has_no_other_name() {
    let mut found = BTreeMap::new();
    for folder in ["src", "docs", "compat-tests/src", "compat-tests/tests"] {
        texts(&root().join(folder), &[".rs", ".md"], &mut found);
    }
    for file in ["CONTRIBUTING.md", "compat-tests/features.toml", "scripts/test"] {
        let text = fs::read_to_string(root().join(file)).expect("it is text");
        found.insert(file.to_owned(), text.to_lowercase());
    }
    assert!(found.len() > 300, "hardly a file");
    let mut wrong = Vec::new();
    for (name, text) in &found {
        let others = OTHER_NAMES_OF_A_PLANTED_FAULT.iter().filter(|other| text.contains(**other));
        wrong.extend(others.map(|other| format!("{name}: {other}")));
    }
    assert!(wrong.is_empty(), "say \"planted fault\":\n{}", wrong.join("\n"));
}
