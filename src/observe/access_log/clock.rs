//! The time of a line, rendered once a second and copied from then on.
//!
//! Local time as in nginx's `$time_local`, and UTC as in RFC 3339. A zone the system does not tell is UTC.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Remembers the text of the second it was asked for last.
pub(super) struct Clock {
    zone: TimeZone,
    second: Option<i64>,
    local: Vec<u8>,
    utc: Vec<u8>,
}

impl Clock {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, second: None, local: Vec::new(), utc: Vec::new() }
    }

    /// Makes the second of `time` the one to tell: renders it unless it is there already.
    pub(super) fn turn_to(&mut self, time: SystemTime) {
        let second = i64::try_from(since_epoch(time).as_secs()).unwrap_or_default();
        if self.second != Some(second) {
            self.second = Some(second);
            self.render(Timestamp::from_second(second).unwrap_or_default());
        }
    }

    /// The second in the zone of the machine: `29/Nov/2026:20:25:01 +0000`.
    pub(super) fn local(&self) -> &[u8] {
        &self.local
    }

    /// Appends the second with the milliseconds of `time`, which lies in it: `2026-11-29T20:25:01.123Z`.
    pub(super) fn utc(&self, time: SystemTime, out: &mut Vec<u8>) {
        let millis = since_epoch(time).subsec_millis();
        out.extend_from_slice(&self.utc);
        out.extend_from_slice(&[millis / 100, millis / 10 % 10, millis % 10].map(|digit| b'0' + digit as u8));
        out.push(b'Z');
    }

    fn render(&mut self, second: Timestamp) {
        self.local.clear();
        self.utc.clear();
        let local = second.to_zoned_datetime(self.zone.clone());
        // Writing to a Vec cannot fail.
        let _ = write!(self.local, "{}", local.strftime("%d/%b/%Y:%H:%M:%S %z"));
        let _ = write!(self.utc, "{}", second.strftime("%Y-%m-%dT%H:%M:%S."));
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    fn utc(clock: &mut Clock, time: SystemTime) -> String {
        let mut out = Vec::new();
        clock.turn_to(time);
        clock.utc(time, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_times_of_a_second() {
        let mut clock = Clock::new(TimeZone::fixed(Offset::from_seconds(-19_800).unwrap()));
        let time = at(1_795_984_501_042);
        assert_eq!(utc(&mut clock, time), "2026-11-29T20:35:01.042Z");
        assert_eq!(clock.local(), b"29/Nov/2026:15:05:01 -0530");
    }

    #[test]
    fn a_second_that_went_back_is_rendered_again() {
        let mut clock = Clock::new(TimeZone::UTC);
        for millis in [1_999, 1_000, 2_000, 1_500] {
            assert_eq!(
                utc(&mut clock, at(millis)),
                format!("1970-01-01T00:00:0{}.{:03}Z", millis / 1000, millis % 1000)
            );
        }
    }

    #[test]
    fn a_time_before_the_epoch_is_the_epoch() {
        let mut clock = Clock::new(TimeZone::UTC);
        assert_eq!(utc(&mut clock, UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }
}
