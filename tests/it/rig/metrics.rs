//! One scrape of `/metrics`, to be asked about its series.

use std::collections::BTreeMap;

/// All series.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Series {
    fn label(&self, label: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
    }
}

impl Metrics {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self { series: lines.map(|line| series(line).unwrap_or_else(|| panic!("no series: {line}"))).collect() }
    }

    /// The sum over all series of this name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|series| series.value).sum()
    }

    /// Every value of a label.
    pub(crate) fn values(&self, name: &str, label: &str) -> Vec<String> {
        let mut values: Vec<String> =
            self.matching(name, &[]).filter_map(|series| series.label(label).map(str::to_owned)).collect();
        values.sort();
        values.dedup();
        values
    }

    /// Every series of this name: the values of these labels, and its own.
    pub(crate) fn by(&self, name: &str, labels: &[&str]) -> Vec<(Vec<String>, f64)> {
        let row = |series: &Series| labels.iter().map(|label| series.label(label).unwrap_or("").to_owned()).collect();
        self.matching(name, &[]).map(|series| (row(series), series.value)).collect()
    }

    /// Every series that only grows, by its name and labels.
    pub(crate) fn counts(&self) -> BTreeMap<String, f64> {
        let grows =
            |series: &&Series| ["_total", "_bucket", "_count", "_sum"].iter().any(|end| series.name.ends_with(end));
        let all = self.series.iter().filter(grows);
        all.map(|series| (format!("{} {:?}", series.name, series.labels), series.value)).collect()
    }

    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Series> {
        let has = move |series: &&Series| {
            series.name == name && labels.iter().all(|(label, value)| series.label(label) == Some(*value))
        };
        self.series.iter().filter(has)
    }
}

fn series(line: &str) -> Option<Series> {
    let (left, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, mut rest) = match left.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (left, ""),
    };
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"")?;
        let (text, after) = quoted(after)?;
        labels.push((label.to_owned(), text));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(Series { name: name.to_owned(), labels, value })
}

/// The text up to the closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}
