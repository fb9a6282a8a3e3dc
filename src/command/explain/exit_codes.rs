//! Exit codes of the parts of this program: what each means, what to do.

/// How one part of the program may end.
#[derive(Debug)]
pub(super) struct ExitCode {
    /// The part.
    pub(super) of: &'static str,
    pub(super) code: u8,
    pub(super) meaning: &'static str,
    pub(super) remedy: &'static str,
}

const SERVER: &str = "server";
const TOOLS: &str = "tools";
const CONFIG_CHECK: &str = "config check";
const CLI: &str = "cli";

const NOTHING: &str = "Nothing.";
const SAID: &str = "The lines on standard error or standard output say what to do.";

const fn row(of: &'static str, code: u8, meaning: &'static str, remedy: &'static str) -> ExitCode {
    ExitCode { of, code, meaning, remedy }
}

/// Every exit code of every part.
#[rustfmt::skip]
pub(super) const EXIT_CODES: [ExitCode; 16] = [
    row(SERVER, 0, "a clean stop", NOTHING),
    row(SERVER, 1, "the transaction log could not be written, the server may not take part in its \
        ensemble, or it hit a bug: the last lines on standard error say which",
       "Do what `ferrokeeper explain` says of the id in the last lines. Then start the server \
        again: it reads back what is on disk."),
    row(SERVER, 2, "bad arguments or configuration",
       "Correct what the last lines on standard \
        error name; `ferrokeeper config check` checks a file without a start."),
    row(SERVER, 3, "the data directory cannot be used",
       "The last lines on standard error say what \
        is wrong with it; `ferrokeeper data check` repeats it, with the command after which the \
        server would start anyway."),
    row(SERVER, 4, "an address cannot be bound", "Find out what uses the port, or use another \
        one."),
    row(TOOLS, 0, "nothing is wrong, or the reader of the output went away", NOTHING),
    row(TOOLS, 1, "something is wrong with the files, or the snapshots differ", SAID),
    row(TOOLS, 2, "bad arguments or configuration; a target that is not empty", SAID),
    row(TOOLS, 3, "something cannot be read or written, or is in use", SAID),
    row(CONFIG_CHECK, 0, "a server would start; without `--strict` there may be warnings", NOTHING),
    row(CONFIG_CHECK, 1, "with `--strict`: a server would start, with warnings", SAID),
    row(CONFIG_CHECK, 2, "a start would be refused, or the file cannot be read", SAID),
    row(CONFIG_CHECK, 3, "the output cannot be written", SAID),
    row(CLI, 0, "the command succeeded", NOTHING),
    row(CLI, 1, "the command failed, or its arguments are wrong",
       "The line on standard error \
        names an error code: look it up with `ferrokeeper explain`."),
    row(CLI, 127, "there is no such command", "`ferrokeeper cli help` lists them."),
];
