//! What is the path of a request, whatever way it was spelt?
//!
//! [`normalise`] is `{path}` (rule K2): escapes in one spelling, then dot segments removed; `//` stays. [`merged`]
//! is what routes, `access` and limits match (rule K5): the same with runs of `/` merged, and it reports what the
//! origin could read in another way than we do, because such a request has to be refused.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memmem, memrchr};

use super::percent;

/// Why a path cannot be trusted to mean one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// More `..` than there are segments before them.
    #[error("the path climbs above the root")]
    Climbs,
    /// A NUL byte.
    #[error("the path holds %00")]
    Nul,
    /// `//..`: for servers that merge slashes first, as nginx does, `/a//../b` is `/b`; for those that follow RFC 3986 it
    /// is `/a/b`. Whichever we took, a rule about the other could be got around.
    #[error("the path holds `..` behind an empty segment")]
    Ambiguous,
}

/// A path as routes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged<'a> {
    /// Normalised, with runs of `/` merged.
    pub path: Cow<'a, str>,
    /// Does it hold `%2F` or `%5C`? Refused unless the route says `encoded_slash: allow`.
    pub encoded_slash: bool,
}

/// `{path}`: rule K2.
pub fn normalise(raw: &[u8]) -> Result<Cow<'_, str>, PathError> {
    if let Some(path) = already_normal(raw) {
        return Ok(Cow::Borrowed(path));
    }
    let mut out = Vec::with_capacity(raw.len() + 8);
    match write(raw, &mut out).climbs {
        true => Err(PathError::Climbs),
        false => Ok(Cow::Owned(ascii(out))),
    }
}

/// The path that is matched: rule K5.
pub fn merged(raw: &[u8]) -> Result<Merged<'_>, PathError> {
    // pair by pair: to search so short a text costs more to set up
    if let Some(path) = already_normal(raw).filter(|_| !raw.windows(2).any(|pair| pair == b"//")) {
        return Ok(Merged { path: Cow::Borrowed(path), encoded_slash: false });
    }
    let mut out = Vec::with_capacity(raw.len() + 8);
    let dots = write(raw, &mut out);
    let holds = |escape: &[u8]| memmem::find(&out, escape).is_some();
    match dots {
        Dots { climbs: true, .. } => return Err(PathError::Climbs),
        Dots { through_empty: true, .. } => return Err(PathError::Ambiguous),
        _ if holds(b"%00") => return Err(PathError::Nul),
        _ => {}
    }
    let encoded_slash = holds(b"%2F") || holds(b"%5C");
    out.dedup_by(|next, previous| *next == b'/' && *previous == b'/');
    Ok(Merged { path: Cow::Owned(ascii(out)), encoded_slash })
}

/// Appends `{path}`. A path that climbs above the root ends at the root; such a request is refused elsewhere.
pub(super) fn push_normal(raw: &[u8], out: &mut Vec<u8>) {
    match already_normal(raw) {
        Some(path) => out.extend_from_slice(path.as_bytes()),
        None => _ = write(raw, out),
    }
}

/// What removing dot segments found.
#[derive(Default)]
pub(super) struct Dots {
    climbs: bool,
    through_empty: bool,
}

/// The path itself if nothing in it needs normalising: the usual case, without a copy.
fn already_normal(raw: &[u8]) -> Option<&str> {
    let dot_segment = || memchr_iter(b'.', raw).any(|at| at > 0 && raw[at - 1] == b'/');
    if !percent::is_plain(raw) || dot_segment() {
        return None;
    }
    str::from_utf8(raw).ok()
}

fn write(raw: &[u8], out: &mut Vec<u8>) -> Dots {
    let start = out.len();
    percent::push_normal(raw, out);
    remove_dots(out, start)
}

/// Removes `.` and `..` segments from `out[start..]`, in place. Only what starts with `/` has segments.
pub(super) fn remove_dots(out: &mut Vec<u8>, start: usize) -> Dots {
    let mut dots = Dots::default();
    if out.get(start) != Some(&b'/') {
        return dots;
    }
    let (mut read, mut write) = (start, start);
    while read < out.len() {
        let end = memchr(b'/', &out[read + 1..]).map_or(out.len(), |length| read + 1 + length);
        let (here, up) = (&out[read + 1..end] == b".", &out[read + 1..end] == b"..");
        if up {
            let parent = memrchr(b'/', &out[start..write]);
            dots.climbs |= parent.is_none();
            dots.through_empty |= parent.is_some_and(|at| start + at + 1 == write);
            write = start + parent.unwrap_or(0);
        }
        if !here && !up {
            out.copy_within(read..end, write);
            write += end - read;
        } else if end == out.len() {
            out[write] = b'/';
            write += 1;
        }
        read = end;
    }
    out.truncate(write);
    dots
}

/// Normal paths are ASCII.
fn ascii(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for (raw, expected) in [
            ("/a/b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a//b", "/a//b"),
            ("/a//../b", "/a/b"),
            ("/a/.../b", "/a/.../b"),
            ("/.well-known", "/.well-known"),
            ("/%7euser/%41", "/~user/A"),
            ("/%e4%b8%ad", "/%E4%B8%AD"),
            ("/中", "/%E4%B8%AD"),
            ("/a%2fb", "/a%2Fb"),
            ("/100%", "/100%25"),
            ("/", "/"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(normalise(raw.as_bytes()).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn a_path_that_climbs_is_reported() {
        for raw in ["/..", "/../a", "/a/../../b", "/%2e%2e/x", "/a/%2E./..%2f/../.."] {
            assert_eq!(normalise(raw.as_bytes()), Err(PathError::Climbs), "{raw}");
            assert_eq!(merged(raw.as_bytes()), Err(PathError::Climbs), "{raw}");
        }
    }

    #[test]
    fn matching_sees_through_every_spelling() {
        for raw in ["/admin/x", "//admin//x", "/%61dmin/x", "/a/../admin/x", "/./admin/./x", "/a/%2e%2e/admin/x"] {
            assert_eq!(merged(raw.as_bytes()).unwrap().path, "/admin/x", "{raw}");
        }
    }

    #[test]
    fn what_an_origin_may_read_otherwise_is_reported() {
        assert_eq!(merged(b"/a%00b"), Err(PathError::Nul));
        assert_eq!(merged(b"/a//../b"), Err(PathError::Ambiguous));
        assert!(merged(b"/a%2fb").unwrap().encoded_slash);
        assert!(merged(b"/a%5Cb").unwrap().encoded_slash);
        assert!(!merged(b"/a%252fb").unwrap().encoded_slash);
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        assert!(matches!(normalise(b"/a/b.html"), Ok(Cow::Borrowed(_))));
        assert!(matches!(merged(b"/a/b.html").unwrap().path, Cow::Borrowed(_)));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn paths() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec!["/", ".", "..", "%2e", "%2F", "a", "%", "é"]);
        let pieces = proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes());
        prop_oneof![pieces.prop_map(|path| [b"/", &path[..]].concat()), proptest::collection::vec(any::<u8>(), 0..60)]
    }

    proptest! {
        #[test]
        fn twice_is_once(raw in paths()) {
            if let Ok(once) = normalise(&raw) {
                prop_assert_eq!(&normalise(once.as_bytes()).unwrap(), &once);
            }
            if let Ok(once) = merged(&raw) {
                prop_assert_eq!(&merged(once.path.as_bytes()).unwrap(), &once);
                prop_assert!(!once.path.contains("//"));
            }
        }

        #[test]
        fn rendering_agrees_with_normalising(raw in paths()) {
            let mut out = b"key".to_vec();
            push_normal(&raw, &mut out);
            if let Ok(path) = normalise(&raw) {
                prop_assert_eq!(&out[3..], path.as_bytes());
            }
        }

        #[test]
        fn merging_first_and_removing_dots_first_agree_on_what_passes(raw in paths()) {
            if let Ok(passed) = merged(&raw) {
                let mut slashes_first = Vec::new();
                percent::push_normal(&raw, &mut slashes_first);
                slashes_first.dedup_by(|next, previous| *next == b'/' && *previous == b'/');
                remove_dots(&mut slashes_first, 0);
                prop_assert_eq!(passed.path.as_bytes(), &slashes_first[..]);
            }
        }
    }
}
