//! Wildcards, and policy variables such as `${aws:username}`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use crate::context::{Context, spelling};

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

impl Token {
    /// Returns true if the token stands for this one character.
    fn is(self, letter: Option<char>) -> bool {
        match self {
            Token::Char(wanted) => letter == Some(wanted),
            Token::One => letter.is_some(),
            Token::Any => false,
        }
    }
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
///
/// The time is the length of the text times a 64th of the length of the pattern, whatever they
/// hold: a policy and a request may be made to cost much.
pub fn matches(pattern: &[Token], text: &str) -> bool {
    let is_any = |token: &Token| *token == Token::Any;
    let first = pattern.iter().position(is_any).unwrap_or(pattern.len());
    let mut rest = text.chars();
    let (head, behind) = pattern.split_at(first);
    if !head.iter().all(|token| token.is(rest.next())) {
        return false;
    }
    let Some(last) = behind.iter().rposition(is_any) else {
        return rest.next().is_none();
    };
    let (middle, tail) = behind.split_at(last);
    let mut tail = tail.iter().skip(1).rev();
    tail.all(|token| token.is(rest.next_back())) && contains(middle, rest.as_str())
}

/// Returns true if a pattern between two `*` matches a part of the text.
///
/// All places of the pattern that may come next are one set of bits, which each character of the
/// text moves on. Source: R. Baeza-Yates and G. Gonnet, "A new approach to text searching" (1992).
fn contains(pattern: &[Token], text: &str) -> bool {
    let length = pattern.iter().filter(|token| **token != Token::Any).count();
    if length == 0 {
        return true;
    }
    if text.chars().count() < length {
        return false;
    }
    let words = length / 64 + 1;
    let set = |bits: &mut [u64], at: usize| bits[at / 64] |= 1 << (at % 64);
    // The places at which a `*` keeps what was found so far, those of `?`, and those of each
    // character.
    let (mut stars, mut ones) = (vec![0; words], vec![0; words]);
    let mut ascii = vec![0; 128 * words];
    let mut others: HashMap<char, Vec<u64>> = HashMap::new();
    set(&mut stars, 0);
    let mut at = 0;
    for token in pattern {
        match token {
            Token::Any => set(&mut stars, at),
            Token::One => set(&mut ones, at),
            Token::Char(letter) if letter.is_ascii() => {
                set(&mut ascii[*letter as usize * words..], at);
            }
            Token::Char(letter) => set(others.entry(*letter).or_insert(vec![0; words]), at),
        }
        at += usize::from(*token != Token::Any);
    }
    let none = vec![0; words];
    let mut alive = vec![0; words];
    set(&mut alive, 0);
    for letter in text.chars() {
        let fitting = match letter.is_ascii() {
            true => &ascii[letter as usize * words..][..words],
            false => others.get(&letter).unwrap_or(&none),
        };
        let mut carry = 0;
        for word in 0..words {
            let fits = ones[word] | fitting[word];
            let moved = alive[word] & fits;
            alive[word] = alive[word] & stars[word] | moved << 1 | carry;
            carry = moved >> 63;
        }
        if alive[length / 64] >> (length % 64) & 1 == 1 {
            return true;
        }
    }
    false
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

/// Lets the matching go on behind each `*` that it has reached: a `*` may stand for nothing.
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
    Variable(Variable),
}

/// A policy variable.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Variable {
    /// The condition key, in lower case.
    key: String,
    /// Its spelling, which tells apart tags whose names differ in case only.
    spelling: String,
    /// The text if the key is absent.
    default: Option<String>,
}

impl Variable {
    /// Returns the value in a request; `None` without one. A key with several values is no text.
    fn value<'a>(&'a self, context: &'a Context) -> Option<Cow<'a, str>> {
        match context.get_spelled(&self.key, &self.spelling) {
            Some(Cow::Borrowed([value])) => Some(value.into()),
            Some(Cow::Owned(values)) if values.len() == 1 => {
                values.into_iter().next().map(Cow::Owned)
            }
            Some(_) => None,
            None => self.default.as_deref().map(Cow::Borrowed),
        }
    }
}

/// The parts of a text that have a meaning of their own.
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
                    Inner::Variable(variable) => {
                        parts.push(Part::Tokens(std::mem::take(&mut tokens)));
                        parts.push(Part::Variable(variable));
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
            Part::Variable(_) => false,
        })
    }

    /// Returns the pattern for a request; `None` if a variable has no value there, or if no text of
    /// at most `longest` characters matches. A variable's value is plain text, also if it holds
    /// `*`.
    ///
    /// `longest` bounds the memory: a client chooses the values of some variables.
    pub fn resolve(&self, context: &Context, longest: usize) -> Option<Cow<'_, [Token]>> {
        if let [Part::Tokens(tokens)] = self.parts.as_slice() {
            return Some(tokens.into());
        }
        let mut all = Vec::new();
        let mut left = longest;
        for part in &self.parts {
            match part {
                Part::Tokens(tokens) => {
                    let fixed = tokens.iter().filter(|token| **token != Token::Any).count();
                    left = left.checked_sub(fixed)?;
                    all.extend_from_slice(tokens);
                }
                Part::Variable(variable) => {
                    let text = variable.value(context)?;
                    left = left.checked_sub(text.chars().count())?;
                    all.extend(text.chars().map(Token::Char));
                }
            }
        }
        Some(all.into())
    }

    /// Returns the condition keys of the variables, in lower case.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Tokens(_) => None,
            Part::Variable(variable) => Some(variable.key.as_str()),
        })
    }

    /// Returns true if each variable has a value in a request.
    pub fn has_values(&self, context: &Context) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Tokens(_) => true,
            Part::Variable(variable) => variable.value(context).is_some(),
        })
    }

    /// Returns true if the text matches in a request.
    pub fn matches(&self, context: &Context, text: &str) -> bool {
        let pattern = self.resolve(context, text.chars().count());
        pattern.is_some_and(|pattern| matches(&pattern, text))
    }

    /// Returns the widest pattern: each variable stands for anything.
    pub fn widest(&self) -> Vec<Token> {
        let parts = self.parts.iter().flat_map(|part| match part {
            Part::Tokens(tokens) => tokens.clone(),
            Part::Variable(_) => vec![Token::Any],
        });
        parts.collect()
    }
}

enum Inner {
    /// `${*}`, `${?}` and `${$}` stand for the character.
    Literal(char),
    Variable(Variable),
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
    Ok(Inner::Variable(Variable {
        key: key.to_ascii_lowercase(),
        spelling: spelling(key),
        default,
    }))
}
