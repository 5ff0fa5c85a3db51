//! The shape of `/status`: what the process serves, and how every origin is.

use indexmap::IndexMap;
use serde::Serialize;

use super::certificates::CertificateStatus;
use super::splits::SplitStatus;
use crate::lifecycle::{ConfirmStatus, ReloadOutcome, TextStatus};
use crate::snapshot::ShareChange;

/// All of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    /// The version of the program.
    pub program: &'static str,
    /// Which process of a line of upgrades this is, from 1.
    pub generation: u64,
    /// How this process took over from the one before; null: it did not.
    pub upgrade: Option<UpgradeStatus>,
    /// Seconds since the start.
    pub uptime: f64,
    /// The last minutes of all requests, in steps.
    pub recent: RecentStatus,
    /// What is in force.
    pub config: ConfigStatus,
    /// Are more probes due than a process may run, so that intervals are longer than configured?
    pub probes_stretched: bool,
    /// What clients that come by TLS are shown, in the order of the file.
    pub certificates: Vec<CertificateStatus>,
    /// Routes that are shared out over several pools, by name.
    pub splits: IndexMap<String, SplitStatus>,
    /// By name.
    pub pools: IndexMap<String, PoolStatus>,
}

/// An upgrade, from the side of the process that took over.
#[derive(Debug, Clone, Serialize)]
pub struct UpgradeStatus {
    /// The process before.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Whether the process before is gone, or none of its connections can begin a request any more.
    pub over: bool,
    /// What became of the file then; null: it has not been read again yet, or there is none.
    pub file: Option<ReloadOutcome>,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ConfigStatus {
    /// How many were put in force since the start.
    pub version: u64,
    /// SHA-256 of the text, in hex.
    pub digest: String,
    /// The texts of the latest time, the newest first: that in force.
    pub history: Vec<TextStatus>,
    /// Does the file say something else than what is in force?
    pub drift: bool,
    /// What waits to be confirmed; null: nothing.
    pub confirm: Option<ConfirmStatus>,
}

/// A pool.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PoolStatus {
    /// How origins are chosen.
    pub algorithm: &'static str,
    /// The template of the key; null where requests are placed by none.
    pub key: Option<String>,
    /// The ring.
    pub ring: RingStatus,
    /// What it is asked for lately.
    pub keys: KeysStatus,
    /// What its origins say of their own caches; null when nobody looks, see `cache_status`.
    pub cache: Option<CacheStatus>,
    /// What happens when all are out: `keep` or `fail`.
    pub panic: &'static str,
    /// Are more out than `min_healthy` allows, or is somebody in service that should not be?
    pub short: bool,
    /// Tries a second that ended in the last minute, by all its origins.
    pub rate: f64,
    /// Failed tries among those of the last minute; null without any.
    pub error_ratio: Option<f64>,
    /// Median time of recent answers in seconds; null without any.
    pub p50: Option<f64>,
    /// The time 99 of 100 recent answers stayed below.
    pub p99: Option<f64>,
    /// The last minutes of its requests, in steps as those of all.
    pub recent: StepsStatus,
    /// Where the origins come from; null: they are written in the file.
    pub discovery: Option<DiscoveryStatus>,
    /// By name.
    pub origins: IndexMap<String, OriginStatus>,
}

/// A DNS name that stands for origins.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DiscoveryStatus {
    /// The name.
    pub dns: String,
    /// What its origins are called by: `address` or `name`.
    pub identity: String,
    /// Seconds since an answer last told an origin; null: none ever did.
    pub answered: Option<f64>,
    /// Why the questions since then told none; null: they did.
    pub failure: Option<String>,
}

/// The last minutes of all requests.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecentStatus {
    /// Seconds in a step.
    pub step: f64,
    /// Seconds since the last step ended; null: none did yet.
    pub age: Option<f64>,
    /// The steps.
    #[serde(flatten)]
    pub steps: StepsStatus,
}

/// What was counted in each step, the oldest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StepsStatus {
    /// Requests that were answered.
    pub requests: Vec<u64>,
    /// Those of them that were answered by 5xx.
    pub errors: Vec<u64>,
    /// Further tries.
    pub retries: Vec<u64>,
    /// Failed tries that were not repeated, although their condition is listed.
    pub suppressed: Vec<u64>,
}

/// A ring.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RingStatus {
    /// Equal fingerprints place keys alike.
    pub fingerprint: String,
    /// The part of the circle that changed its owner by the last change.
    pub moved_ratio: f64,
    /// Whose share of the circle that changed, the greatest change first; at most 32 of them.
    pub changed: Vec<ShareChange>,
}

/// The recent keys of a pool: of the last five to ten minutes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KeysStatus {
    /// How many there are, estimated when there are many.
    pub distinct: u64,
    /// The part of them that was asked for once.
    pub seen_once_ratio: f64,
    /// The hottest, the hottest first.
    pub top: Vec<KeyStatus>,
    /// The part of the keys seen before and after the last change that went to another origin; null when there was no
    /// change, or no such key yet.
    pub moved_ratio: Option<f64>,
    /// The part of the keys that were last served elsewhere than by their owner, by why.
    pub displaced: IndexMap<&'static str, f64>,
    /// What is wrong with them; null when nothing is.
    pub warning: Option<String>,
}

/// The caches of a pool's origins.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CacheStatus {
    /// The part of the recent answers that came from them; null without any.
    pub hit_ratio: Option<f64>,
    /// The same just before the placement last changed; null when it did not, or it was not known.
    pub hit_ratio_before: Option<f64>,
}

/// A hot key.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KeyStatus {
    /// The key; of a long one its beginning.
    pub key: String,
    /// Recent requests, those of five minutes ago and more counted half, a quarter and so on.
    pub requests: u64,
    /// Its part of all requests.
    pub share: f64,
    /// The origin that owns it.
    pub owner: Option<String>,
}

/// An origin.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OriginStatus {
    /// `joining`, `up`, `ramping`, `overloaded`, `kept`, `down`, `draining`, `leaving` or `parked`.
    pub state: &'static str,
    /// Why.
    pub why: String,
    /// Does it serve only while no other may be asked?
    pub backup: bool,
    /// How far it came on the way to its share: the part of the probes it needs, or of the share; null when it is on none.
    pub progress: Option<f64>,
    /// Where it is reached now; null while its name is not resolved.
    pub address: Option<String>,
    /// Where it is to be reached once that place is proven; null if it stays.
    pub moving_to: Option<MovingStatus>,
    /// Its weight.
    pub weight: WeightStatus,
    /// The part of the circle it takes now; where there is none, the part of the weights it has.
    pub share: f64,
    /// Requests it is working on.
    pub in_flight: u64,
    /// Tries since it is known.
    pub requests: u64,
    /// Tries a second that ended in the last minute.
    pub rate: f64,
    /// The part it has of the pool's tries of the last minute; null without any.
    pub served: Option<f64>,
    /// Failed tries among the recent ones; null without any.
    pub error_ratio: Option<f64>,
    /// Recent answers from its own cache, as it says; null when it says nothing.
    pub hit_ratio: Option<f64>,
    /// Median time of recent answers in seconds; null without any.
    pub p50: Option<f64>,
    /// The time 99 of 100 recent answers stayed below.
    pub p99: Option<f64>,
    /// The latest probe; null before the first.
    pub last_probe: Option<ProbeStatus>,
}

/// Another address of an origin, which is not proven yet.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MovingStatus {
    /// Where it is; null while its name is not resolved.
    pub address: Option<String>,
    /// How far it is proven.
    pub why: String,
}

/// A weight.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct WeightStatus {
    /// In the file.
    pub configured: u32,
    /// At work.
    pub effective: f64,
}

/// A probe that ended.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProbeStatus {
    /// `good`, `overloaded` or `bad`.
    pub result: &'static str,
    /// What was wrong with a bad one.
    pub fault: Option<String>,
    /// Seconds ago.
    pub age: f64,
}
