//! Licence expressions as crates declare them: SPDX, and the older `MIT/Apache-2.0`.

/// Returns whether the allowed licences satisfy the expression: one side of each OR, both of each
/// AND.
///
/// # Errors
/// Says that the text is not an expression.
pub fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = Words {
        words: spaced.split_whitespace().collect(),
        next: 0,
        allowed,
    };
    let answer = words.either();
    match (answer, words.peek()) {
        (Some(answer), None) => Ok(answer),
        _ => Err(format!("{expression:?} is not a licence expression")),
    }
}

/// A reader of one expression. Its methods return `None` where the grammar is broken.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a [String],
}

impl Words<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.next).copied()
    }

    fn skip(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.next += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Option<bool> {
        let mut answer = self.both()?;
        while self.skip("OR") {
            answer |= self.both()?;
        }
        Some(answer)
    }

    fn both(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.skip("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.skip("(") {
            let answer = self.either()?;
            return self.skip(")").then_some(answer);
        }
        let mut licence = self.name()?;
        if self.skip("WITH") {
            licence = format!("{licence} WITH {}", self.name()?);
        }
        Some(self.allowed.contains(&licence))
    }

    fn name(&mut self) -> Option<String> {
        let word = self.peek()?.to_owned();
        let is_name = !["(", ")", "AND", "OR", "WITH"].contains(&word.as_str());
        self.next += 1;
        is_name.then_some(word)
    }
}
