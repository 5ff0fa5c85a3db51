//! Rules of an origin, written the way a test reads: `on("/x").answer(503)`, `on("/x").then(Step::End(Close::Rst))`.

use super::script::{Answer, Body, Framing, Rule, Step, When};

/// A rule for one path; `"*"` takes every path but the probes' `/healthz`, a trailing `*` any rest.
pub(crate) fn on(path: &str) -> Rule {
    let when = match path.strip_suffix('*') {
        Some("") => When { not_path: Some("/healthz".to_owned()), ..When::default() },
        Some(prefix) => When { prefix: Some(prefix.to_owned()), ..When::default() },
        None => When { path: Some(path.to_owned()), ..When::default() },
    };
    Rule { when, ..Rule::default() }
}

/// A final answer with this status, the origin's name as its body.
pub(crate) fn answer(status: u16) -> Answer {
    Answer { status, headers: Vec::new(), body: Body::Name, framing: Framing::Length }
}

/// A 200 with this body.
pub(crate) fn text(text: &str) -> Answer {
    answer(200).body(Body::Text(text.to_owned()))
}

impl Rule {
    pub(crate) fn method(mut self, method: &str) -> Self {
        self.when.method = Some(method.to_owned());
        self
    }

    pub(crate) fn since_nth(mut self, nth: u64) -> Self {
        self.when.from_nth = Some(nth);
        self
    }

    /// Only while more requests than this are under way at the origin, this one among them.
    pub(crate) fn above(mut self, most: u64) -> Self {
        self.when.above = Some(most);
        self
    }

    /// Only so often.
    pub(crate) fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// One more step.
    pub(crate) fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// One more step: an answer with this status.
    pub(crate) fn answer(self, status: u16) -> Self {
        self.then(Step::Answer(answer(status)))
    }

    /// One more step: a wait.
    pub(crate) fn delay(self, ms: u64) -> Self {
        self.then(Step::Delay(ms))
    }

    /// One more step: a barrier.
    pub(crate) fn hold(self, name: &str) -> Self {
        self.then(Step::Hold(name.to_owned()))
    }
}

impl Answer {
    pub(crate) fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}
