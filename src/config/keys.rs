//! The names ZooKeeper 3.9.5 knows, the few that are this server's own, and what each comes to here.
//!
//! Owns the table of known keys, the other spellings they are found under, and the nearest name of
//! a mistyped one. Never sees a value. A key moves to [`NOW`] together with the field of the
//! configuration that it sets.

/// What a known key comes to in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Sets a field of the configuration.
    Now,
    /// A line of the server list, `server.N`.
    ServerLine,
    /// Known, and nothing reads it.
    NotHere(Reason),
}

/// Why nothing reads a known key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Will have an effect.
    Later,
    /// TLS of clients, authentication or audit, which this version lacks.
    Security,
    /// Tunes how Apache ZooKeeper's servers work together.
    Ensemble,
    /// Tunes the JVM, its libraries or the inside of Apache ZooKeeper.
    Internal,
    /// Read by clients only, in ZooKeeper too.
    Client,
}

/// Keys with an effect, without the prefix `zookeeper.`.
pub(super) const NOW: &[&str] = &[
    "tickTime",
    "dataDir",
    "dataLogDir",
    "clientPort",
    "clientPortAddress",
    "clientPortListenBacklog",
    "maxClientCnxns",
    "maxCnxns",
    "minSessionTimeout",
    "maxSessionTimeout",
    "globalOutstandingLimit",
    "initLimit",
    "syncLimit",
    "leaderServes",
    "localSessionsEnabled",
    "localSessionsUpgradingEnabled",
    "preAllocSize",
    "snapCount",
    "snapSizeLimitInKb",
    "txnLogSizeLimitInKb",
    "fsync.warningthresholdms",
    "forceSync",
    "autopurge.snapRetainCount",
    "autopurge.purgeInterval",
    "datadir.autocreate",
    "db.autocreate",
    "snapshot.trust.empty",
    "snapshot.compression.method",
    "digest.enabled",
    "extendedTypesEnabled",
    "jute.maxbuffer",
    "enforceQuota",
    "skipACL",
    "DigestAuthenticationProvider.enabled",
    "DigestAuthenticationProvider.superDigest",
    "DigestAuthenticationProvider.digestAlg",
    "enforce.auth.enabled",
    "enforce.auth.schemes",
    "sessionRequireClientSASLAuth",
    "reconfigEnabled",
    "znode.container.checkIntervalMs",
    "znode.container.maxPerMinute",
    "znode.container.maxNeverUsedIntervalMs",
    "nio.sessionlessCnxnTimeout",
    "clientTcpKeepAlive",
    "4lw.commands.whitelist",
    "metricsProvider.className",
    "metricsProvider.httpHost",
    "metricsProvider.httpPort",
    "electionAlg",
    "standaloneEnabled",
    "dynamicConfigFile",
    "secureClientPort",
    "sslQuorum",
    "portUnification",
    "ssl.quorum.keyStore.location",
    "ssl.quorum.keyStore.type",
    "ssl.quorum.trustStore.location",
    "ssl.quorum.trustStore.type",
    "ssl.quorum.protocol",
    "ssl.quorum.enabledProtocols",
    "ssl.quorum.ciphersuites",
    "ssl.quorum.clientAuth",
    "ssl.quorum.hostnameVerification",
    "ssl.quorum.clientHostnameVerification",
    // ZooKeeper does not have these, and takes no offence at them.
    "quorum.auth.secretFile",
    "leader.snapSyncLimitInKbPerSecond",
    "linearizableReads",
];

const LATER: &[&str] = &[
    "emulate353TTLNodes",
    "closeSessionTxn.enabled",
    "readonlymode.enabled",
    "flushDelay",
    "maxWriteQueuePollTime",
    "maxBatchSize",
    "serializeLastProcessedZxid.enabled",
    "request_throttle_max_requests",
    "request_throttle_stall_time",
    "request_throttle_drop_stale",
    "request_stale_latency_check",
    "request_stale_connection_check",
    "request_throttler.shutdownTimeout",
    "throttled_op_wait_time",
    "largeRequestThreshold",
    "largeRequestMaxBytes",
    "connection_throttle_tokens",
    "connection_throttle_fill_time",
    "connection_throttle_fill_count",
    "connection_throttle_freeze_time",
    "connection_throttle_drop_increase",
    "connection_throttle_drop_decrease",
    "connection_throttle_decrease_ratio",
    "connection_throttle_weight_enabled",
    "connection_throttle_global_session_weight",
    "connection_throttle_local_session_weight",
    "connection_throttle_renew_session_weight",
    "pathStats.enabled",
    "pathStats.slotCapacity",
    "pathStats.slotDuration",
    "pathStats.maxDepth",
    "pathStats.sampleRate",
    "pathStats.initialDelay",
    "pathStats.delay",
    "pathStats.topPathMax",
    "admin.enableServer",
    "admin.serverAddress",
    "admin.serverPort",
    "admin.idleTimeout",
    "admin.commandURL",
    "admin.httpVersion",
    "admin.portUnification",
    "admin.forceHttps",
    "admin.needClientAuth",
    "admin.rateLimiterIntervalInMS",
    "admin.snapshot.enabled",
    "admin.restore.enabled",
    "testingonly.initialZxid",
];

const SECURITY: &[&str] = &[
    "secureClientPortAddress",
    "client.portUnification",
    "client.certReload",
    "fips-mode",
    "X509AuthenticationProvider.superUser",
    "superUser",
    "IPAuthenticationProvider.usexforwardedfor",
    "ensembleAuthName",
    "allowSaslFailedClients",
    "letAnySaslUserDoX",
    "SASLAuthenticationProvider.superPassword",
    "sasl.serverconfig",
    "kerberos.removeHostFromPrincipal",
    "kerberos.removeRealmFromPrincipal",
    "kerberos.canonicalizeHostNames",
    "kerberos.minReLoginTimeMs",
    "security.auth_to_local",
    "requireKerberosConfig",
    "kinit",
    "java.security.auth.login.config",
    "audit.enable",
    "audit.impl.class",
    "quorum.auth.enableSasl",
    "quorum.auth.serverRequireSasl",
    "quorum.auth.learnerRequireSasl",
    "quorum.auth.kerberos.servicePrincipal",
    "quorum.auth.learner.saslLoginContext",
    "quorum.auth.server.saslLoginContext",
    "netty.server.outstandingHandshake.limit",
    "netty.server.earlyDropSecureConnectionHandshakes",
];

/// Each also exists for the servers among themselves, as `ssl.quorum.X`.
const SSL: &[&str] = &[
    "ssl.keyStore.location",
    "ssl.keyStore.password",
    "ssl.keyStore.passwordPath",
    "ssl.keyStore.type",
    "ssl.trustStore.location",
    "ssl.trustStore.password",
    "ssl.trustStore.passwordPath",
    "ssl.trustStore.type",
    "ssl.protocol",
    "ssl.enabledProtocols",
    "ssl.ciphersuites",
    "ssl.clientAuth",
    "ssl.hostnameVerification",
    "ssl.clientHostnameVerification",
    "ssl.allowReverseDnsLookup",
    "ssl.crl",
    "ssl.ocsp",
    "ssl.handshakeDetectionTimeoutMillis",
    "ssl.context.supplier.class",
    "ssl.sslProvider",
    "ssl.authProvider",
];

const ENSEMBLE: &[&str] = &[
    // Certificates are read anew whenever they change.
    "sslQuorumReloadCertFiles",
    "connectToLearnerMasterLimit",
    "electionPortBindRetry",
    "cnxTimeout",
    "quorumCnxnTimeoutMs",
    "quorumListenOnAllIPs",
    "tcpKeepAlive",
    "peerType",
    "syncEnabled",
    "observer.syncEnabled",
    "observerMasterPort",
    "observer.reconnectDelayMs",
    "observer.election.DelayMs",
    "observerMaster.sizeLimit",
    "oraclePath",
    "enableEagerACLCheck",
    "commitLogCount",
    "snapshotSizeFactor",
    "fastleader.minNotificationInterval",
    "fastleader.maxNotificationInterval",
    "leader.maxTimeToWaitForEpoch",
    "leader.maxConcurrentSnapSyncs",
    "leader.maxConcurrentDiffSyncs",
    "leader.ackLoggingFrequency",
    "leaderConnectDelayDuringRetryMs",
    "leader.closeSocketAsync",
    "learner.closeSocketAsync",
    "learner.asyncSending",
    "forward_learner_requests_to_commit_processor_disabled",
    "follower.skipLearnerRequestToNextProcessor",
    "commitProcessor.numWorkerThreads",
    "commitProcessor.maxReadBatchSize",
    "commitProcessor.maxCommitBatchSize",
    "commitProcessor.shutdownTimeout",
    "forceSnapshotSync",
    "messageTracker.Enabled",
    "messageTracker.BufferSize",
    "multiAddress.enabled",
    "multiAddress.reachabilityCheckEnabled",
    "multiAddress.reachabilityCheckTimeoutMs",
    "quorum.cnxn.threads.size",
    "follower.nodelay",
    "leader.nodelay",
    "test.allowDiscontinuousProposals",
];

const INTERNAL: &[&str] = &[
    "jute.maxbuffer.extrasize",
    "intBufferStartingSizeBytes",
    "maxResponseCacheSize",
    "maxGetChildrenResponseCacheSize",
    "watchManagerName",
    "watcherCleanThreadsNum",
    "watcherCleanThreshold",
    "watcherCleanIntervalInSeconds",
    "maxInProcessingDeadWatchers",
    "bitHashCacheSize",
    "serverCnxnFactory",
    "nio.numSelectorThreads",
    "nio.numWorkerThreads",
    "nio.directBufferBytes",
    "nio.shutdownTimeout",
    "netty.advancedFlowControl.enabled",
    "jvm.pause.monitor",
    "jvm.pause.warn-threshold.ms",
    "jvm.pause.info-threshold.ms",
    "jvm.pause.sleep.time.ms",
    "metricsProvider.exportJvmInfo",
    "metricsProvider.numWorkerThreads",
    "metricsProvider.maxQueueSize",
    "metricsProvider.workerShutdownTimeoutMs",
    "jmx.log4j.disable",
    "jmx.log4j.mbean",
    "controllerPort",
];

const CLIENT: &[&str] =
    &["clientCnxnSocket", "request.timeout", "disableAutoWatchReset", "client.secure"];

const TABLE: [(Effect, &[&str]); 7] = [
    (Effect::Now, NOW),
    (Effect::NotHere(Reason::Later), LATER),
    (Effect::NotHere(Reason::Security), SECURITY),
    (Effect::NotHere(Reason::Security), SSL),
    (Effect::NotHere(Reason::Ensemble), ENSEMBLE),
    (Effect::NotHere(Reason::Internal), INTERNAL),
    (Effect::NotHere(Reason::Client), CLIENT),
];

/// Keys of which there is one per server, group or provider, by what they begin with.
const FAMILIES: [(&str, Effect); 6] = [
    ("server.", Effect::ServerLine),
    ("group.", Effect::NotHere(Reason::Ensemble)),
    ("weight.", Effect::NotHere(Reason::Ensemble)),
    ("authProvider.", Effect::NotHere(Reason::Security)),
    ("superUser.", Effect::NotHere(Reason::Security)),
    ("sasl.client.", Effect::NotHere(Reason::Client)),
];

/// Headings of the admin guide that read like keys, with the keys that ZooKeeper reads.
const HEADINGS: [(&str, &str); 18] = [
    ("connectionMaxTokens", "connection_throttle_tokens"),
    ("connectionTokenFillTime", "connection_throttle_fill_time"),
    ("connectionTokenFillCount", "connection_throttle_fill_count"),
    ("connectionFreezeTime", "connection_throttle_freeze_time"),
    ("connectionDropIncrease", "connection_throttle_drop_increase"),
    ("connectionDropDecrease", "connection_throttle_drop_decrease"),
    ("connectionDecreaseRatio", "connection_throttle_decrease_ratio"),
    ("requestThrottleLimit", "request_throttle_max_requests"),
    ("requestThrottleStallTime", "request_throttle_stall_time"),
    ("requestThrottleDropStale", "request_throttle_drop_stale"),
    ("requestStaleLatencyCheck", "request_stale_latency_check"),
    ("requestStaleConnectionCheck", "request_stale_connection_check"),
    ("throttledOpWaitTime", "throttled_op_wait_time"),
    ("advancedFlowControlEnabled", "netty.advancedFlowControl.enabled"),
    ("maxConcurrentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
    ("maxConcurrentDiffSyncs", "leader.maxConcurrentDiffSyncs"),
    ("maxTimeToWaitForEpoch", "leader.maxTimeToWaitForEpoch"),
    ("outstandingHandshake.limit", "netty.server.outstandingHandshake.limit"),
];

/// Properties that ZooKeeper reads without its prefix; all but the last only from `-D`.
const UNPREFIXED: [&str; 9] = [
    "jute.maxbuffer",
    "readonlymode.enabled",
    "znode.container.checkIntervalMs",
    "znode.container.maxPerMinute",
    "znode.container.maxNeverUsedIntervalMs",
    "follower.nodelay",
    "leader.nodelay",
    "java.security.auth.login.config",
    "fsync.warningthresholdms",
];

const PREFIX: &str = "zookeeper.";

/// The key that a name written in zoo.cfg or behind `-D` stands for.
pub(super) fn canonical(written: &str) -> &str {
    let name = written.strip_prefix(PREFIX).unwrap_or(written);
    HEADINGS.iter().find(|(heading, _)| *heading == name).map_or(name, |&(_, key)| key)
}

/// What a canonical key comes to; `None` for one that ZooKeeper does not know either.
pub(super) fn effect(key: &str) -> Option<Effect> {
    let ssl_of_peers = key.strip_prefix("ssl.quorum.");
    let listed = |(effect, names): &(Effect, &[&str])| {
        let peers = || ssl_of_peers.is_some_and(|rest| names.contains(&&*format!("ssl.{rest}")));
        (names.contains(&key) || peers()).then_some(*effect)
    };
    TABLE.iter().find_map(listed).or_else(|| {
        let family = FAMILIES.iter().find(|(prefix, _)| key.starts_with(prefix));
        family.map(|&(_, effect)| effect)
    })
}

/// Whether `-D` with this very name sets something in ZooKeeper; other names are the JVM's.
pub(super) fn is_server_property(written: &str) -> bool {
    written.starts_with(PREFIX) || UNPREFIXED.contains(&written)
}

/// Whether ZooKeeper reads this key from `-D` and ignores a line of zoo.cfg.
pub(super) fn is_define_only(key: &str) -> bool {
    key != "fsync.warningthresholdms" && UNPREFIXED.contains(&key)
}

/// The known name that a mistyped one most resembles, if any does.
pub(super) fn nearest(unknown: &str) -> Option<&'static str> {
    const RESEMBLES: f64 = 0.6;
    let unknown = canonical(unknown).to_lowercase();
    let likeness =
        |name: &str| strsim::normalized_damerau_levenshtein(&unknown, &name.to_lowercase());
    TABLE
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= RESEMBLES)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
