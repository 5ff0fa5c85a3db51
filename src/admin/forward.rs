//! What is asked of a process that another one has succeeded? What the other answers: a client that kept its connection
//! sees neither a counter that stands still nor a change that comes too late.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::answer::{Answer, Door, Question};

/// For the other process to take the question and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// No answer of ours comes near this.
const LONGEST: u64 = 64 << 20;

/// Asks the process that accepts now where this one did; `socket`: the path of the control socket.
pub(super) async fn forward(question: &Question<'_>, socket: &Option<PathBuf>) -> Answer {
    let asked = async {
        match (question.door, socket) {
            (Door::Network { local, .. }, _) => ask(TcpStream::connect(local).await?, question).await,
            (Door::Socket, Some(path)) => ask(UnixStream::connect(path).await?, question).await,
            (Door::Socket, None) => Err(io::ErrorKind::NotFound.into()),
        }
    };
    match timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::text(503, &format!("another process has taken over, and cannot be asked: {error}")),
        Err(_) => Answer::text(503, "another process has taken over, and does not answer"),
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, question: &Question<'_>) -> io::Result<Answer> {
    // what comes from this process comes from this machine: only who may change anything here may do so there
    if question.method == "POST" && !question.door.is_local() {
        return Ok(Answer::text(403, "only from this machine"));
    }
    let query = if question.query.is_empty() { String::new() } else { format!("?{}", question.query) };
    let host = question.host.unwrap_or("localhost");
    let origin = if question.origin { "Origin: null\r\n" } else { "" };
    let (method, path) = (question.method, question.path);
    let request = format!(
        "{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\n{origin}Connection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(LONGEST).read_to_end(&mut bytes).await?;
    read(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no whole answer"))
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(end)) = head.parse(bytes) else { return None };
    let value = |name: &str| {
        let header = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let body = bytes.get(end..)?;
    if value("content-length").and_then(|length| length.parse().ok()).is_some_and(|length: usize| length < body.len()) {
        return None;
    }
    Some(Answer::of(head.code?, value("content-type").unwrap_or_default(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_passed_on_as_it_came() {
        let answer =
            read(b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.kind, answer.body.as_slice()), (409, "application/json", &b"{}"[..]));
        assert!(read(b"HTTP/1.1 200 OK\r\nContent-Le").is_none());
    }
}
