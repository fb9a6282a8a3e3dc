//! One znode: create, delete, get, set, stat, sync, and counts.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jute::{Acl, CreateMode, ErrorCode, perms};

use super::access::acl_of;
use super::{Session, version, word};
use crate::cli::arguments::Arguments;
use crate::cli::client::Creation;
use crate::cli::error::{CliError, Refusal};
use crate::cli::print::{DataForm, list};

/// The longest time to live: a server has 40 bits for it.
const TTL_MAX: i64 = 0xff_ffff_ffff;

/// As Java's decoder: padding may be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn create(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let refused = |why: &str| Err(CliError::Malformed(why.to_owned()));
    let [ephemeral, sequential, container, with_ttl] =
        ["e", "s", "c", "t"].map(|name| arguments.has(name));
    if container && (ephemeral || sequential) {
        return refused(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.",
        );
    }
    let ttl = arguments.value("t").map_or(Ok(0), str::parse::<i64>);
    let Ok(ttl) = ttl else { return refused("-t argument must be a long value") };
    if with_ttl && ephemeral {
        return refused("TTLs cannot be used with Ephemeral znodes");
    }
    if with_ttl && container {
        return refused("TTLs cannot be used with Container znodes");
    }
    if with_ttl && !(1..=TTL_MAX).contains(&ttl) {
        return refused(&format!("ttl must be positive and cannot be larger than: {TTL_MAX}"));
    }
    let mode = match (ephemeral, sequential, with_ttl) {
        _ if container => CreateMode::Container,
        (true, true, _) => CreateMode::EphemeralSequential,
        (true, false, _) => CreateMode::Ephemeral,
        (false, true, true) => CreateMode::PersistentSequentialWithTtl,
        (false, true, false) => CreateMode::PersistentSequential,
        (false, false, true) => CreateMode::PersistentWithTtl,
        (false, false, false) => CreateMode::Persistent,
    };
    let path = word(arguments, 0);
    let data = arguments.words.get(1).map(String::as_bytes);
    let acl = match arguments.words.get(2) {
        Some(text) => acl_of(text, session.out),
        None => vec![Acl::anyone(perms::ALL)],
    };
    match session.client.create(Creation { path, data, acl: &acl, mode, ttl }) {
        Ok(created) => {
            session.out.field("created", created.as_str());
            session.out.note(format_args!("Created {created}"));
            Ok(())
        }
        Err(error) => {
            if error.is(ErrorCode::EphemeralOnLocalSession) {
                let told = "Unable to create ephemeral node on a local session";
                session.out.error_line(format_args!("{told}"));
            }
            if let CliError::Refused(refusal) = &error
                && refusal.is(ErrorCode::InvalidAcl)
            {
                session.out.error_line(format_args!("{}", refusal.in_general()));
            }
            Err(error)
        }
    }
}

pub(super) fn delete(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    session.client.delete(path, version(arguments)?)?;
    session.out.field("deleted", path);
    Ok(())
}

pub(super) fn get(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    let node = session.client.data(path, arguments.has("w"))?;
    let form = match (arguments.has("x"), arguments.has("b")) {
        (true, _) => DataForm::HexDump,
        (false, true) => DataForm::Base64,
        (false, false) => DataForm::Plain,
    };
    session.out.field("path", path);
    session.out.data(node.data.as_deref(), form)?;
    session.out.stat(&node.stat, arguments.has("s"))
}

pub(super) fn set(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let (path, text) = (word(arguments, 0), word(arguments, 1));
    let data = if arguments.has("b") {
        let wrong = |error| CliError::Malformed(format!("{text:?} is not base64: {error}"));
        BASE64.decode(text).map_err(wrong)?
    } else {
        text.as_bytes().to_vec()
    };
    let stat = session.client.set_data(path, &data, version(arguments)?)?;
    session.out.field("path", path);
    session.out.stat(&stat, arguments.has("s"))
}

pub(super) fn stat(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    match session.client.exists(path, arguments.has("w"))? {
        Some(stat) => {
            session.out.field("path", path);
            session.out.stat(&stat, true)
        }
        None => {
            let code = ErrorCode::NoNode.code();
            Err(CliError::Refused(Refusal { code, path: Some(path.to_owned()) }))
        }
    }
}

pub(super) fn all_children_number(
    arguments: &Arguments,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let path = word(arguments, 0);
    let number = session.client.all_children_number(path)?;
    session.out.field("path", path);
    session.out.field("all_children_number", number);
    session.out.line(format_args!("{number}"))
}

pub(super) fn ephemerals(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let prefix = arguments.words.first().map_or("/", String::as_str);
    let paths = session.client.ephemerals(prefix)?;
    session.out.line(format_args!("{}", list(&paths)))?;
    session.out.field("ephemerals", paths);
    Ok(())
}

pub(super) fn sync(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let synced = session.client.sync(word(arguments, 0))?;
    session.out.field("synced", synced.is_ok());
    match synced {
        Ok(()) => session.out.line(format_args!("Sync is OK")),
        Err(code) => session.out.line(format_args!("Sync has failed. rc={code}")),
    }
}
