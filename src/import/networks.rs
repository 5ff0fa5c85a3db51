//! Which addresses are in both of two lists of networks?

use ipnet::IpNet;

/// A network as written.
fn read(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| Some(IpNet::from(text.parse::<std::net::IpAddr>().ok()?)))
}

/// Of two networks one holds the other, or they have nothing in common.
pub(super) fn common(one: &[String], other: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (text, network) in one.iter().filter_map(|text| Some((text, read(text)?))) {
        for (beside, another) in other.iter().filter_map(|text| Some((text, read(text)?))) {
            let both = if another.contains(&network) {
                text
            } else if network.contains(&another) {
                beside
            } else {
                continue;
            };
            if !found.contains(both) {
                found.push(both.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_both_is_the_smaller_one() {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let one = list(&["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"]);
        let other = list(&["10.1.0.0/16", "10.2.0.9", "192.0.2.0/24", "2001:db8::/32", "0.0.0.0/32", "name"]);
        let both = list(&["10.1.0.0/16", "10.2.0.9", "192.0.2.1", "2001:db8::/32"]);
        assert_eq!(common(&one, &other), both);
        assert_eq!(common(&one, &[]), list(&[]));
    }
}
