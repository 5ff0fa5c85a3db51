//! Where does what becomes of requests go? To the access log, and to a collector of traces.

use anyhow::anyhow;

use super::run::Start;
use crate::config::process::AccessLog as Written;
use crate::config::units::Off;
use crate::observe::Tracing;
use crate::observe::access_log::{AccessLog, Format};

impl Start {
    pub(super) fn access_log(&self) -> anyhow::Result<AccessLog> {
        let Off::On(Written { path, format }) = &self.process.access_log else { return Ok(AccessLog::off()) };
        let format = Format::compile(format).map_err(|invalid| anyhow!("process.access_log.format: {invalid}"))?;
        Ok(AccessLog::open(path, &format, self.shards(), &self.metrics)?)
    }

    pub(super) fn tracing(&self) -> anyhow::Result<Tracing> {
        let Off::On(written) = &self.process.tracing else { return Ok(Tracing::off()) };
        Ok(Tracing::open(written, self.shards(), &self.metrics)?)
    }
}
