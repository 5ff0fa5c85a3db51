//! How does a client's address come to us? From its socket, unless a proxy that is trusted says better.

use http::HeaderName;
use schemars::{Schema, json_schema};

use super::written::{Written, choices, written};

/// Does a connection begin with a PROXY header (v1 or v2)?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxyProtocol {
    /// Its first bytes are the client's.
    #[default]
    Off,
    /// From a trusted proxy always, from nobody else.
    Required,
    /// From a trusted proxy it may, from nobody else.
    Optional,
}

choices!(ProxyProtocol { Off = "off", Required = "required", Optional = "optional" });

/// Where trusted proxies write on whose behalf they ask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientAddress {
    /// In X-Forwarded-For.
    #[default]
    XForwardedFor,
    /// In Forwarded, the header of RFC 7239.
    Forwarded,
    /// In a header of their own.
    Header(HeaderName),
    /// Nowhere: who connects is the client.
    Off,
}

written!(ClientAddress);

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";

impl Written for ClientAddress {
    const EXPECTED: &'static str = "x-forwarded-for, forwarded, the name of a header such as cf-connecting-ip, or off";

    fn parse(text: &str) -> Option<Self> {
        let name = HeaderName::parse(text)?;
        Some(match name.as_str() {
            "off" | "false" => Self::Off,
            X_FORWARDED_FOR => Self::XForwardedFor,
            FORWARDED => Self::Forwarded,
            _ => Self::Header(name),
        })
    }

    fn print(&self) -> String {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR.to_owned(),
            Self::Forwarded => FORWARDED.to_owned(),
            Self::Header(name) => name.print(),
            Self::Off => "off".to_owned(),
        }
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
            "examples": [X_FORWARDED_FOR, FORWARDED, "cf-connecting-ip"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Severity, parse, tests::SMALLEST};

    #[test]
    fn the_header_that_names_the_client_reads_as_it_prints() {
        for (text, printed) in [
            ("X-Forwarded-For", X_FORWARDED_FOR),
            ("Forwarded", FORWARDED),
            ("CF-Connecting-IP", "cf-connecting-ip"),
            ("off", "off"),
        ] {
            let read = ClientAddress::parse(text).unwrap();
            assert_eq!(read.print(), printed);
            assert_eq!(ClientAddress::parse(printed), Some(read));
        }
        assert_eq!(ClientAddress::parse("x forwarded"), None);
        assert_eq!(ClientAddress::parse("X-Forwarded-For"), Some(ClientAddress::default()));
    }

    #[test]
    fn u8_a_listener_for_proxy_headers_needs_somebody_to_trust() {
        let with = |mode: &str| SMALLEST.replace("8080 }", &format!("8080, proxy_protocol: {mode} }}"));
        for mode in ["required", "optional"] {
            let told = format!(
                "2:66: process.listeners[0].proxy_protocol: found \"{mode}\", but nobody is trusted to send a PROXY header, \
                 set \"trusted_proxies\" to the networks of the balancer"
            );
            let mistakes = parse("f", &with(mode)).unwrap_err().mistakes;
            assert!(mistakes.iter().any(|mistake| mistake.to_string() == format!("f:{told}")), "{mistakes:?}");
            assert!(parse("f", &format!("{}trusted_proxies: [10.0.0.0/8]\n", with(mode))).is_ok());
            let spoiled = parse("f", &format!("{}trusted_proxies: [ten]\n", with(mode))).unwrap_err();
            assert_eq!(spoiled.mistakes.iter().filter(|mistake| mistake.severity == Severity::Error).count(), 1);
        }
        assert!(parse("f", &with("off")).is_ok());
    }
}
