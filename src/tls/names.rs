//! Which certificates are for this name?
//!
//! One of each kind of key, so that a client gets the one it can check: a name of its own comes before a wildcard, what
//! stands first in the file before what stands later. Who asks for no name, or one that nobody has, gets the first
//! certificate, and those beside it for the same name.

use std::collections::HashMap;

use openssl::pkey::Id;

/// Certificates by name; each is a number.
#[derive(Debug, Default)]
pub(super) struct Names {
    exact: HashMap<Box<str>, Vec<usize>>,
    /// By what follows the first label and its dot.
    wildcard: HashMap<Box<str>, Vec<usize>>,
    first: Vec<usize>,
}

impl Names {
    /// Of certificates with these names and kinds of key, in the order of the file.
    pub(super) fn new<'a>(certificates: impl Iterator<Item = (&'a [Box<str>], Id)>) -> Self {
        let (mut names, mut kinds) = (Self::default(), Vec::new());
        let mut called = None;
        for (number, (its, kind)) in certificates.enumerate() {
            kinds.push(kind);
            called = called.or_else(|| its.first().cloned());
            for name in its {
                let (table, name) = match name.strip_prefix("*.") {
                    Some(rest) => (&mut names.wildcard, rest),
                    None => (&mut names.exact, &**name),
                };
                let beside = table.entry(name.into()).or_default();
                if !beside.iter().any(|other| kinds.get(*other) == Some(&kind)) {
                    beside.push(number);
                }
            }
        }
        let first = called.and_then(|name| match name.strip_prefix("*.") {
            Some(rest) => names.wildcard.get(rest),
            None => names.exact.get(&name),
        });
        names.first = first.filter(|beside| beside.contains(&0)).cloned().unwrap_or_else(|| vec![0]);
        names
    }

    /// Those for `name`.
    pub(super) fn find(&self, name: Option<&str>) -> &[usize] {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let below = || name.split_once('.').and_then(|(_, rest)| self.wildcard.get(rest));
            self.exact.get(&*name).or_else(below)
        });
        found.unwrap_or(&self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(certificates: &[(&[&str], Id)], name: &str) -> Vec<usize> {
        let owned: Vec<(Vec<Box<str>>, Id)> = certificates
            .iter()
            .map(|(names, kind)| (names.iter().map(|name| Box::from(*name)).collect(), *kind))
            .collect();
        let names = Names::new(owned.iter().map(|(names, kind)| (&names[..], *kind)));
        names.find((!name.is_empty()).then_some(name)).to_vec()
    }

    #[test]
    fn a_name_of_its_own_comes_before_a_wildcard_and_the_first_is_for_everybody_else() {
        let all: &[(&[&str], Id)] =
            &[(&["a.test", "b.test"], Id::RSA), (&["*.c.test", "c.test"], Id::RSA), (&["x.c.test"], Id::RSA)];
        for (name, expected) in [
            ("b.test", 0),
            ("B.Test", 0),
            ("y.c.test", 1),
            ("c.test", 1),
            ("x.c.test", 2),
            ("z.y.c.test", 0),
            ("other.test", 0),
            ("", 0),
        ] {
            assert_eq!(found(all, name), [expected], "{name}");
        }
    }

    #[test]
    fn certificates_of_different_keys_stand_beside_each_other() {
        let all: &[(&[&str], Id)] = &[
            (&["a.test"], Id::RSA),
            (&["a.test", "*.b.test"], Id::EC),
            (&["a.test"], Id::RSA),
            (&["*.b.test"], Id::RSA),
        ];
        assert_eq!(found(all, "a.test"), [0, 1]);
        assert_eq!(found(all, ""), [0, 1]);
        assert_eq!(found(all, "x.b.test"), [1, 3]);
    }

    #[test]
    fn the_first_is_shown_though_it_has_no_name() {
        assert_eq!(found(&[(&[], Id::RSA), (&["a.test"], Id::EC)], ""), [0]);
        assert_eq!(found(&[(&[], Id::RSA), (&["a.test"], Id::EC)], "a.test"), [1]);
    }
}
