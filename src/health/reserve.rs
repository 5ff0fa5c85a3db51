//! Descriptors kept for probes: a process that has run out of them must still learn how its origins are.

use std::fs::File;

/// Descriptors that are held open and given up one by one when a probe found none.
#[derive(Debug)]
pub(super) struct Reserve {
    held: Vec<File>,
    size: usize,
}

impl Reserve {
    /// Holds `size` of them, or as many as there are.
    pub(super) fn new(size: usize) -> Self {
        let mut reserve = Self { held: Vec::with_capacity(size), size };
        reserve.refill();
        reserve
    }

    /// Gives one up; `false`: none is left.
    pub(super) fn lend(&mut self) -> bool {
        self.held.pop().is_some()
    }

    /// Takes back what was lent, as far as there are descriptors.
    pub(super) fn refill(&mut self) {
        while self.held.len() < self.size {
            match File::open("/dev/null") {
                Ok(file) => self.held.push(file),
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lends_what_it_holds_and_takes_it_back() {
        let mut reserve = Reserve::new(2);
        assert!(reserve.lend() && reserve.lend() && !reserve.lend());
        reserve.refill();
        assert!(reserve.lend());
    }
}
