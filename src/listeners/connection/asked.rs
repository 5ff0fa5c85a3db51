//! What does Pingora ask of a connection besides its bytes?
//!
//! That it is HTTP/2 is told as if it had been agreed on within TLS; the wire goes along in the digest of a CONNECT proxy,
//! which is how the hooks find it.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
};

use super::Connection;

#[async_trait]
impl Shutdown for Connection {
    async fn shutdown(&mut self) {
        let _ = tokio::io::AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Connection {
    fn id(&self) -> RawFd {
        self.socket.as_raw_fd()
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
        Some(self.proxy_digest.clone())
    }
}

impl GetSocketDigest for Connection {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.socket_digest.clone())
    }
}

#[async_trait]
impl Peek for Connection {}
