//! Did the beginning of the next request come along with the last one?
//!
//! Pingora keeps such bytes in its `HttpPersistentSettings` and has no way to ask for them. The counts of [`Wire`]
//! answer for nearly every request; where they cannot (chunk framing is in no count), the settings' `Debug` form does.
//! If that form should change, the answer is "yes", which costs memory and nothing else.
//!
//! [`Wire`]: crate::proxy::wire::Wire

use std::fmt::{self, Write};

use pingora::apps::HttpPersistentSettings;

/// Whether `settings` hold bytes of a next request.
pub(super) fn holds_a_request(settings: &HttpPersistentSettings) -> bool {
    let mut scan = Scan { field: false, found: None };
    // ends early on purpose, with an error
    let _ = write!(scan, "{settings:?}");
    scan.found.unwrap_or(true)
}

/// Waits for the field's name, then for its value.
struct Scan {
    field: bool,
    found: Option<bool>,
}

impl fmt::Write for Scan {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.field {
            self.field = text == "pipelined_prefix";
        } else if text == "None" || text == "Some" {
            self.found = Some(text == "Some");
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use pingora::protocols::http::ServerSession;

    use super::*;

    #[test]
    fn settings_tell_whether_a_request_is_waiting() {
        let session = ServerSession::new_http1(Box::new(std::io::Cursor::new(Vec::<u8>::new())));
        let mut settings = HttpPersistentSettings::for_session(&session);
        assert!(!holds_a_request(&settings));
        settings.set_user_context(Box::new("pipelined_prefix"));
        assert!(!holds_a_request(&settings));
        settings.set_pipelined_prefix(BytesMut::from(&b"None"[..]));
        assert!(holds_a_request(&settings));
    }
}
