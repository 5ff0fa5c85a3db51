//! What are the arguments of a request, whatever order and spelling they came in? Rule K3.
//!
//! A query is split at `&` only and each piece at its first `=`; pieces are normalised, filtered by the pool's
//! `keep` or `drop`, sorted by name (arguments of one name stay in their order) and joined again. `a` is `a=`; `+`
//! and `;` are ordinary bytes. Always holds: normalising twice is normalising once, and the time is bounded by the
//! length of the query, not by the square of its pieces.

use smallvec::SmallVec;

use super::percent;
use crate::config::Invalid;
use crate::config::pool::Args;

/// Which arguments are part of `{args}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// All of them.
    #[default]
    All,
    /// Only these.
    Keep(Names),
    /// All but these.
    Drop(Names),
}

/// Names of arguments in their normal form; `utm_*` stands for every name that begins so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Sorted.
    exact: Vec<Vec<u8>>,
    /// Sorted.
    prefixes: Vec<Vec<u8>>,
}

impl Policy {
    /// Compiles the `args` section, or tells every name that cannot be one, with its number in the list.
    pub fn compile(args: &Args) -> Result<Self, Vec<(usize, Invalid)>> {
        Ok(match args {
            Args::All => Self::All,
            Args::Keep(names) => Self::Keep(Names::compile(names)?),
            Args::Drop(names) => Self::Drop(Names::compile(names)?),
        })
    }

    /// One line that is equal for policies that do the same: `all`, `keep:id,v`, `drop:t,utm_*`.
    pub fn text(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Keep(names) => format!("keep:{}", names.text()),
            Self::Drop(names) => format!("drop:{}", names.text()),
        }
    }

    /// Appends `{args}`: a `?` and the arguments, or nothing when none is left.
    pub fn render(&self, raw_query: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut found: SmallVec<[Piece; 16]> = SmallVec::new();
        for raw in raw_query.split(|byte| *byte == b'&').filter(|raw| !raw.is_empty()) {
            let piece = Piece::push(raw, out);
            if self.admits(&out[piece.start..piece.name_end]) {
                found.push(piece);
            } else {
                out.truncate(piece.start - 1);
            }
        }
        if !found.is_sorted_by_key(|piece| piece.name(out)) {
            found.sort_by(|a, b| a.name(out).cmp(b.name(out)));
            rewrite(&found, start, out);
        }
        if let Some(joint) = out.get_mut(start) {
            *joint = b'?';
        }
    }

    /// Is the argument of this normal name part of `{args}`?
    pub fn admits(&self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Keep(names) => names.hold(name),
            Self::Drop(names) => !names.hold(name),
        }
    }
}

/// Tells name and value of every argument of a query, each in its normal form.
pub fn each(raw_query: &[u8], mut tell: impl FnMut(&[u8], &[u8])) {
    let mut out = Vec::with_capacity(raw_query.len() + 8);
    for raw in raw_query.split(|byte| *byte == b'&').filter(|raw| !raw.is_empty()) {
        out.clear();
        let piece = Piece::push(raw, &mut out);
        tell(piece.name(&out), &out[piece.name_end + 1..]);
    }
}

/// Appends the normal form of the first argument of this name; `false` (and nothing) when it is absent or empty.
pub(super) fn push_first(raw_query: &[u8], name: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let pieces = raw_query.split(|byte| *byte == b'&').filter(|raw| !raw.is_empty());
    if let Some((_, value)) = pieces.map(split).find(|(found, _)| percent::equals(found, name, out)) {
        percent::push_normal(value, out);
    }
    out.len() > start
}

/// The normal form of a name written in a configuration.
pub(super) fn normal_name(text: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    percent::push_normal(text.as_bytes(), &mut name);
    name
}

/// A piece of a query at its first `=`.
fn split(raw: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', raw) {
        Some(at) => (&raw[..at], &raw[at + 1..]),
        None => (raw, b""),
    }
}

/// Where a normalised argument lies in the output.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Piece {
    /// Appends a joint and the normal form of a raw piece.
    fn push(raw: &[u8], out: &mut Vec<u8>) -> Self {
        let (name, value) = split(raw);
        out.push(b'&');
        let start = out.len();
        percent::push_normal(name, out);
        let name_end = out.len();
        out.push(b'=');
        percent::push_normal(value, out);
        Self { start, name_end, end: out.len() }
    }

    fn name<'o>(&self, out: &'o [u8]) -> &'o [u8] {
        &out[self.start..self.name_end]
    }
}

/// Puts the pieces in `out[start..]` into their order.
fn rewrite(pieces: &[Piece], start: usize, out: &mut Vec<u8>) {
    let unsorted = out.len();
    for piece in pieces {
        // The joint before a piece goes with it.
        out.extend_from_within(piece.start - 1..piece.end);
    }
    out.copy_within(unsorted.., start);
    out.truncate(unsorted);
}

impl Names {
    fn compile(names: &[String]) -> Result<Self, Vec<(usize, Invalid)>> {
        let mut compiled = Self::default();
        let mut mistakes = Vec::new();
        for (number, text) in names.iter().enumerate() {
            let (kind, name) = match text.strip_suffix('*') {
                Some(prefix) => (&mut compiled.prefixes, prefix),
                None => (&mut compiled.exact, text.as_str()),
            };
            match name.find(['*', '&', '=']) {
                Some(at) => mistakes.push((number, misplaced(text, &name[at..at + 1]))),
                None => kind.push(normal_name(name)),
            }
        }
        for list in [&mut compiled.exact, &mut compiled.prefixes] {
            list.sort_unstable();
            list.dedup();
        }
        if mistakes.is_empty() { Ok(compiled) } else { Err(mistakes) }
    }

    fn hold(&self, name: &[u8]) -> bool {
        self.exact.binary_search_by(|known| known.as_slice().cmp(name)).is_ok()
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Sorted and joined by commas; a comma within a name is escaped, so that no two lists read alike.
    fn text(&self) -> String {
        let text = |name: &Vec<u8>, star: &str| String::from_utf8_lossy(name).replace(',', "%2C") + star;
        let exact = self.exact.iter().map(|name| text(name, ""));
        let mut all: Vec<String> = exact.chain(self.prefixes.iter().map(|name| text(name, "*"))).collect();
        all.sort_unstable();
        all.join(",")
    }
}

fn misplaced(text: &str, what: &str) -> Invalid {
    let found = format!("`{what}` in the argument name \"{text}\"");
    let meant = match what {
        "*" => "a `*` stands at the end of a name and means any rest".to_owned(),
        _ => format!("a name as it stands before its `=`, with `%{:02X}` for a `{what}` in it", what.as_bytes()[0]),
    };
    Invalid { found, meant }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(policy: &Policy, query: &str) -> String {
        let mut out = b"/p".to_vec();
        policy.render(query.as_bytes(), &mut out);
        String::from_utf8(out).unwrap().split_off(2)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn arguments_have_one_spelling_and_one_order() {
        for (query, expected) in [
            ("a=1&b=2", "?a=1&b=2"),
            ("b=2&a=1", "?a=1&b=2"),
            ("a=2&a=1", "?a=2&a=1"),
            ("b&a=2&a=1&c", "?a=2&a=1&b=&c="),
            ("a", "?a="),
            ("a=", "?a="),
            ("A=1&a=1", "?A=1&a=1"),
            ("&&a=1&", "?a=1"),
            ("%61=%31", "?a=1"),
            ("a=b=c", "?a=b=c"),
            ("a=1;b=2", "?a=1;b=2"),
            ("a=x+y", "?a=x+y"),
            ("a=x%20y", "?a=x%20y"),
            ("a=%2f%3d%26", "?a=%2F%3D%26"),
            ("=1&=", "?=1&="),
            ("a=100%", "?a=100%25"),
            ("", ""),
            ("&&", ""),
        ] {
            assert_eq!(render(&Policy::All, query), expected, "{query}");
        }
    }

    #[test]
    fn b10_only_what_counts_is_kept() {
        let keep = Policy::compile(&Args::Keep(names(&["v", "i%64"]))).unwrap();
        assert_eq!(render(&keep, "sig=abc&v=2&ts=9&%69d=1"), "?id=1&v=2");
        assert_eq!(render(&keep, "sig=abc"), "");
        let drop = Policy::compile(&Args::Drop(names(&["t", "_", "utm_*"]))).unwrap();
        assert_eq!(render(&drop, "utm_source=x&T=1&t=2&_=3&utm_=4&utm=5"), "?T=1&utm=5");
    }

    #[test]
    fn a_star_stands_only_at_the_end() {
        let mistakes = Policy::compile(&Args::Drop(names(&["ok*", "u*m", "a=b"]))).unwrap_err();
        let [(1, star), (2, equals)] = &mistakes[..] else { panic!("{mistakes:?}") };
        assert!(star.found.contains("u*m"));
        assert!(equals.meant.contains("%3D"));
    }

    #[test]
    fn policies_that_do_the_same_read_alike() {
        let text = |list: &[&str]| Policy::compile(&Args::Keep(names(list))).unwrap().text();
        assert_eq!(text(&["v", "id", "v", "%69d"]), "keep:id,v");
        assert_ne!(text(&["a,b"]), text(&["a", "b"]));
        assert_eq!(Policy::All.text(), "all");
    }

    #[test]
    fn every_argument_is_told_in_its_normal_form() {
        let mut told = Vec::new();
        each(b"b=%41&&a&=x&b=1=2", |name, value| {
            told.push(format!("{}|{}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        });
        assert_eq!(told, ["b|A", "a|", "|x", "b|1=2"]);
    }

    #[test]
    fn the_first_argument_of_a_name_counts() {
        for (query, expected) in
            [("id=7&id=8", "7"), ("x=1&%69d=%41", "A"), ("id=&id=8", ""), ("id", ""), ("ID=1", ""), ("", "")]
        {
            let mut out = b"k".to_vec();
            assert_eq!(push_first(query.as_bytes(), b"id", &mut out), !expected.is_empty(), "{query}");
            assert_eq!(out, [b"k", expected.as_bytes()].concat(), "{query}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn queries() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![4 => prop::sample::select(b"aab&&==%25;+".to_vec()), 1 => any::<u8>()];
        proptest::collection::vec(byte, 0..80)
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let names = || proptest::collection::vec("[ab%2]{0,2}\\*?", 0..3);
        prop_oneof![Just(Args::All), names().prop_map(Args::Keep), names().prop_map(Args::Drop)]
            .prop_map(|args| Policy::compile(&args).unwrap())
    }

    fn render(policy: &Policy, query: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        policy.render(query, &mut out);
        out
    }

    proptest! {
        #[test]
        fn twice_is_once(policy in policies(), query in queries()) {
            let once = render(&policy, &query);
            let again = render(&policy, once.strip_prefix(b"?").unwrap_or_default());
            prop_assert_eq!(&once, &again);
        }

        #[test]
        fn the_order_of_different_names_means_nothing(query in queries()) {
            let mut pieces: Vec<&[u8]> = query.split(|byte| *byte == b'&').collect();
            let once = render(&Policy::All, &query);
            // A stable sort in reverse keeps arguments of one name in their order.
            let name = |piece: &[u8]| {
                let mut name = Vec::new();
                percent::push_normal(split(piece).0, &mut name);
                name
            };
            pieces.sort_by_key(|piece| std::cmp::Reverse(name(piece)));
            prop_assert_eq!(once, render(&Policy::All, &pieces.join(&b'&')));
        }
    }
}
