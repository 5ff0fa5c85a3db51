//! One value by name, shared by all who hold it, gone with the last of them.
//!
//! Meters remove their series when they are dropped. Were a name asked for again just then, the removal would
//! take the newcomer's series: both happen under one lock here, and only the value the name still stands for
//! may clean up.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Living values by name.
pub(super) struct Interned<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Interned<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Interned<K, V> {
    /// The value of this name, made by `make` when nobody holds one.
    pub(super) fn get(&self, name: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut values = self.0.lock();
        if let Some(value) = values.get(&name).and_then(Weak::upgrade) {
            return value;
        }
        let value = Arc::new(make());
        values.insert(name, Arc::downgrade(&value));
        value
    }

    /// Does anybody hold a value of this name?
    pub(super) fn lives(&self, name: &K) -> bool {
        self.0.lock().get(name).is_some_and(|value| value.strong_count() > 0)
    }

    /// For `Drop` of a value: runs `clean` unless the name stands for another value by now.
    pub(super) fn leave(&self, name: &K, value: &V, clean: impl FnOnce()) {
        let mut values = self.0.lock();
        if values.get(name).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), value)) {
            values.remove(name);
            clean();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_value_while_it_is_held() {
        let names = Interned::default();
        let first = names.get("a", || 1);
        assert_eq!(*names.get("a", || 2), 1);
        drop(first);
        assert_eq!(*names.get("a", || 3), 3);
    }

    #[test]
    fn only_the_value_a_name_stands_for_cleans_up() {
        let names = Interned::default();
        let first = names.get("a", || 1);
        let mut cleaned = Vec::new();
        names.leave(&"a", &7, || cleaned.push("stranger"));
        names.leave(&"a", &first, || cleaned.push("holder"));
        names.leave(&"a", &first, || cleaned.push("again"));
        assert_eq!(cleaned, ["holder"]);
    }
}
