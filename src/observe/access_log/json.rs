//! One JSON object a line, the fields always there and always in this order; `trace_id` alone only where requests are traced.

use super::Record;
use super::clock::Clock;
use crate::observe::Attempt;
use crate::observe::text;
use crate::template::address;

/// Appends the object, without a line end.
pub(super) fn render(record: &Record<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    clock.turn_to(record.time);
    clock.utc(record.time, out);
    out.extend_from_slice(b"\",\"client\":\"");
    address::push_ip(record.facts.client_ip, out);
    out.push(b'"');
    field(b",\"method\":", record.facts.method.as_bytes(), out);
    field(b",\"scheme\":", record.facts.scheme.as_bytes(), out);
    field(b",\"host\":", record.facts.host.as_bytes(), out);
    field(b",\"uri\":", record.facts.target, out);
    field(b",\"protocol\":", record.protocol.as_bytes(), out);
    count(b",\"status\":", record.status.into(), out);
    count(b",\"bytes_sent\":", record.bytes_sent, out);
    count(b",\"bytes_received\":", record.bytes_received, out);
    out.extend_from_slice(b",\"request_time\":");
    text::micros(record.request_time, out);
    field(b",\"request_id\":", record.request_id.as_bytes(), out);
    perhaps(b",\"route\":", record.route.map(str::as_bytes), out);
    perhaps(b",\"pool\":", record.pool.map(str::as_bytes), out);
    perhaps(b",\"ring\":", record.ring.map(str::as_bytes), out);
    perhaps(b",\"key\":", record.key, out);
    out.extend_from_slice(b",\"attempts\":");
    attempts(record.attempts, out);
    perhaps(b",\"error\":", record.error.map(str::as_bytes), out);
    perhaps(b",\"limited\":", record.limited.map(str::as_bytes), out);
    if let Some(trace) = record.trace {
        field(b",\"trace_id\":", &trace.hex(), out);
    }
    out.push(b'}');
}

fn attempts(attempts: &[Attempt<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, attempt) in attempts.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"origin\":" } else { b",{\"origin\":" });
        text::json(attempt.origin.as_bytes(), out);
        out.extend_from_slice(b",\"status\":");
        match attempt.status {
            Some(status) => text::number(status.into(), out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"connect_time\":");
        match attempt.connect_time {
            Some(time) => text::micros(time, out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"response_time\":");
        text::micros(attempt.response_time, out);
        out.extend_from_slice(b",\"reused\":");
        out.extend_from_slice(if attempt.reused { b"true" } else { b"false" });
        field(b",\"outcome\":", attempt.outcome.as_bytes(), out);
        perhaps(b",\"cache\":", attempt.cache.map(str::as_bytes), out);
        out.push(b'}');
    }
    out.push(b']');
}

/// These three take the name with all that stands around it: one copy instead of three.
fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    text::json(value, out);
}

fn count(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    text::number(value, out);
}

fn perhaps(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => text::json(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn line(change: impl FnOnce(&mut Record<'_>)) -> String {
        let mut out = Vec::new();
        sample::with(|record| {
            change(record);
            render(record, &mut sample::clock(), &mut out);
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_every_field_in_its_place() {
        assert_eq!(
            line(|_| ()),
            concat!(
                r#"{"time":"2026-11-29T20:35:01.042Z","client":"192.0.2.7","method":"GET","scheme":"http","#,
                r#""host":"example.com","uri":"/a?b=1","protocol":"HTTP/1.1","status":200,"bytes_sent":97,"#,
                r#""bytes_received":0,"request_time":0.012345,"request_id":"0123456789abcdef0123456789abcdef","#,
                r#""route":"api","pool":"origin","ring":"00112233aabbccdd","key":"example.com/a?b=1","attempts":["#,
                r#"{"origin":"a:80","status":null,"connect_time":null,"response_time":0.000100,"reused":false,"#,
                r#""outcome":"connect_refused","cache":null},"#,
                r#"{"origin":"b:80","status":200,"connect_time":0.000250,"response_time":0.011000,"reused":false,"#,
                r#""outcome":"ok","cache":"hit"}],"error":null,"limited":null}"#,
            )
        );
    }

    #[test]
    fn a_request_nobody_could_read_is_still_a_line_that_parses() {
        let line = line(|record| {
            record.facts.method = "";
            record.facts.target = b"\xff\"\n";
            record.attempts = &[];
            (record.route, record.pool, record.ring, record.key) = (None, None, None, None);
            record.error = Some("bad_request");
            record.limited = Some("a\"b");
        });
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["uri"], "\u{fffd}\"\n");
        assert_eq!(read["attempts"], serde_json::json!([]));
        assert_eq!(read["route"], serde_json::Value::Null);
        assert_eq!((&read["error"], &read["limited"]), (&"bad_request".into(), &"a\"b".into()));
    }
}
