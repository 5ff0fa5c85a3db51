//! Which families are there? Registers them one after the other.

use parking_lot::Mutex;
use prometheus::Registry;

use super::carried::Grows;
use super::series::{Family, Named, Series};

/// What is registered so far.
#[derive(Default)]
pub(super) struct Book {
    registry: Registry,
    growing: Mutex<Vec<Box<dyn Grows>>>,
    #[cfg(test)]
    described: Mutex<Vec<Described>>,
}

/// A family, as its reference has it.
#[cfg(test)]
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) kind: prometheus::proto::MetricType,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

impl Book {
    /// A metric with labels.
    pub(super) fn family<S: Series>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Result<Family<S>, prometheus::Error> {
        self.add(Named { name, help, labels, bounds: &[] })
    }

    /// A metric without labels.
    pub(super) fn single<S: Series>(&self, name: &'static str, help: &'static str) -> Result<S, prometheus::Error> {
        Ok(self.family::<S>(name, help, &[])?.with(&[]))
    }

    /// A metric that is all of this.
    pub(super) fn add<S: Series>(&self, named: Named) -> Result<Family<S>, prometheus::Error> {
        let family = Family::new(named)?;
        self.registry.register(Box::new(family.clone()))?;
        if S::GROWS {
            self.growing.lock().push(Box::new(family.clone()));
        }
        #[cfg(test)]
        self.describe(&family);
        Ok(family)
    }

    /// All that is registered, for whoever shows it.
    pub(super) fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Every family so far whose series only grow.
    pub(super) fn growing(&self) -> Vec<Box<dyn Grows>> {
        std::mem::take(&mut *self.growing.lock())
    }
}

#[cfg(test)]
impl Book {
    fn describe<S: Series>(&self, family: &Family<S>) {
        let &Named { name, help, labels, .. } = family.named();
        self.described.lock().push(Described { name, kind: S::KIND, labels, help });
    }

    /// Every family so far.
    pub(super) fn described(&self) -> Vec<Described> {
        std::mem::take(&mut *self.described.lock())
    }
}
