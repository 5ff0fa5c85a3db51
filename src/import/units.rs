//! How are nginx's times, sizes and networks written here?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Milliseconds of a time such as `60`, `500ms` or `1m 30s`.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at_checked(digits)?;
        let end = behind.find(|letter: char| letter.is_ascii_digit() || letter == ' ').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(end)?;
        let each = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)?;
        rest = behind.trim_start();
    }
    Some(total)
}

/// A time as our file has it.
pub(super) fn time(millis: u64) -> String {
    for (unit, name) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if millis >= unit && millis.is_multiple_of(unit) {
            return format!("{}{name}", millis / unit);
        }
    }
    format!("{millis}ms")
}

/// Bytes of a size such as `8k` or `1m`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 1 << 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 1 << 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A size as our file has it.
pub(super) fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// An address or a network.
pub(super) fn network(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    match length {
        None => Some(address.to_string()),
        Some(length) => length.parse::<u8>().ok().filter(|it| *it <= longest).map(|it| format!("{address}/{it}")),
    }
}

/// Where `listen` binds.
pub(super) fn bound(text: &str) -> Option<SocketAddr> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if let Ok(port) = text.parse::<u16>() {
        return Some((any, port).into());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    if let Some(ip) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Some((ip.parse::<IpAddr>().ok()?, 80).into());
    }
    let (host, port) = text.split_once(':').map_or((text, "80"), |(host, port)| (host, port));
    let host = match host {
        "*" => any,
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => host.parse::<Ipv4Addr>().ok()?.into(),
    };
    Some((host, port.parse::<u16>().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_those_of_nginx() {
        for (text, written) in [
            ("60", "1m"),
            ("5s", "5s"),
            ("500ms", "500ms"),
            ("1m30s", "90s"),
            ("1h 30m", "90m"),
            ("1d", "24h"),
            ("0", "0ms"),
        ] {
            assert_eq!(millis(text).map(time).as_deref(), Some(written), "{text}");
        }
        for text in ["", "x", "5x", "-1", "1.5s"] {
            assert_eq!(millis(text), None, "{text}");
        }
        for (text, written) in [("8k", "8KiB"), ("1m", "1MiB"), ("1000", "1000"), ("1536k", "1536KiB"), ("0", "0")] {
            assert_eq!(bytes(text).map(size).as_deref(), Some(written), "{text}");
        }
        assert_eq!(bytes("k"), None);
    }

    #[test]
    fn addresses_are_those_of_listen() {
        for (text, address) in [
            ("80", "0.0.0.0:80"),
            ("*:8080", "0.0.0.0:8080"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("localhost:81", "127.0.0.1:81"),
            ("[::]:80", "[::]:80"),
            ("[::1]", "[::1]:80"),
        ] {
            assert_eq!(bound(text).map(|it| it.to_string()).as_deref(), Some(address), "{text}");
        }
        assert_eq!(bound("unix:/run/x"), None);
        assert_eq!(bound("example.com:80"), None);
        assert_eq!(network("10.0.0.0/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(network("10.0.0.0/40"), None);
    }
}
