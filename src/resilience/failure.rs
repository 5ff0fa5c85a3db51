//! What kind of failure was this? Every error of Pingora becomes one [`Class`].
//!
//! Pingora names what its code was doing; we need to know who is to blame and whether the origin may have seen the
//! request. Both follow from the stage of the attempt and from the root of the error, never from the retry flag that
//! Pingora sets. Failures of our own (descriptors, ports, memory) are `local_limit` at every stage: they are evidence
//! against nobody. Status and RFC 9209 token of a class stand in `proxy/reject.rs`.

use std::error::Error as StdError;
use std::io;

use nix::errno::Errno;
use pingora_core::{Error, ErrorSource, ErrorType};

use super::Class;

impl Class {
    /// An error to hand to Pingora; [`classify`] gives this class back.
    pub fn raise(self) -> Box<Error> {
        Error::new_in(ErrorType::Custom(self.tag()))
    }
}

/// How far an attempt had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No connection was held yet: nothing of the request was sent.
    Connecting,
    /// A connection was held.
    Connected {
        /// It came from the pool.
        reused: bool,
        /// What had come back.
        answer: Answer,
        /// Our own watchdog ended the attempt.
        watchdog: bool,
    },
}

/// How much of an answer had come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Not one byte, as far as the hooks know.
    Nothing,
    /// An interim answer (1xx).
    Interim,
    /// The final header.
    Header,
}

/// The class of `error`, met at `stage`.
pub fn classify(error: &Error, stage: Stage) -> Class {
    if let Some(class) = raised(error) {
        return class;
    }
    match (error.esource(), stage) {
        (ErrorSource::Downstream, _) => by_client(error.etype()),
        // What Pingora refuses to send on is a header of the client's.
        (ErrorSource::Internal, _) if matches!(error.root_etype(), ErrorType::InvalidHTTPHeader) => Class::BadRequest,
        (ErrorSource::Internal, _) => Class::LocalLimit,
        (_, Stage::Connected { watchdog: true, .. }) => Class::ResponseTimeout,
        _ if is_local(error) => Class::LocalLimit,
        (_, Stage::Connecting) => while_connecting(error),
        (_, Stage::Connected { reused, answer, .. }) => after_connecting(error, reused, answer),
    }
}

/// The class of an error that our own hooks made.
fn raised(error: &Error) -> Option<Class> {
    match error.root_etype() {
        ErrorType::Custom(tag) => Class::tagged(tag),
        _ => None,
    }
}

fn by_client(etype: &ErrorType) -> Class {
    match etype {
        ErrorType::ReadTimedout => Class::ClientTimeout,
        // Pingora names bytes after the end of a body a ConnectError.
        ErrorType::InvalidHTTPHeader | ErrorType::ConnectError | ErrorType::H1Error | ErrorType::Custom(_) => {
            Class::BadRequest
        }
        _ => Class::ClientGone,
    }
}

fn while_connecting(error: &Error) -> Class {
    match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => Class::ConnectTimeout,
        ErrorType::InvalidCert => Class::Untrusted,
        ErrorType::TLSHandshakeFailure | ErrorType::TLSWantX509Lookup => Class::TlsFailed,
        // An operator's firewall or a socket's mode says no as clearly as the origin would (EPERM, EACCES); any other
        // InternalError is ours.
        ErrorType::InternalError if root_io(error).is_none() => Class::LocalLimit,
        ErrorType::HandshakeError => Class::Unspoken,
        // There is a connection, perhaps a kept one, that takes no stream.
        ErrorType::H2Error => Class::Unprocessed,
        _ => Class::ConnectRefused,
    }
}

fn after_connecting(error: &Error, reused: bool, answer: Answer) -> Class {
    if let Some(h2) = error.root_cause().downcast_ref::<h2::Error>() {
        return by_h2(h2, reused, answer);
    }
    match error.etype() {
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => Class::ResponseTimeout,
        ErrorType::ReadError | ErrorType::WriteError | ErrorType::ConnectionClosed => {
            lost(reused, answer, has_part_of_header(error))
        }
        ErrorType::Custom("PingTimedout") => lost(reused, answer, false),
        ErrorType::InternalError => Class::LocalLimit,
        _ => Class::InvalidResponse,
    }
}

/// h2 says itself who ended the stream: the other side, the wire, or its own parser.
fn by_h2(error: &h2::Error, reused: bool, answer: Answer) -> Class {
    if answer == Answer::Nothing && is_unprocessed(error) {
        return Class::Unprocessed;
    }
    // Resets are an answer to this one stream: the connection was not stale.
    if error.is_io() || error.is_remote() {
        lost(reused && (error.is_io() || error.is_go_away()), answer, false)
    } else {
        Class::InvalidResponse
    }
}

/// Was it this one stream that the origin refused? Its connection goes on: it has too much to do, and does not leave.
pub fn is_refused(error: &Error) -> bool {
    let h2 = error.root_cause().downcast_ref::<h2::Error>();
    h2.is_some_and(|h2| h2.is_remote() && h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// Did the origin say that it never looked at this stream (RFC 9113, sections 6.8 and 8.7)? Only streams behind the last
/// one that a GOAWAY names are told of it: the others go on, and fail by the wire if they do.
fn is_unprocessed(error: &h2::Error) -> bool {
    let reason = error.reason();
    let left = reason == Some(h2::Reason::NO_ERROR) || reason == Some(h2::Reason::ENHANCE_YOUR_CALM);
    error.is_remote() && (error.is_go_away() && left || error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
}

/// A connection that ended before its answer did.
fn lost(reused: bool, answer: Answer, part_of_header: bool) -> Class {
    match answer {
        Answer::Header => Class::ClosedEarly,
        Answer::Nothing if reused && !part_of_header => Class::Stale,
        Answer::Nothing | Answer::Interim => Class::Reset,
    }
}

/// Pingora says how much of a header it had only in words; a part of one proves that the connection was alive.
fn has_part_of_header(error: &Error) -> bool {
    let words = error.context.as_ref().map_or("", |context| context.as_str());
    let bytes = words.rsplit_once("bytes already read: ").map(|(_, bytes)| bytes);
    bytes.is_some_and(|bytes| bytes != "0") || inner(error).is_some_and(has_part_of_header)
}

fn inner(error: &Error) -> Option<&Error> {
    error.cause.as_ref()?.downcast_ref::<Box<Error>>().map(Box::as_ref)
}

/// Did our side run out of something?
fn is_local(error: &Error) -> bool {
    match root_io(error).and_then(io::Error::raw_os_error).map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS) => true,
        Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => true,
        _ => matches!(error.root_etype(), ErrorType::SocketError | ErrorType::BindError),
    }
}

/// The operating system's error at the root, below whatever wraps it.
fn root_io(error: &Error) -> Option<&io::Error> {
    let mut cause: &(dyn StdError + 'static) = error.root_cause();
    loop {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            return Some(io);
        }
        cause = cause.source()?;
    }
}

#[cfg(test)]
mod tests {
    use pingora_core::ErrorType::*;

    use super::*;

    const FRESH: Stage = Stage::Connected { reused: false, answer: Answer::Nothing, watchdog: false };
    const REUSED: Stage = Stage::Connected { reused: true, answer: Answer::Nothing, watchdog: false };
    const FRESH_1XX: Stage = Stage::Connected { reused: false, answer: Answer::Interim, watchdog: false };
    const REUSED_1XX: Stage = Stage::Connected { reused: true, answer: Answer::Interim, watchdog: false };
    const HEADER: Stage = Stage::Connected { reused: true, answer: Answer::Header, watchdog: false };
    const WATCHDOG: Stage = Stage::Connected { reused: true, answer: Answer::Nothing, watchdog: true };

    #[track_caller]
    fn check(error: &Error, stage: Stage, expected: Class) {
        assert_eq!(classify(error, stage), expected, "{error} at {stage:?}");
    }

    fn os(etype: ErrorType, errno: Errno) -> Box<Error> {
        Error::because(etype, "words", io::Error::from(errno)).into_up()
    }

    /// As Pingora wraps an error that it met while connecting.
    fn wrapped(etype: ErrorType, inner: ErrorType, errno: Errno) -> Box<Error> {
        Error::because(etype, "Fail to connect to 127.0.0.1:1", os(inner, errno)).into_up()
    }

    #[test]
    fn no_connection_is_refused_late_or_without_tls() {
        check(&os(ConnectRefused, Errno::ECONNREFUSED), Stage::Connecting, Class::ConnectRefused);
        check(&os(ConnectNoRoute, Errno::EHOSTUNREACH), Stage::Connecting, Class::ConnectRefused);
        check(&os(ConnectError, Errno::ENOENT), Stage::Connecting, Class::ConnectRefused);
        check(&os(InternalError, Errno::EACCES), Stage::Connecting, Class::ConnectRefused);
        check(&os(HandshakeError, Errno::EPIPE), Stage::Connecting, Class::Unspoken);
        check(&Error::new_up(H2Error), Stage::Connecting, Class::Unprocessed);
        check(&Error::new_up(ConnectTimedout), Stage::Connecting, Class::ConnectTimeout);
        check(&os(ConnectTimedout, Errno::ETIMEDOUT), Stage::Connecting, Class::ConnectTimeout);
        check(&Error::new_up(TLSHandshakeFailure), Stage::Connecting, Class::TlsFailed);
        check(&Error::new_up(InvalidCert), Stage::Connecting, Class::Untrusted);
    }

    #[test]
    fn what_we_ran_out_of_is_evidence_against_nobody() {
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS] {
            check(&wrapped(InternalError, SocketError, errno), Stage::Connecting, Class::LocalLimit);
            check(&os(ConnectError, errno), Stage::Connecting, Class::LocalLimit);
            check(&os(WriteError, errno), REUSED, Class::LocalLimit);
        }
        check(&wrapped(InternalError, BindError, Errno::EADDRNOTAVAIL), Stage::Connecting, Class::LocalLimit);
        check(&os(InternalError, Errno::EADDRINUSE), Stage::Connecting, Class::LocalLimit);
        check(&Error::new_up(InternalError), Stage::Connecting, Class::LocalLimit);
        check(&Error::new_in(UnknownError), FRESH, Class::LocalLimit);
    }

    #[test]
    fn a_closed_connection_is_stale_reset_or_closed_early_by_what_came_back() {
        let eof = Error::explain(ConnectionClosed, "while reading response headers, bytes already read: 0").into_up();
        for error in [eof, os(ReadError, Errno::ECONNRESET), os(WriteError, Errno::EPIPE)] {
            check(&error, FRESH, Class::Reset);
            check(&error, REUSED, Class::Stale);
            check(&error, FRESH_1XX, Class::Reset);
            check(&error, REUSED_1XX, Class::Reset);
            check(&error, HEADER, Class::ClosedEarly);
        }
    }

    #[test]
    fn a_part_of_a_header_proves_that_the_connection_was_alive() {
        let part = Error::explain(ConnectionClosed, "while reading response headers, bytes already read: 17").into_up();
        check(&part, REUSED, Class::Reset);
        check(&part.more_context("Peer: 127.0.0.1:1"), REUSED, Class::Reset);
    }

    #[test]
    fn silence_is_a_response_time_out_whoever_noticed() {
        check(&Error::new_up(ReadTimedout), FRESH, Class::ResponseTimeout);
        check(&Error::new_up(WriteTimedout), REUSED, Class::ResponseTimeout);
        check(&Error::new_up(ReadTimedout), HEADER, Class::ResponseTimeout);
        check(&os(ReadError, Errno::ECONNRESET), WATCHDOG, Class::ResponseTimeout);
        check(&Error::new_up(ConnectionClosed), WATCHDOG, Class::ResponseTimeout);
    }

    #[test]
    fn what_is_no_http_is_an_invalid_response() {
        for etype in [InvalidHTTPHeader, H1Error, InvalidH2, H2Downgrade, Custom("InvalidChunk")] {
            check(&Error::new_up(etype.clone()), REUSED, Class::InvalidResponse);
            check(&Error::new_up(etype), HEADER, Class::InvalidResponse);
        }
    }

    #[test]
    fn the_client_is_to_blame_for_its_own_side() {
        check(&Error::new_down(ConnectionClosed), HEADER, Class::ClientGone);
        check(&Error::new_down(WriteError), HEADER, Class::ClientGone);
        check(&Error::new_down(WriteTimedout), HEADER, Class::ClientGone);
        check(&Error::new_down(ReadError), WATCHDOG, Class::ClientGone);
        check(&Error::new_down(ReadTimedout), REUSED, Class::ClientTimeout);
        check(&Error::new_down(InvalidHTTPHeader), REUSED, Class::BadRequest);
        check(&Error::new_down(Custom("InvalidChunk")), REUSED, Class::BadRequest);
        check(&Error::new_in(InvalidHTTPHeader), REUSED, Class::BadRequest);
    }

    #[test]
    fn a_raised_class_comes_back_at_every_stage() {
        for class in Class::ALL.iter().copied() {
            for stage in [Stage::Connecting, FRESH, HEADER, WATCHDOG] {
                check(&class.raise(), stage, class);
                check(&class.raise().more_context("Peer: 127.0.0.1:1"), stage, class);
            }
        }
    }

    /// The error a client meets when `server` has done with its connection.
    async fn h2_error<F: Future<Output = ()>>(server: impl FnOnce(tokio::io::DuplexStream) -> F) -> Box<Error> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let client = async {
            let (mut requests, connection) = h2::client::handshake(ours).await.unwrap();
            let request = http::Request::get("http://origin/").body(()).unwrap();
            let (answer, _) = requests.send_request(request, true).unwrap();
            drop(requests);
            tokio::join!(answer, connection).0.unwrap_err()
        };
        let (error, ()) = tokio::join!(client, server(theirs));
        Error::because(H2Error, "while reading h2 header", error).into_up()
    }

    async fn resetting(reason: h2::Reason) -> Box<Error> {
        let server = |stream| async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_, mut answer) = connection.accept().await.unwrap().unwrap();
            answer.send_reset(reason);
            while connection.accept().await.is_some() {}
        };
        h2_error(server).await
    }

    #[tokio::test]
    async fn an_h2_stream_reset_by_the_origin_is_reset_and_a_refused_one_was_not_processed() {
        let failed = resetting(h2::Reason::INTERNAL_ERROR).await;
        check(&failed, FRESH, Class::Reset);
        check(&failed, REUSED, Class::Reset);
        check(&failed, HEADER, Class::ClosedEarly);
        let refused = resetting(h2::Reason::REFUSED_STREAM).await;
        check(&refused, FRESH, Class::Unprocessed);
        check(&refused, REUSED, Class::Unprocessed);
        check(&refused, HEADER, Class::ClosedEarly);
    }

    /// The error of a stream when this GOAWAY came and the connection ended.
    async fn going_away(last: u8, reason: h2::Reason) -> Box<Error> {
        let error = h2_error(|mut stream| async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut seen = [0; 24];
            stream.read_exact(&mut seen).await.unwrap();
            // Settings, and once a stream was begun that it goes.
            stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
            loop {
                let mut head = [0; 9];
                stream.read_exact(&mut head).await.unwrap();
                let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                if head[3] == 1 {
                    break;
                }
            }
            let code = u8::try_from(u32::from(reason)).unwrap();
            stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, code]).await.unwrap();
        });
        error.await
    }

    #[tokio::test]
    async fn a_stream_behind_the_last_one_of_a_goaway_was_not_processed() {
        for reason in [h2::Reason::NO_ERROR, h2::Reason::ENHANCE_YOUR_CALM] {
            let behind = going_away(0, reason).await;
            check(&behind, FRESH, Class::Unprocessed);
            check(&behind, REUSED, Class::Unprocessed);
            check(&behind, HEADER, Class::ClosedEarly);
        }
        // It says that the request was the reason: not again.
        let blamed = going_away(0, h2::Reason::PROTOCOL_ERROR).await;
        check(&blamed, FRESH, Class::Reset);
        // The first stream is the last one looked at, and the connection ended before its answer.
        let within = going_away(1, h2::Reason::NO_ERROR).await;
        check(&within, FRESH, Class::Reset);
        check(&within, REUSED, Class::Stale);
    }

    #[tokio::test]
    async fn an_h2_connection_that_ends_is_stale_or_reset() {
        let error = h2_error(|stream| async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            drop(connection.accept().await);
        });
        let error = error.await;
        check(&error, REUSED, Class::Stale);
        check(&error, FRESH, Class::Reset);
    }

    #[tokio::test]
    async fn b43_garbage_from_an_h2_origin_is_an_invalid_response() {
        let error = h2_error(|mut stream| async move {
            use tokio::io::AsyncWriteExt;
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
        });
        let error = error.await;
        check(&error, REUSED, Class::InvalidResponse);
        check(&error, FRESH, Class::InvalidResponse);
    }
}
