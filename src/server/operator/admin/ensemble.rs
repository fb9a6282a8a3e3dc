//! What a member tells of its ensemble.

use super::json::{Fields, Json};
use crate::config::Ensemble;
use crate::list;
use crate::server::role::Role;
use crate::server::shared::Server;

/// Who leads.
pub(super) fn leader(server: &Server) -> Fields {
    let Some(ensemble) = &server.config.ensemble else {
        return vec![("error".into(), "server is not initialized".into())];
    };
    let leader = *server.others.leader.lock();
    let host =
        leader.and_then(|id| ensemble.list.servers.get(id)).map(|server| server.host.as_str());
    vec![
        ("is_leader".into(), (server.role.get() == Role::Leader).into()),
        ("leader_id".into(), leader.map_or(-1, i64::from).into()),
        ("leader_ip".into(), host.unwrap_or_default().into()),
    ]
}

/// The servers that vote, by the list.
pub(super) fn voting_view(server: &Server) -> Fields {
    let ensemble = server.config.ensemble.as_ref();
    let voters = ensemble.into_iter().flat_map(|ensemble| {
        let servers = ensemble.list.servers.iter();
        let voters = servers.filter(|(_, member)| member.role == list::Role::Participant);
        voters.map(|(id, member)| (id.to_string().into(), view(server, ensemble, *id, member)))
    });
    vec![("current_config".into(), Json::Object(voters.collect()))]
}

fn view(server: &Server, ensemble: &Ensemble, id: u8, member: &list::Server) -> Json {
    let client = match id == ensemble.my_id {
        true => Some(server.config.client_listen.to_string()),
        false => member.client.as_ref().map(ToString::to_string),
    };
    let one = |address: String| Json::List(vec![address.into()]);
    Json::Object(vec![
        ("server_addresses".into(), one(address(member.host.as_str(), member.quorum_port))),
        ("election_addresses".into(), one(address(member.host.as_str(), member.election_port))),
        ("client_address".into(), client.unwrap_or_default().into()),
        ("learner_type".into(), "participant".into()),
    ])
}

/// Where this member is in the protocol by which ZooKeeper's servers agree.
pub(super) fn zab_state(server: &Server) -> Fields {
    let Some(ensemble) = &server.config.ensemble else {
        return vec![("voting".into(), false.into()), ("zabstate".into(), "".into())];
    };
    let role = server.role.get();
    let me = ensemble.me();
    let host = me.map_or("", |me| me.host.as_str());
    let zxid = server.replica.applied();
    let [epoch, counter] = [zxid.0 >> 32, zxid.0 & 0xffff_ffff];
    vec![
        ("myid".into(), u32::from(ensemble.my_id).into()),
        ("is_leader".into(), (role == Role::Leader).into()),
        ("quorum_address".into(), addresses(host, me.map_or(0, |me| me.quorum_port))),
        ("election_address".into(), addresses(host, me.map_or(0, |me| me.election_port))),
        ("client_address".into(), server.config.client_listen.to_string().into()),
        ("voting".into(), me.is_some_and(|me| me.role == list::Role::Participant).into()),
        ("last_zxid".into(), zxid.to_string().into()),
        ("zab_epoch".into(), epoch.into()),
        ("zab_counter".into(), counter.into()),
        ("zabstate".into(), if role.lacks_leader() { "election" } else { "broadcast" }.into()),
    ]
}

/// `MultipleAddresses` of one, whether or not it can be reached.
fn addresses(host: &str, port: u16) -> Json {
    let one = || Json::from(address(host, port));
    let list = |value: Json| Json::List(vec![value]);
    Json::Object(vec![
        ("empty".into(), false.into()),
        ("all_addresses".into(), list(one())),
        ("wildcard_addresses".into(), list(address("0.0.0.0", port).into())),
        ("all_ports".into(), list(u32::from(port).into())),
        ("all_host_strings".into(), list(host.into())),
        ("reachable_address".into(), one()),
        ("all_reachable_addresses".into(), list(one())),
        ("all_reachable_addresses_or_all".into(), list(one())),
        ("reachable_or_one".into(), one()),
        ("one".into(), one()),
    ])
}

/// The observers that follow this leader. What Apache ZooKeeper counts of its connection with each
/// is not counted here.
pub(super) fn observers(server: &Server) -> Fields {
    let there = server.others.observers_there.lock().clone();
    let list = there.iter().map(|id| {
        let listed = server.config.ensemble.as_ref().and_then(|all| all.list.servers.get(*id));
        let at = listed
            .map(|member| address(member.host.as_str(), member.quorum_port))
            .unwrap_or_default();
        Json::Object(vec![
            ("remote_socket_address".into(), at.into()),
            ("sid".into(), u32::from(*id).into()),
        ])
    });
    vec![("synced_observers".into(), there.len().into()), ("observers".into(), list.collect())]
}

/// IPv6 in brackets.
fn address(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
