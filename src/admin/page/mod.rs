//! What does a browser see at the admin address? The status page: one file, which `/status` feeds.
//!
//! Always holds: it loads nothing from elsewhere and runs nothing but its own script, which its policy names by hash; nobody
//! may frame it. What `/status` says reaches it as text.

use openssl::base64;
use sha2::{Digest as _, Sha256};

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page, and the policy it is to be shown under.
pub(super) struct Page {
    pub(super) html: String,
    /// The value of `Content-Security-Policy`.
    pub(super) policy: String,
}

/// The page. Whoever looks asks for it once, so it is put together each time.
pub(super) fn page() -> Page {
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    // no text from elsewhere can become an element: trusted types are asked for, and no policy for them is allowed
    let policy = format!(
        "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'"
    );
    Page { html: HTML.replace("/*style*/", STYLE).replace("/*script*/", SCRIPT), policy }
}

fn hash(text: &str) -> String {
    format!("sha256-{}", base64::encode_block(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside<'a>(html: &'a str, tag: &str) -> &'a str {
        let (_, rest) = html.split_once(&format!("<{tag}>")).unwrap();
        rest.split_once(&format!("</{tag}>")).unwrap().0
    }

    #[test]
    fn policy_names_what_stands_in_the_page() {
        let Page { html, policy } = page();
        for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
            assert_eq!(html.matches(&format!("<{tag}")).count(), 1);
            let digest = openssl::sha::sha256(inside(&html, tag).as_bytes());
            let named = format!("{directive} 'sha256-{}';", base64::encode_block(&digest));
            assert!(policy.contains(&named), "{policy}");
        }
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    }

    #[test]
    fn page_stands_alone() {
        let html = page().html;
        assert!(!html.contains(" style=\"") && !html.contains(" onclick"), "the policy forbids them");
        assert!(!html.contains("<script src") && !html.contains("@import"));
        let elsewhere = html.matches("http").count() - html.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(elsewhere, 0, "nothing is loaded from elsewhere");
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "setAttribute(\"style\""]
        {
            assert!(!html.contains(word), "{word}: text stays text");
        }
    }
}
