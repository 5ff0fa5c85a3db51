//! What is kept of each key of a rate limit: a table that never grows beyond its size, whoever asks.
//!
//! A key has one of two places of sixteen cells, in one of [`SHARDS`] parts that are locked one at a time, for as long as it
//! takes to look at these cells. A part grows with its keys up to [`MOST`] cells. When neither place has room, the cell goes
//! that costs least: one that is even again, which costs nothing; else the one that is even soonest of those that were not
//! turned away; else the one that is even soonest. So a flood of keys that are seen once pushes out its own kind, and never
//! a key that is being turned away, until all cells of its places are of such keys.

use std::cmp::Ordering;
use std::ops::Range;

use parking_lot::Mutex;

use super::gcra::Gcra;

/// Parts.
const SHARDS: usize = 1024;
/// Cells of a place.
const PLACE: usize = 16;
/// Cells of a part at most: 16 bytes each, 4 MiB in all.
const MOST: usize = 256;

/// One key.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// 0: nobody's.
    tag: u64,
    /// When it is even, and in the lowest bit whether it was turned away since it last was.
    state: u64,
}

impl Cell {
    fn new(tag: u64, even: u64, turned_away: bool) -> Self {
        Self { tag, state: even << 1 | u64::from(turned_away) }
    }

    fn even(self) -> u64 {
        self.state >> 1
    }

    fn was_turned_away(self) -> bool {
        self.state & 1 == 1
    }

    fn is_free(self, now: u64) -> bool {
        self.tag == 0 || self.even() <= now
    }

    /// What is lost with it: the least goes first.
    fn worth(self, now: u64) -> (bool, bool, u64) {
        (!self.is_free(now), self.was_turned_away(), self.even())
    }
}

/// What is known of one key, for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Which key.
    pub(super) tag: u64,
    /// How long until it is even.
    pub(super) owes: u64,
    /// It was turned away since it last was.
    pub(super) turned_away: bool,
}

/// The cells of one limit.
pub(super) struct Cells(Box<[Mutex<Vec<Cell>>]>);

impl Default for Cells {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Cells {
    /// Asks `gcra` for the key of this tag: how long it would have to wait if it is turned away.
    pub(super) fn ask(&self, tag: u64, gcra: &Gcra, now: u64) -> Result<(), u64> {
        let tag = tag.max(1);
        let mut part = self.part(tag).lock();
        let (index, known) = match find(&part, tag) {
            Some(index) => (index, part[index]),
            None => (room(&mut part, tag, now), Cell::default()),
        };
        let asked = gcra.ask(known.even(), now);
        let turned_away = asked.is_err() || known.was_turned_away() && !known.is_free(now);
        if let Some(cell) = part.get_mut(index) {
            // One whose limit became stricter since is even sooner than it would have been.
            let even = asked.unwrap_or_else(|_| known.even().min(now.saturating_add(gcra.most())));
            *cell = Cell::new(tag, even, turned_away);
        }
        asked.map(|_| ())
    }

    /// What was let in last for this tag is not to count.
    pub(super) fn give_back(&self, tag: u64, gcra: &Gcra) {
        let tag = tag.max(1);
        let mut part = self.part(tag).lock();
        if let Some(cell) = find(&part, tag).and_then(|index| part.get_mut(index)) {
            *cell = Cell::new(tag, gcra.give_back(cell.even()), cell.was_turned_away());
        }
    }

    /// How many keys are not even.
    pub(super) fn owing(&self, now: u64) -> usize {
        self.0.iter().map(|part| part.lock().iter().filter(|cell| !cell.is_free(now)).count()).sum()
    }

    /// The keys that are not even, `most` of them: those that were turned away, and those that owe most, first.
    pub(super) fn tell(&self, most: usize, now: u64) -> Vec<Known> {
        let owing = self.0.iter().flat_map(|part| {
            let part = part.lock();
            part.iter().copied().filter(|cell| !cell.is_free(now)).collect::<Vec<_>>()
        });
        let mut known: Vec<Cell> = owing.collect();
        if known.len() > most {
            known.select_nth_unstable_by_key(most, |cell| std::cmp::Reverse(cell.worth(now)));
            known.truncate(most);
        }
        let told = |cell: Cell| Known { tag: cell.tag, owes: cell.even() - now, turned_away: cell.was_turned_away() };
        known.into_iter().map(told).collect()
    }

    /// What another process knows. Of a key that is known here, too, the later moment counts.
    pub(super) fn hear(&self, known: &[Known], now: u64) {
        for Known { tag, owes, turned_away } in known.iter().copied().filter(|known| known.tag > 0) {
            let even = now.saturating_add(owes).min(u64::MAX >> 1);
            let mut part = self.part(tag).lock();
            let index = find(&part, tag).unwrap_or_else(|| room(&mut part, tag, now));
            if let Some(cell) = part.get_mut(index) {
                let here = if cell.tag == tag { *cell } else { Cell::default() };
                *cell = Cell::new(tag, even.max(here.even()), turned_away || here.was_turned_away());
            }
        }
    }

    fn part(&self, tag: u64) -> &Mutex<Vec<Cell>> {
        // As many parts as the highest bits can say.
        &self.0[(tag >> (u64::BITS - SHARDS.ilog2())) as usize]
    }
}

/// Where the two places of a key begin, in a part of so many cells.
fn places(tag: u64, cells: usize) -> [usize; 2] {
    let last = cells / PLACE - 1;
    [tag as usize & last, (tag >> 24) as usize & last].map(|place| place * PLACE)
}

fn find(part: &[Cell], tag: u64) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    places(tag, part.len()).into_iter().find_map(|start| {
        let cells = part.get(start..start + PLACE)?;
        cells.iter().position(|cell| cell.tag == tag).map(|index| start + index)
    })
}

/// A cell for a key that has none: one that is free, if need be in a part that grows for it; else the one of least worth.
fn room(part: &mut Vec<Cell>, tag: u64, now: u64) -> usize {
    loop {
        let least = least(part, tag, now);
        if let Some(index) = least.filter(|index| part[*index].is_free(now) || part.len() >= MOST) {
            return index;
        }
        grow(part, now);
    }
}

fn least(part: &[Cell], tag: u64, now: u64) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    let places = places(tag, part.len()).map(|start| start..start + PLACE);
    // The emptier place, so that both fill up alike.
    let free = |place: &Range<usize>| place.clone().filter(|index| part[*index].is_free(now)).count();
    let [first, other] = places.each_ref().map(free);
    let places: &[Range<usize>] = match first.cmp(&other) {
        Ordering::Greater => &places[..1],
        Ordering::Less => &places[1..],
        Ordering::Equal => &places,
    };
    places.iter().cloned().flatten().min_by_key(|index| part[*index].worth(now))
}

/// Twice the cells, and everybody who is not even at their new places.
fn grow(part: &mut Vec<Cell>, now: u64) {
    let cells = (part.len() * 2).max(PLACE);
    let old = std::mem::replace(part, vec![Cell::default(); cells]);
    for cell in old.into_iter().filter(|cell| !cell.is_free(now)) {
        if let Some(index) = least(part, cell.tag, now) {
            part[index] = cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MILLION: u64 = 1_000_000;

    impl Cells {
        fn footprint(&self) -> usize {
            self.0.iter().map(|part| part.lock().capacity() * size_of::<Cell>()).sum()
        }
    }

    fn tag(number: u64) -> u64 {
        // any bijection that spreads
        number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    #[test]
    fn each_key_has_a_count_of_its_own() {
        let (cells, gcra) = (Cells::default(), Gcra::new(1.0, 2));
        for key in 0..50_000 {
            let asked = (0..5).filter(|_| cells.ask(tag(key), &gcra, SECOND).is_ok()).count();
            assert_eq!(asked, 3, "{key}");
        }
        assert!((0..50_000).all(|key| cells.ask(tag(key), &gcra, SECOND).is_err()));
    }

    #[test]
    fn a_million_keys_take_no_more_memory_than_a_quarter_of_them() {
        let (cells, gcra) = (Cells::default(), Gcra::new(1.0, 20));
        assert_eq!(cells.footprint(), 0);
        for key in 0..MILLION {
            assert!(cells.ask(tag(key), &gcra, SECOND + key).is_ok());
        }
        assert_eq!(cells.footprint(), SHARDS * MOST * 16);
        let kept = (0..MILLION).filter(|key| find(&cells.part(tag(*key)).lock(), tag(*key)).is_some()).count();
        assert_eq!(kept, SHARDS * MOST, "no cell is wasted");
    }

    #[test]
    fn nobody_is_forgotten_before_most_cells_are_taken() {
        let (cells, gcra) = (Cells::default(), Gcra::new(1.0, 0));
        let many = (SHARDS * MOST) as u64 * 3 / 4;
        for key in 0..many {
            assert!(cells.ask(tag(key), &gcra, SECOND).is_ok());
        }
        let forgotten = (0..many).filter(|key| cells.ask(tag(*key), &gcra, SECOND).is_ok()).count();
        assert_eq!(forgotten, 0);
    }

    #[test]
    fn a_key_that_is_turned_away_is_not_forgotten_in_a_flood_of_fresh_ones() {
        for burst in [0, 20] {
            let (cells, gcra) = (Cells::default(), Gcra::new(10.0, burst));
            let mut admitted = 0;
            // Four times as many as there are cells in the time between two requests; the key asks after each hundredth.
            for key in 0..MILLION {
                let now = SECOND + key * 120;
                let _ = cells.ask(tag(key), &gcra, now);
                if key % 100 == 0 {
                    admitted += usize::from(cells.ask(tag(u64::MAX / 2), &gcra, now).is_ok());
                }
            }
            assert_eq!(admitted, 1 + burst as usize + 1, "as many as without the flood");
        }
    }

    #[test]
    fn who_is_even_makes_room_first() {
        let (cells, gcra) = (Cells::default(), Gcra::new(10.0, 0));
        for key in 0..100 {
            assert!(cells.ask(tag(key), &gcra, SECOND).is_ok());
        }
        let before = cells.footprint();
        for key in 100..MILLION {
            assert!(cells.ask(tag(key), &gcra, SECOND * (key / 50)).is_ok());
        }
        assert!(cells.footprint() <= 2 * before.max(SHARDS * PLACE * 16), "{} after {before}", cells.footprint());
    }

    #[test]
    fn what_another_process_knew_counts_on() {
        let (here, there, gcra) = (Cells::default(), Cells::default(), Gcra::new(1.0, 4));
        for _ in 0..6 {
            let _ = there.ask(7, &gcra, SECOND);
        }
        let _ = there.ask(8, &gcra, SECOND);
        let told = there.tell(10, SECOND + SECOND / 2);
        assert_eq!(told.len(), 2);
        here.hear(&told, 100 * SECOND);
        assert_eq!(here.ask(7, &gcra, 100 * SECOND), Err(SECOND / 2));
        assert!((0..4).all(|_| here.ask(8, &gcra, 100 * SECOND).is_ok()));
        let one = there.tell(1, SECOND);
        assert_eq!((one.len(), one[0].tag, one[0].turned_away), (1, 7, true));
        assert_eq!(there.tell(10, 100 * SECOND), []);
    }

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let (cells, gcra) = (Cells::default(), Gcra::new(1.0, 0));
        assert!(cells.ask(9, &gcra, SECOND).is_ok() && cells.ask(9, &gcra, SECOND).is_err());
        cells.give_back(9, &gcra);
        assert!(cells.ask(9, &gcra, SECOND).is_ok() && cells.ask(9, &gcra, SECOND).is_err());
        cells.give_back(10, &gcra);
    }
}
