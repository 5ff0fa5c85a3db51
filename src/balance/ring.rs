//! Who owns a key, and who comes next?
//!
//! The ring of nginx's `hash … consistent`: 160 points for each unit of an origin's weight, derived from its name
//! alone; a key belongs to the first point at or after its hash, wrapping around, so the same names and weights
//! place every key as nginx does. It depends on names and weights, never on health, load or the order written.
//!
//! Always holds: points are sorted and distinct (two origins on one point: the smaller name has it), and a walk
//! meets every origin that has a point exactly once, however unequal the weights are.

use std::fmt::Write as _;
use std::iter::FusedIterator;

use sha2::{Digest, Sha256};
use smallvec::{SmallVec, smallvec};

/// Points for each unit of weight: nginx's number.
pub const POINTS: u32 = 160;

/// The compiled ring of a pool. A member is known by its position in the list the ring was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    names: Vec<Box<str>>,
    /// Hashes of all points, sorted and distinct.
    hashes: Vec<u32>,
    /// The member each of them belongs to.
    owners: Vec<u32>,
    /// For each value of a hash's top bits the first point at or above it, and the number of points at the end:
    /// a lookup starts within one or two points of its goal.
    slots: Vec<u32>,
    /// How far a hash is shifted to its top bits.
    shift: u32,
    /// The same hashes, grouped by member.
    own: Vec<u32>,
    /// Where in `own` each member begins, and the end.
    own_starts: Vec<u32>,
    /// Members that have a point.
    populated: usize,
}

impl Ring {
    /// The ring of these names and weights. Order means nothing but the numbers the members are known by.
    pub fn new(members: &[(&str, u32)]) -> Self {
        let points = sorted_points(members);
        let hashes: Vec<u32> = points.iter().map(|point| (point >> 32) as u32).collect();
        let by_name = order_of_names(members);
        let owners: Vec<u32> = points.iter().map(|point| by_name[(point & 0xffff_ffff) as usize]).collect();
        drop(points);
        let (slots, shift) = slots(&hashes);
        let (own, own_starts) = grouped(&hashes, &owners, members.len());
        let populated = own_starts.windows(2).filter(|bounds| bounds[0] < bounds[1]).count();
        let names = members.iter().map(|(name, _)| Box::from(*name)).collect();
        Self { names, hashes, owners, slots, shift, own, own_starts, populated }
    }

    /// The member that owns this hash; `None` only on a ring without points.
    pub fn owner(&self, hash: u32) -> Option<usize> {
        self.owners.get(self.find(hash)).map(|owner| *owner as usize)
    }

    /// All members that have a point, in the order in which their first points follow the hash: the owner, then
    /// its successors. Does not allocate for pools of up to 1024 members.
    pub fn walk(&self, hash: u32) -> Walk<'_> {
        let met = smallvec![0; self.names.len().div_ceil(64)];
        Walk { ring: self, position: self.find(hash), met, left: self.populated }
    }

    /// The first member from the hash on that is wanted, if it has one of the next `points` points. Members that are
    /// passed more than once are asked about more than once: unlike a walk, this remembers nothing.
    pub fn near(&self, hash: u32, points: usize, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let (before, after) = self.owners.split_at_checked(self.find(hash))?;
        after.iter().chain(before).take(points).map(|owner| *owner as usize).find(|owner| wanted(*owner))
    }

    /// The same, told the point as well as the member.
    pub fn near_point(&self, hash: u32, points: usize, wanted: impl Fn(usize, u32) -> bool) -> Option<usize> {
        let from = self.find(hash);
        let (before, after) = (self.owners.get(..from)?.iter().zip(&self.hashes), self.owners.get(from..)?);
        let around = after.iter().zip(self.hashes.get(from..)?).chain(before).take(points);
        around
            .map(|(owner, point)| (*owner as usize, *point))
            .find(|(owner, point)| wanted(*owner, *point))
            .map(|(o, _)| o)
    }

    /// Which of these members comes first at or after the hash? For pools in which few members qualify: the work
    /// grows with the candidates, not with the members walked past.
    pub fn first_of(&self, hash: u32, candidates: impl IntoIterator<Item = usize>) -> Option<usize> {
        let distance = |member| self.point_after(member, hash).map(|point| (point.wrapping_sub(hash), member));
        candidates.into_iter().filter_map(distance).min().map(|(_, member)| member)
    }

    /// The points that a member would have with this smaller weight, sorted, as far as they are its own.
    pub(super) fn first_points(&self, member: usize, weight: u32) -> Vec<u32> {
        let own = self.hashes_of(member);
        let name = self.name(member).unwrap_or_default();
        let mut points: Vec<u32> = chain(name, weight).filter(|point| own.binary_search(point).is_ok()).collect();
        points.sort_unstable();
        points.dedup();
        points
    }

    /// The part of the hash circle each member owns, exactly; the sum is 1.
    pub fn shares(&self) -> Vec<f64> {
        let mut arcs = vec![0_u64; self.names.len()];
        for (arc, owner) in self.arcs() {
            arcs[owner] += arc;
        }
        arcs.into_iter().map(|arc| arc as f64 / CIRCLE as f64).collect()
    }

    /// The number of points a member has on the ring (points lost to an equal one of a smaller name not counted).
    pub fn points_of(&self, member: usize) -> usize {
        self.hashes_of(member).len()
    }

    /// The first point of one member at or after the hash, wrapping.
    pub fn point_after(&self, member: usize, hash: u32) -> Option<u32> {
        let own = self.hashes_of(member);
        own.get(own.partition_point(|point| *point < hash)).or(own.first()).copied()
    }

    /// The name of a member.
    pub fn name(&self, member: usize) -> Option<&str> {
        self.names.get(member).map(AsRef::as_ref)
    }

    /// How many members the ring was made of.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Was the ring made of no member at all?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Lengths of the arcs that end in each point, with the point's owner, in the order of the circle.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let last = self.hashes.last().map_or(0, |last| u64::from(*last));
        let mut before = last.wrapping_sub(CIRCLE);
        self.hashes.iter().zip(&self.owners).map(move |(hash, owner)| {
            let arc = u64::from(*hash).wrapping_sub(before);
            before = u64::from(*hash);
            (arc, *owner as usize)
        })
    }

    /// Every point's hash and owner, in the order of the circle.
    pub(super) fn points(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.hashes.iter().zip(&self.owners).map(|(hash, owner)| (*hash, *owner as usize))
    }

    /// The position of the first point at or after the hash, wrapping.
    fn find(&self, hash: u32) -> usize {
        let slot = (hash >> self.shift) as usize;
        let from = self.slots.get(slot).map_or(0, |from| *from as usize);
        let to = self.slots.get(slot + 1).map_or(0, |to| *to as usize);
        let near = self.hashes.get(from..to).unwrap_or_default();
        let position = from + near.partition_point(|point| *point < hash);
        if position < self.hashes.len() { position } else { 0 }
    }

    /// The sorted hashes of one member.
    fn hashes_of(&self, member: usize) -> &[u32] {
        let bound = |at: usize| self.own_starts.get(at).map_or(0, |start| *start as usize);
        self.own.get(bound(member)..bound(member + 1)).unwrap_or_default()
    }
}

/// The length of the hash circle.
pub(super) const CIRCLE: u64 = 1 << 32;

/// Points looked at for each member not met yet before a walk stops stepping and measures instead: measuring
/// costs a binary search a member, about what this many steps cost.
const STEPS: usize = 16;

/// The walk over distinct members: see [`Ring::walk`].
#[derive(Debug, Clone)]
pub struct Walk<'r> {
    ring: &'r Ring,
    /// The next point to look at.
    position: usize,
    /// One bit a member.
    met: SmallVec<[u64; 16]>,
    /// Members with points that were not met yet.
    left: usize,
}

impl Iterator for Walk<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let member = self.step().or_else(|| self.leap())?;
        if let Some(word) = self.met.get_mut(member / 64) {
            *word |= 1 << (member % 64);
        }
        self.left -= 1;
        Some(member)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Walk<'_> {}
impl FusedIterator for Walk<'_> {}

impl Walk<'_> {
    /// Point by point, as long as that is likely to be short.
    fn step(&mut self) -> Option<usize> {
        for _ in 0..STEPS * (self.left + 1) {
            let owner = *self.ring.owners.get(self.position)? as usize;
            self.position = if self.position + 1 < self.ring.owners.len() { self.position + 1 } else { 0 };
            if !self.was_met(owner) {
                return Some(owner);
            }
        }
        None
    }

    /// Straight to the nearest point of a member not met yet: where few heavy members hold most points, stepping
    /// would pass thousands of them.
    fn leap(&mut self) -> Option<usize> {
        let from = *self.ring.hashes.get(self.position)?;
        let unmet = (0..self.ring.len()).filter(|member| !self.was_met(*member));
        let member = self.ring.first_of(from, unmet)?;
        let found = self.ring.find(self.ring.point_after(member, from)?);
        self.position = if found + 1 < self.ring.owners.len() { found + 1 } else { 0 };
        Some(member)
    }

    fn was_met(&self, member: usize) -> bool {
        self.met.get(member / 64).is_some_and(|word| word & (1 << (member % 64)) != 0)
    }
}

/// What a placement depends on, as 16 hex digits: equal on every replica and version that places keys equally. `head` is
/// a line each of how keys are made, `names_and_points` are the configured members that take requests (160 points for each
/// unit of weight).
pub fn fingerprint<'a>(head: &str, names_and_points: impl IntoIterator<Item = (&'a str, u32)>) -> String {
    let mut lines: Vec<String> =
        names_and_points.into_iter().map(|(name, points)| format!("{name}\t{points}\n")).collect();
    lines.sort_unstable();
    let digest = Sha256::new_with_prefix(head).chain_update(lines.concat()).finalize();
    digest.iter().take(8).fold(String::with_capacity(16), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The two parts of a name that are hashed: split at the last colon if nothing but digits follows; a Unix socket
/// is its whole path.
pub fn host_and_port(name: &str) -> (&str, &str) {
    if let Some((scheme, path)) = name.split_at_checked(5)
        && scheme.eq_ignore_ascii_case("unix:")
    {
        return (path, "");
    }
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (name, ""),
    }
}

/// Member numbers in the order of their names.
fn order_of_names(members: &[(&str, u32)]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..members.len() as u32).collect();
    order.sort_by_key(|member| members[*member as usize].0);
    order
}

/// Hash above, the owner's rank by name below: sorting puts the smaller name first where two hashes are equal.
fn sorted_points(members: &[(&str, u32)]) -> Vec<u64> {
    let total: usize = members.iter().map(|(_, weight)| *weight as usize * POINTS as usize).sum();
    let mut points = Vec::with_capacity(total);
    for (rank, member) in order_of_names(members).into_iter().enumerate() {
        let (name, weight) = members[member as usize];
        points.extend(chain(name, weight).map(|hash| u64::from(hash) << 32 | rank as u64));
    }
    points.sort_unstable();
    points.dedup_by_key(|point| *point >> 32);
    points
}

/// The points of one name: each is the CRC-32 of the name's parts and of the point before.
fn chain(name: &str, weight: u32) -> impl Iterator<Item = u32> {
    let (host, port) = host_and_port(name);
    let mut base = crc32fast::Hasher::new();
    base.update(host.as_bytes());
    base.update(&[0]);
    base.update(port.as_bytes());
    let mut previous = 0_u32;
    (0..u64::from(weight) * u64::from(POINTS)).map(move |_| {
        let mut hasher = base.clone();
        hasher.update(&previous.to_le_bytes());
        previous = hasher.finalize();
        previous
    })
}

/// About one slot a point: see [`Ring::slots`].
fn slots(hashes: &[u32]) -> (Vec<u32>, u32) {
    let bits = hashes.len().checked_ilog2().unwrap_or(0).clamp(1, 28);
    let shift = 32 - bits;
    let mut slots = Vec::with_capacity((1 << bits) + 1);
    for (position, hash) in hashes.iter().enumerate() {
        let slot = (hash >> shift) as usize;
        if slots.len() <= slot {
            slots.resize(slot + 1, position as u32);
        }
    }
    slots.resize((1 << bits) + 1, hashes.len() as u32);
    (slots, shift)
}

/// The hashes grouped by owner, still sorted within each, and where each group begins.
fn grouped(hashes: &[u32], owners: &[u32], members: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; members + 1];
    for owner in owners {
        starts[*owner as usize + 1] += 1;
    }
    for member in 0..members {
        starts[member + 1] += starts[member];
    }
    let mut next = starts.clone();
    let mut own = vec![0; hashes.len()];
    for (hash, owner) in hashes.iter().zip(owners) {
        let at = &mut next[*owner as usize];
        own[*at as usize] = *hash;
        *at += 1;
    }
    (own, starts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{hash, u};
    use super::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        servers: Vec<Server>,
        map: BTreeMap<String, String>,
        #[serde(default)]
        attempts_when_refusing: BTreeMap<String, Vec<String>>,
    }

    #[derive(serde::Deserialize)]
    struct Server {
        name: String,
        weight: u32,
    }

    fn named<'r>(ring: &'r Ring, key: &str) -> Vec<&'r str> {
        ring.walk(hash(key.as_bytes())).filter_map(|member| ring.name(member)).collect()
    }

    #[test]
    fn near_is_the_first_wanted_of_the_walk_or_nothing() {
        let names: Vec<String> = (0..7).map(|number| format!("10.0.0.{number}:80")).collect();
        let ring = Ring::new(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
        for hash in (0..200_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).chain([0, u32::MAX]) {
            let wanted = |member: usize| member % 3 == 1;
            assert_eq!(ring.near(hash, 7 * 160, wanted), ring.walk(hash).find(|member| wanted(*member)));
            assert_eq!(ring.near(hash, 1, |_| true), ring.owner(hash));
            assert_eq!(ring.near(hash, 1, |member| Some(member) != ring.owner(hash)), None);
        }
        assert_eq!(Ring::new(&[]).near(1, 9, |_| true), None);
        assert_eq!(Ring::new(&[]).near_point(1, 9, |_, _| true), None);
        for (point, member) in ring.points() {
            assert_eq!(ring.near_point(point, 1, |m, p| (m, p) == (member, point)), Some(member));
            assert_eq!(ring.near_point(point.wrapping_add(1), 7 * 160, |_, p| p == point), Some(member), "it wraps");
        }
    }

    #[test]
    fn every_owner_and_every_attempt_is_where_nginx_puts_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/nginx-ring");
        let (mut owners, mut attempts) = (0, 0);
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let golden: Golden = serde_json::from_str(&text).unwrap();
            let members: Vec<_> = golden.servers.iter().map(|server| (server.name.as_str(), server.weight)).collect();
            let ring = Ring::new(&members);
            for (key, owner) in &golden.map {
                assert_eq!(named(&ring, key)[0], owner, "{key}");
                owners += 1;
            }
            for (key, order) in &golden.attempts_when_refusing {
                assert_eq!(named(&ring, key)[..order.len()], order[..], "{key}");
                attempts += 1;
            }
        }
        assert_eq!((owners, attempts), (9 * 405, 351));
    }

    #[test]
    fn a_name_is_split_as_nginx_splits_it() {
        for (name, parts) in [
            ("10.0.0.1:80", ("10.0.0.1", "80")),
            ("10.0.0.1", ("10.0.0.1", "")),
            ("[::1]:9001", ("[::1]", "9001")),
            ("[::1]", ("[::1]", "")),
            ("origin:http", ("origin:http", "")),
            ("unix:/run/a:1", ("/run/a:1", "")),
            ("UNIX:/run/a", ("/run/a", "")),
            ("origin", ("origin", "")),
            ("é:1", ("é", "1")),
        ] {
            assert_eq!(host_and_port(name), parts, "{name}");
        }
    }

    #[test]
    fn a_ring_without_points_owns_nothing() {
        let ring = Ring::new(&[]);
        assert_eq!((ring.owner(7), ring.walk(7).count(), ring.shares().len()), (None, 0, 0));
        assert_eq!(ring.first_of(7, [0, 1]), None);
    }

    #[test]
    fn a_single_member_owns_everything() {
        let ring = Ring::new(&[("a:1", 1)]);
        assert_eq!(ring.shares(), [1.0]);
        assert!([0, 1, u32::MAX].into_iter().all(|hash| ring.walk(hash).eq([0])));
    }

    #[test]
    fn two_names_with_the_same_points_belong_to_the_smaller() {
        let ring = Ring::new(&[("unix:/run/a", 1), ("/run/a", 1), ("b:1", 1)]);
        assert_eq!((ring.points_of(0), ring.points_of(1)), (0, 160));
        assert_eq!(ring.walk(0).count(), 2);
        assert_eq!(ring.shares()[0], 0.0);
    }

    #[test]
    fn b16_a_heavy_member_hides_nobody() {
        let ring = Ring::new(&[("a:1", 1000), ("b:1", 1), ("c:1", 1), ("d:1", 1000)]);
        for number in 0..2000_u32 {
            let mut met: Vec<_> = ring.walk(number.wrapping_mul(2_654_435_761)).collect();
            met.sort_unstable();
            assert_eq!(met, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_fingerprint_is_what_its_lines_say() {
        let head = "algorithm=hash\nkey={path}\nargs=keep:id,v\non_missing=spread\n";
        let text = format!("{head}a:1\t160\nb:1\t320\n");
        let expected: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let made = |members: [(&str, u32); 2]| fingerprint(head, members);
        assert_eq!(made([("b:1", 320), ("a:1", 160)]), expected);
        assert_ne!(made([("b:1", 160), ("a:1", 160)]), expected);
    }

    #[test]
    fn u_is_independent_of_the_owner() {
        let ring = Ring::new(&[("a:1", 1), ("b:1", 1), ("c:1", 1)]);
        let keys = (0..30_000).map(|number| hash(format!("/obj/{number}").as_bytes()));
        let owned: Vec<u32> = keys.filter(|key| ring.owner(*key) == Some(0)).collect();
        let below = owned.iter().filter(|key| u(**key) < 0.25).count() as f64 / owned.len() as f64;
        assert!((below - 0.25).abs() < 0.02, "{below}");
    }
}

#[cfg(test)]
mod properties {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Distinct names with weights.
    fn pools(most: usize) -> impl Strategy<Value = Vec<(String, u32)>> {
        let names = proptest::collection::btree_map(0_u16..500, prop_oneof![3 => Just(1_u32), 1 => 1_u32..12], 1..most);
        names.prop_map(|names| names.into_iter().map(|(n, weight)| (format!("10.0.0.{n}:80"), weight)).collect())
    }

    fn ring(pool: &[(String, u32)]) -> Ring {
        Ring::new(&pool.iter().map(|(name, weight)| (name.as_str(), *weight)).collect::<Vec<_>>())
    }

    fn owner(ring: &Ring, hash: u32) -> &str {
        ring.name(ring.owner(hash).unwrap()).unwrap()
    }

    /// The walk as R1 words it: point by point.
    fn plain_walk(ring: &Ring, hash: u32) -> Vec<usize> {
        let start = ring.hashes.iter().position(|point| *point >= hash).unwrap_or(0);
        let mut met = Vec::new();
        for at in 0..ring.owners.len() {
            let owner = ring.owners[(start + at) % ring.owners.len()] as usize;
            if !met.contains(&owner) {
                met.push(owner);
            }
        }
        met
    }

    proptest! {
        #[test]
        fn the_walk_is_the_plain_one(pool in pools(20), heavy in 0_u32..60, hash in any::<u32>()) {
            let mut pool = pool;
            pool[0].1 += heavy;
            let ring = ring(&pool);
            let met: Vec<_> = ring.walk(hash).collect();
            prop_assert_eq!(&met, &plain_walk(&ring, hash));
            prop_assert_eq!(ring.owner(hash), met.first().copied());
            prop_assert_eq!(ring.first_of(hash, met[1..].iter().copied()), met.get(1).copied());
        }

        #[test]
        fn removing_an_origin_moves_only_its_keys_and_to_their_successors(pool in pools(12), at in any::<prop::sample::Index>(), hashes in proptest::collection::vec(any::<u32>(), 200)) {
            let gone = at.get(&pool).0.clone();
            let fewer: Vec<_> = pool.iter().filter(|(name, _)| *name != gone).cloned().collect();
            prop_assume!(!fewer.is_empty());
            let (before, after) = (ring(&pool), ring(&fewer));
            for hash in hashes {
                let mut walk = before.walk(hash).filter_map(|member| before.name(member)).filter(|name| *name != gone);
                prop_assert_eq!(Some(owner(&after, hash)), walk.next());
            }
        }

        #[test]
        fn adding_an_origin_takes_keys_only_to_it(pool in pools(12), weight in 1_u32..10, hashes in proptest::collection::vec(any::<u32>(), 200)) {
            let more = [&pool[..], &[("new:1".to_owned(), weight)]].concat();
            let (before, after) = (ring(&pool), ring(&more));
            for hash in hashes {
                let now = owner(&after, hash);
                prop_assert!(now == "new:1" || now == owner(&before, hash));
            }
        }

        #[test]
        fn raising_a_weight_takes_keys_only_to_that_origin(pool in pools(12), at in any::<prop::sample::Index>(), by in 1_u32..10, hashes in proptest::collection::vec(any::<u32>(), 200)) {
            let mut raised = pool.clone();
            let at = at.index(raised.len());
            raised[at].1 += by;
            let (before, after) = (ring(&pool), ring(&raised));
            for hash in hashes {
                let now = owner(&after, hash);
                prop_assert!(now == pool[at].0 || now == owner(&before, hash));
            }
        }

        #[test]
        fn the_order_of_the_file_means_nothing(pool in pools(12).prop_flat_map(|pool| (Just(pool.clone()), Just(pool).prop_shuffle())), hash in any::<u32>()) {
            let (one, other) = (ring(&pool.0), ring(&pool.1));
            let names = |ring: &Ring| -> Vec<String> {
                ring.walk(hash).filter_map(|member| ring.name(member)).map(str::to_owned).collect()
            };
            prop_assert_eq!(names(&one), names(&other));
            let shares = |ring: &Ring| -> BTreeMap<String, u64> {
                ring.shares().iter().enumerate().map(|(at, s)| (ring.name(at).unwrap().to_owned(), s.to_bits())).collect()
            };
            prop_assert_eq!(shares(&one), shares(&other));
        }

        #[test]
        fn shares_are_near_weights_and_add_up_to_one(pool in pools(12)) {
            let ring = ring(&pool);
            let shares = ring.shares();
            let total: u32 = pool.iter().map(|(_, weight)| weight).sum();
            prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for ((name, weight), share) in pool.iter().zip(shares) {
                let fair = f64::from(*weight) / f64::from(total);
                // The arcs of n points deviate by about 1/sqrt(n) of their sum; five times that is never seen.
                let slack = fair * 5.0 / f64::from(weight * POINTS).sqrt();
                prop_assert!((share - fair).abs() <= slack, "{name}: {share}, not {fair}");
            }
        }

        #[test]
        fn no_name_is_too_strange(names in proptest::collection::btree_set("\\PC{0,12}", 0..6), hash in any::<u32>()) {
            let members: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
            let ring = Ring::new(&members);
            prop_assert_eq!(ring.walk(hash).len(), ring.walk(hash).count());
        }
    }

    #[test]
    fn order_means_nothing_at_ten_thousand() {
        let pool: Vec<_> = (0..10_000).map(|n| (format!("10.{}.{}.1:80", n / 100, n % 100), 1)).collect();
        let reversed: Vec<_> = pool.iter().rev().cloned().collect();
        let (one, other) = (ring(&pool), ring(&reversed));
        let mut shares = other.shares();
        shares.reverse();
        assert_eq!(one.shares(), shares, "exact arcs");
        assert_eq!(one.walk(1).map(|at| 9_999 - at).collect::<Vec<_>>(), other.walk(1).collect::<Vec<_>>());
    }
}
