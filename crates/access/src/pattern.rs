//! Wildcards, and policy variables such as `${aws:username}`.

use std::iter::Peekable;
use std::str::Chars;

use crate::context::Context;

/// A piece of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// This character.
    Char(char),
    /// `?`: any one character.
    One,
    /// `*`: any characters, also none.
    Any,
}

/// Returns a pattern's tokens: `*` and `?` are wildcards.
pub fn tokens(text: &str) -> Vec<Token> {
    text.chars().map(wildcard).collect()
}

fn wildcard(letter: char) -> Token {
    match letter {
        '*' => Token::Any,
        '?' => Token::One,
        letter => Token::Char(letter),
    }
}

/// Returns true if the pattern matches the whole text.
pub fn matches(pattern: &[Token], text: &str) -> bool {
    let mut at = 0;
    let mut rest = text.chars();
    // The last `*`: the place behind it, and the text from which it is tried next.
    let mut star: Option<(usize, Chars<'_>)> = None;
    loop {
        let step = match pattern.get(at) {
            Some(Token::Any) => {
                star = Some((at + 1, rest.clone()));
                true
            }
            token => match (token, rest.next()) {
                (None, None) => return true,
                (Some(Token::One), Some(_)) => true,
                (Some(Token::Char(wanted)), Some(found)) => *wanted == found,
                _ => false,
            },
        };
        if step {
            at += 1;
            continue;
        }
        let Some((behind, from)) = &mut star else {
            return false;
        };
        // The `*` takes one character more.
        if from.next().is_none() {
            return false;
        }
        (at, rest) = (*behind, from.clone());
    }
}

/// Returns true if the pattern matches some text that begins with `prefix`.
pub fn matches_some_with_prefix(pattern: &[Token], prefix: &str) -> bool {
    // The places of the pattern that may come next.
    let mut alive = vec![false; pattern.len() + 1];
    alive[0] = true;
    skip_stars(pattern, &mut alive);
    for letter in prefix.chars() {
        let mut next = vec![false; pattern.len() + 1];
        for (at, token) in pattern.iter().enumerate().filter(|(at, _)| alive[*at]) {
            match token {
                Token::Any => next[at] = true,
                Token::One => next[at + 1] = true,
                Token::Char(wanted) => next[at + 1] |= *wanted == letter,
            }
        }
        alive = next;
        skip_stars(pattern, &mut alive);
    }
    alive.contains(&true)
}

/// A `*` may stand for nothing.
fn skip_stars(pattern: &[Token], alive: &mut [bool]) {
    for (at, token) in pattern.iter().enumerate() {
        if alive[at] && *token == Token::Any {
            alive[at + 1] = true;
        }
    }
}

/// Text in a policy that may hold wildcards and variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Tokens(Vec<Token>),
    /// A variable: the condition key in lower case, and the text if the key is absent.
    Variable {
        key: String,
        default: Option<String>,
    },
}

/// What in a text has a meaning of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syntax {
    /// `*` and `?` are wildcards.
    pub wildcards: bool,
    /// `${...}` is a variable: since version 2012-10-17 of the policy language.
    pub variables: bool,
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// Says what is wrong with a variable.
    pub fn parse(text: &str, syntax: Syntax) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut tokens = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            if syntax.variables && letter == '$' && rest.peek() == Some(&'{') {
                rest.next();
                match variable(&mut rest)? {
                    Inner::Literal(letter) => tokens.push(Token::Char(letter)),
                    Inner::Variable(part) => {
                        parts.push(Part::Tokens(std::mem::take(&mut tokens)));
                        parts.push(part);
                    }
                }
            } else if syntax.wildcards {
                tokens.push(wildcard(letter));
            } else {
                tokens.push(Token::Char(letter));
            }
        }
        parts.push(Part::Tokens(tokens));
        Ok(Template { parts })
    }

    /// Returns true if the text is fixed: it has no wildcard and no variable.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Tokens(tokens) => tokens.iter().all(|t| matches!(t, Token::Char(_))),
            Part::Variable { .. } => false,
        })
    }

    /// Returns the pattern for a request; `None` if a variable has no value there. A variable's
    /// value is plain text, also if it holds `*`.
    pub fn resolve(&self, context: &Context) -> Option<std::borrow::Cow<'_, [Token]>> {
        if let [Part::Tokens(tokens)] = self.parts.as_slice() {
            return Some(tokens.into());
        }
        let mut all = Vec::new();
        for part in &self.parts {
            match part {
                Part::Tokens(tokens) => all.extend_from_slice(tokens),
                Part::Variable { key, default } => {
                    let text = match (context.get(key), default) {
                        (Some([value]), _) => value,
                        (None, Some(default)) => default,
                        // A key with several values is no text.
                        _ => return None,
                    };
                    all.extend(text.chars().map(Token::Char));
                }
            }
        }
        Some(all.into())
    }

    /// Returns the widest pattern: each variable stands for anything.
    pub fn widest(&self) -> Vec<Token> {
        let parts = self.parts.iter().flat_map(|part| match part {
            Part::Tokens(tokens) => tokens.clone(),
            Part::Variable { .. } => vec![Token::Any],
        });
        parts.collect()
    }
}

enum Inner {
    /// `${*}`, `${?}` and `${$}` stand for the character.
    Literal(char),
    Variable(Part),
}

/// Reads what follows `${`: `key}` or `key, 'default'}`.
fn variable(rest: &mut Peekable<Chars<'_>>) -> Result<Inner, String> {
    let mut inner = String::new();
    let mut quoted = false;
    loop {
        match rest.next() {
            Some('}') if !quoted => break,
            Some(letter) => {
                quoted ^= letter == '\'';
                inner.push(letter);
            }
            None => return Err("a policy variable does not end".into()),
        }
    }
    if let ["*" | "?" | "$"] = [inner.as_str()] {
        return Ok(Inner::Literal(inner.chars().next().unwrap_or('$')));
    }
    let (key, default) = match inner.split_once(',') {
        None => (inner.trim(), None),
        Some((key, default)) => {
            let quoted = default.trim().strip_prefix('\'');
            let default = quoted.and_then(|text| text.strip_suffix('\''));
            let wrong = || format!("the default of the policy variable {key:?} is not in quotes");
            (key.trim(), Some(default.ok_or_else(wrong)?.to_owned()))
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || ":/-_.+=@".contains(c);
    if key.is_empty() || !key.contains(':') || !key.chars().all(plain) {
        return Err(format!("{key:?} is no policy variable"));
    }
    Ok(Inner::Variable(Part::Variable {
        key: key.to_ascii_lowercase(),
        default,
    }))
}
