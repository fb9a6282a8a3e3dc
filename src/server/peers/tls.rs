//! TLS between servers: certificates, keys and issuers from PEM files, read anew when they change.
//!
//! Who dials checks that the certificate names the host that it dialled. Who is called knows from
//! the hello which server that is to be, and checks the same: no name is looked up backwards.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{
    Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::secure::{SecurityError, read, warn_if_open};
use crate::config::{ClientAuth, QuorumTls};
use crate::message::MessageId;

/// TLS by the files as they are now.
#[derive(Debug)]
pub(super) struct Tls {
    config: QuorumTls,
    provider: Arc<CryptoProvider>,
    loaded: Mutex<Loaded>,
}

/// What was made of the files, and what shows that they are others now.
#[derive(Debug)]
struct Loaded {
    stamps: [Stamp; 2],
    both: Both,
}

type Stamp = Option<(SystemTime, u64)>;

#[derive(Clone)]
struct Both {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Both {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Both")
    }
}

impl Tls {
    pub(super) fn load(config: QuorumTls) -> Result<Self, SecurityError> {
        warn_if_open(&config.key_store);
        let provider = Arc::new(provider(&config)?);
        let stamps = stamps(&config);
        let both = load(&config, &provider)?;
        Ok(Self { config, provider, loaded: Mutex::new(Loaded { stamps, both }) })
    }

    /// Whether whoever calls has to show a certificate.
    pub(super) fn needs_certificate(&self) -> bool {
        self.config.client_auth == ClientAuth::Need
    }

    pub(super) async fn connect(
        &self,
        host: &str,
        socket: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let connector = self.current().connector;
        let stream = connector.connect(name(host)?, socket).await.map_err(failed)?;
        Ok(stream.into())
    }

    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = self.current().acceptor;
        Ok(acceptor.accept(socket).await.map_err(failed)?.into())
    }

    /// Whether a certificate is that of the server at `host`.
    pub(super) fn check_caller(
        &self,
        certificate: Option<&CertificateDer<'_>>,
        host: &str,
    ) -> Result<(), String> {
        let Some(certificate) = certificate.filter(|_| self.config.checks_caller) else {
            return Ok(());
        };
        let parsed = ParsedCertificate::try_from(certificate).map_err(|error| error.to_string())?;
        let name = name(host).map_err(|error| error.to_string())?;
        verify_server_name(&parsed, &name)
            .map_err(|error| format!("its certificate does not name {host}: {error}"))
    }

    /// Looks whether the files are still those that were read.
    fn current(&self) -> Both {
        let mut loaded = self.loaded.lock();
        let stamps = stamps(&self.config);
        if stamps != loaded.stamps {
            // Once for each change: what is not whole yet is read when it has changed again.
            loaded.stamps = stamps;
            match load(&self.config, &self.provider) {
                Ok(both) => {
                    loaded.both = both;
                    tracing::info!("reloaded the certificates of the ensemble");
                }
                Err(error) => tracing::warn!(
                    id = %MessageId::CERTIFICATES_NOT_TAKEN,
                    %error,
                    "the certificates of the ensemble have changed but cannot be used; the old \
                     ones are kept"
                ),
            }
        }
        loaded.both.clone()
    }
}

fn stamps(config: &QuorumTls) -> [Stamp; 2] {
    [&config.key_store, &config.trust_store].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn name(host: &str) -> io::Result<ServerName<'static>> {
    let host = host.strip_suffix('.').unwrap_or(host);
    ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::other(format!("a certificate cannot name {host}")))
}

fn failed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        let what = "it ended the TLS handshake: is sslQuorum=true there too?";
        return io::Error::new(error.kind(), what);
    }
    io::Error::new(error.kind(), format!("TLS: {error}"))
}

/// The ciphers: those that are named, or all.
fn provider(config: &QuorumTls) -> Result<CryptoProvider, SecurityError> {
    let mut provider = ring::default_provider();
    let Some(names) = &config.cipher_suites else { return Ok(provider) };
    let protocols = config.protocols;
    let known = provider.cipher_suites.clone();
    let name = |suite: &tokio_rustls::rustls::SupportedCipherSuite| {
        // Java has no number in the names of those of 1.3.
        format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
    };
    for named in names.iter().filter(|named| !known.iter().any(|suite| name(suite) == **named)) {
        tracing::warn!(
            id = %MessageId::UNKNOWN_CIPHER,
            "ssl.quorum.ciphersuites: {named} is not available and is ignored"
        );
    }
    provider.cipher_suites.retain(|suite| names.contains(&name(suite)));
    let is_spoken = |suite: &tokio_rustls::rustls::SupportedCipherSuite| match suite.tls13() {
        Some(_) => protocols.tls13,
        None => protocols.tls12,
    };
    if !provider.cipher_suites.iter().any(is_spoken) {
        let known: Vec<String> = known.iter().filter(|suite| is_spoken(suite)).map(name).collect();
        return Err(SecurityError::NoCipher { known: known.join(", ") });
    }
    Ok(provider)
}

fn load(config: &QuorumTls, provider: &Arc<CryptoProvider>) -> Result<Both, SecurityError> {
    let (chain, key) = read_key_store(&config.key_store)?;
    let roots = Arc::new(read_trust_store(&config.trust_store)?);
    let mut versions = Vec::new();
    if config.protocols.tls13 && provider.cipher_suites.iter().any(|suite| suite.tls13().is_some())
    {
        versions.push(&TLS13);
    }
    if config.protocols.tls12 && provider.cipher_suites.iter().any(|suite| suite.tls13().is_none())
    {
        versions.push(&TLS12);
    }
    let unfit = |path: &Path| {
        let path = path.to_owned();
        move |source| SecurityError::Unfit { path, source }
    };
    let client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&versions)
        .map_err(unfit(&config.key_store))?;
    let client = match config.checks_called {
        true => client.with_root_certificates(Arc::clone(&roots)),
        false => client.dangerous().with_custom_certificate_verifier(Arc::new(AnyName {
            roots: Arc::clone(&roots),
            algorithms: provider.signature_verification_algorithms,
        })),
    };
    let mut client = client
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(unfit(&config.key_store))?;
    // Each connection is checked by the certificates of its own time.
    client.resumption = Resumption::disabled();

    let server = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&versions)
        .map_err(unfit(&config.key_store))?;
    let callers = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let callers = match config.client_auth {
        ClientAuth::None => None,
        ClientAuth::Want => Some(callers.allow_unauthenticated()),
        ClientAuth::Need => Some(callers),
    };
    let server = match callers {
        None => server.with_no_client_auth(),
        Some(callers) => server.with_client_cert_verifier(
            callers
                .build()
                .map_err(|_| SecurityError::NoCertificate { path: config.trust_store.clone() })?,
        ),
    };
    let server = server.with_single_cert(chain, key).map_err(unfit(&config.key_store))?;
    let connector = TlsConnector::from(Arc::new(client));
    Ok(Both { connector, acceptor: TlsAcceptor::from(Arc::new(server)) })
}

type KeyStore = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The certificate, what leads from it to its issuer, and its key, all in one file as ZooKeeper has
/// them.
fn read_key_store(path: &Path) -> Result<KeyStore, SecurityError> {
    let bytes = read(path)?;
    let chain = certificates(path, &bytes)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound if contains(&bytes, b"ENCRYPTED") => {
            SecurityError::EncryptedKey { path: path.to_owned() }
        }
        pem::Error::NoItemsFound => SecurityError::NoKey { path: path.to_owned() },
        source => SecurityError::NotPem { path: path.to_owned(), source },
    })?;
    // The old form says so within the section.
    if contains(&bytes, b"Proc-Type: 4,ENCRYPTED") {
        return Err(SecurityError::EncryptedKey { path: path.to_owned() });
    }
    Ok((chain, key))
}

fn read_trust_store(path: &Path) -> Result<RootCertStore, SecurityError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, &read(path)?)? {
        roots
            .add(certificate)
            .map_err(|source| SecurityError::Unfit { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let not_pem = |source| SecurityError::NotPem { path: path.to_owned(), source };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found.map_err(not_pem)? {
        found if found.is_empty() => Err(SecurityError::NoCertificate { path: path.to_owned() }),
        found => Ok(found),
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// Whoever has a certificate of an issuer that is trusted (`hostnameVerification=false`).
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        let (roots, now) = (&self.roots, now);
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
