//! `explain`: what an error code of ZooKeeper, an exit code, a key of zoo.cfg or a message means,
//! and what to do.

mod error_codes;
mod exit_codes;

use clap::Args;
use serde_json::json;

use super::error::CommandError;
use super::output::Output;
use crate::config::{self, Fate, Key};
use crate::message::{self, Message, SECTIONS, Section};

use error_codes::{ERROR_CODES, ErrorCode};
use exit_codes::{EXIT_CODES, ExitCode};

/// What is explained.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// An error code (-101, NoNode, ZNONODE), an exit code (3), a key of zoo.cfg or the id of a
    /// message (FK0510, or 510); without it, all codes and messages.
    #[arg(value_name = "CODE|KEY|ID", allow_hyphen_values = true)]
    word: Option<String>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ExplainArguments, out: &mut Output) -> Result<(), CommandError> {
    let Some(word) = &arguments.word else {
        return all(arguments.json, out);
    };
    let subjects = find(word);
    if subjects.is_empty() {
        return Err(CommandError::Inexplicable { word: word.clone(), nearest: nearest(word) });
    }
    subjects.iter().try_for_each(|subject| subject.tell(arguments.json, out))
}

/// One thing that has an explanation.
enum Subject {
    Error(&'static ErrorCode),
    Exit(&'static ExitCode),
    Key(&'static Key),
    Message(&'static Message),
}

impl Subject {
    fn tell(&self, json: bool, out: &mut Output) -> Result<(), CommandError> {
        match self {
            Self::Error(ErrorCode { code, name, meaning, remedy }) if json => out.json(&json!({
                "kind": "error code",
                "code": code,
                "name": name,
                "meaning": meaning,
                "remedy": remedy,
            })),
            Self::Error(ErrorCode { code, name, meaning, remedy }) => {
                out.line(format_args!("{code} {name}, an error code of ZooKeeper"))?;
                out.line(format_args!("  {meaning}\n  To do: {remedy}"))
            }
            Self::Exit(ExitCode { of, code, meaning, remedy }) if json => out.json(&json!({
                "kind": "exit code",
                "of": of,
                "code": code,
                "meaning": meaning,
                "remedy": remedy,
            })),
            Self::Exit(ExitCode { of, code, meaning, remedy }) => {
                out.line(format_args!("{code}, an exit code of ferrokeeper's {of}"))?;
                out.line(format_args!("  {meaning}\n  To do: {remedy}"))
            }
            Self::Key(key) if json => out.json(&json!({
                "kind": "key",
                "key": key.name,
                "property": key.property(),
                "fate": key.fate.to_string(),
                "note": key.note(),
                "remedy": remedy_of(key.fate),
            })),
            Self::Key(key) => {
                let property = key.property().map(|name| format!(", -D{name}")).unwrap_or_default();
                out.line(format_args!("{}, a key of zoo.cfg{property}: {}", key.name, key.fate))?;
                out.line(format_args!("  {}\n  To do: {}", key.note(), remedy_of(key.fate)))
            }
            Self::Message(Message { id, situation, meaning, remedy }) if json => out.json(&json!({
                "kind": "message",
                "id": id.to_string(),
                "situation": situation,
                "meaning": meaning,
                "remedy": remedy,
            })),
            Self::Message(Message { id, situation, meaning, remedy }) => {
                out.line(format_args!("{id}, a message of ferrokeeper"))?;
                out.line(format_args!("  {situation}\n  {meaning}\n  To do: {remedy}"))
            }
        }
    }
}

fn remedy_of(fate: Fate) -> &'static str {
    match fate {
        Fate::Works => "Set it as for ZooKeeper.",
        Fate::Better => "Omit it, unless there is a reason for another value.",
        Fate::NotYet(_) => "Do without it: the server starts with a warning.",
        Fate::Meaningless => "Leave it as it is, or remove it.",
        Fate::Refused(_) => "Remove it, if you can do without it.",
    }
}

/// All that a word may mean.
fn find(word: &str) -> Vec<Subject> {
    let number: Option<i32> = word.parse().ok();
    let name = folded(word);
    let is_error =
        |error: &&ErrorCode| number.map_or_else(|| folded(error.name) == name, |n| n == error.code);
    let is_exit = |exit: &&ExitCode| number == Some(i32::from(exit.code));
    let errors = ERROR_CODES.iter().filter(is_error).map(Subject::Error);
    let exits = EXIT_CODES.iter().filter(is_exit).map(Subject::Exit);
    let keys = config::known_key(word).into_iter().map(Subject::Key);
    let messages = message::find(word).into_iter().map(Subject::Message);
    errors.chain(exits).chain(keys).chain(messages).collect()
}

/// The name of an error code without what differs between Java's exceptions, its constants, its
/// messages and C's.
fn folded(word: &str) -> String {
    let word = word.strip_prefix("KeeperException.").unwrap_or(word);
    let word = word.strip_suffix("Exception").unwrap_or(word);
    let word =
        word.strip_prefix('Z').filter(|rest| rest.starts_with(char::is_uppercase)).unwrap_or(word);
    word.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_lowercase()
}

/// The name or key that an unknown word most resembles, if any does.
fn nearest(word: &str) -> Option<&'static str> {
    const RESEMBLES: f64 = 0.6;
    let likeness = |a: &str, b: &str| strsim::normalized_damerau_levenshtein(a, b);
    let name = folded(word);
    let names = ERROR_CODES.iter().map(|error| (likeness(&name, &folded(error.name)), error.name));
    let key = config::nearest_key(word)
        .map(|key| (likeness(&word.to_lowercase(), &key.to_lowercase()), key));
    names
        .chain(key)
        .filter(|(likeness, _)| *likeness >= RESEMBLES)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Error codes, exit codes and messages, as the documentation has them; `config keys` has the keys.
fn all(json: bool, out: &mut Output) -> Result<(), CommandError> {
    let errors = ERROR_CODES.iter();
    if json {
        let exits = EXIT_CODES.iter().map(Subject::Exit);
        let messages = SECTIONS.iter().flat_map(|section| section.messages).map(Subject::Message);
        let mut all = errors.map(Subject::Error).chain(exits).chain(messages);
        return all.try_for_each(|it| it.tell(true, out));
    }
    out.line(format_args!("| code | name | meaning | what to do |\n|---:|---|---|---|"))?;
    for ErrorCode { code, name, meaning, remedy } in errors {
        out.line(format_args!("| {code} | {name} | {meaning} | {remedy} |"))?;
    }
    out.line(format_args!("\n| exit code | of | meaning | what to do |\n|---:|---|---|---|"))?;
    for ExitCode { of, code, meaning, remedy } in &EXIT_CODES {
        out.line(format_args!("| {code} | {of} | {meaning} | {remedy} |"))?;
    }
    for Section { heading, messages } in &SECTIONS {
        out.line(format_args!("\n## {heading}\n"))?;
        out.line(format_args!(
            "| id | what happened | what it means | what to do |\n|---|---|---|---|"
        ))?;
        for Message { id, situation, meaning, remedy } in *messages {
            out.line(format_args!("| {id} | {situation} | {meaning} | {remedy} |"))?;
        }
    }
    Ok(())
}
