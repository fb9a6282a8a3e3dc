//! The AdminServer: where commands are answered over HTTP, and which of them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::settings::Settings;
use super::standalone::property;
use super::value::{Number, address, property_bool};
use super::{ConfigError, ListenAddress, Note};

/// The AdminServer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Its port (`admin.serverAddress`, `admin.serverPort`, 8080).
    pub listen: ListenAddress,
    /// How long a connection may be without an answer (`admin.idleTimeout`, 30 s); `None` is
    /// without a limit.
    pub idle_timeout: Option<Duration>,
    /// The path of the commands (`admin.commandURL`, `/commands`), without a slash at its end.
    pub command_url: String,
    /// Time between two snapshots that are asked for, and between two that are sent
    /// (`admin.rateLimiterIntervalInMS`, 5 minutes).
    pub rate_limiter_interval: Duration,
    /// Whether snapshots are given (`admin.snapshot.enabled`, true).
    pub snapshot_enabled: bool,
    /// Whether snapshots are taken that are sent (`admin.restore.enabled`, true).
    pub restore_enabled: bool,
    /// Whether who connects other than over loopback needs no more than ZooKeeper asks for
    /// (`admin.remote.allowWorld`, false).
    pub remote_allow_world: bool,
    /// Whether a proxy in front tells who asks (`IPAuthenticationProvider.usexforwardedfor`,
    /// false).
    pub x_forwarded_for: bool,
}

impl Admin {
    /// `None` where it is switched off, or is to speak TLS only. Without a zoo.cfg only this
    /// machine reaches it.
    pub(super) fn from_settings(
        settings: &Settings,
        has_file: bool,
        notes: &mut Vec<Note>,
    ) -> Result<Option<Self>, ConfigError> {
        let enabled = settings.get("admin.enableServer");
        let is_off = enabled.is_some_and(|setting| setting.value.eq_ignore_ascii_case("false"));
        // What is to be encrypted is not told in the clear.
        if is_off || settings.says_true("admin.forceHttps") {
            return Ok(None);
        }
        let address = match settings.is_set("admin.serverAddress") {
            false if !has_file => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => address(settings, "admin.serverAddress")?,
        };
        let port = property("admin.serverPort", 8080, 0, "a TCP port");
        let port = Number { range: 0..=u16::MAX.into(), ..port }.read(settings)?;
        let milliseconds =
            |key, default, least| property(key, default, least, "a number of milliseconds");
        let idle =
            milliseconds("admin.idleTimeout", 30_000, i64::from(i32::MIN)).read_limit(settings)?;
        let interval =
            milliseconds("admin.rateLimiterIntervalInMS", 300_000, 0).read_u32(settings)?;
        let url = settings.get("admin.commandURL").map_or("/commands", |setting| &setting.value);
        let url = url.trim_matches('/');
        Ok(Some(Self {
            listen: ListenAddress { address, port: u16::try_from(port).unwrap_or_default() },
            idle_timeout: idle.map(|ms| Duration::from_millis(ms.get().into())),
            command_url: if url.is_empty() { String::new() } else { format!("/{url}") },
            rate_limiter_interval: Duration::from_millis(interval.into()),
            snapshot_enabled: property_bool(settings, "admin.snapshot.enabled", true, notes),
            restore_enabled: property_bool(settings, "admin.restore.enabled", true, notes),
            remote_allow_world: property_bool(settings, "admin.remote.allowWorld", false, notes),
            x_forwarded_for: property_bool(
                settings,
                "IPAuthenticationProvider.usexforwardedfor",
                false,
                notes,
            ),
        }))
    }
}
