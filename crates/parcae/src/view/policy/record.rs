//! Records of decisions and views: the same bytes on every machine, for services in other
//! processes.
//!
//! ```text
//!   mark "PCLY" │ version u16 │ kind u16 │ length u32 │ body │ checksum u64
//! ```
//!
//! All numbers are little-endian; the length is that of the whole record, the checksum FNV-1a of
//! everything before it. It finds accidents; malice is the concern of the checks at the desk. A
//! record is at most [`LONGEST_RECORD`] bytes, so a reader knows how much to copy before it looks
//! at anything. Reading never panics and allocates no more than the bytes are long: counts are
//! compared with the bytes that are left. A record that was read is not yet checked: weights may be
//! out of the operator's bounds, addresses twice.
//!
//! The last number of a body counts further sections, of which version 1 has none. Later versions
//! add what they need there (leases, for example), and a reader that does not know it refuses.

use super::decision::{ContextRules, ContextTerms, PolicyDecision};
use super::view::{PolicyView, TenantView};
use crate::base::error::{PolicyRefused, RecordFault};
use crate::sched::run_queue::{DecidedBy, Suggestion, TenantRule};
use parcae_core::fair::{Latency, Params, Weight};
use parcae_core::policy::{Hint, Source};
use std::time::Duration;

/// The longest record.
pub(crate) const LONGEST_RECORD: usize = 1 << 21;
const MARK: &[u8; 4] = b"PCLY";
const VERSION: u16 = 1;
const HEAD: usize = 12;
const CHECKSUM: usize = 8;

/// Kinds of records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Decision = 1,
    View = 2,
}

const DECIDED: [DecidedBy; 5] = [
    DecidedBy::Program,
    DecidedBy::Profile,
    DecidedBy::Service,
    DecidedBy::Operator,
    DecidedBy::Floor,
];
const SOURCES: [Source; 3] = [Source::Fresh, Source::LastGood, Source::BuiltIn];

fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Writes a record.
struct RecordWriter(Vec<u8>);

impl RecordWriter {
    fn begin(kind: RecordKind) -> RecordWriter {
        let mut out = RecordWriter(MARK.to_vec());
        out.u16(VERSION);
        out.u16(kind as u16);
        out.u32(0); // the length
        out
    }

    fn end(mut self) -> Vec<u8> {
        self.u16(0); // further sections
        let length = (self.0.len() + CHECKSUM) as u32;
        self.0[8..HEAD].copy_from_slice(&length.to_le_bytes());
        let sum = checksum(&self.0);
        self.u64(sum);
        self.0
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// A text; longer ones than a record can have are cut.
    fn text(&mut self, text: &str) {
        let mut length = text.len().min(u16::MAX.into());
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        self.u16(length as u16);
        self.0.extend(&text.as_bytes()[..length]);
    }

    fn weight(&mut self, weight: Option<Weight>) {
        self.u32(weight.map_or(0, Weight::get));
    }

    fn latency(&mut self, latency: Option<Latency>) {
        let (tag, slice) = match latency {
            None => (0, 0),
            Some(Latency::Sensitive) => (1, 0),
            Some(Latency::Normal) => (2, 0),
            Some(Latency::Batch) => (3, 0),
            Some(Latency::Slice(slice)) => (4, slice),
        };
        self.u8(tag);
        self.u64(slice);
    }

    fn profiles(&mut self, profiles: &[Params]) {
        for params in profiles {
            self.weight(Some(params.weight));
            self.latency(Some(params.latency));
        }
    }

    fn time(&mut self, time: Duration) {
        self.u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Reads a record.
struct RecordReader<'b>(&'b [u8]);

type Read<T> = Result<T, RecordFault>;

impl<'b> RecordReader<'b> {
    /// The body of a record of this kind.
    fn open(bytes: &'b [u8], kind: RecordKind) -> Read<RecordReader<'b>> {
        if bytes.len() < HEAD + CHECKSUM || bytes.len() > LONGEST_RECORD {
            return Err(RecordFault::Length);
        }
        let (text, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        let mut head = RecordReader(text);
        if head.take(MARK.len())? != MARK {
            return Err(RecordFault::Mark);
        }
        if head.u16()? != VERSION {
            return Err(RecordFault::Version);
        }
        let kind_read = head.u16()?;
        if head.u32()? as usize != bytes.len() {
            return Err(RecordFault::Length);
        }
        if RecordReader(sum).u64()? != checksum(text) {
            return Err(RecordFault::Checksum);
        }
        if kind_read != kind as u16 { Err(RecordFault::Value) } else { Ok(head) }
    }

    /// Checks that nothing is left.
    fn close(mut self) -> Read<()> {
        if self.u16()? != 0 {
            return Err(RecordFault::Version);
        }
        if self.0.is_empty() { Ok(()) } else { Err(RecordFault::Length) }
    }

    fn take(&mut self, length: usize) -> Read<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordFault::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| RecordFault::Length)
    }

    fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn share(&mut self) -> Read<f64> {
        let share = f64::from_bits(self.u64()?);
        if share.is_finite() { Ok(share) } else { Err(RecordFault::Value) }
    }

    fn time(&mut self) -> Read<Duration> {
        Ok(Duration::from_nanos(self.u64()?))
    }

    fn text(&mut self) -> Read<&'b str> {
        let length = self.u16()?.into();
        std::str::from_utf8(self.take(length)?).map_err(|_| RecordFault::Value)
    }

    fn weight(&mut self) -> Read<Option<Weight>> {
        match self.u32()? {
            0 => Ok(None),
            weight => Weight::new(weight).map(Some).ok_or(RecordFault::Value),
        }
    }

    fn latency(&mut self) -> Read<Option<Latency>> {
        let (tag, slice) = (self.u8()?, self.u64()?);
        match (tag, slice) {
            (0, 0) => Ok(None),
            (1, 0) => Ok(Some(Latency::Sensitive)),
            (2, 0) => Ok(Some(Latency::Normal)),
            (3, 0) => Ok(Some(Latency::Batch)),
            (4, slice) => Ok(Some(Latency::Slice(slice))),
            _ => Err(RecordFault::Value),
        }
    }

    fn profiles(&mut self) -> Read<[Params; Hint::ALL.len()]> {
        let mut profiles = [Params::default(); Hint::ALL.len()];
        for params in &mut profiles {
            params.weight = self.weight()?.ok_or(RecordFault::Value)?;
            params.latency = self.latency()?.ok_or(RecordFault::Value)?;
        }
        Ok(profiles)
    }

    /// A list of items of which each takes `least` bytes at least.
    fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / least {
            return Err(RecordFault::Length);
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// One of these, by its place.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> Read<T> {
        all.get(usize::from(self.u8()?)).copied().ok_or(RecordFault::Value)
    }
}

fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|known| known == value).unwrap_or(all.len()) as u8
}

impl PolicyDecision {
    /// The decision as bytes, to be sent over a socket.
    ///
    /// ```
    /// use parcae::policy::{PolicyDecision, Weight};
    ///
    /// let decision = PolicyDecision::rules().weight("web", Weight::NORMAL);
    /// assert_eq!(PolicyDecision::from_bytes(&decision.to_bytes())?, decision);
    /// # Ok::<(), parcae::policy::PolicyRefused>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = RecordWriter::begin(RecordKind::Decision);
        for number in [self.nonce, self.epoch, self.based_on] {
            out.u64(number);
        }
        out.profiles(&self.profiles);
        out.u32(self.tenants.len() as u32);
        for rule in &self.tenants {
            out.text(&rule.path);
            out.weight(rule.weight);
            out.latency(rule.latency);
        }
        let ContextRules { each, together, band, terms } = &self.contexts;
        out.u16(*each);
        out.u16(*together);
        out.u8(*band);
        out.u32(terms.len() as u32);
        for (name, terms) in terms {
            out.text(name);
            out.time(terms.budget);
            out.time(terms.period);
            out.time(terms.deadline);
            out.u8(terms.band);
        }
        out.end()
    }

    /// Reads a decision. Its rules are not checked yet.
    ///
    /// # Errors
    ///
    /// [`PolicyRefused::Record`]: the bytes are no record.
    pub fn from_bytes(bytes: &[u8]) -> Result<PolicyDecision, PolicyRefused> {
        PolicyDecision::read(bytes).map_err(PolicyRefused::Record)
    }

    fn read(bytes: &[u8]) -> Read<PolicyDecision> {
        let mut from = RecordReader::open(bytes, RecordKind::Decision)?;
        let (nonce, epoch, based_on) = (from.u64()?, from.u64()?, from.u64()?);
        let profiles = from.profiles()?;
        let tenants = from.list(15, |from| {
            Ok(TenantRule {
                path: from.text()?.into(),
                weight: from.weight()?,
                latency: from.latency()?,
            })
        })?;
        let (each, together, band) = (from.u16()?, from.u16()?, from.u8()?);
        let terms = from.list(27, |from| {
            let name = from.text()?.to_owned();
            let (budget, period, deadline) = (from.time()?, from.time()?, from.time()?);
            Ok((name, ContextTerms { budget, period, deadline, band: from.u8()? }))
        })?;
        from.close()?;
        let contexts = ContextRules { each, together, band, terms };
        Ok(PolicyDecision { nonce, epoch, based_on, profiles, tenants, contexts })
    }
}

impl PolicyView {
    /// The view as bytes, to be sent over a socket.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = RecordWriter::begin(RecordKind::View);
        out.u64(self.nonce);
        out.u64(self.sequence);
        out.time(self.at);
        out.u64(self.epoch);
        out.u8(place(&SOURCES, &self.source));
        out.u32(self.workers);
        out.profiles(&self.profiles);
        out.weight(Some(self.weights.0));
        out.weight(Some(self.weights.1));
        out.u64(self.refused_contexts);
        out.u32(self.promised.len() as u32);
        self.promised.iter().for_each(|&part| out.u16(part));
        out.u32(self.tenants.len() as u32);
        for tenant in &self.tenants {
            out.text(tenant.path.as_deref().unwrap_or_default());
            for number in [tenant.number, tenant.weight, tenant.slice, tenant.open, tenant.queued] {
                out.u32(number);
            }
            out.u8(place(&DECIDED, &tenant.by));
            out.weight(tenant.asked);
            out.u8(tenant.hint.map_or(u8::MAX, |hint| hint as u8));
            let suggestion = tenant.suggestion.unwrap_or_default();
            out.u8(tenant.suggestion.is_some().into());
            out.u8(suggestion.priority);
            out.u64(suggestion.deadline);
            out.u64(tenant.charged);
            for share in [tenant.wanted, tenant.feasible, tenant.got] {
                out.u64(share.to_bits());
            }
        }
        out.end()
    }

    /// Reads a view.
    ///
    /// # Errors
    ///
    /// [`PolicyRefused::Record`]: the bytes are no record.
    pub fn from_bytes(bytes: &[u8]) -> Result<PolicyView, PolicyRefused> {
        PolicyView::read(bytes).map_err(PolicyRefused::Record)
    }

    fn read(bytes: &[u8]) -> Read<PolicyView> {
        let mut from = RecordReader::open(bytes, RecordKind::View)?;
        let (nonce, sequence, at, epoch) = (from.u64()?, from.u64()?, from.time()?, from.u64()?);
        let (source, workers) = (from.one_of(&SOURCES)?, from.u32()?);
        let profiles = from.profiles()?;
        let mut weight = || from.weight()?.ok_or(RecordFault::Value);
        let weights = (weight()?, weight()?);
        let refused_contexts = from.u64()?;
        let promised = from.list(2, RecordReader::u16)?;
        let tenants = from.list(70, |from| {
            let path = Some(from.text()?).filter(|path| !path.is_empty()).map(str::to_owned);
            let (number, weight, slice) = (from.u32()?, from.u32()?, from.u32()?);
            let (open, queued, by) = (from.u32()?, from.u32()?, from.one_of(&DECIDED)?);
            let asked = from.weight()?;
            let hint = match from.u8()? {
                u8::MAX => None,
                hint => Some(*Hint::ALL.get(usize::from(hint)).ok_or(RecordFault::Value)?),
            };
            let (some, priority, deadline) = (from.u8()?, from.u8()?, from.u64()?);
            let suggestion = (some != 0).then_some(Suggestion { priority, deadline });
            let charged = from.u64()?;
            let (wanted, feasible, got) = (from.share()?, from.share()?, from.share()?);
            Ok(TenantView {
                path,
                number,
                weight,
                slice,
                by,
                asked,
                hint,
                suggestion,
                open,
                queued,
                charged,
                wanted,
                feasible,
                got,
            })
        })?;
        from.close()?;
        Ok(PolicyView {
            nonce,
            sequence,
            at,
            epoch,
            source,
            workers,
            profiles,
            weights,
            tenants,
            promised,
            refused_contexts,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decision() -> PolicyDecision {
        let ms = Duration::from_millis;
        let terms = ContextTerms { budget: ms(1), period: ms(9), deadline: ms(5), band: 3 };
        let params = Params { weight: Weight::MIN, latency: Latency::Slice(9) };
        PolicyDecision::rules()
            .epoch(7)
            .profile(Hint::Driver, params)
            .weight("a/b", Weight::MAX)
            .tenant("ünïcode \\/", None, Some(Latency::Batch))
            .context_terms("audio", terms)
    }

    fn view() -> PolicyView {
        let tenant = TenantView {
            path: Some("a".into()),
            number: 1,
            weight: 2,
            slice: 3,
            by: DecidedBy::Floor,
            asked: None,
            hint: Some(Hint::Agent),
            suggestion: Some(Suggestion { priority: 4, deadline: 5 }),
            open: 6,
            queued: 7,
            charged: 8,
            wanted: 0.5,
            feasible: 0.25,
            got: 0.125,
        };
        let unnamed = TenantView { path: None, hint: None, suggestion: None, ..tenant.clone() };
        PolicyView {
            nonce: 1,
            sequence: 2,
            at: Duration::from_millis(3),
            epoch: 4,
            source: Source::LastGood,
            workers: 5,
            profiles: PolicyDecision::rules().profiles,
            weights: (Weight::MIN, Weight::MAX),
            tenants: vec![tenant, unnamed],
            promised: vec![6, 7],
            refused_contexts: 8,
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        assert_eq!(PolicyDecision::from_bytes(&decision().to_bytes()), Ok(decision()));
        assert_eq!(PolicyView::from_bytes(&view().to_bytes()), Ok(view()));
        let fault = PolicyRefused::Record(RecordFault::Value);
        assert_eq!(PolicyDecision::from_bytes(&view().to_bytes()), Err(fault));
    }

    /// A permanent format: the first bytes of a record, and its length.
    #[test]
    fn a_record_of_version_1_stays_as_it_is() {
        let bytes = PolicyDecision::rules().to_bytes();
        assert_eq!(bytes[..12], *b"PCLY\x01\x00\x01\x00\x89\x00\x00\x00");
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
        let view = view().to_bytes();
        assert_eq!(view[..8], *b"PCLY\x01\x00\x02\x00");
    }

    /// Each cut and each changed byte is found.
    #[test]
    fn damaged_records_are_refused() {
        let whole = decision().to_bytes();
        for length in 0..whole.len() {
            assert!(PolicyDecision::from_bytes(&whole[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(PolicyDecision::from_bytes(&damaged).is_err(), "{at}");
        }
    }

    /// A valid frame around any body.
    fn framed(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(((HEAD + body.len() + CHECKSUM) as u32).to_le_bytes());
        bytes.extend(body);
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    proptest! {
        /// Reading any bytes neither panics nor finds more than is there.
        // rule: S3-POLICY-7
        #[test]
        fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..600), kind in 0..4_u16) {
            for bytes in [body.clone(), framed(kind, &body)] {
                if let Ok(read) = PolicyDecision::from_bytes(&bytes) {
                    prop_assert_eq!(read.to_bytes(), bytes.clone());
                }
                let _ = PolicyView::from_bytes(&bytes);
            }
        }

        /// Damage inside of a valid frame gives a refusal, or another decision that is written as
        /// it was read.
        #[test]
        fn damaged_bodies_are_read(at in 0..300_usize, to in any::<u8>()) {
            let whole = decision().to_bytes();
            let mut body = whole[HEAD..whole.len() - CHECKSUM].to_vec();
            let at = at % body.len();
            body[at] = to;
            let bytes = framed(1, &body);
            if let Ok(read) = PolicyDecision::from_bytes(&bytes) {
                prop_assert_eq!(read.to_bytes(), bytes);
            }
        }
    }
}
