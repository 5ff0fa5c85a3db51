//! One request to the running gateway: HTTP/1.1, one connection, the answer read to its end.

use std::io::{Read, Write};

use anyhow::{Context, bail};

/// No answer of ours comes near this.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Status and body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks for `target` and reads the answer.
pub(super) fn ask(line: &mut (impl Read + Write), method: &str, target: &str) -> anyhow::Result<Reply> {
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    line.write_all(request.as_bytes()).context("the gateway hung up")?;
    let mut answer = Vec::new();
    line.take(LONGEST).read_to_end(&mut answer).context("no answer in time")?;
    reply(&answer)
}

fn reply(answer: &[u8]) -> anyhow::Result<Reply> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = head.parse(answer).context("the answer is no HTTP")? else {
        bail!("the gateway hung up before it had answered");
    };
    let status = head.code.unwrap_or_default();
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
    let body = &answer[end..];
    if length.is_some_and(|length| length != body.len()) {
        bail!("the gateway hung up in the middle of its answer");
    }
    Ok(Reply { status, body: String::from_utf8_lossy(body).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what it was made with, whatever it is asked.
    struct Canned(&'static [u8], Vec<u8>);

    impl Read for Canned {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Canned {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_is_its_status_and_body() {
        let mut line = Canned(b"HTTP/1.1 422 x\r\nContent-Length: 3\r\nX: y\r\n\r\n{}\n", Vec::new());
        assert_eq!(ask(&mut line, "POST", "/reload").unwrap(), Reply { status: 422, body: "{}\n".into() });
        assert!(line.1.starts_with(b"POST /reload HTTP/1.1\r\nHost: localhost\r\n"));
    }

    #[test]
    fn an_answer_that_stops_short_is_an_error() {
        for (answer, why) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"[..], "in the middle"),
            (b"HTTP/1.1 200 OK\r\nContent-L", "before it had answered"),
            (b"", "before it had answered"),
            (b"SSH-2.0-x\r\n", "no HTTP"),
        ] {
            let said = reply(answer).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
