//! The ensemble's configuration, and the version of this client.

use jute::protocol::GetDataResponse;

use super::Session;
use crate::cli::arguments::Arguments;
use crate::cli::client::Reconfiguration;
use crate::cli::error::CliError;

/// Shaped as ZooKeeper's: scripts look for the part ahead of the first hyphen.
const VERSION: &str = concat!(
    "3.9.5-ferrokeeper.",
    env!("CARGO_PKG_VERSION"),
    ", built on ",
    env!("FERROKEEPER_BUILT")
);

pub(super) fn version(_: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    session.out.field("version", VERSION);
    session.out.line(format_args!("ZooKeeper CLI version: {VERSION}"))
}

pub(super) fn config(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let answer = session.client.config(arguments.has("w"))?;
    let text = text_of(&answer);
    let text = if arguments.has("c") { clients_part(&text) } else { text };
    session.out.field("config", text.as_str());
    session.out.line(format_args!("{text}"))?;
    session.out.stat(&answer.stat, arguments.has("s"))
}

fn text_of(answer: &GetDataResponse<'_>) -> String {
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    answer.data.as_deref().map_or_else(|| "null".to_owned(), text)
}

/// The version, and where clients connect to.
fn clients_part(config: &str) -> String {
    let mut version = "";
    let mut addresses = Vec::new();
    for line in config.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        if key.trim() == "version" {
            version = value.trim();
        }
        if key.trim().starts_with("server.") {
            let client = value.split_once(';').map_or("", |(_, client)| client.trim());
            addresses.push(match client.contains(':') || client.is_empty() {
                true => client.to_owned(),
                false => format!("0.0.0.0:{client}"),
            });
        }
    }
    format!("{version} {}", addresses.join(","))
}

pub(super) fn reconfig(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let refused = |why: &str| Err(CliError::Malformed(why.to_owned()));
    let has = |name| arguments.has(name);
    let value = |name| arguments.value(name).map(str::to_lowercase);
    if !["file", "members", "add", "remove"].iter().any(|name| has(name)) {
        return Err(CliError::Usage);
    }
    let version = arguments.value("v").map_or(Ok(-1), |value| i64::from_str_radix(value, 16));
    let Ok(version) = version else {
        return refused("-v must be followed by a long (configuration version)");
    };
    if (has("file") || has("members")) && (has("add") || has("remove")) {
        return refused(
            "Can't use -file or -members together with -add or -remove (mixing \
             incremental and non-incremental modes is not allowed)",
        );
    }
    if has("file") && has("members") {
        return refused(
            "Can't use -file and -members together (conflicting non-incremental modes)",
        );
    }
    let members = match arguments.value("file") {
        Some(file) => Some(members_in(file)?),
        None => value("members"),
    };
    let change =
        Reconfiguration { joining: value("add"), leaving: value("remove"), members, version };
    let answer = session.client.reconfigure(change)?;
    let text = text_of(&answer);
    session.out.field("config", text.as_str());
    session.out.line(format_args!("Committed new configuration:\n{text}"))?;
    session.out.stat(&answer.stat, has("s"))
}

/// The lines of a file that say who is a member.
fn members_in(file: &str) -> Result<String, CliError> {
    let wrong = |why: String| CliError::Malformed(format!("Error processing {file}{why}"));
    let text = std::fs::read_to_string(file).map_err(|error| {
        // Java's words.
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "No such file or directory".to_owned(),
            _ => error.to_string(),
        };
        wrong(format!("{file} ({why})"))
    })?;
    let mut members = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        if !["server.", "group.", "weight."].iter().any(|known| key.starts_with(known))
            && key != "version"
        {
            return Err(wrong(format!("Unrecognised parameter: {key}")));
        }
        members.push(line.to_owned());
    }
    Ok(members.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_need_of_a_configuration() {
        let config = "server.1=a:2888:3888:participant;0.0.0.0:2181\n\
                      server.2=b:2888:3888;2182\nversion=100000000";
        assert_eq!(clients_part(config), "100000000 0.0.0.0:2181,0.0.0.0:2182");
        assert_eq!(clients_part(""), " ");
    }
}
