//! What stands between a connection and its first word: TLS, where there is TLS, and which of the
//! two a stranger speaks.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem};

use super::refusal::Refusal;
use super::secret::Secret;
use super::tls::Tls;
use crate::config;
use crate::message::MessageId;

/// The first byte of a TLS connection: a record with a handshake. No hello begins so.
const TLS_HANDSHAKE: u8 = 0x16;

/// Why a server cannot prove who it is, or know the others.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A certificate, key or secret cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not PEM.
    #[error("{}: this is not a PEM file: {source}", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// There is no certificate in it.
    #[error("{}: there is no certificate in it", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// There is no key in it.
    #[error("{}: there is no private key in it; it must hold the certificate and its \
        key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key wants a password.
    #[error(
        "{}: its private key is encrypted, and this version reads only unencrypted keys: \
         openssl pkey -in {} prints it unencrypted", path.display(), path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// What the files hold does not go together.
    #[error("{}: {source}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: tokio_rustls::rustls::Error,
    },
    /// `ssl.quorum.ciphersuites` leaves nothing.
    #[error(
        "ssl.quorum.ciphersuites names no cipher that is available for these protocols; these are \
         available: {known}"
    )]
    NoCipher {
        /// What could be named.
        known: String,
    },
    /// A secret that can be guessed.
    #[error(
        "{}: a secret of {len} bytes is too short, the minimum is {min}: openssl rand -base64 48 \
         prints one",
        path.display()
    )]
    ShortSecret {
        /// The file.
        path: PathBuf,
        /// Its length without blanks.
        len: usize,
        /// What it must have.
        min: usize,
    },
}

impl SecurityError {
    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Unreadable { .. } => MessageId::SECURITY_FILE_UNREADABLE,
            Self::NotPem { .. } => MessageId::SECURITY_FILE_NOT_PEM,
            Self::NoCertificate { .. } => MessageId::NO_CERTIFICATE,
            Self::NoKey { .. } => MessageId::NO_PRIVATE_KEY,
            Self::EncryptedKey { .. } => MessageId::KEY_ENCRYPTED,
            Self::Unfit { .. } => MessageId::CERTIFICATES_UNFIT,
            Self::NoCipher { .. } => MessageId::NO_CIPHER_LEFT,
            Self::ShortSecret { .. } => MessageId::SHORT_SECRET,
        }
    }
}

/// How this server knows the others, and they it.
#[derive(Debug)]
pub(in crate::server) struct Security {
    tls: Option<Tls>,
    dials_tls: bool,
    pub(super) secret: Option<Secret>,
    /// Who has no TLS, or not the secret, is welcome all the same.
    pub(super) is_lenient: bool,
}

impl Security {
    /// Reads certificates, keys and the secret.
    pub(in crate::server) fn load(config: &config::QuorumSecurity) -> Result<Self, SecurityError> {
        let tls = config.tls.clone().map(Tls::load).transpose()?;
        let secret = config.secret_file.as_deref().map(Secret::load).transpose()?;
        Ok(Self { tls, dials_tls: config.dials_tls, secret, is_lenient: config.is_lenient })
    }

    /// Whether servers know each other by certificates.
    fn is_certified(&self) -> bool {
        self.dials_tls && self.tls.as_ref().is_some_and(Tls::needs_certificate)
    }

    /// Whether every server, whichever calls the other, has proved to be one.
    pub(super) fn is_authenticated(&self) -> bool {
        !self.is_lenient && (self.is_certified() || self.secret.is_some())
    }

    /// Says what an operator must know of it.
    pub(in crate::server) fn announce(&self) {
        match (self.is_lenient, self.is_certified(), &self.secret) {
            (true, ..) => tracing::warn!(
                id = %MessageId::PORT_UNIFICATION,
                "portUnification=true: anyone who can reach the ensemble's port is accepted as one \
                 of its servers; remove it once every server has TLS or the secret"
            ),
            (false, true, _) => {
                tracing::info!(
                    "the servers of the ensemble authenticate each other with certificates"
                );
            }
            (false, false, Some(_)) if self.dials_tls => tracing::info!(
                "the servers of the ensemble authenticate each other with a secret; their \
                 connections are encrypted"
            ),
            (false, false, Some(_)) => tracing::info!(
                "the servers of the ensemble authenticate each other with a secret; their \
                 connections are not encrypted"
            ),
            (false, false, None) => tracing::warn!(
                id = %MessageId::NOT_AUTHENTICATED,
                "the servers of the ensemble do not authenticate each other: anyone who can reach \
                 the ensemble's port can read and change everything; set sslQuorum or \
                 quorum.auth.secretFile, or let nobody else reach it"
            ),
        }
    }

    /// Over a socket to `host`.
    pub(super) async fn connect(&self, host: &str, socket: TcpStream) -> io::Result<Stream> {
        match &self.tls {
            Some(tls) if self.dials_tls => {
                Ok(Stream::Tls(Box::new(tls.connect(host, socket).await?)))
            }
            _ => Ok(Stream::Plain(socket)),
        }
    }

    /// Over a socket that was accepted. `Err` with the stream is to be told to whoever called.
    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<Result<Stream, Unwelcome>> {
        let mut first = [0];
        if socket.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let speaks_tls = first == [TLS_HANDSHAKE];
        match &self.tls {
            Some(tls) if speaks_tls => Ok(Ok(Stream::Tls(Box::new(tls.accept(socket).await?)))),
            None if speaks_tls => Err(io::Error::other(
                "it speaks TLS, and neither sslQuorum nor portUnification with a key store is set \
                 here",
            )),
            Some(_) if !self.is_lenient => {
                let reason =
                    "this server accepts only TLS (sslQuorum=true), and the caller does not use it";
                let refusal = Refusal::of_stranger(reason.to_owned());
                Ok(Err(Unwelcome { stream: Stream::Plain(socket), refusal }))
            }
            _ => Ok(Ok(Stream::Plain(socket))),
        }
    }

    /// Whether whoever speaks over `stream` may be the server at `host`, by its certificate.
    pub(super) fn check_caller(&self, stream: &Stream, host: &str) -> Result<(), String> {
        match (&self.tls, stream) {
            (Some(tls), Stream::Tls(_)) => tls.check_caller(stream.certificate(), host),
            _ => Ok(()),
        }
    }
}

/// Who called is to be told why it is not welcome.
#[derive(Debug)]
pub(super) struct Unwelcome {
    pub(super) stream: Stream,
    pub(super) refusal: Refusal,
}

/// A connection with a peer.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// What the other side has proved to be.
    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Reads a file with a secret or a certificate, at most 1 MiB of it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, SecurityError> {
    use std::io::Read as _;
    let unreadable = |source| SecurityError::Unreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Says if everybody on this machine can read a file that only its owner should.
pub(super) fn warn_if_open(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o007 != 0 {
        tracing::warn!(
            id = %MessageId::SECRET_READABLE,
            file = %path.display(),
            "every user of this machine can read this secret; run chmod o= {}",
            path.display()
        );
    }
}
