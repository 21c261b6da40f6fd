//! Supply, demand, and the tests between them. The functions are those of the [module](super); sums
//! have 128 bits, and rounding is always against the applicant.

use super::answer::{Admitted, Cause, Rejected, Test};
use super::{Capacity, Demand, Shape};
use crate::context::{Band, MAX_PERIOD};

/// Millionths: the unit of shares.
const MILLION: u128 = 1_000_000;
/// Binary places of sums of fractions.
const PLACES: u32 = 40;

/// A set of demands against a capacity.
pub(super) struct Window<'c, S> {
    set: S,
    capacity: &'c Capacity,
}

impl<'c, S: Iterator<Item = Demand> + Clone> Window<'c, S> {
    pub(super) fn new(set: S, capacity: &'c Capacity) -> Window<'c, S> {
        Window { set, capacity }
    }

    pub(super) fn lowest_band(&self) -> Option<Band> {
        self.set.clone().map(|demand| demand.band).min()
    }

    pub(super) fn band_above(&self, band: Band) -> Option<Band> {
        self.set.clone().map(|demand| demand.band).filter(|&other| other > band).min()
    }

    /// Budget and two dispatches.
    fn work(&self, demand: &Demand) -> u128 {
        u128::from(demand.budget) + 2 * u128::from(self.capacity.dispatch)
    }

    /// The share, in millionths; there is no more than a whole worker.
    fn share(&self) -> u128 {
        u128::from(self.capacity.share).min(MILLION)
    }

    /// The guaranteed supply in any window of length `t`.
    fn supply(&self, t: u64) -> u128 {
        u128::from(t.saturating_sub(self.capacity.delay)) * self.share() / MILLION
    }

    /// The shortest window with a guaranteed supply of `work`.
    fn window_for(&self, work: u128) -> u128 {
        u128::from(self.capacity.delay) + (work * MILLION).div_ceil(self.share().max(1))
    }

    fn sum(&self, f: impl Fn(&Demand) -> u128) -> u128 {
        self.set.clone().map(|demand| f(&demand)).sum()
    }

    /// ΣC/T in millionths, rounded up.
    pub(super) fn load(&self) -> u64 {
        let load = self.sum(|d| ((self.work(d) * MILLION) << PLACES) / u128::from(d.period));
        load.div_ceil(1 << PLACES) as u64
    }

    /// The remaining share, or why there is none.
    fn spare(&self, band: Band) -> Spare {
        let share = self.share();
        let above = |d: &Demand| d.band >= band;
        let all = || self.set.clone().filter(above);
        let exact = share << PLACES;
        let scaled = |d: &Demand| (self.work(d) * MILLION) << PLACES;
        let most: u128 = all().map(|d| scaled(&d).div_ceil(u128::from(d.period))).sum();
        if most < exact {
            return Spare::Some(exact - most);
        }
        // Too close for binary fractions: over a hyperperiod all fractions are whole numbers.
        let hyperperiod = all().try_fold(1_u64, |whole, d| {
            let next = (whole / gcd(whole, d.period)).checked_mul(d.period);
            next.filter(|&next| next <= MAX_PERIOD)
        });
        let Some(hyperperiod) = hyperperiod else {
            let least: u128 = all().map(|d| scaled(&d) / u128::from(d.period)).sum();
            return if least > exact { Spare::Negative } else { Spare::Unknown };
        };
        let work: u128 =
            all().map(|d| self.work(&d) * u128::from(hyperperiod / d.period) * MILLION).sum();
        if work > share * u128::from(hyperperiod) {
            Spare::Negative
        } else {
            Spare::None { hyperperiod }
        }
    }

    /// The first test: necessary.
    pub(super) fn utilisation(&self) -> Result<(), Rejected> {
        let available = self.share() as u64;
        let reject = |cause| {
            let needed = self.load().max(available.saturating_add(1));
            let interval = MILLION as u64;
            Err(Rejected { test: Test::Utilisation, cause, interval, needed, available })
        };
        match self.spare(Band(0)) {
            Spare::Some(_) | Spare::None { .. } => Ok(()),
            Spare::Negative => reject(Cause::TooMuch { band: Band(0) }),
            Spare::Unknown => reject(Cause::OutOfRange),
        }
    }

    /// The second test: sufficient, if there is one band.
    pub(super) fn density(&self, load: u64) -> Option<Admitted> {
        let band = self.lowest_band()?;
        if self.band_above(band).is_some() {
            return None;
        }
        let interval = self.set.clone().map(|d| d.deadline).min()?;
        let dense =
            self.sum(|d| ((self.work(d) * MILLION) << PLACES).div_ceil(u128::from(d.deadline)));
        if dense > self.share() << PLACES {
            return None;
        }
        let needed = self.sum(|d| {
            let work = self.work(d) * u128::from(interval);
            work.div_ceil(u128::from(d.deadline)) + u128::from(d.check_distance)
        });
        let slack = self.supply(interval).checked_sub(needed)? as u64;
        Some(Admitted { test: Test::Density, interval, slack, load, steps: 0 })
    }

    /// The third test: exact for steps, for one band and all above it.
    pub(super) fn demand(&self, band: Band, answer: &mut Admitted) -> Result<(), Rejected> {
        let limit = self.horizon(band)?;
        let mut next = self.point(band, u128::from(limit));
        while let Some(t) = next {
            if answer.steps == self.capacity.max_steps {
                return Err(Rejected::unknown(Test::Demand, Cause::OutOfSteps, t));
            }
            answer.steps += 1;
            let (needed, available) = (self.needed(band, t), self.supply(t));
            let Some(slack) = available.checked_sub(needed) else {
                return Err(Rejected {
                    test: Test::Demand,
                    cause: Cause::TooMuch { band },
                    interval: t,
                    needed: u64::try_from(needed).unwrap_or(u64::MAX),
                    available: available as u64,
                });
            };
            if (slack as u64) < answer.slack {
                (answer.slack, answer.interval) = (slack as u64, t);
            }
            // Down to there the demand at `t` is covered, and no smaller window needs more.
            let settled = self.window_for(needed).min(u128::from(t));
            let below = if settled < u128::from(t) { settled } else { settled - 1 };
            next = self.point(band, below);
        }
        Ok(())
    }

    /// A window beyond which demand cannot exceed supply: demand(t) ≤ U·t + K.
    fn horizon(&self, band: Band) -> Result<u64, Rejected> {
        let beyond = |_| Rejected::unknown(Test::Demand, Cause::OutOfRange, 0);
        let latest = self.set.clone().map(|d| d.deadline).max().unwrap_or(0);
        let limit = match self.spare(band) {
            Spare::Some(spare) => {
                let constant = self.sum(|d| {
                    let work = self.work(d);
                    let own = match d.band.cmp(&band) {
                        core::cmp::Ordering::Less => 0,
                        core::cmp::Ordering::Equal => (work * u128::from(d.period - d.deadline))
                            .div_ceil(u128::from(d.period)),
                        core::cmp::Ordering::Greater => 2 * work,
                    };
                    own + u128::from(d.check_distance)
                }) + (u128::from(self.capacity.delay) * self.share())
                    .div_ceil(MILLION)
                    + 2;
                constant.checked_mul(MILLION << PLACES).map(|constant| constant.div_ceil(spare))
            }
            Spare::None { hyperperiod } => Some(u128::from(hyperperiod) + u128::from(latest)),
            Spare::Negative | Spare::Unknown => None,
        };
        u64::try_from(limit.unwrap_or(u128::MAX).max(u128::from(latest))).map_err(beyond)
    }

    /// The demand of a band in a window of length `t`, blocking and overruns included.
    fn needed(&self, band: Band, t: u64) -> u128 {
        let (mut needed, mut fraction, mut blocking) = (0, 0, 0);
        for d in self.set.clone() {
            let q = u128::from(d.check_distance);
            if d.band > band {
                let extra = if d.shape == Shape::Ramp { 2 } else { 1 };
                needed += self.work(&d) * (u128::from(t / d.period) + extra) + q;
            } else if d.band == band && (d.deadline <= t || d.shape == Shape::Ramp) {
                let (whole, part) = self.due(&d, t);
                needed += whole + q;
                fraction += part;
            } else {
                blocking = q.max(blocking);
            }
        }
        needed + fraction.div_ceil(1 << PLACES) + blocking
    }

    /// The work of one context that can be due within a window of length `t`, as an integer and a
    /// binary fraction.
    fn due(&self, d: &Demand, t: u64) -> (u128, u128) {
        let work = self.work(d);
        match d.shape {
            Shape::Step => match t.checked_sub(d.deadline) {
                Some(rest) => (work * u128::from(rest / d.period + 1), 0),
                None => (0, 0),
            },
            Shape::Ramp => {
                let (jobs, rest) = (t / d.period, t % d.period);
                if rest >= d.deadline {
                    return (work * u128::from(jobs + 1), 0);
                }
                let (part, deadline) = (work * u128::from(rest), u128::from(d.deadline));
                let fraction = ((part % deadline) << PLACES).div_ceil(deadline);
                (work * u128::from(jobs) + part / deadline, fraction)
            }
        }
    }

    /// The largest point up to `t` where the demand of the band bends upwards or jumps.
    fn point(&self, band: Band, t: u128) -> Option<u64> {
        let t = u64::try_from(t).unwrap_or(u64::MAX);
        let own = self.set.clone().filter(|d| d.band == band);
        let first = own.clone().map(|d| d.deadline).min()?;
        if t < first {
            return None;
        }
        let deadlines = own.filter_map(|d| Some(t - t.checked_sub(d.deadline)? % d.period));
        let arrivals = self.set.clone().filter(|d| d.band > band).map(|d| t - t % d.period);
        deadlines.chain(arrivals).filter(|&point| point >= first).max()
    }
}

/// The share of a worker that is not promised.
enum Spare {
    /// A positive share, in binary fractions of millionths.
    Some(u128),
    /// Exactly none: demand and supply repeat with the hyperperiod.
    None { hyperperiod: u64 },
    /// Less than none.
    Negative,
    /// Too close to none to tell.
    Unknown,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
