//! The shape of a line, compiled once.

use std::sync::Arc;

use super::clock::Clock;
use super::{Record, json, nginx, template};
use crate::config::Invalid;
use crate::config::process::AccessFormat;
use crate::template::{Scope, Template};

/// The compiled `process.access_log.format`.
#[derive(Debug, Clone)]
pub struct Format(Shape);

#[derive(Debug, Clone)]
enum Shape {
    Json,
    Upstream,
    Combined,
    Template(Arc<Template>),
}

impl Format {
    /// The shape as written, or why it cannot be used.
    pub fn compile(format: &AccessFormat) -> Result<Self, Invalid> {
        Ok(Self(match format {
            AccessFormat::Json => Shape::Json,
            AccessFormat::Upstream => Shape::Upstream,
            AccessFormat::Combined => Shape::Combined,
            AccessFormat::Template(text) => Shape::Template(Arc::new(Template::compile(text, Scope::Log)?)),
        }))
    }

    /// Appends the line of `record` with its end.
    pub(super) fn line(&self, record: &Record<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
        match &self.0 {
            Shape::Json => json::render(record, clock, out),
            Shape::Upstream => nginx::upstream(record, clock, out),
            Shape::Combined => nginx::combined(record, clock, out),
            Shape::Template(template) => template::render(template, record, clock, out),
        }
        out.push(b'\n');
    }
}
