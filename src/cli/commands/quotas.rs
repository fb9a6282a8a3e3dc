//! Quotas: znodes below `/zookeeper/quota` that hold the limits of a tree and what it has.

use std::collections::BTreeMap;
use std::fmt;

use jute::{Acl, CreateMode, ErrorCode, perms};
use serde_json::Value;

use super::{Session, word};
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, Creation};
use crate::cli::error::CliError;
use crate::cli::path::child;
use crate::cli::print::Output;

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

const COUNT: &str = "count";
const BYTES: &str = "bytes";
const COUNT_HARD_LIMIT: &str = "countHardLimit";
const BYTE_HARD_LIMIT: &str = "byteHardLimit";
/// The options and what each of them limits.
const KINDS: [(&str, &str); 4] =
    [("n", COUNT), ("b", BYTES), ("N", COUNT_HARD_LIMIT), ("B", BYTE_HARD_LIMIT)];

/// What such a znode holds (`StatsTrack`); what is not there is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Track(BTreeMap<String, i64>);

impl Track {
    fn parse(data: Option<&[u8]>) -> Result<Self, CliError> {
        let text = String::from_utf8_lossy(data.unwrap_or_default()).into_owned();
        let mut track = Self::default();
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let mut parts = pair.split('=');
            let (name, value) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let value = if value.is_empty() { "-1" } else { value };
            let wrong = |_| CliError::Malformed(format!("{text:?} is not a valid quota: {pair}"));
            track.0.insert(name.to_owned(), value.parse().map_err(wrong)?);
        }
        Ok(track)
    }

    fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(-1)
    }

    fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.to_owned(), value);
    }

    fn document(&self) -> Value {
        self.0.iter().map(|(name, value)| (name.clone(), Value::from(*value))).collect()
    }
}

/// Count and bytes first, and a `=` that keeps old servers from reading on.
impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COUNT}={},{BYTES}={}", self.get(COUNT), self.get(BYTES))?;
        let rest = self.0.iter().filter(|(name, _)| ![COUNT, BYTES].contains(&name.as_str()));
        for (index, (name, value)) in rest.enumerate() {
            let separator = if index == 0 { "=;" } else { ";" };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

fn limits_path(path: &str) -> String {
    format!("{ROOT}{path}/{LIMITS}")
}

fn stats_path(path: &str) -> String {
    format!("{ROOT}{path}/{STATS}")
}

fn track(client: &Client, path: &str) -> Result<Track, CliError> {
    Track::parse(client.data(path, false)?.data.as_deref())
}

pub(super) fn list(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let Session { client, out, .. } = session;
    let path = word(arguments, 0);
    out.field("path", path);
    out.note(format_args!("absolute path is {}", limits_path(path)));
    let both = || Ok((track(client, &limits_path(path))?, track(client, &stats_path(path))?));
    match both() {
        Ok((limits, stats)) => {
            out.field("limits", limits.document());
            out.field("stats", stats.document());
            out.line(format_args!("Output quota for {path} {limits}"))?;
            out.line(format_args!("Output stat for {path} {stats}"))
        }
        Err(error) => no_quota(error, path, out),
    }
}

/// A quota that is not there is told, and no failure.
fn no_quota(error: CliError, path: &str, out: &mut Output) -> Result<(), CliError> {
    if !error.is(ErrorCode::NoNode) {
        return Err(error);
    }
    out.field("limits", Value::Null);
    out.note(format_args!("quota for {path} does not exist."));
    Ok(())
}

pub(super) fn delete(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let Session { client, out, .. } = session;
    let path = word(arguments, 0);
    out.field("path", path);
    let limits = limits_path(path);
    if client.exists(&limits, false)?.is_none() {
        out.field("limits", Value::Null);
        return out.line(format_args!("Quota does not exist for {path}"));
    }
    let removed = || -> Result<(), CliError> {
        let mut quota = track(client, &limits)?;
        match KINDS.iter().find(|(option, _)| arguments.has(option)) {
            Some((_, kind)) => {
                quota.set(kind, -1);
                client.set_data(&limits, quota.to_string().as_bytes(), -1)?;
                Ok(())
            }
            None => {
                let parent = format!("{ROOT}{path}");
                for name in client.children(&parent, false)?.0 {
                    client.delete(&child(&parent, &name), -1)?;
                }
                trim(client, &parent)
            }
        }
    };
    removed().or_else(|error| no_quota(error, path, out))
}

/// Deletes a znode without children, and its parents that then have none.
fn trim(client: &Client, path: &str) -> Result<(), CliError> {
    let mut path = path;
    while path != ROOT && client.children(path, false)?.0.is_empty() {
        client.delete(path, -1)?;
        path = path.rsplit_once('/').map_or(ROOT, |(parent, _)| parent);
    }
    Ok(())
}

pub(super) fn set(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    session.out.field("path", path);
    if path.starts_with(ROOT) {
        session.out.error_line(format_args!("cannot set a quota under the path: {ROOT}"));
        return Ok(());
    }
    let asked = match asked(arguments) {
        Ok(asked) => asked,
        Err(told) => {
            session.out.error_line(format_args!("{told}"));
            return Ok(());
        }
    };
    let Session { client, out, .. } = session;
    if client.exists(path, false)?.is_none() {
        return Err(CliError::Malformed(format!("{path} does not exist.")));
    }
    expect_no_other(client, path)?;
    let parent = create_parents(client, path)?;
    let (limits, stats) = (child(&parent, LIMITS), child(&parent, STATS));
    let mut quota = Track::default();
    if client.exists(&limits, false)?.is_none() {
        for (_, kind) in KINDS {
            quota.set(kind, -1);
        }
        asked.iter().for_each(|(kind, value)| quota.set(kind, *value));
        create(client, &limits, Some(&quota.to_string()))?;
        create(client, &stats, Some(&format!("{COUNT}=0,{BYTES}=0")))?;
        warn(&quota, &track(client, &stats)?, out)?;
    } else {
        quota = track(client, &limits)?;
        asked.iter().for_each(|(kind, value)| quota.set(kind, *value));
        warn(&quota, &track(client, &stats)?, out)?;
        client.set_data(&limits, quota.to_string().as_bytes(), -1)?;
    }
    out.field("limits", quota.document());
    Ok(())
}

/// The limits that the options ask for, or what is wrong with them.
fn asked(arguments: &Arguments) -> Result<Vec<(&'static str, i64)>, &'static str> {
    const NO_NUMBER: &str = "NumberFormatException happens when parsing the option value";
    let mut asked = Vec::new();
    for (option, kind) in KINDS {
        let Some(value) = arguments.value(option) else { continue };
        let of_count = kind == COUNT || kind == COUNT_HARD_LIMIT;
        let value = if of_count {
            value.parse::<i32>().map_err(|_| NO_NUMBER)?.into()
        } else {
            value.parse::<i64>().map_err(|_| NO_NUMBER)?
        };
        if of_count && value <= 0 {
            return Err("the num quota must be greater than zero");
        }
        if value < 0 {
            return Err("the bytes quota must be greater than or equal to zero");
        }
        asked.push((kind, value));
    }
    Ok(asked)
}

/// Refuses a path that has a quota above or below it.
fn expect_no_other(client: &Client, path: &str) -> Result<(), CliError> {
    let of = |quota: &str| quota.strip_prefix(ROOT).unwrap_or_default().to_owned();
    let own = format!("{ROOT}{path}");
    let mut below = None;
    let walked = client.walk(&own, false, &mut |at| {
        if let Some(quota) = at.strip_suffix(LIMITS).and_then(|at| at.strip_suffix('/'))
            && quota != own
        {
            below.get_or_insert_with(|| of(quota));
        }
        Ok(())
    });
    match walked {
        Err(error) if !error.is(ErrorCode::NoNode) => return Err(error),
        _ => {}
    }
    if let Some(below) = below {
        return Err(CliError::Malformed(format!("{path} has a child {below} which has a quota")));
    }
    let mut at = ROOT.to_owned();
    let names: Vec<&str> = path.split('/').skip(1).collect();
    for name in names.iter().take(names.len().saturating_sub(1)) {
        at = child(&at, name);
        let children = match client.children(&at, false) {
            Ok((children, _)) => children,
            Err(error) if error.is(ErrorCode::NoNode) => return Ok(()),
            Err(error) => return Err(error),
        };
        if children.iter().any(|child| child == LIMITS) {
            let above = of(&at);
            return Err(CliError::Malformed(format!(
                "{path} has a parent {above} which has a quota"
            )));
        }
    }
    Ok(())
}

/// Creates the znode of a path below the quotas, and what is above it.
fn create_parents(client: &Client, path: &str) -> Result<String, CliError> {
    let mut at = ROOT.to_owned();
    if client.exists(&at, false)?.is_none() {
        create(client, "/zookeeper", None)?;
        create(client, ROOT, None)?;
    }
    for name in path.split('/').skip(1) {
        at = child(&at, name);
        if client.exists(&at, false)?.is_none() {
            create(client, &at, None)?;
        }
    }
    Ok(at)
}

/// Creates a znode that may be there by now.
fn create(client: &Client, path: &str, data: Option<&str>) -> Result<(), CliError> {
    let acl = [Acl::anyone(perms::ALL)];
    let data = data.map(str::as_bytes);
    match client.create(Creation { path, data, acl: &acl, mode: CreateMode::Persistent, ttl: 0 }) {
        Err(error) if data.is_some() || !error.is(ErrorCode::NodeExists) => Err(error),
        _ => Ok(()),
    }
}

/// Says which limit is passed already.
fn warn(quota: &Track, stats: &Track, out: &mut Output) -> Result<(), CliError> {
    for (what, of, soft, hard) in
        [("count", COUNT, COUNT, COUNT_HARD_LIMIT), ("bytes", BYTES, BYTES, BYTE_HARD_LIMIT)]
    {
        let existing = stats.get(of);
        let passed = |limit| (0..existing).contains(&quota.get(limit));
        if passed(soft) || passed(hard) {
            let told =
                format!("the {what} quota you create is less than the existing {what}:{existing}");
            out.element("warnings", told.as_str());
            out.line(format_args!("[Warning]: {told}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are what zkCli 3.9.5 writes.
    #[test]
    fn a_quota_as_text() {
        let text = "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20";
        let track = Track::parse(Some(text.as_bytes())).expect("a quota");
        assert_eq!((track.get(COUNT), track.get(COUNT_HARD_LIMIT)), (10, 20));
        assert_eq!(track.to_string(), text);
        let stats = Track::parse(Some(b"count=2,bytes=3")).expect("stats");
        assert_eq!(stats.to_string(), "count=2,bytes=3");
        assert_eq!(Track::default().to_string(), "count=-1,bytes=-1");
        assert!(Track::parse(Some(b"count=many")).is_err());
    }
}
