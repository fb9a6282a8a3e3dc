//! The AdminServer: where commands are answered over HTTP, and which of them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::settings::Settings;
use super::value::{address, limit, millis, port, property_bool, text};
use super::{ConfigError, ListenAddress, Note};

/// The AdminServer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Its port (`admin.serverAddress`, `admin.serverPort`).
    pub listen: ListenAddress,
    /// How long a connection may be without an answer (`admin.idleTimeout`); `None` is
    /// without a limit.
    pub idle_timeout: Option<Duration>,
    /// The path of the commands (`admin.commandURL`), without a slash at its end.
    pub command_url: String,
    /// Time between two snapshots that are asked for, and between two that are sent
    /// (`admin.rateLimiterIntervalInMS`).
    pub rate_limiter_interval: Duration,
    /// Whether snapshots are given (`admin.snapshot.enabled`).
    pub snapshot_enabled: bool,
    /// Whether snapshots are taken that are sent (`admin.restore.enabled`).
    pub restore_enabled: bool,
    /// Whether who connects other than over loopback needs no more than ZooKeeper asks for
    /// (`admin.remote.allowWorld`).
    pub remote_allow_world: bool,
    /// Whether a proxy in front tells who asks (`IPAuthenticationProvider.usexforwardedfor`).
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
        let port = port(settings, "admin.serverPort")?;
        let idle = limit(settings, "admin.idleTimeout")?;
        let rate_limiter_interval = millis(settings, "admin.rateLimiterIntervalInMS")?;
        let url = text(settings, "admin.commandURL").trim_matches('/');
        Ok(Some(Self {
            listen: ListenAddress { address, port },
            idle_timeout: idle.map(|ms| Duration::from_millis(ms.get().into())),
            command_url: if url.is_empty() { String::new() } else { format!("/{url}") },
            rate_limiter_interval,
            snapshot_enabled: property_bool(settings, "admin.snapshot.enabled", notes),
            restore_enabled: property_bool(settings, "admin.restore.enabled", notes),
            remote_allow_world: property_bool(settings, "admin.remote.allowWorld", notes),
            x_forwarded_for: property_bool(
                settings,
                "IPAuthenticationProvider.usexforwardedfor",
                notes,
            ),
        }))
    }
}
