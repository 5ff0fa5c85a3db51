//! A client that comes by TLS, over one connection, and tells what it was shown.

use std::ffi::c_int;
use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use openssl::hash::MessageDigest;
use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslMethod, SslSession, SslStream, SslVerifyMode};

use super::PATIENCE;
use super::client::{Answer, Ask};

/// What a client offers and asks for.
pub(crate) struct Hello {
    name: Option<String>,
    set: Box<dyn Fn(&mut SslContextBuilder)>,
    session: Option<SslSession>,
}

/// A client that asks for this name, or for none if it is empty; it checks nothing.
pub(crate) fn hello(name: &str) -> Hello {
    Hello { name: (!name.is_empty()).then(|| name.to_owned()), set: Box::new(|_| ()), session: None }
}

/// A connection that got through its handshake.
pub(crate) struct Secured {
    stream: BufReader<SslStream<TcpStream>>,
}

impl Hello {
    /// With further settings.
    pub(crate) fn with(self, set: impl Fn(&mut SslContextBuilder) + 'static) -> Self {
        let before = self.set;
        Self {
            set: Box::new(move |context| {
                before(context);
                set(context);
            }),
            ..self
        }
    }

    /// Offers to go on with a session.
    pub(crate) fn resuming(self, session: &SslSession) -> Self {
        Self { session: Some(session.clone()), ..self }
    }

    fn context(&self) -> SslContext {
        let mut context = SslContextBuilder::new(SslMethod::tls_client()).unwrap();
        context.set_verify(SslVerifyMode::NONE);
        (self.set)(&mut context);
        context.build()
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<Secured> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        self.over(stream)
    }

    /// The same on a connection that exists.
    #[expect(unsafe_code, reason = "what the library asks of whoever offers a session: that it is of the same kind")]
    pub(crate) fn over(&self, stream: TcpStream) -> io::Result<Secured> {
        let context = self.context();
        let mut ssl = Ssl::new(&context)?;
        if let Some(name) = &self.name {
            ssl.set_hostname(name)?;
        }
        if let Some(session) = &self.session {
            // SAFETY: the session was made by a context of the same method.
            unsafe { ssl.set_session(session)? };
        }
        let mut stream = SslStream::new(ssl, stream)?;
        stream.connect().map_err(io::Error::other)?;
        Ok(Secured { stream: BufReader::new(stream) })
    }
}

#[expect(unsafe_code, reason = "what the library has no name for in Rust")]
unsafe extern "C" {
    fn SSL_key_update(ssl: *mut openssl_sys::SSL, kind: c_int) -> c_int;
}

impl Secured {
    pub(crate) fn stream(&mut self) -> &mut SslStream<TcpStream> {
        self.stream.get_mut()
    }

    /// SHA-256 of the certificate it was shown.
    pub(crate) fn shown(&self) -> String {
        let shown = self.stream.get_ref().ssl().peer_certificate().unwrap();
        shown.digest(MessageDigest::sha256()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What was agreed on by ALPN.
    pub(crate) fn agreed(&self) -> Option<String> {
        let agreed = self.stream.get_ref().ssl().selected_alpn_protocol()?;
        Some(String::from_utf8(agreed.to_vec()).unwrap())
    }

    /// Says that nothing follows: what the library wants to hear before it lets a session go on.
    pub(crate) fn leave(&mut self) {
        let _ = self.stream.get_mut().shutdown();
    }

    /// Changes its keys, and asks for new ones of the other side.
    #[expect(unsafe_code, reason = "what the library has no name for in Rust")]
    pub(crate) fn try_new_keys(&mut self) -> io::Result<()> {
        let stream = self.stream.get_mut();
        // SAFETY: a reference to a connection is where it is; 1 asks for new keys.
        let taken = unsafe { SSL_key_update(std::ptr::from_ref(stream.ssl()).cast_mut().cast(), 1) };
        assert_eq!(taken, 1);
        stream.do_handshake().map_err(io::Error::other)
    }

    pub(crate) fn try_send(&mut self, ask: &Ask) -> io::Result<Answer> {
        self.stream.get_mut().write_all(&ask.bytes())?;
        Answer::read(&mut self.stream, &ask.method)
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.try_send(&Ask::get(target)).unwrap()
    }
}
