//! `config`: what a start would make of a zoo.cfg, and of every key that is known.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Finding;
use super::error::CommandError;
use super::output::Output;
use super::words::counted;
use crate::config::{self, ConfigError, Define, Examined, KEYS, Note};

/// Check a configuration without starting a server.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report what a start would refuse, warn about and log. Exits with 2 if a start would be
    /// refused.
    Check(CheckConfig),
    /// List every key of ZooKeeper 3.9.5 and what it does here.
    Keys {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
}

/// What is checked, and how strictly.
#[derive(Debug, Args)]
pub struct CheckConfig {
    /// Configuration file; if omitted, the one that `ferrokeeper server` would use.
    #[arg(value_name = "ZOO.CFG")]
    file: Option<PathBuf>,
    /// Set a property, like Java's -D; repeatable.
    #[arg(short = 'D', value_name = "zookeeper.NAME=VALUE")]
    defines: Vec<Define>,
    /// Exit with 1 if there is a warning.
    #[arg(long)]
    strict: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &ConfigCommand, out: &mut Output) -> Result<Finding, CommandError> {
    match command {
        ConfigCommand::Check(arguments) => check(arguments, out),
        ConfigCommand::Keys { json } => keys(*json, out).map(|()| Finding::Fine),
    }
}

fn check(arguments: &CheckConfig, out: &mut Output) -> Result<Finding, CommandError> {
    let examined = config::examine(arguments.file.as_deref(), &arguments.defines)?;
    let warnings = examined.notes.iter().filter(|note| note.warns_of().is_some()).count() as u64;
    let refusals: Vec<&ConfigError> = match &examined.outcome {
        Ok(_) => Vec::new(),
        Err(refusals) => std::iter::once(&refusals.first).chain(&refusals.more).collect(),
    };
    if arguments.json {
        for_scripts(&examined, &refusals, out)?;
    } else {
        for_people(&examined, &refusals, warnings, out)?;
    }
    Ok(match (refusals.is_empty(), arguments.strict && warnings > 0) {
        (false, _) => Finding::Refused,
        (true, true) => Finding::Problems,
        (true, false) => Finding::Fine,
    })
}

fn for_scripts(
    examined: &Examined,
    refusals: &[&ConfigError],
    out: &mut Output,
) -> Result<(), CommandError> {
    let refusals: Vec<_> = refusals
        .iter()
        .map(|error| {
            let id = error.id().to_string();
            json!({ "id": id, "text": error.to_string(), "remedy": error.remedy() })
        })
        .collect();
    let notes: Vec<_> = examined.notes.iter().map(note_for_scripts).collect();
    out.json(&json!({
        "would_start": refusals.is_empty(),
        "refusals": refusals,
        "notes": notes,
        "keys_in_effect": examined.keys_in_effect,
    }))
}

/// A line about a key; `migrate check` shows them too.
pub(super) fn note_for_scripts(note: &Note) -> Value {
    let id = note.warns_of().map(|id| id.to_string());
    json!({ "warning": id.is_some(), "id": id, "text": note.text })
}

fn for_people(
    examined: &Examined,
    refusals: &[&ConfigError],
    warnings: u64,
    out: &mut Output,
) -> Result<(), CommandError> {
    for error in refusals {
        out.line(format_args!("REFUSED    [{}] {error}", error.id()))?;
        out.line(format_args!("           {}", error.remedy()))?;
    }
    for note in &examined.notes {
        match note.warns_of() {
            Some(id) => out.line(format_args!("WARNING    [{id}] {}", note.text))?,
            None => out.line(format_args!("           {}", note.text))?,
        }
    }
    let keys = &examined.keys_in_effect;
    let count = counted(keys.len() as u64, "key");
    out.line(format_args!("in effect  {count}: {}", keys.join(", ")))?;
    match (refusals.is_empty(), warnings) {
        (false, _) => out.line(format_args!("a start would be refused")),
        (true, 0) => out.line(format_args!("a server would start")),
        (true, _) => {
            out.line(format_args!("a server would start, with {}", counted(warnings, "warning")))
        }
    }
}

fn keys(json: bool, out: &mut Output) -> Result<(), CommandError> {
    for section in KEYS {
        if !json {
            out.line(format_args!("### {}\n", section.heading))?;
            out.line(format_args!("| key | property | here | |\n|---|---|---|---|"))?;
        }
        for key in section.keys {
            let (name, fate, note) = (key.name, key.fate, key.note());
            if json {
                out.json(&json!({
                    "key": name,
                    "property": key.property(),
                    "fate": fate.to_string(),
                    "note": note,
                }))?;
            } else {
                let property = key.property().map(|name| format!("`{name}`")).unwrap_or_default();
                out.line(format_args!("| `{name}` | {property} | {fate} | {note} |"))?;
            }
        }
        if !json {
            out.line(format_args!(""))?;
        }
    }
    Ok(())
}
