//! The policy file: rules of the operator, in TOML.
//!
//! ```toml
//! [tenant."web/search"]      # the tenant `search` inside of `web`
//! weight = 4096              # 1024 is normal
//! latency = "2ms"            # sensitive, normal, batch, or the length of a slice
//!
//! [profile.batch]            # tenants with this hint: normal, latency-sensitive, batch, driver,
//! weight = 256               # poller, agent
//! latency = "batch"
//!
//! [contexts]                 # admission of contexts; all three may be left out
//! each = 300                 # thousandths of a worker for one context
//! together = 700             # and for all of a worker
//! band = 3                   # the highest band
//!
//! [context.audio]            # terms of the contexts that the program admits by this name
//! budget = "2ms"
//! period = "10ms"
//! deadline = "5ms"           # the period, if it is left out
//! band = 1                   # 0, if it is left out
//! ```
//!
//! A key that is not known is an error: a rule that is misspelt would not hold. Every error has the
//! line and the column of the value that it is about.

use parcae::policy::{ContextRules, ContextTerms, Hint, Latency, Params, PolicyDecision, Weight};
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) text: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// The rules of a file, and the contexts that it has terms for.
#[derive(Debug, Clone)]
pub(crate) struct PolicyFile {
    pub(crate) rules: PolicyDecision,
    pub(crate) tenants: usize,
    pub(crate) contexts: Vec<(String, ContextTerms)>,
}

/// An error at a place of the text.
struct Wrong(Range<usize>, String);

type Read<T> = Result<T, Wrong>;
type Value<'v> = Spanned<DeValue<'v>>;

/// Reads the text of a policy file.
pub(crate) fn read(text: &str) -> Result<PolicyFile, FileError> {
    let at = |span: Range<usize>, message: String| {
        let before = &text[..boundary(text, span.start)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        FileError { line, column, text: message }
    };
    let table = DeTable::parse(text).map_err(|error| {
        at(error.span().unwrap_or(0..0), error.message().lines().collect::<Vec<_>>().join(", "))
    })?;
    file(table.get_ref()).map_err(|Wrong(span, message)| at(span, message))
}

/// The last boundary of characters up to this byte.
fn boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn file(table: &DeTable<'_>) -> Read<PolicyFile> {
    let mut rules = PolicyDecision::rules();
    let (mut tenants, mut contexts, mut bounds) = (0, Vec::new(), ContextRules::OPEN);
    for (name, value) in table {
        match name.get_ref().as_ref() {
            "tenant" => {
                for (path, value) in entries(value)? {
                    let (weight, latency) = share(value)?;
                    rules = rules.tenant(path.get_ref().as_ref(), weight, latency);
                    tenants += 1;
                }
            }
            "profile" => {
                for (name, value) in entries(value)? {
                    let hint = hint(name.get_ref()).ok_or_else(|| {
                        Wrong(name.span(), format!("unknown hint `{}`: {HINTS}", name.get_ref()))
                    })?;
                    let (weight, latency) = share(value)?;
                    let (weight, latency) =
                        (weight.unwrap_or_default(), latency.unwrap_or_default());
                    rules = rules.profile(hint, Params { weight, latency });
                }
            }
            "contexts" => {
                for (key, value) in entries(value)? {
                    match key.get_ref().as_ref() {
                        "each" => bounds.each = integer(value, 0..=900)? as u16,
                        "together" => bounds.together = integer(value, 0..=900)? as u16,
                        "band" => bounds.band = integer(value, 0..=255)? as u8,
                        _ => return Err(unknown(key, "each, together, band")),
                    }
                }
            }
            "context" => {
                for (name, value) in entries(value)? {
                    contexts.push((name.get_ref().to_string(), terms(name, value)?));
                }
            }
            _ => return Err(unknown(name, "tenant, profile, contexts, context")),
        }
    }
    bounds.terms.clone_from(&contexts);
    Ok(PolicyFile { rules: rules.contexts(bounds), tenants, contexts })
}

const HINTS: &str = "it is normal, latency-sensitive, batch, driver, poller or agent";

fn hint(name: &str) -> Option<Hint> {
    Some(match name {
        "normal" => Hint::Normal,
        "latency-sensitive" => Hint::LatencySensitive,
        "batch" => Hint::Batch,
        "driver" => Hint::Driver,
        "poller" => Hint::Poller,
        "agent" => Hint::Agent,
        _ => return None,
    })
}

fn share(value: &Value<'_>) -> Read<(Option<Weight>, Option<Latency>)> {
    let (mut weight, mut latency) = (None, None);
    for (key, value) in entries(value)? {
        match key.get_ref().as_ref() {
            "weight" => weight = Weight::new(integer(value, 1..=1 << 20)? as u32),
            "latency" => latency = Some(latency_of(value)?),
            _ => return Err(unknown(key, "weight, latency")),
        }
    }
    if weight.is_none() && latency.is_none() {
        return Err(Wrong(value.span(), "a rule needs a weight or a latency".into()));
    }
    Ok((weight, latency))
}

fn terms(name: &Spanned<std::borrow::Cow<'_, str>>, value: &Value<'_>) -> Read<ContextTerms> {
    let (mut budget, mut period, mut deadline, mut band) = (None, None, None, 0);
    for (key, value) in entries(value)? {
        match key.get_ref().as_ref() {
            "budget" => budget = Some(time(value)?),
            "period" => period = Some(time(value)?),
            "deadline" => deadline = Some(time(value)?),
            "band" => band = integer(value, 0..=255)? as u8,
            _ => return Err(unknown(key, "budget, period, deadline, band")),
        }
    }
    let (Some(budget), Some(period)) = (budget, period) else {
        return Err(Wrong(name.span(), "a context needs a budget and a period".into()));
    };
    Ok(ContextTerms { budget, period, deadline: deadline.unwrap_or(period), band })
}

fn entries<'v, 't>(value: &'t Value<'v>) -> Read<&'t DeTable<'v>> {
    let table = value.get_ref().as_table();
    table
        .ok_or_else(|| Wrong(value.span(), "a table is expected here, such as [tenant.web]".into()))
}

fn unknown(key: &Spanned<std::borrow::Cow<'_, str>>, known: &str) -> Wrong {
    Wrong(key.span(), format!("unknown key `{}`; known are {known}", key.get_ref()))
}

fn integer(value: &Value<'_>, range: std::ops::RangeInclusive<u64>) -> Read<u64> {
    let number = value.get_ref().as_integer();
    let number = number.and_then(|it| u64::from_str_radix(it.as_str(), it.radix()).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        Wrong(value.span(), format!("a whole number from {least} to {most} is expected"))
    })
}

fn latency_of(value: &Value<'_>) -> Read<Latency> {
    let expected = || {
        let text = "a latency is \"sensitive\", \"normal\", \"batch\", or a time such as \"2ms\"";
        Wrong(value.span(), text.into())
    };
    latency(value.get_ref().as_str().ok_or_else(expected)?).ok_or_else(expected)
}

fn time(value: &Value<'_>) -> Read<Duration> {
    let parsed = value.get_ref().as_str().and_then(duration);
    parsed.ok_or_else(|| {
        Wrong(value.span(), "a time such as \"2ms\" or \"500us\" is expected".into())
    })
}

/// A latency by its name, or the length of a slice.
pub(crate) fn latency(text: &str) -> Option<Latency> {
    Some(match text {
        "sensitive" => Latency::Sensitive,
        "normal" => Latency::Normal,
        "batch" => Latency::Batch,
        slice => Latency::Slice(u64::try_from(duration(slice)?.as_nanos()).ok()?),
    })
}

/// A time with its unit: `2ms`, `500us`, `10ns`, `1s`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let nanos = match &text[digits..] {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "\
[tenant.\"web/search\"]
weight = 4096
latency = \"2ms\"
[tenant.import]
latency = \"batch\"
[profile.agent]
weight = 0x80
[contexts]
each = 300
[context.audio]
budget = \"2ms\"
period = \"10ms\"
band = 1
";
        let file = read(text).unwrap();
        assert_eq!(file.tenants, 2);
        let ms = Duration::from_millis;
        let terms = ContextTerms { budget: ms(2), period: ms(10), deadline: ms(10), band: 1 };
        assert_eq!(file.contexts, [("audio".to_owned(), terms)]);
        let mut contexts = ContextRules::OPEN;
        contexts.each = 300;
        let params = Params { weight: Weight::new(128).unwrap(), latency: Latency::Normal };
        let expected = PolicyDecision::rules()
            .tenant("import", None, Some(Latency::Batch))
            .tenant("web/search", Weight::new(4_096), Some(Latency::Slice(2_000_000)))
            .profile(Hint::Agent, params)
            .contexts(contexts)
            .context_terms("audio", terms);
        let bytes = |rules: &PolicyDecision| rules.to_bytes();
        assert_eq!(bytes(&file.rules), bytes(&expected));
    }

    /// Each error is where its cause is.
    #[test]
    fn errors_have_lines_and_columns() {
        let wrong = [
            ("[tenant.a]\nweight = 0\n", 2, 10, "from 1 to 1048576"),
            ("[tenant.a]\n  weigth = 5\n", 2, 3, "unknown key `weigth`; known are weight, latency"),
            ("[tenant.a]\n[tenant.b]\nweight = \"5\"", 1, 1, "needs a weight"),
            ("[tenant.b]\nweight = \"5\"", 2, 10, "a whole number"),
            ("[tenant.b]\nlatency = \"2 parsecs\"", 2, 11, "such as \"2ms\""),
            ("[context.\"é\"]\nperiod = \"2ms\"", 1, 10, "a budget and a period"),
            ("[profile.fast]\nweight = 5", 1, 10, "unknown hint `fast`"),
            ("tenant = 5", 1, 10, "a table is expected"),
            ("[contexts]\neach = 901", 2, 8, "from 0 to 900"),
            ("[lease.a]\ncpus = 1", 1, 2, "unknown key `lease`"),
            ("[tenant.a]\nweight = 5\n[tenant.a]\nweight = 6\n", 3, 9, "duplicate"),
            ("[tenant.a\nweight = 5", 1, 10, "expected"),
        ];
        let found = |(text, line, column, why)| {
            let error: FileError = read(text).unwrap_err();
            let fits = (error.line, error.column) == (line, column) && error.text.contains(why);
            (!fits).then(|| format!("{text:?}: {error}"))
        };
        let others: Vec<String> = wrong.into_iter().filter_map(found).collect();
        assert!(others.is_empty(), "{others:#?}");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("2ms"), Some(Duration::from_millis(2)));
        assert_eq!(duration("7us"), Some(Duration::from_micros(7)));
        for wrong in ["", "2", "ms", "-2ms", "2.5ms", "99999999999999999999s", "2 ms"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
