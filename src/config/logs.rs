//! Where log lines and audit lines go.

use std::path::PathBuf;

use super::settings::Settings;
use super::value::{self, bad_value, property_bool};
use super::{ConfigError, Note};

/// The classes of ZooKeeper 3.5 to 3.9 that write audit lines to its log.
const AUDIT_CLASSES: [&str; 2] =
    ["org.apache.zookeeper.audit.Slf4jAuditLogger", "org.apache.zookeeper.audit.Log4jAuditLogger"];

/// Where log lines and audit lines go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logs {
    /// A file for log lines, beside standard error (`log.dir`, which is `ZOO_LOG_DIR`, and
    /// `log.file`).
    pub file: Option<PathBuf>,
    /// Where what clients changed is written down (`audit.enable`); `None` is nowhere.
    pub audit: Option<AuditTo>,
    /// Whether changes are refused while that takes nothing (`audit.failClosed`).
    pub audit_fails_closed: bool,
}

/// A place for audit lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTo {
    /// Standard output.
    Stdout,
    /// This machine's syslog.
    Syslog,
    /// A file.
    File(PathBuf),
}

impl Logs {
    pub(super) fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        let text = |key| settings.get(key).map(|setting| setting.value.clone());
        let folder = text("log.dir").map(PathBuf::from);
        let file = folder.as_ref().map(|folder| folder.join(value::text(settings, "log.file")));
        let is_audited = property_bool(settings, "audit.enable", notes);
        let class = settings.get("audit.impl.class").filter(|_| is_audited);
        if let Some(setting) = class.filter(|its| !AUDIT_CLASSES.contains(&its.value.as_str())) {
            return Err(bad_value("audit.impl.class", setting, AUDIT_CLASSES.join(" or ")));
        }
        let to = || match text("audit.log").as_deref() {
            Some("stdout") => AuditTo::Stdout,
            Some("syslog") => AuditTo::Syslog,
            Some(path) => AuditTo::File(path.into()),
            None => {
                let folder = text("auditlog.dir").map(PathBuf::from).or(folder);
                let name = value::text(settings, "auditlog.file");
                folder.map_or(AuditTo::Stdout, |folder| AuditTo::File(folder.join(name)))
            }
        };
        let audit_fails_closed = property_bool(settings, "audit.failClosed", notes);
        Ok(Self { file, audit: is_audited.then(to), audit_fails_closed })
    }
}
