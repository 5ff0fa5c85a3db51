//! What holds where nothing is written? The effective configuration, and the schema an editor can use.
//!
//! The defaults themselves stand beside their fields; what is printed here loads again as an equal configuration.

use super::Config;

/// `config` with every default filled in, as a file that loads again.
pub fn dump(config: &Config) -> String {
    serde_yaml::to_string(config).unwrap_or_default()
}

/// The JSON Schema of the file.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Config);
    schema.insert("title".to_owned(), "Moorgate configuration".into());
    schema.into()
}
