//! What keeps somebody out in nginx, and cannot be carried? What it guards stays shut.

use super::reader::Directive;
use super::scope::Scope;

/// Beginnings of their names: modules nobody knows here ask for something, too.
const GUARDS: [&str; 9] = [
    "auth_",
    "access_by_",
    "rewrite_by_",
    "server_rewrite_by_",
    "modsecurity",
    "secure_link",
    "shib_request",
    "app_protect_enable",
    "secrulesenabled",
];

/// Named like one, and only say how one works.
const HELPERS: [&str; 20] = [
    "auth_basic_user_file",
    "auth_delay",
    "auth_digest_user_file",
    "auth_digest_drop_time",
    "auth_digest_evasion_time",
    "auth_digest_expires",
    "auth_digest_maxtries",
    "auth_digest_replays",
    "auth_digest_shm_size",
    "auth_digest_timeout",
    "auth_jwt_claim_set",
    "auth_jwt_header_set",
    "auth_jwt_key_cache",
    "auth_jwt_key_file",
    "auth_jwt_key_request",
    "auth_jwt_leeway",
    "auth_jwt_type",
    "auth_pam_service_name",
    "auth_pam_set_pam_env",
    "auth_request_set",
];

/// The first that is in force.
pub(super) fn guard<'a>(scope: &Scope<'a>) -> Option<&'a Directive> {
    let is_guard = |name: &str| {
        let name = name.to_ascii_lowercase();
        GUARDS.iter().any(|begins| name.starts_with(begins)) && !HELPERS.contains(&name.as_str())
    };
    // Its rules alone do nothing.
    let is_idle = |name: &str| {
        let name = name.to_ascii_lowercase();
        let switch = name.split('_').next().unwrap_or_default();
        switch == "modsecurity" && name != switch && scope.word(switch) == Some("off")
    };
    let names = scope.names().into_iter().filter(|name| is_guard(name) && !is_idle(name));
    names.into_iter().find_map(|name| scope.one(name).filter(|it| it.arg(0) != "off"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHUT, yaml};

    #[test]
    fn whatever_asks_who_somebody_is_shuts() {
        for guard in [
            "auth_ldap x;",
            "auth_digest x;",
            "auth_pam x;",
            "auth_jwt_require $x;",
            "auth_made_up_tomorrow on;",
            "secure_link $arg_x;",
            "access_by_lua_file x.lua;",
            "access_by_njs x;",
            "rewrite_by_lua_block { ngx.exit(403) }",
            "modsecurity on;",
            "modsecurity_rules_file x;",
        ] {
            let text = yaml(&format!("server {{ {guard} location / {{ proxy_pass http://a; }} }}"));
            assert!(text.contains(SHUT), "{guard}: {text}");
        }
    }

    #[test]
    fn what_says_how_and_what_is_off_does_not() {
        for open in [
            "auth_basic_user_file x;",
            "auth_request_set $x $y;",
            "auth_delay 1s;",
            "auth_ldap off;",
            "modsecurity off; modsecurity_rules_file x;",
        ] {
            let text = yaml(&format!("server {{ {open} location / {{ proxy_pass http://a; }} }}"));
            assert!(!text.contains("access:"), "{open}: {text}");
        }
        let text = yaml("server { modsecurity on; location / { modsecurity off; proxy_pass http://a; } }");
        assert!(!text.contains("access:"), "{text}");
    }
}
