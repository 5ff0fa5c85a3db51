//! What does Pingora ask of a connection besides its bytes?
//!
//! That it is HTTP/2 is told as if it had been agreed on within TLS; the wire goes along in the digest of a CONNECT proxy,
//! which is how the hooks find it. Digests are the larger part of what a connection holds between requests, so one that
//! idles is without.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
};

use tokio::net::TcpStream;

use super::Connection;
use crate::proxy::wire::Wire;

/// What every session on a connection is given.
pub(super) struct Digests {
    socket: Arc<SocketDigest>,
    proxy: Arc<ProxyDigest>,
}

impl Digests {
    /// Of the connection on `socket`.
    pub(super) fn new(socket: &TcpStream, wire: &Arc<Wire>) -> Self {
        // made for CONNECT proxies; all we want of it is that it carries the wire
        let header = http::Response::new(()).into_parts().0.into();
        let proxy = Arc::new(ProxyDigest::new(Box::new(header), Some(Box::new(wire.clone()))));
        Self { socket: Arc::new(SocketDigest::from_raw_fd(socket.as_raw_fd())), proxy }
    }
}

#[async_trait]
impl Shutdown for Connection {
    async fn shutdown(&mut self) {
        let _ = tokio::io::AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Connection {
    fn id(&self) -> RawFd {
        self.socket.tcp().as_raw_fd()
    }
}

impl Ssl for Connection {
    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.wire.is_h2().then_some(ALPN::H2)
    }
}

impl GetTimingDigest for Connection {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Connection {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(self.digests.as_ref()?.proxy.clone())
    }
}

impl GetSocketDigest for Connection {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.digests.as_ref()?.socket.clone())
    }
}

#[async_trait]
impl Peek for Connection {}
