//! What holds where nothing is written? The effective configuration, and the schema an editor can use.
//!
//! The defaults themselves stand beside their fields; what is printed here loads again as an equal configuration.

use serde_json::{Map, Value, json};

use super::units::Off;
use super::{Config, limits};

/// `config` with every default filled in, as a file that loads again.
pub fn dump(config: &Config) -> String {
    serde_yaml::to_string(config).unwrap_or_default()
}

/// The same without passwords, for whoever may ask: each is `***`.
pub fn dump_masked(config: &Config) -> String {
    let mut config = config.clone();
    for route in &mut config.routes {
        route.limits.rate.all_mut().iter_mut().for_each(limits::RateLimit::mask);
    }
    if let Off::On(tracing) = &mut config.process.tracing {
        tracing.mask();
    }
    dump(&config)
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
        let is_required = required.iter().any(|name| name == key);
        if is_none || is_required {
            value.remove("default");
        }
        if !is_required {
            allow_off(value);
        }
    }
}

/// A list, or a section of names of the operator's choice, may be switched off in one word.
fn allow_off(value: &mut Map<String, Value>) {
    if let Some(below) = value.get_mut("additionalProperties").and_then(Value::as_object_mut) {
        allow_off(below);
    }
    if value.get("type").is_none_or(|kind| kind != "array") && !value.contains_key("additionalProperties") {
        return;
    }
    let told = |key: &str| ["description", "default"].contains(&key);
    let (outer, inner): (Map<_, _>, Map<_, _>) = std::mem::take(value).into_iter().partition(|(key, _)| told(key));
    *value = outer;
    value.insert("anyOf".to_owned(), json!([{ "enum": ["off", false] }, inner]));
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
