//! Who is asked together? Those that serve, and behind them the backups, each on a ring and a board of their own. Rule R3.
//!
//! Both know all members of the pool by the same numbers. Backups stand outside of placement and fingerprint.

use std::iter;
use std::sync::Arc;

use crate::balance::{Balancer, Ring, ring};
use crate::health::Board;
use crate::template::Key;

use super::{Member, Pool};

/// Members that are asked together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'p> {
    pub(super) backups: bool,
    pub(super) ring: &'p Ring,
    pub(super) board: &'p Board,
}

/// The backups of a pool.
#[derive(Debug)]
pub(super) struct Backups {
    ring: Ring,
    board: Arc<Board>,
}

impl Backups {
    pub(super) fn of(members: &[Member], balancer: Option<Balancer>) -> Option<Self> {
        let ring = || if balancer.is_none() { ring_of(members, true) } else { Ring::new(&[]) };
        let any = members.iter().any(Member::is_backup);
        any.then(|| Self { ring: ring(), board: board(members, true) })
    }
}

impl Pool {
    /// Those that serve, and then the backups.
    pub(super) fn sides(&self) -> impl Iterator<Item = Side<'_>> {
        let backups =
            self.backups.as_ref().map(|backups| Side { backups: true, ring: &backups.ring, board: &backups.board });
        iter::once(Side { backups: false, ring: &self.ring, board: &self.board }).chain(backups)
    }
}

/// The ring of the backups, or of the others.
pub(super) fn ring_of(members: &[Member], backups: bool) -> Ring {
    let placed = |member: &Member| member.placed_weight(backups);
    Ring::new(&members.iter().map(|member| (&**member.name(), placed(member))).collect::<Vec<_>>())
}

/// A board that shows the backups, or the others; not who is to get no new request from now on.
pub(super) fn board(members: &[Member], backups: bool) -> Arc<Board> {
    let board = Arc::new(Board::new(members.len()));
    let shown = |member: &Member| member.backup == backups && !member.is_barred();
    for (number, member) in members.iter().enumerate().filter(|(_, member)| shown(member)) {
        member.origin.health().show_on(&board, number);
    }
    board
}

/// Equal wherever keys are placed equally: those that are drained and the backups have no line in it.
pub(super) fn fingerprint(key: &Key, members: &[Member], ring: &Ring, balancer: Option<Balancer>) -> String {
    let serving = members.iter().enumerate().filter(|(_, member)| !member.backup && member.is_placed());
    if let Some(balancer) = balancer {
        let points = serving.map(|(_, member)| (&**member.name(), member.weight * ring::POINTS));
        return ring::fingerprint(&format!("algorithm={}\n", balancer.as_str()), points);
    }
    let points = serving.map(|(number, member)| (&**member.name(), ring.points_of(number) as u32));
    let (args, on_missing) = (key.args_text(), key.on_missing_text());
    ring::fingerprint(&format!("algorithm=hash\nkey={}\nargs={args}\non_missing={on_missing}\n", key.text()), points)
}
