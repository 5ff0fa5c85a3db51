//! What goes wrong, for how long, and what came of it.

use crate::world::{Counts, READ, Seconds, World};

/// Caches are warm after this.
const WARM: Seconds = 30.0;
/// What follows the trouble is looked at for so long.
const AFTER: Seconds = 60.0;

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// One origin works at this part of its speed.
    Slow(f64),
    /// The same among origins that let requests wait and never say 503.
    Waits(f64),
    /// So much load, as a part of what all can do.
    Load(f64),
    /// All pause in step.
    Pause,
    /// So many hang.
    Hang(usize),
    /// Probes ask for a path that is not there.
    WrongPath,
}

/// A pool, its load, and what goes wrong with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    origins: usize,
    load: f64,
    trouble: Trouble,
    lasts: Seconds,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// From the trouble's begin to its end.
    pub(crate) during: Counts,
    /// From its end on.
    pub(crate) after: Counts,
}

/// Everything that is looked into.
pub(crate) const ALL: &[Scene] = &[
    scene("one of 4 at 40 % speed", 4, 0.7, Trouble::Slow(0.4), 120.0),
    scene("one of 10 at 40 % speed", 10, 0.7, Trouble::Slow(0.4), 120.0),
    scene("one of 4 at half speed, no 503", 4, 0.7, Trouble::Waits(0.5), 120.0),
    scene("one of 10 at half speed, no 503", 10, 0.7, Trouble::Waits(0.5), 120.0),
    scene("1.3 x load on all of 3", 3, 0.7, Trouble::Load(1.3), 120.0),
    scene("1.3 x load on all of 4", 4, 0.7, Trouble::Load(1.3), 120.0),
    scene("1.3 x load on all of 10", 10, 0.7, Trouble::Load(1.3), 120.0),
    scene("all 10 pause for 2.5 s", 10, 0.7, Trouble::Pause, 2.5),
    scene("all 10 pause for 10 s", 10, 0.7, Trouble::Pause, 10.0),
    scene("all 10 pause for 40 s", 10, 0.7, Trouble::Pause, 40.0),
    scene("3 of 10 hang", 10, 0.4, Trouble::Hang(3), 60.0),
    scene("7 of 10 hang", 10, 0.1, Trouble::Hang(7), 60.0),
    scene("probes ask for a wrong path", 10, 0.6, Trouble::WrongPath, 60.0),
];

const fn scene(name: &'static str, origins: usize, load: f64, trouble: Trouble, lasts: Seconds) -> Scene {
    Scene { name, origins, load, trouble, lasts }
}

impl Scene {
    /// Plays it, with the rule about overload or without.
    pub(crate) fn play(&self, overload: bool, seed: u64) -> Outcome {
        let written = if overload { "{}" } else { "off" };
        let mut world = World::new(self.origins, self.load, written, seed);
        world.run(WARM);
        self.befalls(&mut world, true);
        world.run(self.lasts);
        self.befalls(&mut world, false);
        world.run(AFTER);
        // Until the last of them has its answer.
        world.run(READ);
        match world.counts() {
            [_, during, after, ..] => Outcome { during: *during, after: *after },
            _ => panic!("two stretches of time were run"),
        }
    }

    /// The trouble begins, or it ends.
    fn befalls(&self, world: &mut World, begins: bool) {
        match self.trouble {
            Trouble::Slow(part) => {
                world.origins.first_mut().into_iter().for_each(|one| one.speed = if begins { part } else { 1.0 });
            }
            Trouble::Waits(part) => {
                world.origins.iter_mut().for_each(|one| one.patient = true);
                world.origins.first_mut().into_iter().for_each(|one| one.speed = if begins { part } else { 1.0 });
            }
            Trouble::Load(load) => world.load = if begins { load } else { self.load },
            Trouble::Pause if begins => world.pause(self.lasts),
            Trouble::Pause => {}
            Trouble::Hang(number) => world.origins.iter_mut().take(number).for_each(|one| one.hangs = begins),
            Trouble::WrongPath => world.origins.iter_mut().for_each(|one| one.wrong_path = begins),
        }
    }
}

impl Counts {
    /// This as a part of the requests.
    pub(crate) fn part(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.requests.max(1))
    }

    /// The part that was answered well.
    pub(crate) fn goodput(&self) -> f64 {
        self.part(self.good)
    }
}
