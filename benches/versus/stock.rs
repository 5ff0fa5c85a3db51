//! What does Pingora's own proxy service cost for the same job? `stock ADDRESS TLS-ADDRESS CERTIFICATE KEY THREADS ORIGIN…`
//!
//! The least it needs: an origin by consistent hash of host and target, connections kept both ways. No log, no headers,
//! no counters, no retries. The product never uses that service; here it is what the product is held against.

use std::time::Duration;

use async_trait::async_trait;
use pingora::listeners::tls::TlsSettings;
use pingora::prelude::*;
use pingora::server::configuration::ServerConf;
use pingora_load_balancing::selection::consistent::KetamaHashing;
use pingora_proxy::{ProxyHttp, Session};

struct Stock(LoadBalancer<KetamaHashing>);

#[async_trait]
impl ProxyHttp for Stock {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, session: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        let request = session.req_header();
        let host = request.headers.get(http::header::HOST).map_or(&b""[..], http::HeaderValue::as_bytes);
        let key = [host, request.raw_path()].concat();
        let origin = self.0.select(&key, 16).ok_or_else(|| Error::new(ErrorType::InternalError))?;
        let mut peer = HttpPeer::new(origin, false, String::new());
        peer.options.connection_timeout = Some(Duration::from_secs(1));
        peer.options.read_timeout = Some(Duration::from_secs(10));
        peer.options.write_timeout = Some(Duration::from_secs(10));
        peer.options.idle_timeout = Some(Duration::from_secs(60));
        Ok(Box::new(peer))
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("stock ADDRESS TLS-ADDRESS CERTIFICATE KEY THREADS ORIGIN…");
    let (plain, tls, certificate, key) = (next()?, next()?, next()?, next()?);
    let threads = next()?.parse()?;
    let origins = LoadBalancer::try_from_iter(arguments)?;
    let conf = ServerConf { threads, upstream_keepalive_pool_size: 4096, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Stock(origins));
    service.add_tcp(&plain);
    let mut settings = TlsSettings::intermediate(&certificate, &key)?;
    settings.enable_h2();
    service.add_tls_with_settings(&tls, None, settings);
    server.add_service(service);
    server.run_forever()
}
