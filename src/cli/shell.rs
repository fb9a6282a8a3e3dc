//! A run of the client: one command, or lines until there are no more.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;

use jute::ErrorCode;
use parking_lot::Mutex;
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config, Editor};
use serde_json::json;

use super::client::Client;
use super::commands::{COMMANDS, Session};
use super::complete::Completion;
use super::connection::{State, Target};
use super::error::{CliError, Refusal};
use super::events::Events;
use super::help::usage;
use super::line;
use super::options::Options;
use super::print::Output;
use super::servers::Servers;

/// Lines of the history that `history` shows, without itself.
const HISTORY_SHOWN: usize = 10;

pub(super) struct Shell {
    options: Options,
    /// What was connected to, as it was typed.
    host: String,
    client: Arc<Mutex<Option<Arc<Client>>>>,
    events: Arc<Events>,
    out: Output,
    history: Vec<String>,
    exit_code: u8,
    ended: bool,
}

impl Shell {
    pub(super) fn new(options: Options) -> Self {
        let events = Arc::new(Events::new(!options.json));
        Self {
            host: options.server.clone(),
            client: Arc::default(),
            events,
            out: Output::new(options.json),
            history: Vec::new(),
            exit_code: 0,
            ended: false,
            options,
        }
    }

    /// The exit code.
    pub(super) fn run(mut self) -> u8 {
        let server = self.options.server.clone();
        let told = self.out.line(format_args!("Connecting to {server}"));
        let connected = told.and_then(|()| self.out.flush()).and_then(|()| self.connect(&server));
        if let Err(error) = connected {
            self.refused(&error);
            return self.exit_code;
        }
        let command = std::mem::take(&mut self.options.command);
        if !command.is_empty() {
            self.process(&command);
        } else if io::stdin().is_terminal() && io::stdout().is_terminal() {
            self.type_in();
        } else {
            self.read_in();
        }
        self.leave();
        self.exit_code
    }

    /// Lines of someone who types.
    fn type_in(&mut self) {
        self.welcome();
        let config = Config::builder().completion_type(CompletionType::List).build();
        let Ok(mut editor) = Editor::with_config(config) else { return self.read_in() };
        editor.set_helper(Some(Completion::new(Arc::clone(&self.client))));
        if let Ok(printer) = editor.create_external_printer() {
            self.events.print_by(Box::new(printer));
        }
        while !self.ended {
            match editor.readline(&self.prompt()) {
                Ok(line) => {
                    // One that cannot be kept can still be done.
                    let _ = editor.add_history_entry(&line);
                    self.execute(&line);
                }
                Err(ReadlineError::Interrupted) => {}
                Err(_) => break,
            }
        }
        self.events.print_directly();
    }

    /// Lines of a file or a program.
    fn read_in(&mut self) {
        self.welcome();
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            self.execute(&line);
            if self.ended {
                break;
            }
        }
    }

    fn welcome(&mut self) {
        // Without a reader the first command will find out.
        let _ = self.out.line(format_args!("Welcome to ZooKeeper!"));
        let _ = self.out.flush();
    }

    fn prompt(&self) -> String {
        let state =
            self.client.lock().as_ref().map_or(State::Closed, |client| client.connection.state());
        format!("[zk: {}({state}) {}] ", self.host, self.history.len())
    }

    fn execute(&mut self, line: &str) {
        let words = line::split(line);
        if words.is_empty() {
            return;
        }
        self.history.push(line.to_owned());
        self.process(&words);
    }

    /// Does a command and tells how it ended.
    fn process(&mut self, words: &[String]) {
        let (name, words) =
            words.split_first().map_or(("", words), |(name, words)| (name.as_str(), words));
        self.out.field("command", name);
        match self.command(name, words) {
            Ok(()) => self.exit_code = 0,
            Err(error) => self.refused(&error),
        }
        if let Err(error) = self.out.finish() {
            self.refused(&error);
        }
    }

    fn refused(&mut self, error: &CliError) {
        if error.is_broken_pipe() {
            // Whoever read the output has had enough.
            self.ended = true;
            return;
        }
        self.exit_code = error.exit_code();
        let refusal = match error {
            CliError::Refused(refusal) => Some(refusal),
            _ => None,
        };
        self.out.field(
            "error",
            json!({
                "message": error.to_string(),
                "code": refusal.map(|refusal| refusal.code),
                "name": refusal.map(Refusal::name),
                "path": refusal.and_then(|refusal| refusal.path.as_deref()),
            }),
        );
        self.out.error_line(format_args!("{error}"));
        if error.is(ErrorCode::ConnectionLoss) || error.is(ErrorCode::SessionExpired) {
            let client = self.client.lock().clone();
            for failure in client.iter().flat_map(|client| client.connection.failures()) {
                self.out.error_line(format_args!("  {failure}"));
            }
        }
    }

    fn command(&mut self, name: &str, words: &[String]) -> Result<(), CliError> {
        let command = COMMANDS.iter().find(|command| command.name == name);
        match (name, words.first()) {
            ("help", _) => {
                self.out.field("usage", usage());
                return self.out.text(format_args!("{}", usage()));
            }
            ("quit", _) => {
                self.ended = true;
                self.close();
                return Ok(());
            }
            ("redo", Some(number)) => self.redo(number)?,
            ("history", _) => self.show_history()?,
            ("printwatches", None) => {
                let on = self.events.are_printed();
                self.out.field("printwatches", on);
                let on = if on { "on" } else { "off" };
                self.out.line(format_args!("printwatches is {on}"))?;
            }
            ("printwatches", Some(word)) => self.events.print(word == "on"),
            ("connect", server) => {
                let server = server.unwrap_or(&self.host).clone();
                self.connect(&server)?;
            }
            ("redo" | "close", _) => {}
            _ if command.is_none() => {
                self.out.error_line(format_args!("{}", usage().trim_end_matches('\n')));
                return Err(CliError::NotFound(name.to_owned()));
            }
            _ => {}
        }
        let client = self.client.lock().clone();
        let Some(client) = client.filter(|client| client.connection.state().is_alive()) else {
            return self.out.line(format_args!("Not connected"));
        };
        if name == "close" {
            self.close();
        }
        let Some(command) = command else { return Ok(()) };
        let (events, out) = (&self.events, &mut self.out);
        command.execute(words, &mut Session { client: &client, events, out })
    }

    fn redo(&mut self, number: &str) -> Result<(), CliError> {
        let refused = |why: &str| Err(CliError::Malformed(why.to_owned()));
        let Ok(number) = number.parse::<usize>() else {
            return refused("Command index out of range");
        };
        // The last one is this.
        let earlier = self.history.len().saturating_sub(1);
        let Some(line) = self.history.iter().take(earlier).nth(number).cloned() else {
            return refused("Command index out of range");
        };
        let words = line::split(&line);
        if words.first().is_some_and(|name| name == "redo") {
            return refused("No redoing redos");
        }
        if let Some(this) = self.history.last_mut() {
            *this = line;
        }
        self.process(&words);
        Ok(())
    }

    fn show_history(&mut self) -> Result<(), CliError> {
        if self.history.is_empty() {
            // One command for each run: zkCli's own words.
            return self.out.line(format_args!("0 - null"));
        }
        let first = self.history.len().saturating_sub(HISTORY_SHOWN + 1);
        for (number, line) in self.history.iter().enumerate().skip(first) {
            self.out.element("history", json!({ "number": number, "line": line }));
            self.out.line(format_args!("{number} - {line}"))?;
        }
        Ok(())
    }

    /// Ends the session there is, and opens another.
    fn connect(&mut self, server: &str) -> Result<(), CliError> {
        let servers = Servers::parse(server).map_err(CliError::Malformed)?;
        self.close();
        self.host = server.to_owned();
        let Options { timeout, read_only, wait, ref identities, .. } = self.options;
        let target = Target { servers, timeout, read_only };
        let client = Client::connect(target, &self.events).map_err(CliError::Thread)?;
        for (scheme, token) in identities {
            client.connection.add_identity(scheme, Some(token.clone().into_bytes()));
        }
        let client = Arc::new(client);
        *self.client.lock() = Some(Arc::clone(&client));
        if wait && !client.connection.wait_connected(timeout) {
            let (code, path) = (ErrorCode::ConnectionLoss.code(), None);
            return Err(CliError::Refused(Refusal { code, path }));
        }
        Ok(())
    }

    fn close(&self) {
        let client = self.client.lock().clone();
        if let Some(client) = client.filter(|client| client.connection.state().is_alive()) {
            client.connection.close();
        }
    }

    /// At the end of a run the session ends, too, unless it has ephemeral znodes: as with zkCli,
    /// which never ends it, these live until it expires.
    fn leave(&self) {
        let client = self.client.lock().clone();
        if let Some(client) = client.filter(|client| client.connection.state().is_connected())
            && !client.has_created_ephemerals()
        {
            self.events.print(false);
            client.connection.close();
        }
    }
}
