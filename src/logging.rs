//! Log lines on standard error.
//!
//! Owns the form of a line, the level from `ROOKEEPER_LOG`, and that a standard error which is
//! closed or which nobody reads neither ends nor delays the server: lines go through a bounded
//! queue and are dropped when it is full. Never decides what is worth a line.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::panic;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Environment variable with the level, `info` by default, or directives such as
/// `info,rookeeper::storage=debug`.
pub const LEVEL_VARIABLE: &str = "ROOKEEPER_LOG";

/// Lines that wait to be written; some 2 MB of them before they are dropped.
const QUEUE_LINES: usize = 16 * 1024;

/// What a standard error that nobody reads may delay an exit by, twice: lines that wait, last words.
const EXIT_DELAY_MAX: Duration = Duration::from_millis(500);

/// Keeps the writer of log lines; dropping it writes what still waits, for half a second at most.
#[derive(Debug)]
#[must_use = "without it lines are lost at exit"]
pub struct Logging {
    worker: Option<WorkerGuard>,
}

/// Starts logging for the whole process; a second call has no effect.
pub fn start() -> Logging {
    let directives = env::var(LEVEL_VARIABLE).unwrap_or_default();
    let (filter, refused) = match filter(&directives) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(Level::INFO.as_str()), Some(error)),
    };
    let (lines, worker) = NonBlockingBuilder::default()
        .buffered_lines_limit(QUEUE_LINES)
        .thread_name("log")
        .finish(io::stderr());
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
    let started = tracing::subscriber::set_global_default(subscriber(lines, filter, colours));
    if let Some(error) = refused {
        tracing::warn!("{LEVEL_VARIABLE} is {directives:?}: {error}; info counts");
    }
    if started.is_ok() {
        // The standard hook writes to standard error itself: where nobody reads that, the thread would never end.
        panic::set_hook(Box::new(|info| {
            tracing::error!("{info}; this is a defect, please report it")
        }));
    }
    Logging { worker: started.is_ok().then_some(worker) }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // On a full queue the worker's guard prints to standard output, which may stall as well.
        let worker = self.worker.take();
        within(EXIT_DELAY_MAX, move || drop(worker));
    }
}

/// Writes `text` to standard error now, for half a second at most; failing to is ignored.
///
/// For what ends the process, where no log runs yet or any more.
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
            return Err(format!("{word} is no level: error, warn, info, debug, trace or off"));
        }
    }
    EnvFilter::builder()
        .with_default_directive(Level::INFO.into())
        .parse(directives)
        .map_err(|error| error.to_string())
}

fn subscriber<W>(lines: W, filter: EnvFilter, colours: bool) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines)
        .with_ansi(colours)
        .event_format(Line)
        .finish()
}

/// `2026-03-01T12:00:00.000000Z  INFO server::listener: message field=value`
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let target = event.metadata().target();
        let target = target.strip_prefix("rookeeper::").unwrap_or(target);
        SystemTime.format_time(&mut writer)?;
        if writer.has_ansi_escapes() {
            write!(writer, " \x1b[{}m{level:>5}\x1b[0m {target}: ", colour(level))?;
        } else {
            write!(writer, " {level:>5} {target}: ")?;
        }
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        // A client's bytes in a field must not begin a line that looks like one of ours.
        for character in fields.chars() {
            if character.is_control() {
                write!(writer, "{}", character.escape_default())?;
            } else {
                writer.write_char(character)?;
            }
        }
        writeln!(writer)
    }
}

/// SGR code of the level.
fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use parking_lot::Mutex;

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

    /// What is written of the events in `log`, without the time.
    fn written(directives: &str, colours: bool, log: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let Ok(filter) = filter(directives) else { panic!("{directives} is refused") };
        let subscriber = subscriber(move || writer.clone(), filter, colours);
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(lines.0.lock().clone()).expect("UTF-8");
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
            tracing::info!(target: "rookeeper::server::listener", port = 2181, "listening");
            tracing::warn!(target: "other", path = "/a\nb\u{1b}[2J", "line\nbreak");
            tracing::debug!("not at this level");
        });
        assert_eq!(lines[0], " INFO server::listener: listening port=2181");
        assert!(lines[1].starts_with(" WARN other: line"), "{lines:?}");
        assert!(!lines[1].contains('\u{1b}'), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn the_level_is_coloured_where_asked() {
        let lines = written("", true, || tracing::error!(target: "a", "b"));
        assert_eq!(lines, ["\x1b[31mERROR\x1b[0m a: b"]);
    }

    #[test]
    fn directives_choose_levels_by_target() {
        let lines = written("warn,rookeeper::storage=debug", false, || {
            tracing::info!(target: "rookeeper::server", "no");
            tracing::debug!(target: "rookeeper::storage::log", "yes");
        });
        assert_eq!(lines, ["DEBUG storage::log: yes"]);
        assert!(filter("rookeeper=loud").is_err());
    }

    #[test]
    fn work_that_stalls_is_left_behind() {
        let began = Instant::now();
        within(Duration::from_millis(20), || thread::sleep(Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
