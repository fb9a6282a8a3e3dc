//! The ports that a server listens on: its clients', the metrics' and the AdminServer's.
//!
//! Owns the keys that name them, and that no two are the same. Never binds.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::admin::Admin;
use super::members::Ensemble;
use super::server_line;
use super::settings::Settings;
use super::value;
use super::{ConfigError, Note};
use crate::message::MessageId;

/// A port on one address or on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` is every address, IPv4 and IPv6; never an unspecified address.
    pub address: Option<IpAddr>,
    /// TCP port; 0 is one that the operating system picks, which no zoo.cfg asks for.
    pub port: u16,
}

impl ListenAddress {
    /// Whether both cannot be listened on.
    fn meets(&self, other: &Self) -> bool {
        let is_same = match (self.address, other.address) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_same && self.port == other.port && self.port != 0
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(address, self.port).fmt(f)
    }
}

/// Where clients are listened for, by `clientPort` and `clientPortAddress`, or `default`.
pub(super) fn clients(
    settings: &Settings,
    default: Option<ListenAddress>,
) -> Result<Option<ListenAddress>, ConfigError> {
    let port = value::port(settings, "clientPort")?;
    let address = value::address(settings, "clientPortAddress")?;
    let asked = settings.get("clientPortAddress");
    match (port, default, asked) {
        (0, None, None) => Ok(None),
        (0, None, Some(setting)) => Err(ConfigError::NotSet {
            place: setting.origin.to_string(),
            key: "clientPort",
            remedy: "Add clientPort, or remove clientPortAddress.",
        }),
        (port, default, _) => Ok(Some(ListenAddress {
            address: match asked {
                Some(_) => address,
                None => default.and_then(|default| default.address),
            },
            port: if port == 0 { default.map_or(0, |default| default.port) } else { port },
        })),
    }
}

/// As [`clients`], with what the list of servers says.
pub(super) fn clients_by_list(
    settings: &Settings,
    place: &str,
    data_dir: &Path,
    ensemble: Option<&Ensemble>,
    clients: Option<ListenAddress>,
    notes: &mut Vec<Note>,
) -> Result<ListenAddress, ConfigError> {
    match ensemble {
        Some(ensemble) => server_line::join_member_address(settings, ensemble, clients),
        None => server_line::join_client_address(settings, data_dir, clients, notes),
    }?
    .ok_or_else(|| nothing_to_listen_on(settings, place))
}

fn nothing_to_listen_on(settings: &Settings, place: &str) -> ConfigError {
    let remedy = match settings.is_set("secureClientPort") {
        true => {
            "Add clientPort: secureClientPort has no effect, because this version has no TLS for \
             clients."
        }
        false => "Add clientPort, such as clientPort=2181: there is nothing to listen on.",
    };
    let place = settings.place_of("secureClientPort", place);
    ConfigError::NotSet { place, key: "clientPort", remedy }
}

/// Where `/metrics` is served, and the AdminServer, beside the clients.
pub(super) fn operators(
    settings: &Settings,
    place: &str,
    has_file: bool,
    is_member: bool,
    clients: ListenAddress,
    notes: &mut Vec<Note>,
) -> Result<(Option<ListenAddress>, Option<Admin>), ConfigError> {
    let metrics = metrics(settings)?;
    let others = [("clientPort", Some(clients)), ("metricsProvider.httpPort", metrics)];
    let admin = Admin::from_settings(settings, has_file, notes)?
        .filter(|admin| !gives_way(settings, place, is_member, admin, others, notes));
    let ports =
        [others[0], others[1], ("admin.serverPort", admin.as_ref().map(|admin| admin.listen))];
    expect_ports_apart(settings, place, ports)?;
    Ok((metrics, admin))
}

fn metrics(settings: &Settings) -> Result<Option<ListenAddress>, ConfigError> {
    const KEY: &str = "metricsProvider.className";
    const NONE: [&str; 2] = [
        "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
        "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
    ];
    const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    match settings.get(KEY) {
        None => return Ok(None),
        Some(setting) if NONE.contains(&&*setting.value) => return Ok(None),
        Some(setting) if setting.value == PROMETHEUS => {}
        Some(setting) => {
            return Err(value::bad_value(KEY, setting, format!("{PROMETHEUS} or {}", NONE[0])));
        }
    }
    let port = value::port(settings, "metricsProvider.httpPort")?;
    let address = value::address(settings, "metricsProvider.httpHost")?;
    Ok(Some(ListenAddress { address, port }))
}

/// Whether another has the port that the AdminServer wants, and is served without it. ZooKeeper
/// does so in an ensemble, and alone does not start; here a server alone refuses only the port that
/// somebody set.
fn gives_way(
    settings: &Settings,
    place: &str,
    is_member: bool,
    admin: &Admin,
    others: [(&'static str, Option<ListenAddress>); 2],
    notes: &mut Vec<Note>,
) -> bool {
    const KEY: &str = "admin.serverPort";
    let is_set = settings.is_set(KEY);
    if is_set && !is_member {
        return false;
    }
    let meets = |other: &ListenAddress| other.meets(&admin.listen);
    let Some((key, _)) = others.into_iter().find(|(_, its)| its.as_ref().is_some_and(meets)) else {
        return false;
    };
    let port = admin.listen.port;
    let what = match is_set {
        true => {
            format!("{}: {KEY} and {key} are both port {port}", settings.place_of(KEY, place))
        }
        false => format!(
            "{}: {key} is {port}, the default port of the AdminServer",
            settings.place_of(key, place)
        ),
    };
    let text = format!(
        "{what}: there is no AdminServer. Set {KEY} to another port, or admin.enableServer=false"
    );
    notes.push(Note::warning(MessageId::NO_ADMIN_SERVER, text));
    true
}

/// Two that want one port: only the first one would have it.
fn expect_ports_apart(
    settings: &Settings,
    place: &str,
    ports: [(&'static str, Option<ListenAddress>); 3],
) -> Result<(), ConfigError> {
    let ports: Vec<_> = ports.into_iter().filter_map(|(key, its)| Some((key, its?))).collect();
    for (at, (key, one)) in ports.iter().enumerate() {
        for (other_key, other) in ports.iter().skip(at + 1) {
            if one.meets(other) {
                let own = |key: &str| if settings.is_set(key) { "" } else { " (by default)" };
                return Err(ConfigError::Contradiction {
                    place: settings
                        .place_of(if settings.is_set(other_key) { other_key } else { key }, place),
                    what: format!(
                        "{key}{} and {other_key}{} are both port {}",
                        own(key),
                        own(other_key),
                        one.port
                    ),
                });
            }
        }
    }
    Ok(())
}
