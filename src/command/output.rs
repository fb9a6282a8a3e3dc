//! Standard output: lines for people, one JSON value a line for scripts.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write as _};

use serde::Serialize;

use super::error::CommandError;

pub(super) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(super) fn new() -> Self {
        Self { stdout: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    pub(super) fn line(&mut self, line: fmt::Arguments<'_>) -> Result<(), CommandError> {
        self.stdout.write_fmt(line).map_err(CommandError::Output)?;
        self.stdout.write_all(b"\n").map_err(CommandError::Output)
    }

    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), CommandError> {
        serde_json::to_writer(&mut self.stdout, value)
            .map_err(|error| CommandError::Output(error.into()))?;
        self.stdout.write_all(b"\n").map_err(CommandError::Output)
    }

    pub(super) fn flush(&mut self) -> Result<(), CommandError> {
        self.stdout.flush().map_err(CommandError::Output)
    }
}
