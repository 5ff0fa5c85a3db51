//! Who is there, after all the answers so far? Rule J7.
//!
//! Pure: answers in, places out. A place comes with the first answer that holds it. It goes when [`ENOUGH`] successful
//! answers in a row lack it, or when one does and it fails its probe; so the union of what a rotating server tells
//! stays. An answer without a place says nothing, and one of IPv4 addresses says nothing of IPv6 addresses. Always
//! holds: whoever the latest answer held is there, so it is never emptied.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::config::pool::Origin;
use crate::config::units::Address;

/// So many answers in a row have to lack a place.
const ENOUGH: u32 = 3;

/// An origin that is or was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Where it is.
    pub address: Address,
    /// What it is called.
    pub name: String,
}

/// Of whom an answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Of IPv4 addresses: A records.
    V4,
    /// Of IPv6 addresses: AAAA records.
    V6,
    /// Of names: SRV records.
    Names,
}

/// Everybody who is there.
#[derive(Debug, Clone, Default)]
pub struct Roll {
    /// How many answers in a row lacked each.
    lacking: BTreeMap<Place, u32>,
}

impl Place {
    /// An IP address, called as it is written.
    pub fn at(address: SocketAddr) -> Self {
        Self { address: Address::Ip(address), name: address.to_string() }
    }

    /// A host, called by its name and port.
    pub fn named(host: &str, port: u16) -> Self {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        Self { name: format!("{host}:{port}"), address: Address::Name(host, port) }
    }

    /// As an origin of a pool.
    pub fn origin(&self) -> Origin {
        Origin::at(self.address.clone(), self.name.clone())
    }
}

impl From<&Origin> for Place {
    fn from(origin: &Origin) -> Self {
        Self { address: origin.address.clone(), name: origin.name.clone() }
    }
}

impl Answered {
    /// Would the answer hold this place if it were there? Whoever came from elsewhere has to be in any of them.
    fn covers(self, place: &Place) -> bool {
        match (self, &place.address) {
            (Self::V4, Address::Ip(address)) => address.is_ipv4(),
            (Self::V6, Address::Ip(address)) => address.is_ipv6(),
            _ => true,
        }
    }
}

impl Roll {
    /// Begins with these, who stay until answers lack them.
    pub fn new(there: impl IntoIterator<Item = Place>) -> Self {
        Self { lacking: there.into_iter().map(|place| (place, 0)).collect() }
    }

    /// Takes an answer in.
    pub fn answer(&mut self, of: Answered, found: &BTreeSet<Place>) {
        if found.is_empty() {
            return;
        }
        for (place, lacking) in &mut self.lacking {
            if of.covers(place) {
                *lacking += 1;
            }
        }
        self.lacking.extend(found.iter().map(|place| (place.clone(), 0)));
        self.lacking.retain(|_, lacking| *lacking < ENOUGH);
    }

    /// Lets those go that the latest answer lacked and that fail; answers whether there was any.
    pub fn dismiss(&mut self, fails: impl Fn(&Place) -> bool) -> bool {
        let before = self.lacking.len();
        self.lacking.retain(|place, lacking| *lacking == 0 || !fails(place));
        self.lacking.len() < before
    }

    /// Who is there, in their order.
    pub fn there(&self) -> impl Iterator<Item = &Place> {
        self.lacking.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u8) -> Place {
        Place::at(SocketAddr::from(([10, 0, 0, number], 80)))
    }

    fn six(number: u16) -> Place {
        Place::at(SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, number], 80)))
    }

    fn of(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<Place> {
        numbers.into_iter().map(place).collect()
    }

    fn there(roll: &Roll) -> BTreeSet<Place> {
        roll.there().cloned().collect()
    }

    #[test]
    fn j7_an_address_leaves_when_three_answers_in_a_row_lack_it() {
        let mut roll = Roll::default();
        roll.answer(Answered::V4, &of([1, 2]));
        for _ in 0..2 {
            roll.answer(Answered::V4, &of([1]));
            assert_eq!(there(&roll), of([1, 2]));
        }
        roll.answer(Answered::V4, &of([2, 3]));
        assert_eq!(there(&roll), of([1, 2, 3]), "it was there again, and another lacks its first");
        for left in [of([1, 2, 3]), of([2, 3]), of([3])] {
            roll.answer(Answered::V4, &of([3]));
            assert_eq!(there(&roll), left);
        }
    }

    #[test]
    fn j7_or_when_one_answer_lacks_it_and_its_probe_fails() {
        let mut roll = Roll::new(of([1, 2, 3]));
        assert!(!roll.dismiss(|_| true), "a probe that fails is not enough");
        roll.answer(Answered::V4, &of([1, 2]));
        assert!(!roll.dismiss(|one| *one == place(2)));
        assert_eq!(there(&roll), of([1, 2, 3]));
        assert!(roll.dismiss(|one| *one != place(2)));
        assert_eq!(there(&roll), of([1, 2]));
    }

    #[test]
    fn j7_a_server_that_rotates_8_of_20_is_known_as_a_whole() {
        let mut roll = Roll::default();
        let rotated = |turn: u8| of((0..8).map(|n| (turn * 8 + n) % 20));
        (0..3).for_each(|turn| roll.answer(Answered::V4, &rotated(turn)));
        assert_eq!(there(&roll), of(0..20));
        for turn in 3..30 {
            roll.answer(Answered::V4, &rotated(turn));
            assert_eq!(there(&roll), of(0..20), "{turn}");
        }
    }

    #[test]
    fn j7_an_empty_answer_changes_nothing() {
        let mut roll = Roll::new(of([1, 2]));
        roll.answer(Answered::V4, &of([1]));
        (0..10).for_each(|_| roll.answer(Answered::V4, &BTreeSet::new()));
        assert_eq!(there(&roll), of([1, 2]));
    }

    #[test]
    fn j7_each_family_of_addresses_has_answers_of_its_own() {
        let mut roll = Roll::default();
        roll.answer(Answered::V6, &BTreeSet::from([six(1), six(2)]));
        (0..9).for_each(|_| roll.answer(Answered::V4, &of([1])));
        assert_eq!(roll.there().count(), 3, "IPv6 addresses are not missed among IPv4 ones");
        (0..3).for_each(|_| roll.answer(Answered::V6, &BTreeSet::from([six(2)])));
        assert_eq!(there(&roll), BTreeSet::from([place(1), six(2)]));
    }

    #[test]
    fn who_came_from_elsewhere_goes_as_anybody_else() {
        let written = Place { name: "a".to_owned(), ..place(1) };
        let mut roll = Roll::new([written.clone(), Place::named("Old.internal.", 80)]);
        roll.answer(Answered::V4, &of([1]));
        assert_eq!(roll.there().count(), 3, "the same address under another name is another place");
        (0..2).for_each(|_| roll.answer(Answered::V4, &of([1])));
        assert_eq!(there(&roll), of([1]));
    }

    #[test]
    fn a_place_is_called_as_an_origin_that_is_written() {
        assert_eq!(six(1).name, "[fd00::1]:80");
        let place = Place::named("Pod-0.Origins.internal.", 8080);
        assert_eq!((&*place.name, place.origin().weight), ("pod-0.origins.internal:8080", 1));
        assert_eq!(place.address, Address::Name("pod-0.origins.internal".to_owned(), 8080));
    }
}

#[cfg(test)]
mod properties {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn place(number: u8) -> Place {
        Place::at(SocketAddr::from(([10, 0, 0, number], 80)))
    }

    proptest! {
        /// Who is there: whoever one of the last three answers with an address held, in whatever order they came.
        #[test]
        fn the_last_three_answers_say_it_all(answers in vec(btree_set(0_u8..12, 0..6), 0..20)) {
            let mut roll = Roll::default();
            for answer in &answers {
                roll.answer(Answered::V4, &answer.iter().copied().map(place).collect());
            }
            let told = answers.iter().rev().filter(|answer| !answer.is_empty()).take(ENOUGH as usize);
            let expected: BTreeSet<_> = told.flatten().copied().map(place).collect();
            prop_assert_eq!(roll.there().cloned().collect::<BTreeSet<_>>(), expected);
        }

        /// Probes alone take nobody away whom the latest answer held.
        #[test]
        fn the_latest_answer_stands(
            answers in vec((btree_set(0_u8..12, 1..6), btree_set(0_u8..12, 0..12)), 1..20),
        ) {
            let mut roll = Roll::default();
            for (answer, failing) in &answers {
                let found: BTreeSet<_> = answer.iter().copied().map(place).collect();
                let failing: BTreeSet<_> = failing.iter().copied().map(place).collect();
                roll.answer(Answered::V4, &found);
                roll.dismiss(|place| failing.contains(place));
                let there: BTreeSet<_> = roll.there().cloned().collect();
                prop_assert!(found.is_subset(&there));
                prop_assert!(there.difference(&found).all(|place| !failing.contains(place)));
            }
        }
    }
}
