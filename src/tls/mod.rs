//! What is a client that comes by TLS shown, and what is asked of it?
//!
//! [`Tls`] is all of a configuration, compiled from the files it names: certificates, and the terms of each listener. It
//! never changes; a reload makes another one, which connections to come are met with. Where nothing differs it is the
//! same as before.

mod certificate;
pub mod client;
mod names;
mod sealing;
mod terms;
mod tickets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use openssl::error::ErrorStack;
use sha2::{Digest, Sha256};

pub use certificate::Certificate;
pub use terms::Terms;
pub use tickets::Carried;

use crate::config::process::Listener;
use crate::config::units::Off;
use crate::config::{self, Complaint, Invalid};
use certificate::{Mark, reason, written};
use names::Names;
use terms::Read;
use tickets::Own;

/// Everything about TLS towards clients; clones are the same.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shown: Arc<Shown>,
    /// By the number of the listener.
    terms: Vec<Option<Terms>>,
    /// Where a listener has no file of keys.
    own: Option<Own>,
    mark: Mark,
    files: Vec<PathBuf>,
}

/// The certificates.
#[derive(Debug, Default)]
struct Shown {
    certificates: Vec<Certificate>,
    names: Names,
}

/// What is served now: a certificate of it may go on to be served though it has expired, any other may not.
#[derive(Debug, Clone, Copy)]
pub enum Before<'a> {
    /// Nothing: what is written is what is to be served.
    Nothing,
    /// This, here.
    Served(&'a Tls),
    /// What another process serves, which told this.
    Told(&'a Carried),
}

impl Tls {
    /// Reads all that `listeners` and `certificates` name.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn compile(
        listeners: &[Listener],
        certificates: &[config::tls::Certificate],
        before: Before<'_>,
    ) -> Result<Self, Vec<Complaint>> {
        let served = match before {
            Before::Served(served) => Some(served),
            Before::Nothing | Before::Told(_) => None,
        };
        let (mut shown, mut read, mut complaints) = (Vec::new(), Vec::new(), Vec::new());
        for (number, written) in certificates.iter().enumerate() {
            let path = path(number);
            let loaded = Certificate::load(written, &path);
            match loaded.and_then(|loaded| served.map_or(Ok(()), |old| old.takes(&loaded, &path)).map(|()| loaded)) {
                Ok(certificate) => shown.push(certificate),
                Err(complaint) => complaints.push(complaint),
            }
        }
        for (number, listener) in listeners.iter().enumerate() {
            let of = |tls| Read::of(tls, &format!("process.listeners[{number}].tls"));
            match listener.tls.on().map(of).transpose() {
                Ok(one) => read.push(one),
                Err(complaint) => complaints.push(complaint),
            }
        }
        if !complaints.is_empty() {
            return Err(complaints);
        }
        let found = Found { shown, read, files: files(listeners, certificates) };
        Self::of(listeners, found, before).map_err(|error| {
            let found = format!("cannot be set up ({})", reason(&error));
            vec![Invalid::new(found, "the TLS library does not take it").at("certificates")]
        })
    }

    fn of(listeners: &[Listener], found: Found, before: Before<'_>) -> Result<Self, ErrorStack> {
        let own = own(listeners, before)?;
        let Found { shown, read, files } = found;
        let mark = mark(listeners, (&shown, &read), own)?;
        if let Before::Served(same) = before
            && same.0.mark == mark
            && same.0.files == files
        {
            return Ok(same.clone());
        }
        let names = Names::new(shown.iter().map(|one| (one.names(), one.kind())));
        let shown = Arc::new(Shown { certificates: shown, names });
        let terms = listeners.iter().zip(read).map(|(listener, read)| match (listener.tls.on(), read) {
            (Some(tls), Some(read)) => terms::compile(tls, read, own, &shown).map(Some),
            _ => Ok(None),
        });
        Ok(Self(Arc::new(Inner { terms: terms.collect::<Result<_, _>>()?, shown, own, mark, files })))
    }

    /// What the next process is told: the certificates it reads itself.
    pub fn export(&self) -> Option<Carried> {
        self.0.own.map(Own::export)
    }

    /// May `new` be shown from now on?
    fn takes(&self, new: &Certificate, path: &str) -> Result<(), Complaint> {
        let is_served = self.certificates().iter().any(|one| one.mark() == new.mark());
        if is_served || new.ends() > now() {
            return Ok(());
        }
        let found = format!("the certificate for {} expired at {}", new.name(), written(new.ends()));
        Err(Invalid::new(found, "expected one that is still good").at(format!("{path}.cert")))
    }

    /// The terms of the listener of this number, if it speaks TLS.
    pub fn terms(&self, listener: usize) -> Option<&Terms> {
        self.0.terms.get(listener)?.as_ref()
    }

    /// The certificates in the order of the file.
    pub fn certificates(&self) -> &[Certificate] {
        &self.0.shown.certificates
    }

    /// The files it was read from.
    pub fn files(&self) -> &[PathBuf] {
        &self.0.files
    }

    /// What is said of certificates that are taken all the same.
    pub fn warnings(&self) -> Vec<Complaint> {
        let now = now();
        let certificates = self.certificates().iter().enumerate();
        let warned =
            certificates.filter_map(|(number, one)| Some(one.warning(now)?.at(format!("{}.cert", path(number)))));
        warned.collect()
    }

    /// Is it the same as `other` in all that a client may see?
    pub fn is(&self, other: &Self) -> bool {
        self.0.mark == other.0.mark
    }
}

fn path(number: usize) -> String {
    format!("certificates[{number}]")
}

/// What was in the files.
struct Found {
    shown: Vec<Certificate>,
    read: Vec<Option<Read>>,
    files: Vec<PathBuf>,
}

fn files(listeners: &[Listener], certificates: &[config::tls::Certificate]) -> Vec<PathBuf> {
    let of_listeners = listeners.iter().filter_map(|listener| listener.tls.on());
    let of_listeners = of_listeners.flat_map(|tls| [tls.client_ca.on(), tls.ticket_keys.on()]).flatten();
    certificates.iter().flat_map(|one| [&one.cert, &one.key]).chain(of_listeners).cloned().collect()
}

/// Keys of our own, where a listener needs them.
fn own(listeners: &[Listener], before: Before<'_>) -> Result<Option<Own>, ErrorStack> {
    if !listeners.iter().any(|listener| listener.tls.on().is_some_and(|tls| tls.ticket_keys == Off::Off)) {
        return Ok(None);
    }
    let before = match before {
        Before::Nothing => None,
        Before::Served(served) => served.0.own,
        Before::Told(told) => Own::told(told),
    };
    Own::after(before, now()).map(Some)
}

fn mark(
    listeners: &[Listener],
    (shown, read): (&[Certificate], &[Option<Read>]),
    own: Option<Own>,
) -> Result<Mark, ErrorStack> {
    let mut mark = Sha256::new();
    for (listener, read) in listeners.iter().zip(read) {
        mark.update(format!("{:?}\n", listener.tls));
        mark.update(read.as_ref().map(Read::bytes).transpose()?.unwrap_or_default());
    }
    for certificate in shown {
        mark.update(certificate.der()?);
    }
    mark.update(own.map(|own| own.keys.bytes()).unwrap_or_default());
    Ok(mark.finalize().into())
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
#[allow(unreachable_pub, dead_code, reason = "wire tests stand on it too")]
#[path = "../../tests/certificates/mod.rs"]
mod certificates;

#[cfg(test)]
mod tests;
