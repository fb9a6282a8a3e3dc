//! The list in files: `zoo.cfg.dynamic.<version>`, and the zoo.cfg that names it.
//!
//! Owns their texts and names. Never opens one.

use std::fmt::Write as _;

use super::line::Addresses;
use super::text::{self, ListError};
use super::{ServerList, Servers};
use crate::properties::{self, Property};

/// The key by which zoo.cfg names the other file.
pub const POINTER: &str = "dynamicConfigFile";

/// The name of the file of a list, beside a zoo.cfg of this name
/// (`QuorumPeer.makeDynamicConfigFilename`).
#[must_use]
pub fn dynamic_file_name(zoo_cfg: &str, version: i64) -> String {
    format!("{zoo_cfg}.dynamic.{version:x}")
}

/// What stands in the file of a list: lines in the order of texts, as ZooKeeper sorts them, no
/// version, no end of the last line (`QuorumPeerConfig.writeDynamicConfig`).
#[must_use]
pub fn dynamic_file(servers: &Servers) -> String {
    let mut lines: Vec<String> = servers.lines().collect();
    lines.sort();
    lines.join("\n")
}

/// The list of a file of this name.
pub fn parse_dynamic_file(
    name: &str,
    bytes: &[u8],
    addresses: Addresses,
) -> Result<ServerList, ListError> {
    match text::parse(bytes, addresses)? {
        (_, Some(_)) => Err(ListError::VersionInside),
        (servers, None) => Ok(ServerList { servers, version: version_of(name) }),
    }
}

/// The version that the name of a file says behind its last dot: 0 if that is none
/// (`QuorumPeerConfig.getVersionFromFilename`).
#[must_use]
pub fn version_of(name: &str) -> i64 {
    let version = name.rsplit_once('.').and_then(|(_, text)| i64::from_str_radix(text, 16).ok());
    // Java reads a negative one, and does not start with it.
    version.filter(|version| *version >= 0).unwrap_or_default()
}

/// The file of a list that a zoo.cfg names.
pub fn named_file(bytes: &[u8]) -> Result<Option<String>, ListError> {
    let properties = properties::parse(bytes)?.into_iter().rev();
    let mut named = properties.filter(|property| bare_key(property) == POINTER);
    Ok(named.next().map(|property| property.value))
}

/// A zoo.cfg that names the file of a list: without the lines of servers, groups and weights, which
/// ZooKeeper does not start with beside such a file, without `peerType`, and without the client
/// port if the server's own line has one (`has_client_address`). Everything else is left byte for
/// byte.
///
/// ZooKeeper writes all keys anew, without comments and escapes
/// (`QuorumPeerConfig.editStaticConfig`).
pub fn edited_zoo_cfg(
    bytes: &[u8],
    dynamic_file: &str,
    has_client_address: bool,
) -> Result<Vec<u8>, ListError> {
    let properties = properties::parse(bytes)?;
    let is_crlf = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .is_some_and(|end| bytes[..end].ends_with(b"\r"));
    let end = if is_crlf { "\r\n" } else { "\n" };
    let line = format!("{POINTER}={}{end}", escaped(dynamic_file));
    let pointer = properties.iter().rposition(|property| property.key == POINTER);

    let (mut edited, mut done) = (Vec::new(), 0);
    for (index, property) in properties.iter().enumerate() {
        let is_pointer = pointer == Some(index);
        let stays = match is_pointer {
            true => property.value == dynamic_file,
            false => !must_go(property, has_client_address),
        };
        if stays {
            continue;
        }
        edited.extend_from_slice(&bytes[done..property.bytes.start]);
        done = property.bytes.end;
        if is_pointer {
            edited.extend_from_slice(line.as_bytes());
        }
    }
    edited.extend_from_slice(&bytes[done..]);
    if pointer.is_none() {
        end_last_line(&mut edited, end);
        edited.extend_from_slice(line.as_bytes());
    }
    Ok(edited)
}

/// Of all lines but the one that names the file.
fn must_go(property: &Property, has_client_address: bool) -> bool {
    let key = bare_key(property);
    ["server.", "group", "weight"].iter().any(|start| key.starts_with(start))
        || ["peerType", POINTER].contains(&key)
        || has_client_address && ["clientPort", "clientPortAddress"].contains(&key)
}

/// Keys are read here with that prefix, too.
fn bare_key(property: &Property) -> &str {
    property.key.strip_prefix("zookeeper.").unwrap_or(&property.key)
}

/// So that what follows is a line of its own.
fn end_last_line(text: &mut Vec<u8>, end: &str) {
    if !text.is_empty() && !text.ends_with(b"\n") && !text.ends_with(b"\r") {
        text.extend_from_slice(end.as_bytes());
    }
    let last = text.strip_suffix(b"\n").unwrap_or(text);
    let last = last.strip_suffix(b"\r").unwrap_or(last);
    if last.ends_with(b"\\") {
        // It may go on in the next line. "\n" behind "\r" would be the end of the same one.
        if text.ends_with(b"\r") {
            text.push(b'\n');
        }
        text.extend_from_slice(end.as_bytes());
    }
}

/// A value as Java's `Properties` reads it back, in ASCII.
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for (index, c) in value.char_indices() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            ' ' if index == 0 => escaped.push_str("\\ "),
            ' '..='~' => escaped.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // A String takes everything.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
    }
    escaped
}
