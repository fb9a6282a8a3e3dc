//! A transaction as names and values, the same for people and for scripts.

use jute::txn::Txn;
use serde_json::{Map, Value, json};

use super::words::{
    Plain, acl_for_people, acl_for_scripts, data_for_people, data_for_scripts, is_below,
};

/// ZooKeeper's name of the operation.
pub(super) fn name(txn: &Txn<'_>) -> &'static str {
    match txn {
        Txn::CreateSession(_) => "createSession",
        Txn::CloseSession(_) => "closeSession",
        Txn::Create(_) => "create",
        Txn::Create2(_) => "create2",
        Txn::CreateContainer(_) => "createContainer",
        Txn::CreateTtl(_) => "createTTL",
        Txn::Delete(_) => "delete",
        Txn::DeleteContainer(_) => "deleteContainer",
        Txn::SetData(_) => "setData",
        Txn::Reconfig(_) => "reconfig",
        Txn::SetAcl(_) => "setACL",
        Txn::Check(_) => "check",
        Txn::Multi(_) => "multi",
        Txn::Error(_) => "error",
    }
}

/// Whether the transaction names `top` or something below it.
pub(super) fn touches(txn: &Txn<'_>, top: &str) -> bool {
    match txn {
        Txn::CreateSession(_) | Txn::Error(_) => false,
        Txn::CloseSession(close) => close.paths_to_delete.iter().any(|path| is_below(path, top)),
        Txn::Multi(parts) => parts.iter().any(|part| touches(part, top)),
        Txn::Create(create) | Txn::Create2(create) => is_below(&create.path, top),
        Txn::CreateContainer(create) => is_below(&create.path, top),
        Txn::CreateTtl(create) => is_below(&create.path, top),
        Txn::Delete(delete) | Txn::DeleteContainer(delete) => is_below(&delete.path, top),
        Txn::SetData(set) | Txn::Reconfig(set) => is_below(&set.path, top),
        Txn::SetAcl(set) => is_below(&set.path, top),
        Txn::Check(check) => is_below(&check.path, top),
    }
}

/// What the transaction says, in a few words.
pub(super) fn for_people(txn: &Txn<'_>, with_data: bool) -> String {
    let data = |data: Option<&[u8]>| match with_data {
        true => format!(" data={}", data_for_people(data)),
        false => format!(" length={}", data.map_or(0, <[u8]>::len)),
    };
    let acl = |acl: &Option<Vec<jute::Acl<'_>>>| match acl {
        Some(acl) => format!(" acl={}", acl_for_people(acl)),
        None => " acl=null".to_owned(),
    };
    match txn {
        Txn::CreateSession(create) => format!("timeout={}ms", create.timeout_ms),
        Txn::CloseSession(close) => {
            let paths = close.paths_to_delete.iter().map(|path| Plain(path).to_string());
            format!("deletes=[{}]", paths.collect::<Vec<_>>().join(","))
        }
        Txn::Create(create) | Txn::Create2(create) => format!(
            "{}{}{}{} parentCversion={}",
            Plain(&create.path),
            data(create.data.as_deref()),
            acl(&create.acl),
            if create.ephemeral { " ephemeral" } else { "" },
            create.parent_cversion
        ),
        Txn::CreateContainer(create) => format!(
            "{}{}{} parentCversion={}",
            Plain(&create.path),
            data(create.data.as_deref()),
            acl(&create.acl),
            create.parent_cversion
        ),
        Txn::CreateTtl(create) => format!(
            "{}{}{} parentCversion={} ttl={}ms",
            Plain(&create.path),
            data(create.data.as_deref()),
            acl(&create.acl),
            create.parent_cversion,
            create.ttl
        ),
        Txn::Delete(delete) | Txn::DeleteContainer(delete) => Plain(&delete.path).to_string(),
        Txn::SetData(set) | Txn::Reconfig(set) => {
            format!("{}{} version={}", Plain(&set.path), data(set.data.as_deref()), set.version)
        }
        Txn::SetAcl(set) => {
            format!("{}{} version={}", Plain(&set.path), acl(&set.acl), set.version)
        }
        Txn::Check(check) => format!("{} version={}", Plain(&check.path), check.version),
        Txn::Multi(parts) => {
            let part = |part: &Txn<'_>| format!("{} {}", name(part), for_people(part, with_data));
            format!("{{{}}}", parts.iter().map(part).collect::<Vec<_>>().join("; "))
        }
        Txn::Error(code) => format!("code={code}"),
    }
}

/// The same as members of an object.
pub(super) fn for_scripts(txn: &Txn<'_>, with_data: bool) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("op".to_owned(), name(txn).into());
    let mut put = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    match txn {
        Txn::CreateSession(create) => put("timeout_ms", create.timeout_ms.into()),
        Txn::CloseSession(close) => put("deletes", json!(close.paths_to_delete)),
        Txn::Create(create) | Txn::Create2(create) => {
            put("ephemeral", create.ephemeral.into());
            created(
                &mut put,
                (&create.path, create.data.as_deref(), create.acl.as_deref()),
                create.parent_cversion,
                with_data,
            );
        }
        Txn::CreateContainer(create) => created(
            &mut put,
            (&create.path, create.data.as_deref(), create.acl.as_deref()),
            create.parent_cversion,
            with_data,
        ),
        Txn::CreateTtl(create) => {
            put("ttl_ms", create.ttl.into());
            created(
                &mut put,
                (&create.path, create.data.as_deref(), create.acl.as_deref()),
                create.parent_cversion,
                with_data,
            );
        }
        Txn::Delete(delete) | Txn::DeleteContainer(delete) => put("path", json!(delete.path)),
        Txn::SetData(set) | Txn::Reconfig(set) => {
            put("path", json!(set.path));
            content(&mut put, set.data.as_deref(), with_data);
            put("version", set.version.into());
        }
        Txn::SetAcl(set) => {
            put("path", json!(set.path));
            put("acl", json!(set.acl.as_deref().map(acl_for_scripts)));
            put("version", set.version.into());
        }
        Txn::Check(check) => {
            put("path", json!(check.path));
            put("version", check.version.into());
        }
        Txn::Multi(parts) => {
            let parts = parts.iter().map(|part| for_scripts(part, with_data).into()).collect();
            put("parts", Value::Array(parts));
        }
        Txn::Error(code) => put("code", (*code).into()),
    }
    map
}

fn created(
    put: &mut dyn FnMut(&str, Value),
    (path, data, acl): (&str, Option<&[u8]>, Option<&[jute::Acl<'_>]>),
    parent_cversion: i32,
    with_data: bool,
) {
    put("path", path.into());
    content(put, data, with_data);
    put("acl", json!(acl.map(acl_for_scripts)));
    put("parent_cversion", parent_cversion.into());
}

fn content(put: &mut dyn FnMut(&str, Value), data: Option<&[u8]>, with_data: bool) {
    put("length", data.map_or(0, <[u8]>::len).into());
    if with_data {
        put("data", json!(data_for_scripts(data)));
    }
}
