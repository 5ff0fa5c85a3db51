//! Which pass took an origin, and why is it this one? The words for it, in logs and from `moorgate key`.

use crate::balance::Balancer;

/// The passes of rule R3. While every origin takes its full share, passes 1 and 2 are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pass {
    /// Usable, takes the key, below its limits.
    Own = 1,
    /// Usable, below its limits.
    Below = 2,
    /// Usable, below its limit in flight.
    Usable = 3,
    /// A backup.
    Backup = 4,
    /// Nobody is usable, and `panic: keep` tries all of them.
    Panic = 5,
}

/// Why an origin was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It owns the key.
    Owner,
    /// The first that may be used after an owner that may not.
    OwnerOut,
    /// The owner grows and takes a part of its keys now, and this is none of them: the first that takes it.
    OwnerPartial,
    /// The owner is overloaded and sheds a part of its keys, this one among them: the first that takes it.
    OwnerOverloaded,
    /// The owner is drained, and has this key no more.
    OwnerDraining,
    /// The first with room for one more after an owner that has as much in flight as it may.
    OwnerFull,
    /// The first not tried yet after an owner that was tried.
    OwnerTried,
    /// Its owner since the pool was replaced does not take it yet: the one before.
    Former,
    /// It was tried on a connection that had gone stale.
    Repeat,
    /// Its key is missing: the less loaded of two.
    Spread,
    /// The pool's algorithm chose it.
    Balanced(Balancer),
    /// No other may be asked: a backup.
    Backup,
    /// No other has room: a backup.
    BackupFull,
    /// Nobody is usable.
    Panic,
}

impl Pass {
    /// Its number in the rule.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl Reason {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::OwnerOut => "owner_out",
            Self::OwnerPartial => "owner_partial",
            Self::OwnerOverloaded => "owner_overloaded",
            Self::OwnerDraining => "owner_draining",
            Self::OwnerFull => "owner_full",
            Self::OwnerTried => "owner_tried",
            Self::Former => "former_owner",
            Self::Repeat => "repeat",
            Self::Spread => "spread",
            Self::Balanced(balancer) => balancer.as_str(),
            Self::Backup | Self::BackupFull => "backup",
            Self::Panic => "panic",
        }
    }
}
