//! What does a query ask for? Names are known or refused: a misspelt one would be a reload without it.

use std::path::PathBuf;

use crate::config::units::{Duration, Percent};
use crate::config::written::Written;
use crate::lifecycle::ReloadAsk;

/// What is asked of a reload, or what is wrong with the query.
pub(super) fn reload(query: &str) -> Result<ReloadAsk, String> {
    let mut ask = ReloadAsk::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value);
        match name {
            "keep_process" => ask.keep_process = yes(name, &value)?,
            "allow_moved" => ask.allow_moved = Some(written::<Percent>(name, &value)?),
            "confirm" => ask.confirm = Some(written::<Duration>(name, &value)?.0),
            _ => return Err(format!("{name}: unknown")),
        }
    }
    Ok(ask)
}

/// The program an upgrade starts, if it is not that of the process.
pub(super) fn upgrade(query: &str) -> Result<Option<PathBuf>, String> {
    let mut binary = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("binary", path)) => binary = Some(PathBuf::from(decoded(path))),
            _ => return Err(format!("{pair}: unknown")),
        }
    }
    Ok(binary)
}

/// The pool whose sample is asked for, if it is one alone.
pub(super) fn sample(query: &str) -> Result<Option<String>, String> {
    let mut pool = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("pool", name)) => pool = Some(decoded(name)),
            _ => return Err(format!("{pair}: unknown")),
        }
    }
    Ok(pool)
}

/// A name alone says yes.
fn yes(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{name}: found {value:?}, expected true or false")),
    }
}

fn written<T: Written>(name: &str, value: &str) -> Result<T, String> {
    T::read(value).map_err(|invalid| format!("{name}: {invalid}"))
}

/// With escapes decoded; one that is none stands for itself.
fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escape = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escape {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                out.push(b'%');
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_is_asked_for_by_name() {
        let plain = ReloadAsk::default();
        let keeping = ReloadAsk { keep_process: true, ..plain };
        let allowing = ReloadAsk { allow_moved: Some(Percent(60.0)), ..plain };
        for (query, ask) in [
            ("", plain),
            ("keep_process", keeping),
            ("keep_process=true", keeping),
            ("keep_process=false", plain),
            ("allow_moved=60%25", allowing),
            ("allow_moved=60%", allowing),
            ("confirm=1.5s", ReloadAsk { confirm: Some(std::time::Duration::from_millis(1500)), ..plain }),
            ("&allow_moved=60%25&keep_process", ReloadAsk { keep_process: true, ..allowing }),
        ] {
            assert_eq!(reload(query), Ok(ask), "{query}");
        }
    }

    #[test]
    fn a_pool_is_asked_for_by_any_name() {
        for name in ["origin", "a&b=c", "%41", "bücher", "1.2"] {
            let target = crate::admin::Sampled::target(name);
            assert!(target.is_ascii() && !target.contains(' '), "{target}");
            assert_eq!(sample(target.split_once('?').unwrap().1), Ok(Some(name.to_owned())));
        }
        assert_eq!(sample(""), Ok(None));
        assert_eq!(sample("pol=a"), Err("pol=a: unknown".to_owned()));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (query, said) in [
            ("keep_proces", "keep_proces: unknown"),
            ("keep_process=1", "keep_process: found \"1\", expected true or false"),
            ("confirm=60", "confirm: found \"60\", expected a time with its unit, such as 500ms, 10s or 5m"),
            ("allow_moved=0.6", "allow_moved: found \"0.6\", expected a share from 0% to 100%, with its sign"),
        ] {
            assert_eq!(reload(query), Err(said.to_owned()), "{query}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_survives_being_escaped(text in ".{0,20}") {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decoded(&escaped), text);
        }

        #[test]
        fn no_query_panics(query in ".{0,40}") {
            let _ = reload(&query);
        }
    }
}
