//! What happened? Metrics, access log, traces, request ids and the log of the process itself.
//!
//! The data plane tells this room facts: the meters count them with a few relaxed atomic additions, and the
//! access log turns a [`Record`] into a line without ever waiting for a disk. Nothing here decides anything.

pub mod access_log;
mod alive;
mod book;
mod carried;
mod in_force;
mod interned;
pub mod log;
mod meters;
mod metrics;
pub mod minutes;
mod record;
#[cfg(test)]
mod reference;
mod request_id;
pub mod sample;
mod series;
mod text;
pub mod trace;

pub use access_log::AccessLog;
pub use alive::SnapshotAlive;
pub use carried::{Counted, Told};
pub use meters::{
    BufferMeters, ConnectionOpen, LimitMeters, ListenerMeters, MirrorMeters, OriginMeters, OriginView, PoolMeters,
    PoolView, RouteMeters, RouteTimes, SharedMeters,
};
pub use metrics::{CONTENT_TYPE, Metrics};
pub use minutes::Minutes;
pub use record::{Attempt, Peer, Record};
pub use request_id::RequestId;
pub use sample::Sample;
pub use trace::Tracing;
