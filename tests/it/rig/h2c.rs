//! An HTTP/2 client without TLS, by prior knowledge: several requests at once on one connection.
//!
//! A body goes out as one DATA frame, its end as a second, empty one.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Version};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;
use super::client::{Answer, Ask};

/// Sends all requests before the first answer is read; the answers stand in the order of the requests.
pub(crate) fn h2c(to: SocketAddr, asks: &[Ask]) -> Vec<Result<Answer, String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, all(to, asks)).await.expect("answers in time") })
}

async fn all(to: SocketAddr, asks: &[Ask]) -> Vec<Result<Answer, String>> {
    let stream = TcpStream::connect(to).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut sent = Vec::new();
    for ask in asks {
        let client = client.clone();
        sent.push(tokio::spawn(one(client, ask.clone())));
    }
    let mut answers = Vec::new();
    for one in sent {
        answers.push(one.await.unwrap().map_err(|error| error.to_string()));
    }
    answers
}

async fn one(client: SendRequest<Bytes>, ask: Ask) -> Result<Answer, h2::Error> {
    let host = ask.header_value("host").unwrap_or("test");
    let uri = format!("http://{host}{}", ask.target);
    let mut head = Request::builder().version(Version::HTTP_2).method(ask.method.as_str()).uri(uri);
    for (name, value) in ask.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
        head = head.header(name, value);
    }
    let (answer, mut body) = client.ready().await?.send_request(head.body(()).unwrap(), ask.body.is_none())?;
    if let Some(bytes) = ask.body {
        body.send_data(bytes.into(), false)?;
        body.send_data(Bytes::new(), true)?;
    }
    let (head, mut body) = answer.await?.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut answer = Answer { status: head.status.as_u16(), headers, ..Answer::default() };
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let _ = body.flow_control().release_capacity(piece.len());
        answer.body.extend(piece);
    }
    Ok(answer)
}
