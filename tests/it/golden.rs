//! What did a real nginx do? Owners and attempt orders recorded of its ring, one file a set of servers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// One recording.
#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) servers: Vec<Server>,
    /// The owner of each key.
    pub(crate) map: BTreeMap<String, String>,
    /// The server that refused while attempts were recorded.
    pub(crate) refusing: Option<String>,
    /// The servers each key was tried at meanwhile, in order.
    #[serde(default)]
    pub(crate) attempts_when_refusing: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) weight: u32,
}

impl Golden {
    /// The recording in this file.
    pub(crate) fn read(path: &Path) -> Self {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }
}

/// The folder of all recordings.
pub(crate) fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/nginx-ring"))
}
