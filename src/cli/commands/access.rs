//! Who may do what, and who this is.

use jute::{Acl, perms};
use serde_json::json;

use super::{Session, version, word};
use crate::cli::arguments::Arguments;
use crate::cli::error::CliError;
use crate::cli::print::Output;

pub(super) fn add_auth(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let token = arguments.words.get(1).map(|token| token.clone().into_bytes());
    session.client.connection.add_identity(word(arguments, 0), token);
    Ok(())
}

pub(super) fn who_am_i(_: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let answer = session.client.who_am_i()?;
    session.out.line(format_args!("Auth scheme: User"))?;
    for identity in answer.client_info {
        let (scheme, user) = (identity.auth_scheme, identity.user);
        session.out.element("identities", json!({ "scheme": scheme, "user": user }));
        session.out.line(format_args!("{scheme}: {user}"))?;
    }
    Ok(())
}

pub(super) fn get_acl(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    let answer = session.client.acl(path)?;
    session.out.field("path", path);
    session.out.acl(&answer.acl)?;
    session.out.stat(&answer.stat, arguments.has("s"))
}

pub(super) fn set_acl(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let Session { client, out, .. } = session;
    let (path, text) = (word(arguments, 0), word(arguments, 1));
    let acl = acl_of(text, out);
    let version = version(arguments)?;
    out.field("path", path);
    if !arguments.has("R") {
        let stat = client.set_acl(path, &acl, version)?;
        return out.stat(&stat, arguments.has("s"));
    }
    client.walk(path, false, &mut |path| match client.set_acl(path, &acl, version) {
        Ok(_) => {
            out.element("changed", path);
            Ok(())
        }
        Err(CliError::Refused(refusal)) => {
            let told = refusal.in_general();
            out.element("failed", json!({ "path": path, "error": refusal.name() }));
            // Without a line's end, as zkCli.
            out.text(format_args!("{told}"))
        }
        Err(error) => Err(error),
    })
}

/// The entries of `scheme:id:permissions,...`; of one that cannot be read, standard error is told,
/// and it is left out.
pub(super) fn acl_of(text: &str, out: &mut Output) -> Vec<Acl<'static>> {
    let mut acl = Vec::new();
    // Java's split drops what is empty at the end.
    for entry in text.trim_end_matches(',').split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| {
            let (id, permissions) = rest.rsplit_once(':')?;
            Some((scheme.to_owned(), id.to_owned(), permissions))
        });
        match parts {
            Some((scheme, id, permissions)) => {
                let perms = bits(permissions, out);
                acl.push(Acl { perms, scheme: Some(scheme.into()), id: Some(id.into()) });
            }
            None => out.error_line(format_args!("{entry} does not have the form scheme:id:perm")),
        }
    }
    acl
}

fn bits(permissions: &str, out: &mut Output) -> i32 {
    let mut bits = 0;
    for letter in permissions.chars() {
        bits |= match letter {
            'r' => perms::READ,
            'w' => perms::WRITE,
            'c' => perms::CREATE,
            'd' => perms::DELETE,
            'a' => perms::ADMIN,
            _ => {
                out.error_line(format_args!("Unknown perm type: {letter}"));
                0
            }
        };
    }
    bits
}
