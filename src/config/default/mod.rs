//! What holds where nothing is written? The effective configuration, and the schema an editor can use.
//!
//! The defaults themselves stand beside their fields; what is printed here loads again as an equal configuration.

use serde_json::Value;

use super::Config;

/// `config` with every default filled in, as a file that loads again.
pub fn dump(config: &Config) -> String {
    serde_yaml::to_string(config).unwrap_or_default()
}

/// The JSON Schema of the file.
pub fn schema() -> Value {
    let mut schema = Value::from(schemars::schema_for!(Config));
    schema["title"] = "Moorgate configuration".into();
    tidy(&mut schema);
    if let Some(sections) = schema["$defs"].as_object_mut() {
        sections.values_mut().for_each(tidy);
    }
    schema
}

/// Takes out the defaults that are none: those of keys that have to be written, and those that depend on others.
fn tidy(section: &mut Value) {
    let required = section["required"].as_array().cloned().unwrap_or_default();
    let Some(keys) = section.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (key, value) in keys.iter_mut().filter_map(|(key, value)| Some((key, value.as_object_mut()?))) {
        let is_none = value.get("default").is_some_and(|default| default.is_null() || default == "");
        if is_none || required.iter().any(|name| name == key) {
            value.remove("default");
        }
    }
}

#[cfg(test)]
mod tests;
