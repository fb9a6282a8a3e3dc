//! Log lines: on standard error, and in a file where one is configured.
//!
//! Owns the form of a line, the level from `FERROKEEPER_LOG`, the form from
//! `FERROKEEPER_LOG_FORMAT`, and that a standard error which is closed or which nobody reads, or a
//! disk that is full, neither ends nor delays the server: lines go through bounded queues and are
//! dropped when those are full, and how many is said later. Never decides what is worth a line.

mod line;
mod lost;
mod repeats;
mod rolling_file;

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::panic;
use std::path::Path;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Level;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use line::Line;
use lost::{Dropped, Losing};
use repeats::Repeats;
pub(crate) use rolling_file::RollingFile;

use crate::message::MessageId;
use crate::old_name;

/// Environment variable with the level, `info` by default, or directives such as
/// `info,ferrokeeper::storage=debug`.
pub const LEVEL_VARIABLE: &str = "FERROKEEPER_LOG";
/// Environment variable with the form of a line: `text`, the default, or `json`.
pub const FORMAT_VARIABLE: &str = "FERROKEEPER_LOG_FORMAT";

/// Lines that wait to be written; some 2 MB of them before they are dropped.
const QUEUE_LINES: usize = 16 * 1024;

/// What a standard error that nobody reads may delay an exit by, twice: lines that wait, last
/// words.
const EXIT_DELAY_MAX: Duration = Duration::from_millis(500);

/// The level of this process.
static LEVEL: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// The writers of log lines.
static WORKERS: Mutex<Vec<WorkerGuard>> = Mutex::new(Vec::new());

/// Starts logging for the whole process, to `file` as well if there is one; a second call has no
/// effect. Who ends the process calls [`end`] first.
pub fn start(file: Option<&Path>) {
    let mut refused = Vec::new();
    let directives = env::var(LEVEL_VARIABLE).unwrap_or_default();
    let filter = filter(&directives).unwrap_or_else(|error| {
        let text = format!("{LEVEL_VARIABLE} is {directives:?}: {error}; info is used");
        refused.push((MessageId::LOG_LEVEL_UNKNOWN, text));
        EnvFilter::new(Level::INFO.as_str())
    });
    for (old, new) in old_name::VARIABLES {
        if env::var_os(old).is_some() {
            let text =
                format!("the environment has {old}, which is not read: its name is now {new}");
            refused.push((MessageId::OLD_VARIABLE, text));
        }
    }
    let form = match env::var(FORMAT_VARIABLE).unwrap_or_default().as_str() {
        "json" => Line::Json,
        "text" | "" => Line::Text,
        other => {
            let text =
                format!("{FORMAT_VARIABLE} is {other:?}, neither text nor json; text is used");
            refused.push((MessageId::LOG_FORM_UNKNOWN, text));
            Line::Text
        }
    };
    let is_text = matches!(form, Line::Text);
    let colours = is_text && io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
    let (lines, worker) = queue_to(io::stderr(), form);
    let mut workers = vec![worker];
    let mut layers = vec![layer(lines, form, colours)];
    match file.map(|path| (path, RollingFile::open(path))) {
        Some((_, Ok(file))) => {
            let (lines, worker) = queue_to(file, form);
            workers.push(worker);
            layers.push(layer(lines, form, false));
        }
        Some((path, Err(error))) => {
            let path = path.display();
            let text = format!(
                "cannot open {path} for log lines, so they go to standard error only: {error}"
            );
            refused.push((MessageId::LOG_FILE_NOT_OPENED, text));
        }
        None => {}
    }
    let (filter, level) = reload::Layer::new(filter);
    let subscriber = Registry::default().with(filter).with(Repeats::default()).with(layers);
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        // Nobody else can have set it.
        let _ = LEVEL.set(level);
        // The standard hook writes to standard error itself: where nobody reads that, the thread
        // would never end.
        panic::set_hook(Box::new(|info| {
            tracing::error!(id = %MessageId::PANIC, "{info}; this is a bug, please report \
                it")
        }));
        *WORKERS.lock() = workers;
    }
    for (id, refused) in refused {
        tracing::warn!(%id, "{refused}");
    }
}

/// Writes what still waits, for half a second at most; what is said later is lost.
pub fn end() {
    // On a full queue the worker's guard prints to standard output, which may stall as well.
    let workers = std::mem::take(&mut *WORKERS.lock());
    within(EXIT_DELAY_MAX, move || drop(workers));
}

/// A thread that writes lines, and the queue to it.
fn queue_to(writer: impl io::Write + Send + 'static, form: Line) -> (NonBlocking, WorkerGuard) {
    let dropped = Dropped::default();
    let (lines, worker) = NonBlockingBuilder::default()
        .buffered_lines_limit(QUEUE_LINES)
        .thread_name("log")
        .finish(Losing::new(writer, form, Dropped::clone(&dropped)));
    // Nobody else has it.
    let _ = dropped.set(lines.error_counter());
    (lines, worker)
}

fn layer<S, W>(lines: W, form: Line, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(lines).with_ansi(colours);
    layer.event_format(form).boxed()
}

/// The level, or the directives, as they are now.
#[must_use]
pub fn level() -> String {
    let level = LEVEL.get().and_then(|level| level.with_current(ToString::to_string).ok());
    level.unwrap_or_default()
}

/// Sets the level, or the directives, from now on.
///
/// # Errors
/// What is wrong with them; nothing is changed then.
pub fn set_level(directives: &str) -> Result<(), String> {
    let filter = filter(directives)?;
    let level = LEVEL.get().ok_or("there is no log")?;
    level.reload(filter).map_err(|error| error.to_string())
}

/// Writes `text` to standard error now, for half a second at most; failing to is ignored.
///
/// For what ends the process, where no log runs yet or any more, and for what is no line of it.
pub fn print(text: &str) {
    let text = text.to_owned();
    within(EXIT_DELAY_MAX, move || {
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Waits for `work` no longer than `time`; it then goes on alone until the process ends.
fn within(time: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel::<()>();
    let work = move || {
        work();
        drop(done);
    };
    if thread::Builder::new().name("last words".to_owned()).spawn(work).is_ok() {
        let _ = finished.recv_timeout(time);
    }
}

/// A word that is no level would be taken for the name of a module and silence all others.
fn filter(directives: &str) -> Result<EnvFilter, String> {
    let words = directives.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words {
        let is_level = word.parse::<LevelFilter>().is_ok();
        if !is_level && !word.contains(['=', ':', '[']) {
            return Err(format!(
                "{word} is not a level: use error, warn, info, debug, trace or off"
            ));
        }
    }
    EnvFilter::builder()
        .with_default_directive(Level::INFO.into())
        .parse(directives)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn all_written(directives: &str, is_json: bool, colours: bool, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let Ok(filter) = filter(directives) else { panic!("{directives} is refused") };
        let form = if is_json { Line::Json } else { Line::Text };
        let layer = layer(move || writer.clone(), form, colours);
        let subscriber = Registry::default().with(filter).with(Repeats::default()).with(layer);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(lines.0.lock().clone()).expect("UTF-8")
    }

    /// Lines wait by their number; clients choose the paths in some.
    #[test]
    fn a_long_value_is_cut_and_the_line_is_whole() {
        let long = "ä\n".repeat(1 << 20);
        let log = || tracing::info!(path = long, short = 7, "{long}");
        let text = all_written("info", false, false, log);
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert!(text.ends_with("… short=7\n"), "{}", &text[text.len() - 20..]);
        let json = all_written("info", true, false, log);
        let line: serde_json::Value = serde_json::from_str(&json).expect("an object");
        let len = |name: &str| line[name].as_str().map_or(0, str::len);
        assert!((4000..4200).contains(&len("path")) && (4000..4200).contains(&len("message")));
        assert_eq!(line["short"], 7);
    }

    /// What is written of the events in `log`, without the time.
    fn written(directives: &str, colours: bool, log: impl FnOnce()) -> Vec<String> {
        let text = all_written(directives, false, colours, log);
        let without_time = |line: &str| {
            let (time, rest) = line.split_once(' ').expect("a time");
            assert!(time.len() == 27 && time.ends_with('Z'), "{line}");
            rest.to_owned()
        };
        text.lines().map(without_time).collect()
    }

    #[test]
    fn an_event_is_one_line_whatever_stands_in_it() {
        let lines = written("", false, || {
            tracing::info!(target: "ferrokeeper::server::listener", port = 2181, "listening");
            tracing::warn!(target: "other", path = "/a\nb\u{1b}[2J", "line\nbreak");
            tracing::debug!("not at this level");
            tracing::warn!(target: "a", port = 1, id = %MessageId::PANIC, "last");
        });
        assert_eq!(lines[0], " INFO server::listener: listening port=2181");
        assert!(lines[1].starts_with(" WARN other: line"), "{lines:?}");
        assert!(!lines[1].contains('\u{1b}'), "{lines:?}");
        assert_eq!(lines[2], " WARN a: [FK0701] last port=1");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_line_of_json_has_the_fields_as_what_they_are() {
        let text = all_written("", true, false, || {
            let id = MessageId::PANIC;
            tracing::warn!(
                target: "ferrokeeper::a",
                %id, port = 2181, path = %"/a\nb", late = true,
                "said"
            );
        });
        let line: serde_json::Value = serde_json::from_str(&text).expect("one object");
        let expected = serde_json::json!({
            "time": line["time"], "level": "WARN", "target": "a", "id": "FK0701", "message": "said",
            "port": 2181, "path": "/a\nb", "late": true,
        });
        assert_eq!(line, expected);
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn what_another_client_does_again_is_no_other_cause() {
        let lines = written("debug", false, || {
            for client in 1..5 {
                tracing::warn!(target: "a", client, len = client - 1, "closing");
                tracing::debug!(target: "a", "each");
            }
            for peer in [1, 1, 2] {
                tracing::warn!(target: "a", peer, "lost");
            }
        });
        let warned: Vec<&String> = lines.iter().filter(|line| !line.contains("each")).collect();
        assert_eq!(
            warned,
            [" WARN a: closing client=1 len=0", " WARN a: lost peer=1", " WARN a: lost peer=2",]
        );
        assert_eq!(lines.len(), 3 + 4);
    }

    #[test]
    fn the_level_is_coloured_where_asked() {
        let lines = written("", true, || tracing::error!(target: "a", "b"));
        assert_eq!(lines, ["\x1b[31mERROR\x1b[0m a: b"]);
    }

    #[test]
    fn directives_choose_levels_by_target() {
        let lines = written("warn,ferrokeeper::storage=debug", false, || {
            tracing::info!(target: "ferrokeeper::server", "no");
            tracing::debug!(target: "ferrokeeper::storage::log", "yes");
        });
        assert_eq!(lines, ["DEBUG storage::log: yes"]);
        assert!(filter("ferrokeeper=loud").is_err());
    }

    #[test]
    fn work_that_stalls_is_left_behind() {
        let began = Instant::now();
        within(Duration::from_millis(20), || thread::sleep(Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
