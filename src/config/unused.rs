//! What of a route is of no use, since none of its requests goes to an origin?

use super::Config;
use super::buffering::Buffering;
use super::report::{Complaint, Invalid};
use super::rewrite::{Redirects, Rewrite};
use super::route::{Edits, Retry, Route, RouteTimeouts};
use super::units::Off;

/// What is to be said of it.
pub(super) fn check(config: &Config) -> Vec<Complaint> {
    let mut said = Vec::new();
    for (number, route) in config.routes.iter().enumerate() {
        let Some(action) = answer(route) else { continue };
        for (key, _) in of_origins(route).into_iter().filter(|(_, is_asked)| *is_asked) {
            let why =
                Invalid::new(format!("does nothing beside \"{action}\""), "no origin gets a request of this route");
            said.push(why.at(format!("routes[{number}].{key}")));
        }
    }
    said
}

/// What it does with its requests itself.
fn answer(route: &Route) -> Option<&'static str> {
    let answers = [("respond", route.respond.is_some()), ("redirect", route.redirect.is_some())];
    let answer = answers.into_iter().find(|(_, is_written)| *is_written).filter(|_| route.pools().next().is_none());
    answer.map(|(name, _)| name)
}

/// What says something of requests to origins or of their answers, and whether anything is said there. `headers.response`
/// is no part of it: answers of a route's own are edited as well.
fn of_origins(route: &Route) -> [(&'static str, bool); 8] {
    [
        ("retry", route.retry != Retry::default() && route.retry.tries > 1),
        ("timeouts", route.timeouts != RouteTimeouts::default()),
        ("headers.request", route.headers.request != Edits::default()),
        ("rewrite", route.rewrite != Rewrite::default()),
        ("redirects", route.redirects != Redirects::Keep),
        ("mirror", route.mirror != Off::Off),
        ("buffering", route.buffering != Buffering::default()),
        ("compression", route.compression != Off::Off),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::said;

    fn of(route: &str) -> Vec<String> {
        let process = "process: { listeners: [ { address: 0.0.0.0:80 } ] }";
        let pools = "pools: { a: { origins: [o], health: { probe: off } } }";
        said(&format!("version: 1\n{process}\n{pools}\nroutes:\n  - {{ {route} }}\n"))
    }

    #[test]
    fn what_is_for_origins_is_warned_of_where_none_is_asked() {
        for (section, key) in [
            ("headers: { request: { remove: [x] } }", "headers.request"),
            ("rewrite: { add_prefix: /v2 }", "rewrite"),
            ("redirects: rewrite", "redirects"),
            ("mirror: { pool: a }", "mirror"),
            ("timeouts: { read: 20s }", "timeouts"),
            ("retry: { tries: 3 }", "retry"),
            ("compression: {}", "compression"),
            ("buffering: { response: 1MiB }", "buffering"),
        ] {
            for action in ["respond: { body: ok }", "redirect: { to: /x }"] {
                let said = of(&format!("{action}, {section}"));
                let name = action.split(':').next().unwrap();
                let meant = "no origin gets a request of this route";
                let expected = format!("routes[0].{key}: does nothing beside \"{name}\", {meant}");
                assert!(
                    said.len() == 1 && said[0].starts_with("warning: 5:") && said[0].ends_with(&expected),
                    "{said:?}"
                );
            }
            assert_eq!(
                of(&format!(
                    "split: {{ to: [ {{ pool: a, share: 100% }} ] }}, {}",
                    section.replace("pool: a", "pool: b")
                ))
                .len(),
                usize::from(key == "mirror")
            );
        }
        for harmless in [
            "headers: { response: { remove: [x] } }",
            "mirror: off",
            "compression: off",
            "retry: off",
            "redirects: keep",
            "limits: { body: 1KiB }",
        ] {
            assert_eq!(of(&format!("respond: {{ body: ok }}, {harmless}")), [""; 0], "{harmless}");
        }
    }
}
