//! What a command shows: lines as zkCli prints them, or one JSON document.

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jute::{Acl, Stat, perms};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use super::error::CliError;

/// How data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataForm {
    Plain,
    Base64,
    HexDump,
}

/// Both outputs of a command.
#[derive(Debug)]
pub(super) struct Output {
    stdout: BufWriter<Stdout>,
    /// The document that the command fills, where one is asked for.
    document: Option<Map<String, Value>>,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        let stdout = BufWriter::with_capacity(64 << 10, io::stdout());
        Self { stdout, document: json.then(Map::new) }
    }

    pub(super) const fn is_json(&self) -> bool {
        self.document.is_some()
    }

    /// A part of the document.
    pub(super) fn field(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(document) = &mut self.document {
            document.insert(name.to_owned(), value.into());
        }
    }

    /// One more element of a list in the document.
    pub(super) fn element(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(document) = &mut self.document
            && let Value::Array(list) = document.entry(name).or_insert_with(|| json!([]))
        {
            list.push(value.into());
        }
    }

    /// Text on standard output, unless a document is asked for.
    pub(super) fn text(&mut self, text: fmt::Arguments<'_>) -> Result<(), CliError> {
        if self.is_json() {
            return Ok(());
        }
        self.stdout.write_fmt(text).map_err(CliError::Output)
    }

    pub(super) fn line(&mut self, line: fmt::Arguments<'_>) -> Result<(), CliError> {
        self.text(format_args!("{line}\n"))
    }

    /// A line on standard error, after everything that was printed so far; nobody may be reading
    /// it.
    pub(super) fn error_line(&mut self, line: fmt::Arguments<'_>) {
        let _ = self.stdout.flush();
        let _ = io::stderr().lock().write_fmt(format_args!("{line}\n"));
    }

    /// As [`Self::error_line`], of what the document has a part for.
    pub(super) fn note(&mut self, line: fmt::Arguments<'_>) {
        if !self.is_json() {
            self.error_line(line);
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.stdout.flush().map_err(CliError::Output)
    }

    /// Ends a command: prints its document.
    pub(super) fn finish(&mut self) -> Result<(), CliError> {
        if let Some(document) = &mut self.document {
            let document = Value::Object(std::mem::take(document));
            self.stdout.write_fmt(format_args!("{document}\n")).map_err(CliError::Output)?;
        }
        self.flush()
    }

    /// A stat; `print` where the lines are asked for: the document always has it.
    pub(super) fn stat(&mut self, stat: &Stat, print: bool) -> Result<(), CliError> {
        if self.is_json() {
            self.field("stat", stat_document(stat));
        } else if print {
            self.text(format_args!("{}", StatLines(stat)))?;
        }
        Ok(())
    }

    pub(super) fn data(&mut self, data: Option<&[u8]>, form: DataForm) -> Result<(), CliError> {
        if self.is_json() {
            let (name, value) = match data.map(|data| (data, std::str::from_utf8(data))) {
                None => ("data", Value::Null),
                Some((_, Ok(text))) if form == DataForm::Plain => ("data", text.into()),
                Some((data, _)) => ("data_base64", STANDARD.encode(data).into()),
            };
            self.field(name, value);
            return Ok(());
        }
        let data = data.unwrap_or(b"null");
        match form {
            DataForm::Plain => self.line(format_args!("{}", String::from_utf8_lossy(data))),
            DataForm::Base64 => self.line(format_args!("{}", STANDARD.encode(data))),
            DataForm::HexDump => self.line(format_args!("{}", HexDump(data))),
        }
    }

    pub(super) fn acl(&mut self, acl: &[Acl<'_>]) -> Result<(), CliError> {
        for entry in acl {
            let (scheme, id) = (entry.scheme.as_deref(), entry.id.as_deref());
            let permissions = permissions(entry.perms);
            self.element("acl", json!({ "scheme": scheme, "id": id, "permissions": permissions }));
            // The first line is Jute's text of a record, line's end and all.
            self.line(format_args!("{},{}\n: {permissions}", escaped(scheme), escaped(id)))?;
        }
        Ok(())
    }
}

/// As Java prints a list.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

/// `ZKUtil.getPermString`.
pub(super) fn permissions(bits: i32) -> String {
    [
        (perms::CREATE, 'c'),
        (perms::DELETE, 'd'),
        (perms::READ, 'r'),
        (perms::WRITE, 'w'),
        (perms::ADMIN, 'a'),
    ]
    .iter()
    .filter(|(bit, _)| bits & bit != 0)
    .map(|(_, letter)| letter)
    .collect()
}

/// A string in Jute's text form.
fn escaped(text: Option<&str>) -> String {
    let Some(text) = text else { return String::new() };
    let mut out = "'".to_owned();
    for character in text.chars() {
        match character {
            '\0' | '\n' | '\r' | '%' | ',' | '}' => {
                out.push_str(&format!("%{:02X}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out
}

/// A time as `java.util.Date` prints it, in UTC.
pub(super) struct Date(pub(super) i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = format_description!(
            "[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] UTC [year]"
        );
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000);
        match time.ok().and_then(|time| time.format(&format).ok()) {
            Some(text) => f.write_str(&text),
            // Beyond the years that have four digits.
            None => write!(f, "{} ms", self.0),
        }
    }
}

struct StatLines<'a>(&'a Stat);

impl fmt::Display for StatLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stat = self.0;
        writeln!(f, "cZxid = {:#x}", stat.czxid)?;
        writeln!(f, "ctime = {}", Date(stat.ctime))?;
        writeln!(f, "mZxid = {:#x}", stat.mzxid)?;
        writeln!(f, "mtime = {}", Date(stat.mtime))?;
        writeln!(f, "pZxid = {:#x}", stat.pzxid)?;
        writeln!(f, "cversion = {}", stat.cversion)?;
        writeln!(f, "dataVersion = {}", stat.version)?;
        writeln!(f, "aclVersion = {}", stat.aversion)?;
        writeln!(f, "ephemeralOwner = {:#x}", stat.ephemeral_owner)?;
        writeln!(f, "dataLength = {}", stat.data_length)?;
        writeln!(f, "numChildren = {}", stat.num_children)
    }
}

/// Zxids and sessions as text, since JSON's readers round large numbers; times in milliseconds
/// since 1970.
pub(super) fn stat_document(stat: &Stat) -> Value {
    json!({
        "czxid": format!("{:#x}", stat.czxid),
        "mzxid": format!("{:#x}", stat.mzxid),
        "pzxid": format!("{:#x}", stat.pzxid),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": format!("{:#x}", stat.ephemeral_owner),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// A hex dump as netty, and so zkCli, draws it; nothing for no bytes.
struct HexDump<'a>(&'a [u8]);

impl fmt::Display for HexDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RULE: &str =
            "+--------+-------------------------------------------------+----------------+";
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "         +-------------------------------------------------+")?;
        writeln!(f, "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |")?;
        writeln!(f, "{RULE}")?;
        for (row, bytes) in self.0.chunks(16).enumerate() {
            let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
            let text: String = bytes
                .iter()
                .map(|byte| if matches!(byte, 0x20..=0x7e) { char::from(*byte) } else { '.' })
                .collect();
            writeln!(f, "|{:08x}|{hex:48} |{text:16}|", row * 16)?;
        }
        f.write_str(RULE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// zkCli 3.9.5's own.
    #[test]
    fn a_stat_is_printed_as_zkcli_prints_it() {
        let stat = Stat {
            czxid: 0x5_0000_0001,
            mzxid: 0x5_0000_0002,
            ctime: 1_771_234_567_890,
            mtime: 0,
            version: 3,
            cversion: -1,
            aversion: 1,
            ephemeral_owner: -1,
            data_length: 5,
            num_children: 2,
            pzxid: 0x5_0000_0001,
        };
        let lines = "cZxid = 0x500000001\nctime = Mon Feb 16 09:36:07 UTC 2026\nmZxid = \
            0x500000002\nmtime = Thu Jan 01 00:00:00 UTC 1970\npZxid = 0x500000001\ncversion = \
            -1\ndataVersion = 3\naclVersion = 1\nephemeralOwner = 0xffffffffffffffff\ndataLength = \
            5\nnumChildren = 2\n";
        assert_eq!(StatLines(&stat).to_string(), lines);
    }

    /// zkCli 3.9.5's own.
    #[test]
    fn a_hex_dump_is_drawn_as_zkcli_draws_it() {
        let dump = "         +-------------------------------------------------+\n\
                    \x20        |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n\
                    +--------+-------------------------------------------------+----------------+\n\
                    |00000000| 74 77 6f 20 77 6f 72 64 73                      |two words       |\n\
                    +--------+-------------------------------------------------+----------------+";
        assert_eq!(HexDump(b"two words").to_string(), dump);
        assert_eq!(HexDump(b"").to_string(), "");
        let rows = HexDump(&[0xff; 17]).to_string();
        assert!(
            rows.contains(
                "|00000010| ff                                              |.               |"
            ),
            "{rows}"
        );
    }

    #[test]
    fn permissions_and_names_of_an_acl() {
        assert_eq!(permissions(31), "cdrwa");
        assert_eq!(permissions(perms::READ | perms::ADMIN), "ra");
        assert_eq!(permissions(0), "");
        assert_eq!(escaped(Some("a,b}%\n")), "'a%2Cb%7D%25%0A");
        assert_eq!(escaped(None), "");
    }

    #[test]
    fn a_list_as_java_prints_it() {
        assert_eq!(list(&["a".to_owned(), "b".to_owned()]), "[a, b]");
        assert_eq!(list(&[]), "[]");
    }
}
