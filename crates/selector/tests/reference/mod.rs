//! A second, independent reading of section 3.8: a tree that prints itself as selector text and evaluates
//! itself in the plainest way. It shares no code with the crate, and it is the oracle of the property tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use proptest::prelude::*;
use shoal_selector::Value;

#[derive(Debug, Clone)]
pub enum Tree {
    Id(&'static str),
    Text(&'static str),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bool(bool),
    Minus(Box<Tree>),
    Plus(Box<Tree>),
    Arithmetic(char, Box<Tree>, Box<Tree>),
    Compare(&'static str, Box<Tree>, Box<Tree>),
    Between(bool, Box<Tree>, Box<Tree>, Box<Tree>),
    In(bool, &'static str, Vec<&'static str>),
    Like(bool, &'static str, String),
    IsNull(bool, &'static str),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "JMSType"];
pub const TEXTS: [&str; 6] = ["", "x", "xy", "xyz", "it's", "100%_"];

pub type Message = Vec<(&'static str, Value<'static>)>;

#[derive(Debug, Clone, Copy)]
enum Result {
    Null,
    /// Arithmetic over something that is no number.
    Invalid,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(&'static str),
}

fn rank(value: Result) -> Option<u8> {
    match value {
        Result::Int(_) => Some(0),
        Result::Long(_) => Some(1),
        Result::Float(_) => Some(2),
        Result::Double(_) => Some(3),
        _ => None,
    }
}

fn long(value: Result) -> i64 {
    match value {
        Result::Int(v) => i64::from(v),
        Result::Long(v) => v,
        _ => unreachable!(),
    }
}

fn float(value: Result) -> f32 {
    match value {
        Result::Int(v) => v as f32,
        Result::Long(v) => v as f32,
        Result::Float(v) => v,
        _ => unreachable!(),
    }
}

fn double(value: Result) -> f64 {
    match value {
        Result::Int(v) => f64::from(v),
        Result::Long(v) => v as f64,
        Result::Float(v) => f64::from(v),
        Result::Double(v) => v,
        _ => unreachable!(),
    }
}

fn floating(op: char, a: f64, b: f64) -> f64 {
    match op {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        _ => a / b,
    }
}

fn arithmetic(op: char, a: Result, b: Result) -> Result {
    if matches!(a, Result::Null) || matches!(b, Result::Null) {
        return Result::Null;
    }
    let (Some(rank_a), Some(rank_b)) = (rank(a), rank(b)) else {
        return Result::Invalid;
    };
    match rank_a.max(rank_b) {
        3 => Result::Double(floating(op, double(a), double(b))),
        2 => {
            let (a, b) = (float(a), float(b));
            Result::Float(match op {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            })
        }
        widest => {
            let (a, b) = (i128::from(long(a)), i128::from(long(b)));
            let exact = match op {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ if b == 0 => return Result::Null,
                _ => a / b,
            };
            if widest == 0 { Result::Int(exact as i32) } else { Result::Long(exact as i64) }
        }
    }
}

/// `None` is unknown.
fn compare(op: &str, a: Result, b: Result) -> Option<bool> {
    if matches!(a, Result::Null) || matches!(b, Result::Null) {
        return None;
    }
    if let (Some(rank_a), Some(rank_b)) = (rank(a), rank(b)) {
        let ordering = match rank_a.max(rank_b) {
            3 => double(a).partial_cmp(&double(b)),
            2 => float(a).partial_cmp(&float(b)),
            _ => Some(long(a).cmp(&long(b))),
        };
        return Some(match op {
            "=" => ordering.is_some_and(|o| o.is_eq()),
            "<>" => !ordering.is_some_and(|o| o.is_eq()),
            "<" => ordering.is_some_and(|o| o.is_lt()),
            "<=" => ordering.is_some_and(|o| o.is_le()),
            ">" => ordering.is_some_and(|o| o.is_gt()),
            _ => ordering.is_some_and(|o| o.is_ge()),
        });
    }
    let equal = match (a, b) {
        (Result::Text(a), Result::Text(b)) => a == b,
        (Result::Bool(a), Result::Bool(b)) => a == b,
        _ => return Some(false),
    };
    Some(if op == "=" { equal } else { op == "<>" && !equal })
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn not(a: Option<bool>) -> Option<bool> {
    a.map(|value| !value)
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    not(and(not(a), not(b)))
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|skip| like(rest, &text[skip..])),
        Some(('_', rest)) => !text.is_empty() && like(rest, &text[1..]),
        Some((c, rest)) => text.first() == Some(c) && like(rest, &text[1..]),
    }
}

fn lookup(message: &Message, name: &str) -> Result {
    let value = message.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    match value.unwrap_or(Value::Null) {
        Value::Null => Result::Null,
        Value::Bool(v) => Result::Bool(v),
        Value::Byte(v) => Result::Int(i32::from(v)),
        Value::Short(v) => Result::Int(i32::from(v)),
        Value::Int(v) => Result::Int(v),
        Value::Long(v) => Result::Long(v),
        Value::Float(v) => Result::Float(v),
        Value::Double(v) => Result::Double(v),
        Value::Str(v) => Result::Text(v),
    }
}

impl Tree {
    pub fn matches(&self, message: &Message) -> bool {
        self.truth(message) == Some(true)
    }

    /// The value as a condition.
    pub fn truth(&self, message: &Message) -> Option<bool> {
        self.denied(message, false)
    }

    /// The value, or that of its negation. `IN` and `LIKE` of what is no string are false, and so are their negations.
    fn denied(&self, message: &Message, negated: bool) -> Option<bool> {
        match self {
            Tree::In(_, name, _) | Tree::Like(_, name, _)
                if !matches!(lookup(message, name), Result::Null | Result::Text(_)) =>
            {
                Some(false)
            }
            Tree::Not(a) => a.denied(message, !negated),
            Tree::And(a, b) if negated => or(a.denied(message, true), b.denied(message, true)),
            Tree::Or(a, b) if negated => and(a.denied(message, true), b.denied(message, true)),
            Tree::And(a, b) => and(a.truth(message), b.truth(message)),
            Tree::Or(a, b) => or(a.truth(message), b.truth(message)),
            leaf if negated => not(leaf.leaf_truth(message)),
            leaf => leaf.leaf_truth(message),
        }
    }

    fn leaf_truth(&self, message: &Message) -> Option<bool> {
        match self {
            Tree::Bool(value) => Some(*value),
            // A name alone asks whether it is TRUE.
            Tree::Id(name) => compare("=", lookup(message, name), Result::Bool(true)),
            Tree::Compare(op, a, b) => compare(op, a.value(message), b.value(message)),
            Tree::Between(negated, x, low, high) => {
                let (x, low, high) = (x.value(message), low.value(message), high.value(message));
                if *negated {
                    or(compare("<", x, low), compare(">", x, high))
                } else {
                    and(compare(">=", x, low), compare("<=", x, high))
                }
            }
            Tree::In(negated, name, values) => {
                let x = lookup(message, name);
                let equalities = values.iter().map(|value| compare("=", x, Result::Text(value)));
                let found = equalities.reduce(or).unwrap_or(Some(false));
                if *negated { not(found) } else { found }
            }
            Tree::Like(negated, name, pattern) => {
                let fits = match lookup(message, name) {
                    Result::Null => None,
                    Result::Text(text) => {
                        let (pattern, text): (Vec<_>, Vec<_>) =
                            (pattern.chars().collect(), text.chars().collect());
                        Some(like(&pattern, &text))
                    }
                    _ => Some(false),
                };
                if *negated { not(fits) } else { fits }
            }
            Tree::IsNull(negated, name) => Some(matches!(lookup(message, name), Result::Null) != *negated),
            _ => unreachable!("not a condition: {self:?}"),
        }
    }

    fn value(&self, message: &Message) -> Result {
        match self {
            Tree::Id(name) => lookup(message, name),
            Tree::Text(v) => Result::Text(v),
            Tree::Int(v) => Result::Int(*v),
            Tree::Long(v) => Result::Long(*v),
            Tree::Float(v) => Result::Float(*v),
            Tree::Double(v) => Result::Double(*v),
            Tree::Minus(a) => match a.value(message) {
                Result::Int(v) => Result::Int(v.wrapping_neg()),
                Result::Long(v) => Result::Long(v.wrapping_neg()),
                Result::Float(v) => Result::Float(-v),
                Result::Double(v) => Result::Double(-v),
                Result::Null => Result::Null,
                _ => Result::Invalid,
            },
            Tree::Plus(a) => match a.value(message) {
                Result::Bool(_) | Result::Text(_) => Result::Invalid,
                number => number,
            },
            Tree::Arithmetic(op, a, b) => arithmetic(*op, a.value(message), b.value(message)),
            condition => match condition.truth(message) {
                None => Result::Null,
                Some(value) => Result::Bool(value),
            },
        }
    }

    /// As selector text, every operand in parentheses unless it must be a bare name.
    pub fn text(&self) -> String {
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        let quote = |text: &str| format!("'{}'", text.replace('\'', "''"));
        match self {
            Tree::Id(name) => (*name).to_owned(),
            Tree::Text(v) => quote(v),
            Tree::Int(v) => v.to_string(),
            Tree::Long(v) => format!("{v}L"),
            Tree::Float(v) => format!("{v:?}f"),
            Tree::Double(v) => format!("{v:?}"),
            Tree::Bool(v) => v.to_string(),
            Tree::Minus(a) => format!("-({})", a.text()),
            Tree::Plus(a) => format!("+({})", a.text()),
            Tree::Arithmetic(op, a, b) => format!("({}) {op} ({})", a.text(), b.text()),
            Tree::Compare(op, a, b) => format!("({}) {op} ({})", a.text(), b.text()),
            Tree::Between(negated, x, low, high) => {
                format!("({}) {}between ({}) and ({})", x.text(), not(negated), low.text(), high.text())
            }
            Tree::In(negated, name, values) => {
                let values: Vec<_> = values.iter().map(|value| quote(value)).collect();
                format!("{name} {}in ({})", not(negated), values.join(","))
            }
            Tree::Like(negated, name, pattern) => {
                format!("{name} {}like {}", not(negated), quote(pattern))
            }
            Tree::IsNull(negated, name) => format!("{name} is {}null", not(negated)),
            Tree::Not(a) => format!("not ({})", a.text()),
            Tree::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Tree::Or(a, b) => format!("({}) or ({})", a.text(), b.text()),
        }
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn exact() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -3i64..=3,
        1 => prop::sample::select(vec![
            16_777_216, 16_777_217, 2_147_483_647, -2_147_483_648, 9_007_199_254_740_992, 9_007_199_254_740_993,
            i64::MAX, i64::MIN,
        ]),
    ]
}

fn approximate() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![
        -2.5,
        -1.0,
        0.0,
        -0.0,
        0.5,
        1.0,
        2.0,
        2.5,
        16_777_216.0,
        9_007_199_254_740_992.0,
        1e300,
    ])
}

/// An attribute value of any type, null included.
pub fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        1 => (-3i8..=3).prop_map(Value::Byte),
        1 => (-3i16..=3).prop_map(Value::Short),
        2 => exact().prop_map(|v| Value::Int(v as i32)),
        2 => exact().prop_map(Value::Long),
        2 => approximate().prop_map(|v| Value::Float(v as f32)),
        2 => prop_oneof![9 => approximate(), 1 => Just(f64::NAN)].prop_map(Value::Double),
        4 => prop::sample::select(&TEXTS[..]).prop_map(Value::Str),
    ]
}

pub fn message() -> impl Strategy<Value = Message> {
    prop::collection::vec(value(), NAMES.len())
        .prop_map(|values| NAMES.into_iter().zip(values).filter(|(_, value)| *value != Value::Null).collect())
}

fn number() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        3 => name().prop_map(Tree::Id),
        2 => exact().prop_map(|v| i32::try_from(v).map_or(Tree::Long(v), Tree::Int)),
        1 => exact().prop_map(Tree::Long),
        1 => approximate().prop_filter("fits a float", |v| v.abs() < 1e30).prop_map(|v| Tree::Float(v as f32)),
        2 => approximate().prop_map(Tree::Double),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Tree::Minus(Box::new(a))),
            inner.clone().prop_map(|a| Tree::Plus(Box::new(a))),
            (prop::sample::select(vec!['+', '-', '*', '/']), inner.clone(), inner)
                .prop_map(|(op, a, b)| Tree::Arithmetic(op, Box::new(a), Box::new(b))),
        ]
    })
}

fn comparison() -> impl Strategy<Value = Tree> {
    let order = prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let equality = prop::sample::select(vec!["=", "<>"]);
    let literal = prop_oneof![
        prop::sample::select(&TEXTS[..]).prop_map(Tree::Text),
        any::<bool>().prop_map(Tree::Bool),
        number(),
    ];
    prop_oneof![
        2 => (order.clone(), name(), number()).prop_map(|(op, a, b)| Tree::Compare(op, Box::new(Tree::Id(a)), Box::new(b))),
        2 => (order, number(), number()).prop_map(|(op, a, b)| Tree::Compare(op, Box::new(a), Box::new(b))),
        2 => (equality, name(), literal).prop_map(|(op, a, b)| Tree::Compare(op, Box::new(Tree::Id(a)), Box::new(b))),
        2 => (any::<bool>(), number(), number(), number())
            .prop_map(|(n, x, a, b)| Tree::Between(n, Box::new(x), Box::new(a), Box::new(b))),
        2 => (any::<bool>(), name(), prop::collection::vec(prop::sample::select(&TEXTS[..]), 1..4))
            .prop_map(|(n, x, values)| Tree::In(n, x, values)),
        2 => (any::<bool>(), name(), "[xy_%]{0,4}").prop_map(|(n, x, pattern)| Tree::Like(n, x, pattern)),
        1 => (any::<bool>(), name()).prop_map(|(n, x)| Tree::IsNull(n, x)),
        1 => name().prop_map(Tree::Id),
        1 => any::<bool>().prop_map(Tree::Bool),
    ]
}

/// A random condition over every construct of the language.
pub fn condition() -> impl Strategy<Value = Tree> {
    comparison().prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            2 => inner.clone().prop_map(|a| Tree::Not(Box::new(a))),
            4 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
            1 => (prop::sample::select(vec!["=", "<>"]), inner.clone(), inner)
                .prop_map(|(op, a, b)| Tree::Compare(op, Box::new(a), Box::new(b))),
        ]
    })
}
