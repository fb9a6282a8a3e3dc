//! Completion of what is typed: names of commands, and paths as the server has them.

use std::sync::Arc;

use parking_lot::Mutex;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::client::Client;
use super::help;
use super::path::child;

pub(super) struct Completion {
    client: Arc<Mutex<Option<Arc<Client>>>>,
}

impl Completion {
    pub(super) fn new(client: Arc<Mutex<Option<Arc<Client>>>>) -> Self {
        Self { client }
    }

    /// Paths that begin with `token`.
    fn paths(&self, token: &str) -> Vec<String> {
        let client = self.client.lock().clone();
        let (parent, _) = token.rsplit_once('/').unwrap_or_default();
        let parent = if parent.is_empty() { "/" } else { parent };
        client
            .filter(|client| client.connection.state().is_connected())
            // A parent that is not there has nothing to offer.
            .and_then(|client| client.children(parent, false).ok())
            .map(|(names, _)| names.iter().map(|name| child(parent, name)).collect())
            .unwrap_or_default()
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let start = typed.rfind(' ').map_or(0, |space| space + 1);
        let token = typed.get(start..).unwrap_or_default();
        let mut candidates: Vec<String> = match (token.starts_with('/'), start) {
            (true, _) => self.paths(token),
            (false, 0) => help::names().map(String::from).collect(),
            (false, _) => Vec::new(),
        };
        candidates.retain(|candidate| candidate.starts_with(token));
        candidates.sort();
        Ok((start, candidates))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Helper for Completion {}
