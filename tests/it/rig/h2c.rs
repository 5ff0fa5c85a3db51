//! An HTTP/2 client without TLS, by prior knowledge: several requests at once on one connection, or one large body.
//!
//! A body goes out as one DATA frame, its end as a second, empty one.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::SendRequest;
use http::{Request, Version};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;
use super::client::{Answer, Ask};
use super::pattern::Pattern;

/// Sends all requests before the first answer is read; the answers stand in the order of the requests.
pub(crate) fn h2c(to: SocketAddr, asks: &[Ask]) -> Vec<Result<Answer, String>> {
    within(PATIENCE, all(to, asks))
}

/// The same, behind these bytes.
pub(crate) fn h2c_behind(to: SocketAddr, first: &[u8], asks: &[Ask]) -> Vec<Result<Answer, String>> {
    within(PATIENCE, async {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(first).await.unwrap();
        all_of(over(stream).await, asks).await
    })
}

/// Sends so many bytes of the pattern; `sent` counts along.
pub(crate) fn h2c_upload(to: SocketAddr, target: &str, size: u64, sent: &AtomicU64) -> Answer {
    within(PATIENCE * 6, upload(to, target, size, (u64::MAX, Duration::ZERO), sent))
}

/// Sends so many bytes of the pattern, each piece of at most `piece` bytes after a pause.
pub(crate) fn h2c_slow_upload(to: SocketAddr, target: &str, size: u64, piece: u64, pause: Duration) -> Answer {
    within(PATIENCE * 6, upload(to, target, size, (piece, pause), &AtomicU64::new(0)))
}

async fn upload(to: SocketAddr, target: &str, size: u64, (most, pause): (u64, Duration), sent: &AtomicU64) -> Answer {
    let head = head(&Ask::new("PUT", target));
    let (answer, mut body) = connect(to).await.ready().await.unwrap().send_request(head, false).unwrap();
    let mut pattern = Pattern::new();
    let mut left = size;
    while left > 0 {
        tokio::time::sleep(pause).await;
        let room = room(&mut body).await.unwrap().min(most);
        let piece = Bytes::copy_from_slice(pattern.piece(left.min(room)));
        left -= piece.len() as u64;
        sent.fetch_add(piece.len() as u64, Relaxed);
        body.send_data(piece, false).unwrap();
    }
    body.send_data(Bytes::new(), true).unwrap();
    whole(answer.await.unwrap()).await.unwrap()
}

/// How much of a body the other side takes now: waits until there is any room, of which only more is told.
async fn room(body: &mut SendStream<Bytes>) -> Result<u64, h2::Error> {
    body.reserve_capacity(64 << 10);
    while body.capacity() == 0 {
        poll_fn(|cx| body.poll_capacity(cx)).await.ok_or(h2::Reason::STREAM_CLOSED)??;
    }
    Ok(body.capacity() as u64)
}

/// Reads an answer that is the pattern; `stop` is asked, with what was read so far, before room is made for more, and
/// is free to wait. Answers how many bytes there were.
pub(crate) fn h2c_download(to: SocketAddr, target: &str, mut stop: impl FnMut(u64)) -> u64 {
    within(PATIENCE * 6, async {
        let head = head(&Ask::get(target));
        let (answer, _) = connect(to).await.ready().await.unwrap().send_request(head, true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        let mut pattern = Pattern::new();
        let mut read = 0;
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            assert!(pattern.goes_on_with(&piece), "a byte is wrong");
            read += piece.len() as u64;
            stop(read);
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
        read
    })
}

/// Begins an upload and does not go on with it; meanwhile, after each pause, another request with a body is asked on the
/// same connection. What came of the first, and the statuses of the others.
pub(crate) fn h2c_stalled(to: SocketAddr, target: &str, pause: Duration) -> (Result<Answer, String>, Vec<u16>) {
    within(PATIENCE, async {
        let client = connect(to).await;
        let (answer, mut body) =
            client.clone().ready().await.unwrap().send_request(head(&Ask::new("PUT", target)), false).unwrap();
        body.send_data(Bytes::from_static(b"0123456789"), false).unwrap();
        let mut stalled = tokio::spawn(async { whole(answer.await?).await });
        let mut others = Vec::new();
        loop {
            tokio::select! {
                ended = &mut stalled => return (ended.unwrap().map_err(|error| error.to_string()), others),
                () = tokio::time::sleep(pause) => {}
            }
            let ask = Ask::new("PUT", &format!("/other/{}", others.len())).body("all of it");
            others.push(one(client.clone(), ask).await.unwrap().status);
        }
    })
}

/// Asks one thing after the other on one connection, each given up after its time; what came of each, none of what was
/// given up.
pub(crate) fn h2c_given_up(to: SocketAddr, asks: &[(Ask, Duration)]) -> Vec<Option<Answer>> {
    within(PATIENCE * 2, async {
        let client = connect(to).await;
        let mut answers = Vec::new();
        for (ask, patience) in asks {
            // dropping it resets the stream (CANCEL)
            let answer = timeout(*patience, one(client.clone(), ask.clone())).await;
            answers.push(answer.ok().map(|answer| answer.unwrap()));
        }
        answers
    })
}

/// Makes no room for more of the first answer; once that is over, asks for another on the same connection. How many bytes
/// of the first came and how it ended, and the second.
pub(crate) fn h2c_shut(to: SocketAddr, shut: &str, open: &str) -> (Result<usize, String>, Result<Answer, String>) {
    within(PATIENCE, async {
        let stream = TcpStream::connect(to).await.unwrap();
        // The window of the connection stays open: it is the stream's that shuts.
        let builder = h2::client::Builder::new().initial_connection_window_size(16 << 20).clone();
        let (mut client, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
        tokio::spawn(connection);
        let (first, _) = client.send_request(head(&Ask::get(shut)), true).unwrap();
        let first = first.await.unwrap().into_body();
        let first = read_without_room(first).await.map_err(|error| error.to_string());
        let second = one(client, Ask::get(open)).await.map_err(|error| error.to_string());
        (first, second)
    })
}

async fn read_without_room(mut body: h2::RecvStream) -> Result<usize, h2::Error> {
    let mut read = 0;
    while let Some(piece) = body.data().await {
        read += piece?.len();
    }
    Ok(read)
}

fn within<T>(limit: Duration, work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(limit, work).await.expect("answers in time") })
}

async fn connect(to: SocketAddr) -> SendRequest<Bytes> {
    over(TcpStream::connect(to).await.unwrap()).await
}

async fn over(stream: TcpStream) -> SendRequest<Bytes> {
    stream.set_nodelay(true).unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn all(to: SocketAddr, asks: &[Ask]) -> Vec<Result<Answer, String>> {
    all_of(connect(to).await, asks).await
}

async fn all_of(client: SendRequest<Bytes>, asks: &[Ask]) -> Vec<Result<Answer, String>> {
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

pub(super) fn head(ask: &Ask) -> Request<()> {
    let host = ask.header_value("host").unwrap_or("test");
    let uri = format!("http://{host}{}", ask.target);
    let mut head = Request::builder().version(Version::HTTP_2).method(ask.method.as_str()).uri(uri);
    for (name, value) in ask.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
        head = head.header(name, value);
    }
    head.body(()).unwrap()
}

async fn one(client: SendRequest<Bytes>, ask: Ask) -> Result<Answer, h2::Error> {
    let (answer, mut body) = client.ready().await?.send_request(head(&ask), ask.body.is_none())?;
    if let Some(bytes) = ask.body {
        body.send_data(bytes.into(), false)?;
        body.send_data(Bytes::new(), true)?;
    }
    whole(answer.await?).await
}

pub(super) async fn whole(answer: http::Response<h2::RecvStream>) -> Result<Answer, h2::Error> {
    let (head, mut body) = answer.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let lines = |of: &http::HeaderMap| of.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut answer = Answer { status: head.status.as_u16(), headers: lines(&head.headers), ..Answer::default() };
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let _ = body.flow_control().release_capacity(piece.len());
        answer.body.extend(piece);
    }
    answer.trailers = body.trailers().await?.as_ref().map(lines).unwrap_or_default();
    Ok(answer)
}
