//! Matching allocates nothing once its buffers have grown.

use shoal_selector::{Selector, SelectorIndex, Value};

#[test]
fn matching_allocates_nothing_in_the_long_run() {
    let mut index = SelectorIndex::new(7);
    for number in 0..2000 {
        let text = format!(
            "a = 'v{}' AND b > {number} OR c LIKE 'p{}%' AND d * 2 < {number} OR e IN ('x', 'y{number}')",
            number % 50,
            number % 7,
        );
        index.add(&Selector::parse(&text).expect("valid"), number);
    }
    let texts: Vec<(String, String, String)> =
        (0..100).map(|n| (format!("v{n}"), format!("p{n} and more"), format!("y{n}"))).collect();
    let mut matched = 0;
    let mut round = || {
        for (number, (a, c, e)) in (0..).zip(&texts) {
            let message = [
                ("a", Value::Str(a)),
                ("b", Value::Long(number * 20)),
                ("c", Value::Str(c)),
                ("d", Value::Double(number as f64)),
                ("e", Value::Str(e)),
            ];
            matched += index.matches(&message).filters().len();
        }
    };
    // The samples keep 32 values of each attribute, one message in 32: they have grown after 1,024 messages
    // and more.
    (0..40).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..10).for_each(|_| round()));
    assert_eq!(counted.count_total, 0);
    assert!(matched > 0, "the messages matched nothing, so nothing was shown");
}
