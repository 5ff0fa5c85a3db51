//! An origin behind TLS: a door of the test's own that ends TLS and passes everything on to a plain origin.
//!
//! HTTP/2 is passed on as it is, which the origin takes by prior knowledge.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use openssl::ssl::{AlpnError, NameType, Ssl, SslAcceptor, SslContext, SslMethod, SslVerifyMode, select_next_proto};
use openssl::x509::store::X509StoreBuilder;
use parking_lot::Mutex;
use pingora_core::tls::tokio_ssl::SslStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::certificates::{Authority, Identity};

/// What a connection said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The name it asked for.
    pub(crate) sni: Option<String>,
    /// Was HTTP/2 agreed on?
    pub(crate) h2: bool,
    /// The name in its certificate.
    pub(crate) client: Option<String>,
    /// It went on from an earlier session.
    pub(crate) resumed: bool,
}

/// A door with TLS; closed when it is dropped.
pub(crate) struct Secured {
    pub(crate) address: SocketAddr,
    shows: Arc<Mutex<SslContext>>,
    greetings: Arc<Mutex<Vec<Greeting>>>,
    _runtime: Runtime,
}

/// How the door is kept.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// Agrees to HTTP/2.
    pub(crate) h2: bool,
    /// Asks for a certificate of this authority.
    pub(crate) clients_of: Option<&'a Authority>,
}

/// A door in front of `origin`.
pub(crate) fn secured(origin: SocketAddr, identity: &Identity, terms: Terms<'_>) -> Secured {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = super::ports::listener().unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let shows = Arc::new(Mutex::new(context(identity, terms)));
    let greetings = Arc::new(Mutex::new(Vec::new()));
    let (shown, heard) = (Arc::clone(&shows), Arc::clone(&greetings));
    runtime.spawn(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let ssl = Ssl::new(&shown.lock()).unwrap();
            tokio::spawn(pass(stream, ssl, origin, Arc::clone(&heard)));
        }
    });
    Secured { address, shows, greetings, _runtime: runtime }
}

impl Secured {
    /// Shows another certificate to those that come from now on.
    pub(crate) fn shows(&self, identity: &Identity, terms: Terms<'_>) {
        *self.shows.lock() = context(identity, terms);
    }

    /// Every handshake that was brought to its end.
    pub(crate) fn greetings(&self) -> Vec<Greeting> {
        self.greetings.lock().clone()
    }
}

fn context(identity: &Identity, terms: Terms<'_>) -> SslContext {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    builder.set_certificate(&identity.certificate).unwrap();
    builder.set_private_key(&identity.key).unwrap();
    if terms.h2 {
        builder.set_alpn_select_callback(|_, asked| {
            select_next_proto(b"\x02h2\x08http/1.1", asked).ok_or(AlpnError::ALERT_FATAL)
        });
    }
    if let Some(authority) = terms.clients_of {
        let mut store = X509StoreBuilder::new().unwrap();
        store.add_cert(authority.certificate().clone()).unwrap();
        builder.set_verify_cert_store(store.build()).unwrap();
        builder.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    }
    builder.build().into_context()
}

async fn pass(stream: TcpStream, ssl: Ssl, origin: SocketAddr, heard: Arc<Mutex<Vec<Greeting>>>) {
    let mut stream = SslStream::new(ssl, stream).unwrap();
    if Pin::new(&mut stream).accept().await.is_err() {
        return;
    }
    let ssl = stream.ssl();
    let name = |certificate: openssl::x509::X509| {
        let entry = certificate.subject_name().entries_by_nid(openssl::nid::Nid::COMMONNAME).next()?;
        Some(String::from_utf8_lossy(entry.data().as_slice()).into_owned())
    };
    heard.lock().push(Greeting {
        sni: ssl.servername(NameType::HOST_NAME).map(str::to_owned),
        h2: ssl.selected_alpn_protocol() == Some(b"h2"),
        client: ssl.peer_certificate().and_then(name),
        resumed: ssl.session_reused(),
    });
    let Ok(mut plain) = TcpStream::connect(origin).await else { return };
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
}
