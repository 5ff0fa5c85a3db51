//! Where do the keys come from? A file of keys, an access log, or nowhere: then they are made up.
//!
//! A source can be told over and over: standard input is kept whole for that, a file is read again.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use http::HeaderMap;

use super::asked::{Asked, Seen, Take, What};
use super::log_line::Shape;
use super::progress::Progress;
use crate::admin::{Sampled, SampledKey};
use crate::cli::request::{Request, Wrong};
use crate::pool::plan::Literal;
use crate::template::{Facts, Need};

/// Keys that are made up: chance adds less than 0.3 points either way, 19 times of 20.
const MADE_UP: u32 = 100_000;

/// A source of keys.
pub(super) enum Source {
    /// Made up.
    Generated,
    /// One literal key or one URL a line.
    Keys(Text),
    /// One request a line.
    AccessLog(Text, Shape),
    /// What the running gateway was asked for lately.
    Sample(Sampled),
}

/// Lines, to be read more than once.
pub(super) enum Text {
    File(PathBuf),
    Input(Vec<u8>),
}

/// Lines that told nothing.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) lines: u64,
    /// The first: its number, and what is wrong with it.
    pub(super) first: Option<(u64, String)>,
}

impl Text {
    /// The file of this name; `-` is standard input.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        if path.to_str() == Some("-") {
            let mut text = Vec::new();
            io::stdin().lock().read_to_end(&mut text).context("standard input")?;
            return Ok(Self::Input(text));
        }
        Ok(Self::File(path.to_owned()))
    }

    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Input(_) => "standard input".to_owned(),
        }
    }

    /// Tells every line without its end; what is wrong with one is noted.
    fn each(
        &self,
        progress: &mut Progress,
        mut tell: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> anyhow::Result<Skipped> {
        let (mut lines, size): (Box<dyn BufRead + '_>, u64) = match self {
            Self::File(path) => {
                let file = File::open(path).with_context(|| self.name())?;
                let size = file.metadata().map_or(0, |about| about.len());
                (Box::new(BufReader::with_capacity(256 * 1024, file)), size)
            }
            Self::Input(text) => (Box::new(text.as_slice()), text.len() as u64),
        };
        progress.begin(&self.name(), size);
        let (mut skipped, mut number, mut line) = (Skipped::default(), 0, Vec::new());
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).with_context(|| self.name())?;
            if read == 0 {
                return Ok(skipped);
            }
            line.pop_if(|last| *last == b'\n');
            number += 1;
            if let Err(why) = tell(&line) {
                skipped.lines += 1;
                skipped.first.get_or_insert((number, why));
            }
            progress.advance(read as u64);
        }
    }
}

impl Source {
    /// The word for where the keys come from.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Keys(_) => "keys",
            Self::AccessLog(..) => "access_log",
            Self::Sample(_) => "sample",
        }
    }

    /// The part of a pool's requests that its origins answered from their caches, if anybody knows.
    pub(super) fn hit_ratio(&self, pool: &str) -> Option<f64> {
        match self {
            Self::Sample(sampled) => sampled.pools.get(pool)?.hit_ratio,
            _ => None,
        }
    }

    /// Tells everything that was asked for, in order.
    pub(super) fn each(&self, progress: &mut Progress, take: &mut Take<'_>) -> anyhow::Result<Skipped> {
        let skipped = match self {
            Self::Generated => {
                generated(take);
                Skipped::default()
            }
            Self::Keys(text) => text.each(progress, |line| key_or_url(line, take))?,
            Self::AccessLog(text, shape) => text.each(progress, |line| shape.tell(line, take))?,
            Self::Sample(sampled) => {
                sampled
                    .pools
                    .iter()
                    .for_each(|(pool, sample)| sample.keys.iter().for_each(|key| lately(pool, key, take)));
                Skipped::default()
            }
        };
        progress.end();
        Ok(skipped)
    }
}

fn generated(take: &mut Take<'_>) {
    // Seeded: two runs say the same.
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..MADE_UP {
        take(&Asked::key(format!("{:016x}", random.u64(..)).as_bytes()));
    }
}

/// A key of the running gateway's sample.
fn lately(pool: &str, key: &SampledKey, take: &mut Take<'_>) {
    let literal = Literal::Hash(key.hash);
    let Some([host, target]) = key.url() else {
        return take(&Asked { what: What::Key(literal, Some(pool)), requests: key.requests });
    };
    let (host, headers) = (String::from_utf8_lossy(&host), HeaderMap::new());
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let facts = Facts {
        method: "GET",
        scheme: "http",
        host: &host,
        host_port: &host,
        target: &target,
        headers: &headers,
        client_ip: nobody.ip(),
        peer: nobody,
    };
    let seen = Seen { facts, knows: &|_| false, pool: Some(pool), key: Some(literal) };
    take(&Asked { what: What::Request(seen), requests: key.requests });
}

/// A line that begins with `http://` or `https://` is a request; everything else is what is hashed, byte for byte.
fn key_or_url(line: &[u8], take: &mut Take<'_>) -> Result<(), String> {
    let begins = |scheme: &[u8]| line.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !begins(b"http://") && !begins(b"https://") {
        take(&Asked::key(line));
        return Ok(());
    }
    let url = String::from_utf8_lossy(line.trim_ascii_end());
    let headers = HeaderMap::new();
    let request = Request::parse("GET", &url, &headers).map_err(|wrong| match wrong {
        Wrong::NoUrl => "it is no URL".to_owned(),
        Wrong::Refused(why) => why,
    })?;
    let knows = |need: Need<'_>| need == Need::Port;
    let facts = request.facts("GET", None, &headers);
    take(&Asked::request(Seen { facts, knows: &knows, pool: None, key: None }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &Source) -> (Vec<String>, Skipped) {
        let mut told = Vec::new();
        let skipped = source.each(&mut Progress::silent(), &mut |asked| {
            told.push(match &asked.what {
                What::Key(Literal::Key(key), _) => String::from_utf8_lossy(key).into_owned(),
                What::Key(Literal::Hash(hash), pool) => format!("{hash} in {pool:?}"),
                What::Request(seen) => {
                    format!("{} {}", seen.facts.host_port, String::from_utf8_lossy(seen.facts.target))
                }
            });
        });
        (told, skipped.unwrap())
    }

    #[test]
    fn a_line_is_a_literal_key_unless_it_is_a_url() {
        let text = "/obj/1\n http://not\nHTTP://Example.com:81/a?b#c\nhttps://h/x\r\nhttp://a b/\n\nlast";
        let (told, skipped) = told(&Source::Keys(Text::Input(text.into())));
        assert_eq!(told, ["/obj/1", " http://not", "example.com:81 /a?b", "h /x", "", "last"]);
        let (number, why) = skipped.first.unwrap();
        assert_eq!((skipped.lines, number), (1, 5));
        assert!(why.contains("space"), "{why}");
    }

    #[test]
    fn keys_that_are_made_up_are_the_same_each_time() {
        let (one, other) = (told(&Source::Generated).0, told(&Source::Generated).0);
        assert_eq!(one.len(), 100_000);
        assert!(one == other);
    }

    #[test]
    fn the_sample_of_the_running_gateway_is_told_by_pool() {
        let key = |hash, url: Option<(&str, &str)>| SampledKey {
            hash,
            requests: 2,
            url: url.map(|(host, target)| (host.to_owned(), target.to_owned())),
        };
        let keys = vec![key(7, Some(("h", "/a?b"))), key(8, None)];
        let pools = [("p".to_owned(), crate::admin::PoolSample { one_of: 4, hit_ratio: Some(0.9), keys })]
            .into_iter()
            .collect();
        let source = Source::Sample(Sampled { pools });
        assert_eq!(told(&source).0, ["h /a?b", "8 in Some(\"p\")"]);
        assert_eq!(
            (source.hit_ratio("p"), source.hit_ratio("q"), Source::Generated.hit_ratio("p")),
            (Some(0.9), None, None)
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let source = Source::Keys(Text::File("/none/such".into()));
        let error = source.each(&mut Progress::silent(), &mut |_| ()).err().unwrap();
        assert_eq!(format!("{error:#}"), "/none/such: No such file or directory (os error 2)");
    }
}
