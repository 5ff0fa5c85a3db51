//! Reading lines by nginx's `log_format`: text with variables, taken apart from left to right.
//!
//! A variable ends where the text behind it begins. Where two stand side by side the second has to begin with a
//! character of its own, as `$request_uri` does after `$host`. Values are unescaped the way nginx escaped them.

use std::borrow::Cow;

use http::HeaderName;
use memchr::memmem;

/// A compiled format.
#[derive(Debug)]
pub(super) struct Format {
    parts: Vec<Part>,
    escape: Escape,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Field(Field),
}

/// A variable, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Request,
    RequestUri,
    Uri,
    IsArgs,
    Args,
    Host,
    HttpHost,
    ServerName,
    Method,
    Scheme,
    Client,
    Header(HeaderName),
    Cookie(String),
    /// One value for each attempt, joined by `, ` or ` : `.
    List,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Default,
    Json,
    None,
}

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct Fields<'l> {
    pub(super) request: Option<Cow<'l, [u8]>>,
    pub(super) method: Option<Cow<'l, [u8]>>,
    pub(super) scheme: Option<Cow<'l, [u8]>>,
    pub(super) client: Option<Cow<'l, [u8]>>,
    pub(super) http_host: Option<Cow<'l, [u8]>>,
    host: Option<Cow<'l, [u8]>>,
    server_name: Option<Cow<'l, [u8]>>,
    request_uri: Option<Cow<'l, [u8]>>,
    uri: Option<Cow<'l, [u8]>>,
    args: Option<Cow<'l, [u8]>>,
    pub(super) headers: Vec<(HeaderName, Cow<'l, [u8]>)>,
    pub(super) cookies: Vec<(String, Cow<'l, [u8]>)>,
}

impl Format {
    /// The text of a format, or a whole `log_format` directive.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (escape, text) = directive(text)?;
        let mut parts = Vec::new();
        let mut names = Vec::new();
        let mut rest = text.as_str();
        while let Some(dollar) = rest.find('$') {
            let (before, from) = rest.split_at(dollar);
            push_text(before, &mut parts);
            let (name, behind) = variable(&from[1..]).ok_or("a $ without a name")?;
            parts.push(Part::Field(Field::of(name)));
            names.push((parts.len() - 1, name.to_owned()));
            rest = behind;
        }
        push_text(rest, &mut parts);
        let has =
            |wanted: &[Field]| parts.iter().any(|part| matches!(part, Part::Field(field) if wanted.contains(field)));
        if !has(&[Field::Request, Field::RequestUri, Field::Uri]) {
            return Err("it names no path: $request, $request_uri or $uri".to_owned());
        }
        let format = Self { parts, escape };
        match names.windows(2).find(|pair| pair[0].0 + 1 == pair[1].0 && !format.ends_itself(pair[0].0)) {
            Some(pair) => Err(format!("${} and ${} have nothing between them", pair[0].1, pair[1].1)),
            None => Ok(format),
        }
    }

    /// Is this header line logged?
    pub(super) fn has_header(&self, name: &HeaderName) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(Field::Header(known)) if known == name))
    }

    /// Is this cookie logged by itself?
    pub(super) fn has_cookie(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field(Field::Cookie(known)) if known == name))
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// It is none of this format.
    pub(super) fn read<'l>(&self, line: &'l [u8]) -> Result<Fields<'l>, String> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut fields = Fields::default();
        let mut rest = line;
        for (at, part) in self.parts.iter().enumerate() {
            rest = match part {
                Part::Text(text) => rest.strip_prefix(text.as_slice()).ok_or("it does not match the log format")?,
                Part::Field(field) => {
                    let end = self.end(at, field, rest).ok_or("it does not match the log format")?;
                    let (value, behind) = rest.split_at(end);
                    self.enter(field, value, &mut fields);
                    behind
                }
            };
        }
        Ok(fields)
    }

    /// Where the field at `at` ends.
    fn end(&self, at: usize, field: &Field, rest: &[u8]) -> Option<usize> {
        if *field == Field::IsArgs {
            return Some(usize::from(rest.first() == Some(&b'?')));
        }
        match self.parts.get(at + 1) {
            None => Some(rest.len()),
            Some(Part::Text(text)) if *field == Field::List => list_end(rest, text),
            Some(Part::Text(text)) => memmem::find(rest, text),
            Some(Part::Field(Field::IsArgs)) => {
                let text = self.parts.iter().skip(at + 1).find_map(|part| match part {
                    Part::Text(text) => Some(text),
                    Part::Field(_) => None,
                });
                let end = text.map_or(Some(rest.len()), |text| memmem::find(rest, text))?;
                Some(memchr::memchr(b'?', &rest[..end]).unwrap_or(end))
            }
            Some(Part::Field(_)) => memchr::memchr(b'/', rest),
        }
    }

    /// Can the end of this field be told from the field behind it?
    fn ends_itself(&self, at: usize) -> bool {
        let Some(Part::Field(next)) = self.parts.get(at + 1) else { return true };
        let is_question = matches!(self.parts.get(at), Some(Part::Field(Field::IsArgs)));
        is_question || matches!(next, Field::IsArgs | Field::RequestUri | Field::Uri)
    }

    fn enter<'l>(&self, field: &Field, raw: &'l [u8], fields: &mut Fields<'l>) {
        if raw == b"-" && self.escape == Escape::Default {
            // The value was empty.
            return;
        }
        let place = match field {
            Field::Request => &mut fields.request,
            Field::RequestUri => &mut fields.request_uri,
            Field::Uri => &mut fields.uri,
            Field::Args => &mut fields.args,
            Field::Host => &mut fields.host,
            Field::HttpHost => &mut fields.http_host,
            Field::ServerName => &mut fields.server_name,
            Field::Method => &mut fields.method,
            Field::Scheme => &mut fields.scheme,
            Field::Client => &mut fields.client,
            Field::Header(name) => return fields.headers.push((name.clone(), self.escape.undo(raw))),
            Field::Cookie(name) => return fields.cookies.push((name.clone(), self.escape.undo(raw))),
            Field::IsArgs | Field::List | Field::Other => return,
        };
        *place = Some(self.escape.undo(raw));
    }
}

impl Fields<'_> {
    /// What was asked for: as it came, or put together from the path and its arguments.
    pub(super) fn target(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(uri) = &self.request_uri {
            return Some(Cow::Borrowed(uri));
        }
        let path = self.uri.as_deref()?;
        Some(match self.args.as_deref() {
            Some(args) => [path, b"?", args].concat().into(),
            None => Cow::Borrowed(path),
        })
    }

    /// The host, with its port if that is known.
    pub(super) fn host(&self) -> Option<&[u8]> {
        self.http_host.as_deref().or(self.host.as_deref()).or(self.server_name.as_deref())
    }
}

impl Field {
    fn of(name: &str) -> Self {
        match name {
            "request" => Self::Request,
            "request_uri" => Self::RequestUri,
            "uri" | "document_uri" => Self::Uri,
            "is_args" => Self::IsArgs,
            "args" | "query_string" => Self::Args,
            "host" => Self::Host,
            "http_host" => Self::HttpHost,
            "server_name" => Self::ServerName,
            "request_method" => Self::Method,
            "scheme" => Self::Scheme,
            "remote_addr" => Self::Client,
            _ if name.starts_with("upstream_") => Self::List,
            _ => Self::named(name).unwrap_or(Self::Other),
        }
    }

    fn named(name: &str) -> Option<Self> {
        if let Some(cookie) = name.strip_prefix("cookie_") {
            return Some(Self::Cookie(cookie.to_owned()));
        }
        let header = name.strip_prefix("http_")?.replace('_', "-");
        HeaderName::from_bytes(header.as_bytes()).ok().map(Self::Header)
    }
}

impl Escape {
    fn undo(self, raw: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::None || memchr::memchr(b'\\', raw).is_none() {
            return Cow::Borrowed(raw);
        }
        let mut out = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..at]);
            let (byte, length) = self.escaped(&rest[at + 1..]).unwrap_or((b'\\', 0));
            out.push(byte);
            rest = &rest[at + 1 + length..];
        }
        out.extend_from_slice(rest);
        out.into()
    }

    /// The byte that is written by what follows a backslash, and how long that is.
    fn escaped(self, tail: &[u8]) -> Option<(u8, usize)> {
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match (self, tail) {
            (Self::Default, [b'x', digits @ ..]) => Some((hex(digits.get(..2)?)?, 3)),
            (Self::Json, [b'u', b'0', b'0', digits @ ..]) => Some((hex(digits.get(..2)?)?, 5)),
            (Self::Json, [byte, ..]) => Some((
                match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    other => *other,
                },
                1,
            )),
            _ => None,
        }
    }
}

/// The escape and the text of a `log_format` directive; any other text is a format by itself.
fn directive(text: &str) -> Result<(Escape, String), String> {
    let Some(rest) = text.trim_start().strip_prefix("log_format") else {
        return Ok((Escape::Default, text.to_owned()));
    };
    let mut rest = rest.trim().trim_end_matches(';').trim_end();
    // Its name.
    rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
    let mut escape = Escape::Default;
    if let Some(kind) = rest.strip_prefix("escape=") {
        let (word, behind) = kind.split_once(char::is_whitespace).unwrap_or((kind, ""));
        escape = match word {
            "default" => Escape::Default,
            "json" => Escape::Json,
            "none" => Escape::None,
            _ => return Err(format!("unknown escape={word}, expected default, json or none")),
        };
        rest = behind.trim_start();
    }
    let mut format = String::new();
    while let Some(quote) = rest.chars().next() {
        if quote != '\'' && quote != '"' {
            return Err(format!("expected a quoted text at {rest}"));
        }
        let (inside, behind) = rest[1..].split_once(quote).ok_or_else(|| format!("no end of the text {rest}"))?;
        format.push_str(inside);
        rest = behind.trim_start();
    }
    Ok((escape, format))
}

/// The name at the start of `text`, with or without braces, and what is behind it.
fn variable(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn push_text(text: &str, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(Part::Text(text.as_bytes().to_vec()));
    }
}

/// Where a list ends: at `text`, unless that is the space within a joint.
fn list_end(rest: &[u8], text: &[u8]) -> Option<usize> {
    memmem::find_iter(rest, text).find(|at| {
        let (before, from) = rest.split_at(*at);
        !before.ends_with(b",") && !before.ends_with(b" :") && !from.starts_with(b" : ")
    })
}
