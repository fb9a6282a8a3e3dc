//! The form of a line.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::registry::LookupSpan;

use super::repeats;
use crate::message::MessageId;

/// The field that has the id of a message.
const ID: &str = "id";
/// Bytes of a value in a line. A client chooses some of them, and lines wait to be written.
const VALUE_MAX: usize = 4096;

/// One line for each event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// `2026-03-01T12:00:00.000000Z  WARN server::listener: [FK0501] message field=value`
    Text,
    /// An object with `time`, `level`, `target`, `id`, `message` and the other fields.
    Json,
}

impl Line {
    /// The line which says that others are lost.
    pub(super) fn lost(self, count: u64) -> String {
        let mut time = String::new();
        // A String takes whatever it is given.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let (id, said) = (MessageId::LOG_LINES_LOST, format!("{count} log lines were lost"));
        match self {
            Self::Text => format!("{time}  WARN logging: [{id}] {said}\n"),
            Self::Json => {
                let id = id.to_string();
                let line = json!({
                    "time": time, "level": "WARN", "target": "logging", "id": id, "message": said, "lost": count
                });
                format!("{line}\n")
            }
        }
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let target = event.metadata().target();
        let target = target.strip_prefix("ferrokeeper::").unwrap_or(target);
        match self {
            Self::Text => write_text(writer, target, event),
            Self::Json => write_json(writer, target, event),
        }
    }
}

fn write_text(mut writer: Writer<'_>, target: &str, event: &Event<'_>) -> fmt::Result {
    let level = *event.metadata().level();
    SystemTime.format_time(&mut writer)?;
    if writer.has_ansi_escapes() {
        write!(writer, " \x1b[{}m{level:>5}\x1b[0m {target}: ", colour(level))?;
    } else {
        write!(writer, " {level:>5} {target}: ")?;
    }
    let mut said = Said::default();
    event.record(&mut said);
    let Said { id, message, fields } = said;
    // A client's bytes in a field must not begin a line that looks like one of ours.
    for character in [id, message, fields].iter().flat_map(|part| part.chars()) {
        if character.is_control() {
            write!(writer, "{}", character.escape_default())?;
        } else {
            writer.write_char(character)?;
        }
    }
    match repeats::left_out() {
        0 => writeln!(writer),
        left_out => writeln!(writer, " left_out={left_out}"),
    }
}

/// The beginning of a value, if it is long.
#[derive(Default)]
struct Beginning {
    text: String,
    is_cut: bool,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = VALUE_MAX.saturating_sub(self.text.len());
        let (kept, rest) = part.split_at(part.floor_char_boundary(room));
        if !self.is_cut {
            self.text.push_str(kept);
        }
        if !rest.is_empty() {
            self.is_cut = true;
        }
        Ok(())
    }
}

/// A value as it stands in a line.
fn shown(value: fmt::Arguments<'_>) -> String {
    let mut beginning = Beginning::default();
    // It takes whatever it is given.
    let _ = beginning.write_fmt(value);
    let Beginning { mut text, is_cut } = beginning;
    if is_cut {
        text.push('…');
    }
    text
}

/// What an event says, as text has it.
#[derive(Default)]
struct Said {
    /// `[FK0510] `, if it has an id.
    id: String,
    message: String,
    /// Each with a blank in front.
    fields: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(&shown(format_args!("{value}"))),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A String takes whatever it is given.
        let _ = match field.name() {
            "message" => write!(self.message, "{}", shown(format_args!("{value:?}"))),
            ID => write!(self.id, "[{value:?}] "),
            name => write!(self.fields, " {name}={}", shown(format_args!("{value:?}"))),
        };
    }
}

fn write_json(mut writer: Writer<'_>, target: &str, event: &Event<'_>) -> fmt::Result {
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let Fields(mut line) = fields;
    line.insert("time".to_owned(), time.into());
    line.insert("level".to_owned(), event.metadata().level().as_str().into());
    line.insert("target".to_owned(), target.into());
    if repeats::left_out() > 0 {
        line.insert("left_out".to_owned(), repeats::left_out().into());
    }
    writeln!(writer, "{}", Value::Object(line))
}

/// Fields as JSON has them.
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, shown(format_args!("{value}")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, shown(format_args!("{value:?}")));
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
