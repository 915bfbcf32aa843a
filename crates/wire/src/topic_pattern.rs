//! Patterns: the topics somebody subscribes to.

use std::fmt;

use crate::error::TopicError;
use crate::topic::{Topic, is_reserved};
use crate::topic_text::{Levels, TopicForm, check_text, position_in, with_slashes, with_tags};

/// A topic in which `*` stands for any one level, and `>`, as the last level, for one or more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicPattern {
    text: Box<str>,
    form: TopicForm,
}

/// A level of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternLevel<'a> {
    /// Exactly this level.
    Exactly(&'a str),
    /// `*`: any one level.
    AnyOne,
    /// `>`: one or more levels, up to the end.
    Rest,
}

impl TopicPattern {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        let form = check_text(text)?;
        let mut levels = Levels::new(text, form).peekable();
        while let Some(level) = levels.next() {
            let position = position_in(text, level);
            if level == ">" && levels.peek().is_some() {
                return Err(TopicError::RestNotLast { position });
            }
            if let Some((offset, wildcard)) = level.char_indices().find(|(_, c)| matches!(c, '*' | '>'))
                && level.len() > 1
            {
                return Err(TopicError::WildcardInsideLevel { wildcard, position: position + offset });
            }
        }
        Ok(Self { text: text.into(), form })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it is written.
    pub fn form(&self) -> TopicForm {
        self.form
    }

    /// Its levels; for `a=*,c=d` they are a, *, c, d.
    pub fn levels(&self) -> PatternLevels<'_> {
        PatternLevels { levels: Levels::new(&self.text, self.form) }
    }

    /// Whether it can match more than one topic.
    pub fn has_wildcards(&self) -> bool {
        self.levels().any(|level| !matches!(level, PatternLevel::Exactly(_)))
    }

    /// Whether `topic` is one of those meant, however each of the two is written. A wildcard as the first level
    /// does not stand for one that starts with `_`.
    pub fn matches(&self, topic: Topic<'_>) -> bool {
        let mut levels = topic.levels();
        for (index, wanted) in self.levels().enumerate() {
            let Some(level) = levels.next() else {
                return false;
            };
            if index == 0 && is_reserved(level.as_bytes()) && !matches!(wanted, PatternLevel::Exactly(_)) {
                return false;
            }
            match wanted {
                PatternLevel::Rest => return true,
                PatternLevel::Exactly(text) if text != level => return false,
                PatternLevel::Exactly(_) | PatternLevel::AnyOne => {}
            }
        }
        levels.next().is_none()
    }

    /// Whether every topic that `other` matches is matched by this one, too. A wildcard as the first level does not
    /// stand for one that starts with `_`.
    pub fn covers(&self, other: &TopicPattern) -> bool {
        let mut others = other.levels();
        for (index, wanted) in self.levels().enumerate() {
            let Some(level) = others.next() else { return false };
            if let PatternLevel::Exactly(text) = level
                && index == 0
                && is_reserved(text.as_bytes())
                && wanted != level
            {
                return false;
            }
            match (wanted, level) {
                (PatternLevel::Rest, _) => return true,
                (_, PatternLevel::Rest) => return false,
                (PatternLevel::AnyOne, _) => {}
                (PatternLevel::Exactly(_), _) if wanted != level => return false,
                (PatternLevel::Exactly(_), _) => {}
            }
        }
        others.next().is_none()
    }

    /// The same levels written `a/*/c/d`.
    pub fn with_slashes(&self) -> String {
        with_slashes(&self.text, self.form)
    }

    /// The same levels written `a=*,c=d`; an error if a level has a character that means something there.
    pub fn with_tags(&self) -> Result<String, TopicError> {
        with_tags(&self.text, self.form)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Iterator over a pattern's levels; see [`TopicPattern::levels`].
#[derive(Debug, Clone)]
pub struct PatternLevels<'a> {
    levels: Levels<'a>,
}

impl<'a> Iterator for PatternLevels<'a> {
    type Item = PatternLevel<'a>;

    fn next(&mut self) -> Option<PatternLevel<'a>> {
        Some(match self.levels.next()? {
            "*" => PatternLevel::AnyOne,
            ">" => PatternLevel::Rest,
            text => PatternLevel::Exactly(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, topic: &str) -> bool {
        TopicPattern::new(pattern).unwrap().matches(Topic::new(topic).unwrap())
    }

    #[test]
    fn wildcards_leave_out_reserved_topics_unless_the_first_level_is_named() {
        for (pattern, matched) in
            [(">", false), ("*/*", false), ("*/>", false), ("_reply/*", true), ("_reply/>", true)]
        {
            assert_eq!(matches(pattern, "_reply/7"), matched, "{pattern}");
        }
        assert!(!matches(">", "_reply=7"));
        assert!(matches(">", "prices/_ACME"));
        assert!(matches("*/_ACME", "prices/_ACME"));
    }

    #[test]
    fn a_pattern_covers_another_if_it_matches_all_that_the_other_does() {
        let covers =
            |one: &str, two: &str| TopicPattern::new(one).unwrap().covers(&TopicPattern::new(two).unwrap());
        for (one, two) in [
            (">", "a/b"),
            (">", "*/>"),
            ("a/>", "a/*"),
            ("a/*", "a/b"),
            ("*/b", "a/b"),
            ("a/b", "a=b"),
            ("a/>", "a/>"),
        ] {
            assert!(covers(one, two), "{one} covers {two}");
        }
        for (one, two) in [
            ("a/>", "a"),
            ("a/*", "a/>"),
            ("a/b", "a/*"),
            ("*", "a/b"),
            (">", "_reply/7"),
            ("a/*", "a/b/c"),
            ("a/*/c", "a/*"),
        ] {
            assert!(!covers(one, two), "{one} does not cover {two}");
        }
        assert!(covers("_reply/*", "_reply/7"));
    }

    proptest! {
        /// What covers another pattern matches every topic that the other matches.
        #[test]
        fn covering_is_matching_more(
            one in prop::collection::vec(prop::sample::select(vec!["a", "b", "_c", "*"]), 1..4),
            two in prop::collection::vec(prop::sample::select(vec!["a", "b", "_c", "*"]), 1..4),
            rests in any::<(bool, bool)>(),
            topic in prop::collection::vec(prop::sample::select(vec!["a", "b", "_c"]), 1..5),
        ) {
            let pattern = |levels: &[&str], rest: bool| {
                let text = levels.join("/");
                TopicPattern::new(&if rest { text + "/>" } else { text }).unwrap()
            };
            let (one, two) = (pattern(&one, rests.0), pattern(&two, rests.1));
            let topic = topic.join("/");
            let topic = Topic::new(&topic).unwrap();
            if one.covers(&two) && two.matches(topic) {
                prop_assert!(one.matches(topic), "{one} {two} {}", topic.as_str());
            }
        }
    }

    fn error(pattern: &str) -> String {
        TopicPattern::new(pattern).unwrap_err().to_string()
    }

    #[test]
    fn a_pattern_without_wildcards_matches_itself_only() {
        assert!(matches("prices/ACME", "prices/ACME"));
        assert!(!matches("prices/ACME", "prices/ACM"));
        assert!(!matches("prices/ACME", "prices"));
        assert!(!matches("prices/ACME", "prices/ACME/bid"));
        assert!(!TopicPattern::new("prices/ACME").unwrap().has_wildcards());
    }

    #[test]
    fn a_star_is_one_level() {
        assert!(matches("prices/*", "prices/ACME"));
        assert!(matches("*/ACME", "prices/ACME"));
        assert!(!matches("prices/*", "prices"));
        assert!(!matches("prices/*", "prices/ACME/bid"));
        assert!(TopicPattern::new("prices/*").unwrap().has_wildcards());
    }

    #[test]
    fn the_rest_is_one_level_or_more() {
        assert!(matches(">", "prices"));
        assert!(matches("prices/>", "prices/ACME/bid"));
        assert!(!matches("prices/>", "prices"));
        assert!(matches("*/*/>", "a/b/c"));
        assert!(!matches("*/*/>", "a/b"));
    }

    #[test]
    fn a_pattern_matches_topics_written_the_other_way() {
        assert!(matches("Courses=*,Session=HPJava", "Courses/CPS616/Session/HPJava"));
        assert!(matches("Courses/*/Session/HPJava", "Courses=CPS616, Session=HPJava"));
        assert!(matches("Courses=CPS616,>", "Courses=CPS616,Session=HPJava"));
        assert!(matches("Courses=>", "Courses=CPS616,Session=HPJava"));
        assert!(!matches("Courses=*,Session=HPJava", "Courses=CPS616,Session=Fortran"));
    }

    #[test]
    fn a_bad_pattern_is_refused_with_the_position() {
        assert_eq!(error("a/>/b"), "'>' at position 2: it stands for the rest, so it must be last");
        assert_eq!(error("a/b*"), "'*' at position 3: a wildcard stands for a whole level");
        assert_eq!(error("a/>>"), "'>' at position 2: a wildcard stands for a whole level");
        assert_eq!(error("a=>,b=c"), "'>' at position 2: it stands for the rest, so it must be last");
        assert_eq!(error("*,a=b"), "the tag at position 0 has no value: write tag=value");
        assert_eq!(error("a//b"), "the level at position 2 is empty");
    }

    #[test]
    fn a_pattern_maps_to_tags_and_back() {
        let tags = TopicPattern::new("Courses/*/Session/>").unwrap().with_tags().unwrap();
        assert_eq!(tags, "Courses=*,Session=>");
        assert_eq!(TopicPattern::new(&tags).unwrap().with_slashes(), "Courses/*/Session/>");
    }

    proptest! {
        #[test]
        fn how_either_side_is_written_makes_no_difference(
            pattern in prop::collection::vec("[ab]|\\*", 2..6),
            rest: bool,
            topic in prop::collection::vec("[ab]", 2..7),
        ) {
            let pattern = pattern.join("/") + if rest { "/>" } else { "" };
            let (pattern, topic) = (TopicPattern::new(&pattern).unwrap(), topic.join("/"));
            let topic = Topic::new(&topic).unwrap();
            let tagged_pattern = TopicPattern::new(&pattern.with_tags().unwrap()).unwrap();
            let tagged_topic = topic.with_tags().unwrap();
            let tagged_topic = Topic::new(&tagged_topic).unwrap();
            let expected = pattern.matches(topic);
            prop_assert_eq!(tagged_pattern.matches(topic), expected);
            prop_assert_eq!(pattern.matches(tagged_topic), expected);
            prop_assert_eq!(tagged_pattern.matches(tagged_topic), expected);
        }
    }
}
