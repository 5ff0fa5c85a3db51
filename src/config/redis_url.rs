//! Which Redis counts for several replicas? Its address, and what it wants to hear first.

use std::fmt;

use schemars::{Schema, json_schema};

use super::address::is_host;
use super::units::plain_number;
use super::written::{Written, written};

/// The port Redis listens on.
const PORT: u16 = 6379;

/// `redis://[user][:password@]host[:port][/database]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RedisUrl {
    /// Who asks, where there are users.
    pub user: Option<String>,
    /// The password, as it is written.
    pub password: Option<String>,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub database: u32,
}

written!(RedisUrl);

impl RedisUrl {
    /// Where it is, for people: without a password.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The same with something else in the place of the password.
    pub(super) fn masked(&self) -> Self {
        Self { password: self.password.as_ref().map(|_| "***".to_owned()), ..self.clone() }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked().print())
    }
}

impl Written for RedisUrl {
    const EXPECTED: &'static str = "redis://host:port/0, or redis://:password@host:port/0";

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("redis://")?;
        let (rest, database) = rest.rsplit_once('/').filter(|(_, after)| !after.contains('@')).unwrap_or((rest, "0"));
        let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
            None => (None, None),
            Some((_, "")) => return None,
            Some((user, password)) => (Some(user).filter(|user| !user.is_empty()), Some(password)),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') => (host, number(port)?),
            _ => (place, u32::from(PORT)),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).filter(|host| host.contains(':'));
        let is_known = bare.map_or_else(
            || is_host(host) || host.parse::<std::net::Ipv4Addr>().is_ok(),
            |host| host.parse::<std::net::Ipv6Addr>().is_ok(),
        );
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        is_known
            .then(|| Self {
                user: user.map(str::to_owned),
                password: password.map(str::to_owned),
                host: bare.unwrap_or(host).to_owned(),
                port,
                database: 0,
            })
            .and_then(|url| Some(Self { database: if database.is_empty() { 0 } else { number(database)? }, ..url }))
    }

    fn print(&self) -> String {
        let who = match (&self.user, &self.password) {
            (_, None) => String::new(),
            (user, Some(password)) => format!("{}:{password}@", user.as_deref().unwrap_or_default()),
        };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("redis://{who}{host}:{}/{}", self.port, self.database)
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^redis://([^@/\s]*:[^@\s]+@)?[^@/\s]+(/\d*)?$" })
    }

    /// What it says may hold a password, which is not repeated.
    fn read(text: &str) -> Result<Self, super::Invalid> {
        Self::parse(text)
            .ok_or_else(|| super::Invalid::new("found something else", format!("expected {}", Self::EXPECTED)))
    }
}

fn number(text: &str) -> Option<u32> {
    plain_number(text).filter(|_| !text.contains('.'))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_prints() {
        for (text, printed) in [
            ("redis://redis.internal", "redis://redis.internal:6379/0"),
            ("redis://10.0.0.1:7000/", "redis://10.0.0.1:7000/0"),
            ("redis://:p@ss:w/rd@redis:1/12", "redis://:p@ss:w/rd@redis:1/12"),
            ("redis://moorgate:secret@[::1]:6379/3", "redis://moorgate:secret@[::1]:6379/3"),
        ] {
            let url = RedisUrl::parse(text).unwrap();
            assert_eq!(url.print(), printed);
            assert_eq!(RedisUrl::parse(printed).as_ref(), Some(&url));
        }
        let wrong = [
            "redis:6379",
            "rediss://a",
            "redis://",
            "redis://a:0",
            "redis://a:b",
            "redis://a/x",
            "redis://@a",
            "redis://a b",
        ];
        for wrong in wrong {
            assert_eq!(RedisUrl::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_that_is_shown_has_the_password() {
        let url = RedisUrl::parse("redis://:hunter2@redis/1").unwrap();
        assert_eq!(format!("{url:?}"), "redis://:***@redis:6379/1");
        assert_eq!(url.place(), "redis:6379");
        assert!(!RedisUrl::read("redis:/:hunter2@redis").unwrap_err().to_string().contains("hunter2"));
    }
}
