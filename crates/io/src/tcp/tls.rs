//! TLS 1.3 on a socket: who is trusted, and the encryption of one connection.
//!
//! It is here and not in Python so that a link's bytes are encrypted and decrypted on the links' own thread, whoever
//! holds the interpreter's lock.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite,
};

/// Encrypted bytes read from a socket at once. What they say, and a record that came in part before, fits into
/// what a socket's reader takes at once.
pub(super) const READ_BYTES: usize = 192 << 10;
/// Written and not encrypted yet, or encrypted and not sent.
const WAITING_BYTES_MAX: usize = 512 << 10;
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Certificates, as files hold them (PEM).
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Who signs the certificates of others.
    pub trusted: Vec<u8>,
    /// Our certificate, with those between it and its authority, and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
    /// Whoever connects to us has to show a certificate, too.
    pub mutual: bool,
    /// The SHA-256 fingerprint of the one certificate that we connect to; `trusted` does not count then.
    pub pinned: Option<[u8; 32]>,
}

/// What connections over TLS are made with.
#[derive(Clone, Debug)]
pub struct Tls(Arc<RwLock<Made>>);

#[derive(Debug)]
struct Made {
    client: Arc<ClientConfig>,
    server: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads certificates; says what is wrong with them.
    pub fn new(certificates: &Certificates) -> Result<Tls, String> {
        Ok(Tls(Arc::new(RwLock::new(Made::new(certificates)?))))
    }

    /// Uses others for connections that are made from now on, also those that listeners take.
    pub fn replace(&self, certificates: &Certificates) -> Result<(), String> {
        let made = Made::new(certificates)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = made;
        Ok(())
    }

    fn made(&self) -> RwLockReadGuard<'_, Made> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a listener needs; none without a certificate of our own.
    pub(super) fn server(&self) -> Option<Arc<ServerConfig>> {
        self.made().server.clone()
    }

    /// What a connection to `name` needs.
    pub(super) fn client(&self, name: &str) -> io::Result<(Arc<ClientConfig>, ServerName<'static>)> {
        let words = |_| io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a host"));
        Ok((self.made().client.clone(), ServerName::try_from(name.to_owned()).map_err(words)?))
    }
}

impl Made {
    fn new(certificates: &Certificates) -> Result<Made, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&certificates.trusted) {
            let root = root.map_err(|error| format!("tls_ca cannot be read: {error}"))?;
            // What a system trusts may hold what we cannot use.
            let _ = roots.add(root);
        }
        if roots.is_empty() && !certificates.trusted.is_empty() {
            return Err("tls_ca holds no certificate of an authority".to_owned());
        }
        let roots = Arc::new(roots);
        let own = certificates.own.as_ref().map(|(chain, key)| read_own(chain, key)).transpose()?;
        let words = |error: rustls::Error| format!("tls_cert and tls_key do not fit: {error}");
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(VERSIONS)
            .map_err(words)?;
        let builder = match certificates.pinned {
            Some(fingerprint) => builder.dangerous().with_custom_certificate_verifier(Arc::new(Pinned {
                fingerprint,
                provider: provider.clone(),
            })),
            None => builder.with_root_certificates(roots.clone()),
        };
        let client = match &own {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(words)?
            }
            None => builder.with_no_client_auth(),
        };
        let server = own.map(|(chain, key)| {
            let builder = ServerConfig::builder_with_provider(provider.clone())
                .with_protocol_versions(VERSIONS)
                .map_err(words)?;
            let builder = if certificates.mutual {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| format!("tls_ca: {error}"))?)
            } else {
                builder.with_no_client_auth()
            };
            builder.with_single_cert(chain, key).map(Arc::new).map_err(words)
        });
        Ok(Made { client: Arc::new(client), server: server.transpose()? })
    }
}

/// Accepts one certificate, by its fingerprint: its issuer, its name and its dates do not count. The handshake's
/// signature still proves that the listener has the certificate's key.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if sha256(end_entity) == Some(self.fingerprint) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn sha256(bytes: &[u8]) -> Option<[u8; 32]> {
    // The provider's own: a suite with this hash is part of every TLS 1.3.
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256;
    suite.common.hash_provider.hash(bytes).as_ref().try_into().ok()
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_own(chain: &[u8], key: &[u8]) -> Result<Own, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let certificates = certificates.map_err(|error| format!("tls_cert cannot be read: {error}"))?;
    if certificates.is_empty() {
        return Err("tls_cert holds no certificate".to_owned());
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("tls_key cannot be read: {error}"))?;
    Ok((certificates, key))
}

/// One connection.
pub(super) struct Secure {
    socket: TcpStream,
    tls: rustls::Connection,
}

impl Secure {
    pub fn new(socket: TcpStream, tls: impl Into<rustls::Connection>) -> Secure {
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(WAITING_BYTES_MAX));
        Secure { socket, tls }
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// The first name in the other end's certificate, once it showed one that is valid.
    pub fn identity(&self) -> Option<String> {
        let certificate = self.tls.peer_certificates()?.first()?;
        let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
        parsed.valid_dns_names().next().map(str::to_owned)
    }

    /// Whether the two ends have not agreed on keys yet.
    pub fn is_shaking_hands(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether something is encrypted and the socket takes no more.
    pub fn is_clogged(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends what is encrypted, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        flush(&mut self.tls, &mut self.socket)
    }

    /// Takes what came; as much as one reading of the socket brings.
    pub fn read(&mut self, buffer: &mut [u8], encrypted: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.socket.read(encrypted)?;
            let mut taken = 0;
            let mut rest = &encrypted[..count];
            loop {
                let read = self.tls.read_tls(&mut rest)?;
                let outcome = self.tls.process_new_packets();
                // Answers of the handshake, and why it fails.
                match flush(&mut self.tls, &mut self.socket) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock && outcome.is_ok() => {
                        return Err(error);
                    }
                    _ => {}
                }
                outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, words(&error)))?;
                let closed = loop {
                    match self.tls.reader().read(&mut buffer[taken..]) {
                        Ok(0) => break taken < buffer.len(),
                        Ok(more) => taken += more,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                        // It went without a word: what it had to say a link says itself.
                        Err(_) => break true,
                    }
                };
                if closed || read == 0 || rest.is_empty() {
                    if taken > 0 || closed || count == 0 {
                        return Ok(taken);
                    }
                    break;
                }
            }
        }
    }

    /// Encrypts and sends: how much was taken, all of which will be sent.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.tls.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ if taken == 0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    /// Says that nothing more will be written.
    pub fn shut(&mut self) {
        self.tls.send_close_notify();
        if self.flush().is_ok() {
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }
}

fn flush(tls: &mut rustls::Connection, socket: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Why TLS fails, for people who never heard of it.
fn words(error: &rustls::Error) -> String {
    use rustls::Error;
    let alert = |alert: &AlertDescription| match alert {
        AlertDescription::CertificateRequired => {
            "it asks for a certificate: give tls_cert and tls_key".to_owned()
        }
        // The second is said of an authority that has the same name and another key.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it does not trust who signed our certificate: its tls_ca is of another authority".to_owned()
        }
        AlertDescription::ProtocolVersion => "it does not speak TLS 1.3".to_owned(),
        AlertDescription::CertificateExpired => "our certificate has expired".to_owned(),
        other => format!("it ended the TLS handshake: {other:?}"),
    };
    match error {
        Error::AlertReceived(received) => alert(received),
        Error::NoCertificatesPresented => "it showed no certificate, and has to".to_owned(),
        Error::InvalidCertificate(why) => match why {
            // An authority of the same name has another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not signed by an authority that we trust (tls_ca)".to_owned()
            }
            CertificateError::ApplicationVerificationFailure => {
                "its certificate is not the pinned one: compare the fingerprint with the one that the listener prints"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: look at the clocks".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is not for the name we asked for: {error}")
            }
            other => format!("its certificate cannot be accepted: {other:?}"),
        },
        Error::InvalidMessage(_) => "it does not speak TLS: use tls:// at both ends".to_owned(),
        Error::PeerIncompatible(_) => format!("it does not speak TLS 1.3 as we do: {error}"),
        other => format!("TLS failed: {other}"),
    }
}
