//! The verdict of a run: an exploration that was cut off never counts as complete.

/// The end of the exploration of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Explored {
    /// All states were seen, and each is good.
    Whole,
    /// The states that were seen are good. There are more.
    CutOff,
    /// A state is bad.
    Violated,
}

impl Explored {
    /// Returns the end of an exploration that took so many steps. `room` is the number of steps
    /// after which it is cut off (0: never).
    pub fn new(violated: bool, steps: usize, room: usize) -> Explored {
        match violated {
            true => Explored::Violated,
            false if room > 0 && steps >= room => Explored::CutOff,
            false => Explored::Whole,
        }
    }

    /// Describes it for people.
    pub fn describe(self) -> &'static str {
        match self {
            Explored::Whole => "holds everywhere",
            Explored::CutOff => "holds, but not all was explored",
            Explored::Violated => "VIOLATED",
        }
    }
}

/// The findings of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// True if a scenario or a walk was violated, or a mutant was not caught.
    pub failed: bool,
    /// The scenarios whose exploration was cut off.
    pub cut_off: Vec<String>,
}

impl Findings {
    /// Adds the end of an exploration.
    pub fn explored(&mut self, name: &str, end: Explored) {
        match end {
            Explored::Whole => {}
            Explored::CutOff => self.cut_off.push(format!("\"{name}\"")),
            Explored::Violated => self.failed = true,
        }
    }

    /// Adds another check.
    pub fn checked(&mut self, good: bool) {
        self.failed |= !good;
    }

    /// Returns true if the run is good. `whole` says that nothing may be cut off.
    pub fn are_good(&self, whole: bool) -> bool {
        !self.failed && (!whole || self.cut_off.is_empty())
    }

    /// Returns the verdict for people.
    pub fn verdict(&self, whole: bool) -> String {
        let cut_off = self.cut_off.join(", ");
        match (self.failed, cut_off.is_empty(), whole) {
            (true, true, _) => "FAILED".into(),
            (true, false, _) => format!("FAILED; cut off before their ends: {cut_off}"),
            (false, true, _) => "the protocol holds and every mutant is caught".into(),
            (false, false, true) => format!("FAILED: cut off before their ends: {cut_off}"),
            (false, false, false) => format!(
                "no violation was found and every mutant is caught, but these were cut off before their ends: {cut_off}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exploration_ends_whole_only_below_its_limit() {
        assert_eq!(Explored::new(false, 99, 100), Explored::Whole);
        assert_eq!(Explored::new(false, 100, 100), Explored::CutOff);
        assert_eq!(Explored::new(false, 100, 0), Explored::Whole);
        assert_eq!(Explored::new(true, 100, 100), Explored::Violated);
    }

    #[test]
    fn the_verdict_names_what_was_cut_off_and_fails_if_all_is_wanted() {
        let mut findings = Findings::default();
        findings.explored("one", Explored::Whole);
        assert!(findings.are_good(true));
        assert!(findings.verdict(true).starts_with("the protocol holds"));
        findings.explored("two", Explored::CutOff);
        findings.explored("three", Explored::CutOff);
        assert!(findings.are_good(false) && !findings.are_good(true));
        for whole in [false, true] {
            let verdict = findings.verdict(whole);
            assert!(verdict.ends_with(": \"two\", \"three\""), "{verdict}");
            assert_eq!(verdict.starts_with("FAILED"), whole, "{verdict}");
            assert!(!verdict.contains("protocol holds"), "{verdict}");
        }
        findings.explored("four", Explored::Violated);
        assert!(!findings.are_good(false));
        assert!(findings.verdict(false).starts_with("FAILED"));
        let mut findings = Findings::default();
        findings.checked(true);
        assert!(findings.are_good(true));
        findings.checked(false);
        assert!(!findings.are_good(false));
    }
}
