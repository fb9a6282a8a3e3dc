//! The table is whole, and what is said in the sources is in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::storage::MOVE_ASIDE;

fn all() -> impl Iterator<Item = &'static Message> {
    SECTIONS.iter().flat_map(|section| section.messages)
}

#[test]
fn each_hundred_has_ids_that_rise() {
    for (section, hundred) in SECTIONS.iter().zip(1..) {
        let ids: Vec<&str> = section.messages.iter().map(|message| message.id.0).collect();
        for id in &ids {
            let number = id.strip_prefix("FK").expect("the prefix");
            assert!(number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
            assert!(id.starts_with(&format!("FK{hundred:02}")), "{id}: {}", section.heading);
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
}

#[test]
fn each_has_sentences_that_fit_into_a_table() {
    for Message { id, situation, meaning, remedy } in all() {
        for text in [situation, meaning, remedy] {
            assert!(text.ends_with('.') && !text.contains(['\n', '|']), "{id}: {text}");
        }
    }
}

#[test]
fn an_id_is_found_as_it_is_typed_or_copied() {
    for word in ["FK0510", "fk0510", "[FK0510]", "0510", "510", "FK510", "fk510", "[510]"] {
        assert_eq!(find(word).map(|message| message.id), Some(MessageId::WRONG_PASSWORD), "{word}");
    }
    for word in ["", "FK", "00510", "+510", "-510", "FKFK0510", "FK0510 ", "[FK0510", "FK0099", "é"]
    {
        assert!(find(word).is_none(), "{word}");
    }
}

/// The sources of the server without their tests, and without the table.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            if name.ends_with("_test") || path.ends_with("src/message") {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("reads");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.push((path, code.to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

/// What stands after each `warn!` and `error!` of a source, by the line it begins in.
fn warnings(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let begins = ["warn!(", "error!("]
        .into_iter()
        .flat_map(|call| code.match_indices(call).map(move |(at, _)| (at, at + call.len())));
    begins.map(|(at, behind)| (code[..at].lines().count(), code[behind..].trim_start()))
}

/// `id = %MessageId::NAME`, or `%id` where the id came along.
fn has_id(arguments: &str) -> bool {
    ["id = %MessageId::", "%id,"].iter().any(|id| arguments.starts_with(id))
}

#[test]
fn every_warning_and_error_has_its_id() {
    let mut found = 0;
    let mut lacking = Vec::new();
    for (path, code) in sources() {
        for (line, arguments) in warnings(&code) {
            found += 1;
            if !has_id(arguments) {
                lacking.push(format!("{}:{line}", path.display()));
            }
        }
    }
    assert!(found > 60, "only {found} are found");
    assert!(lacking.is_empty(), "without an id:\n{}", lacking.join("\n"));
}

#[test]
fn a_warning_without_an_id_would_be_found() {
    let code = "a();\ntracing::warn!(%error, \"b\");\ntracing::error!(\n    id = \
        %MessageId::PANIC,\n    \"c\");";
    let told: Vec<(usize, bool)> =
        warnings(code).map(|(line, arguments)| (line, has_id(arguments))).collect();
    assert_eq!(told, [(2, false), (3, true)]);
}

/// The names in the table's own sources.
fn names() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/message");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("reads");
        for line in text.lines().filter(|line| line.starts_with("FK")) {
            let (_, name) = line.split_once(' ').expect("an id and a name");
            assert!(names.insert(name.to_owned()), "{name} stands there twice");
        }
    }
    names
}

#[test]
fn every_id_of_the_table_is_said_somewhere() {
    let sources = sources();
    let names = names();
    assert_eq!(names.len(), all().count());
    let is_said = |name: &&String| {
        let constant = format!("MessageId::{name}");
        sources.iter().any(|(_, code)| {
            code.match_indices(&constant).any(|(at, _)| {
                let next = code[at + constant.len()..].chars().next();
                !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
            })
        })
    };
    let unsaid: Vec<_> = names.iter().filter(|name| !is_said(name)).collect();
    assert!(unsaid.is_empty(), "said nowhere: {unsaid:?}");
}

/// `dataDir` holds `myid` as well, without which the next start is refused (FK0110), and a
/// `dataLogDir` of its own holds half of the data (FK0209). What it held may be all that is left:
/// an operator hears what must be there besides, and to keep it.
#[test]
fn nobody_is_told_to_move_a_data_directory_away_whole_or_without_a_majority() {
    let mut told = BTreeSet::new();
    for Message { id, remedy, .. } in all() {
        let remedy = remedy.replace("Do not start it with an empty directory", "");
        for whole in ["directory away", "this one away", "an empty directory", "an empty one"] {
            assert!(!remedy.contains(whole), "{id}: {remedy}");
        }
        if remedy.contains("move `version-2`") {
            let moves = remedy.find(MOVE_ASIDE);
            let majority = remedy.to_lowercase().find("while a majority of the others is running");
            assert!(majority.is_some() && majority < moves, "{id}: {remedy}");
            told.insert(id.to_string());
        }
    }
    for (path, code) in sources() {
        let words: Vec<&str> = code.split_whitespace().filter(|word| *word != "\\").collect();
        let code = words.join(" ");
        for whole in ["directory away", "this one away"] {
            assert!(!code.contains(whole), "{}", path.display());
        }
    }
    for id in [
        "FK0223", "FK0224", "FK0338", "FK0402", "FK0408", "FK0410", "FK0419", "FK0436", "FK0444",
        "FK0447",
    ] {
        assert!(told.contains(id), "{id}");
    }
}
