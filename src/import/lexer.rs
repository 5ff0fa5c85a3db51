//! Which words does a text of nginx's language hold?
//!
//! Words end at blanks, `;` and `{`; quotes and backslashes keep what is inside; `#` begins a comment where a word could
//! begin. Lines are counted for those who have to say where something stands.

use std::iter;

/// A word, or what stands between words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// With its quotes and escapes resolved.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Reads one text from its beginning to its end.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { text, at: 0, line: 1 }
    }

    /// The line that was come to.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// The next token and the line it begins in; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, u32)>, String> {
        self.skip_blanks();
        let line = self.line;
        let Some(first) = self.peek() else { return Ok(None) };
        let token = match first {
            b';' => self.single(Token::End),
            b'{' => self.single(Token::Open),
            b'}' => self.single(Token::Close),
            b'"' | b'\'' => Token::Word(self.quoted(first)?),
            _ => Token::Word(unescaped(self.bare())),
        };
        Ok(Some((token, line)))
    }

    /// Skips to the brace that closes the block it is in, whose text is in another language.
    pub(super) fn skip_block(&mut self) -> Result<(), String> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.bump().ok_or("the file ends inside a block")? {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += u32::from(byte == b'\n');
        Some(byte)
    }

    fn single(&mut self, token: Token) -> Token {
        self.bump();
        token
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => _ = self.bump(),
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.bump();
                    }
                }
                _ => return,
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<String, String> {
        let first = self.line;
        self.bump();
        let start = self.at;
        loop {
            match self.bump() {
                Some(b'\\') => _ = self.bump(),
                Some(byte) if byte == quote => break,
                Some(_) => {}
                None => return Err(format!("a quote that was opened in line {first} is never closed")),
            }
        }
        let word = unescaped(self.text.get(start..self.at - 1).unwrap_or_default());
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => Ok(word),
            Some(byte) => Err(format!("{:?} right behind a quote", char::from(byte))),
        }
    }

    fn bare(&mut self) -> &'t str {
        let start = self.at;
        let mut variable = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                b'{' if !variable => break,
                b'\\' => _ = self.bump(),
                _ => {}
            }
            variable = byte == b'$';
            self.bump();
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}

/// A quote or a backslash behind a backslash is itself, `t`, `r` and `n` are what they are in C; any other pair stays.
fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let next = || {
        let letter = letters.next()?;
        if letter != '\\' {
            return Some([Some(letter), None]);
        }
        Some(match letters.next() {
            Some(quote @ ('"' | '\'' | '\\')) => [Some(quote), None],
            Some('t') => [Some('\t'), None],
            Some('r') => [Some('\r'), None],
            Some('n') => [Some('\n'), None],
            other => [Some('\\'), other],
        })
    };
    iter::from_fn(next).flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        iter::from_fn(|| lexer.next().unwrap())
            .map(|(token, line)| match token {
                Token::Word(word) => format!("{line}:{word}"),
                Token::End => ";".to_owned(),
                Token::Open => "{".to_owned(),
                Token::Close => "}".to_owned(),
            })
            .collect()
    }

    #[test]
    fn words_end_at_blanks_semicolons_and_braces() {
        assert_eq!(words("a b;c{d;}"), ["1:a", "1:b", ";", "1:c", "{", "1:d", ";", "}"]);
        assert_eq!(words("a # b ; c\n\tb#c;"), ["1:a", "2:b#c", ";"]);
        assert_eq!(words("${x}y{"), ["1:${x}y", "{"]);
        assert_eq!(words("a}b"), ["1:a}b"]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn quotes_and_backslashes_keep_what_is_inside() {
        assert_eq!(words(r#""a b;{}" 'c"d' "e\"f""#), ["1:a b;{}", "1:c\"d", "1:e\"f"]);
        assert_eq!(words(r"a\ b\;c \.php$ \\x"), [r"1:a\ b\;c", r"1:\.php$", r"1:\x"]);
        assert_eq!(words("'a\n b'\nc"), ["1:a\n b", "3:c"]);
        assert_eq!(words("\"\""), ["1:"]);
    }

    #[test]
    fn what_is_left_open_is_told() {
        let said = |text: &str| {
            let mut lexer = Lexer::new(text);
            iter::from_fn(|| lexer.next().transpose()).find_map(Result::err).unwrap()
        };
        assert_eq!(said("a \n\"b"), "a quote that was opened in line 2 is never closed");
        assert_eq!(said("\"a\"b"), "'b' right behind a quote");
    }
}
