//! How is a step done? Writes exactly what was asked for.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use crate::body::Incoming;
use crate::connection::{After, Client, Head};
use crate::pattern::Pattern;
use crate::script::{Answer, Body, Framing, Step};

/// The answer where no rule takes a request: 200 with the origin's name.
pub(crate) async fn greet(client: &mut Client, head: &Head) -> io::Result<After> {
    let name = &client.stage.name;
    let body = if head.method == "HEAD" { "" } else { name.as_str() };
    let text = format!("HTTP/1.1 200 OK\r\nx-origin: {name}\r\ncontent-length: {}\r\n\r\n{body}", name.len());
    client.io.write_all(text.as_bytes()).await?;
    Ok(After::Keep)
}

/// Runs the steps; the last one that says so decides what becomes of the connection.
pub(crate) async fn all(client: &mut Client, head: &Head, body: &mut Incoming, steps: &[Step]) -> io::Result<After> {
    let mut after = After::Keep;
    for step in steps {
        match step {
            Step::Read(amount) => {
                if !client.take_body(body, *amount).await? {
                    return Ok(After::Gone);
                }
            }
            Step::Delay(ms) => sleep(Duration::from_millis(*ms)).await,
            Step::Hold(name) => client.stage.hold(name).await,
            Step::Inform(status) => {
                let line = format!("HTTP/1.1 {status} {}\r\n\r\n", reason(*status));
                client.io.write_all(line.as_bytes()).await?;
            }
            Step::Answer(answer) => after = say(client, head, body, answer).await?,
            Step::Send(bytes) => client.io.write_all(bytes).await?,
            Step::Echo => return echo(client).await,
            Step::End(how) => return Ok(After::Close(*how)),
            Step::Hang => return hang(client).await,
        }
    }
    Ok(after)
}

/// Writes a final answer.
async fn say(client: &mut Client, head: &Head, body: &Incoming, answer: &Answer) -> io::Result<After> {
    let content = content(client, body, &answer.body);
    let mut out = header(client, answer, content.len() as u64);
    let chunked = matches!(answer.framing, Framing::Chunked | Framing::ChunkedWithoutEnd);
    if head.method != "HEAD" && ![204, 304].contains(&answer.status) {
        match &answer.body {
            Body::Drip { piece, every_ms, times } => {
                client.io.write_all(&std::mem::take(&mut out)).await?;
                for _ in 0..*times {
                    sleep(Duration::from_millis(*every_ms)).await;
                    client.io.write_all(&framed(piece.as_bytes(), chunked)).await?;
                }
            }
            Body::Pattern(size) => {
                client.io.write_all(&std::mem::take(&mut out)).await?;
                pattern(client, *size, chunked).await?;
            }
            _ => out.extend(framed(&content, chunked)),
        }
        if answer.framing == Framing::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
    client.io.write_all(&out).await?;
    let close = answer.framing == Framing::UntilClose;
    Ok(if close { After::Close(crate::script::Close::Fin) } else { After::Keep })
}

/// The header of an answer with so many bytes of content.
fn header(client: &Client, answer: &Answer, content: u64) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 {} {}\r\nx-origin: {}\r\n", answer.status, reason(answer.status), client.stage.name);
    for (name, value) in &answer.headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    let length = match &answer.body {
        Body::Drip { piece, times, .. } => piece.len() as u64 * u64::from(*times),
        Body::Pattern(size) => *size,
        _ => content,
    };
    match answer.framing {
        Framing::Length => text.push_str(&format!("content-length: {length}\r\n")),
        Framing::Declared(length) => text.push_str(&format!("content-length: {length}\r\n")),
        Framing::Chunked | Framing::ChunkedWithoutEnd => text.push_str("transfer-encoding: chunked\r\n"),
        Framing::UntilClose => text.push_str("connection: close\r\n"),
    }
    text.push_str("\r\n");
    text.into_bytes()
}

async fn pattern(client: &mut Client, size: u64, chunked: bool) -> io::Result<()> {
    let mut pattern = Pattern::new();
    let mut left = size;
    while left > 0 {
        let piece = pattern.piece(left);
        left -= piece.len() as u64;
        client.io.write_all(&framed(piece, chunked)).await?;
        client.stage.sent(piece.len());
    }
    Ok(())
}

fn content(client: &Client, received: &Incoming, body: &Body) -> Vec<u8> {
    match body {
        Body::Name => client.stage.name.clone().into_bytes(),
        Body::Text(text) => text.clone().into_bytes(),
        Body::Size(size) => {
            let mut bytes = b"0123456789abcdef".repeat(size.div_ceil(16));
            bytes.truncate(*size);
            bytes
        }
        Body::Received => received.kept(),
        Body::Digest => received.sha256().into_bytes(),
        Body::Checked => received.checked().into_bytes(),
        Body::Drip { .. } | Body::Pattern(_) => Vec::new(),
    }
}

/// Content as it stands on the wire.
fn framed(content: &[u8], chunked: bool) -> Vec<u8> {
    if !chunked {
        return content.to_vec();
    }
    if content.is_empty() {
        return Vec::new();
    }
    let mut framed = format!("{:x}\r\n", content.len()).into_bytes();
    framed.extend_from_slice(content);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// What comes goes back, until the other side ends.
async fn echo(client: &mut Client) -> io::Result<After> {
    loop {
        let input = std::mem::take(&mut client.input);
        client.io.write_all(&input).await?;
        if !client.read().await? {
            return Ok(After::Gone);
        }
    }
}

/// Says nothing more, and reads on so that the end of the other side is seen.
async fn hang(client: &mut Client) -> io::Result<After> {
    while client.read().await? {
        client.input.clear();
    }
    Ok(After::Gone)
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Status")
}
