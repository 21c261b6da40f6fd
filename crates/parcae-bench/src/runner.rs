//! Rounds: every case once per round, alternately forwards and backwards.

use crate::case::{Case, Failure, Scale};

/// Called before each measurement, for showing progress.
pub trait Observer {
    /// `case` is about to be measured. Round 0 is the warm-up.
    fn measuring(&mut self, case: &Case, round: u32, rounds: u32);
}

/// The result of a case: one number per round, at least one.
#[derive(Debug)]
pub struct Figure {
    /// The case.
    pub case: Case,
    /// Sorted, the least first.
    samples: Vec<f64>,
}

impl Figure {
    /// A figure from the numbers of its rounds. `None` if there are none.
    pub fn new(case: Case, mut samples: Vec<f64>) -> Option<Figure> {
        samples.sort_by(f64::total_cmp);
        (!samples.is_empty()).then_some(Figure { case, samples })
    }

    /// The numbers of the rounds, the least first.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// The middle number; between the two middle ones if there are two.
    pub fn median(&self) -> f64 {
        let middle = self.samples.len() / 2;
        if self.samples.len().is_multiple_of(2) {
            f64::midpoint(self.samples[middle - 1], self.samples[middle])
        } else {
            self.samples[middle]
        }
    }

    /// The largest number over the smallest. `None` if the smallest is zero.
    pub fn spread(&self) -> Option<f64> {
        let (least, most) = (self.samples[0], self.samples[self.samples.len() - 1]);
        (least > 0.0).then(|| most / least)
    }
}

/// The results of all cases, in their order.
#[derive(Debug)]
pub struct Outcomes {
    /// Cases that ran in every round.
    pub figures: Vec<Figure>,
    /// Cases that failed, which were not tried again.
    pub failures: Vec<(Case, Failure)>,
}

/// Measures the cases in `rounds` rounds and one more before them, which warms up and
/// does not count. See the crate's documentation for why in this order.
pub fn run(cases: &[Case], rounds: u32, scale: &Scale, observer: &mut dyn Observer) -> Outcomes {
    let mut results: Vec<Result<Vec<f64>, Failure>> = cases.iter().map(|_| Ok(vec![])).collect();
    for round in 0..=rounds {
        let mut measure = |index: usize| {
            let (case, result) = (&cases[index], &mut results[index]);
            let Ok(samples) = result else { return };
            observer.measuring(case, round, rounds);
            match (case.side.run)(scale) {
                Ok(_) if round == 0 => {}
                Ok(value) => samples.push(value),
                Err(failure) => *result = Err(failure),
            }
        };
        if round.is_multiple_of(2) {
            (0..cases.len()).for_each(&mut measure);
        } else {
            (0..cases.len()).rev().for_each(&mut measure);
        }
    }
    let mut outcomes = Outcomes { figures: Vec::new(), failures: Vec::new() };
    for (&case, result) in cases.iter().zip(results) {
        match result {
            Ok(samples) => outcomes.figures.extend(Figure::new(case, samples)),
            Err(failure) => outcomes.failures.push((case, failure)),
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Better, Peer, Rounds, Side, Variant, Workload};

    static WORKLOAD: Workload = Workload {
        name: "test",
        rounds: Rounds { full: 3, quick: 1 },
        variants: &[Variant {
            name: "only",
            about: "",
            unit: "ns",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, |_| Ok(2.0)),
                Side::new(Peer::Corosensei, |_| Err("out of luck".into())),
                Side::new(Peer::Generator, |scale| Ok(scale.of(100) as f64)),
            ],
        }],
    };

    fn figure(samples: &[f64]) -> Figure {
        Figure::new(WORKLOAD.cases(|_| true)[0], samples.to_vec()).unwrap()
    }

    #[derive(Default)]
    struct Log(Vec<(u32, Peer)>);

    impl Observer for Log {
        fn measuring(&mut self, case: &Case, round: u32, _rounds: u32) {
            self.0.push((round, case.side.peer));
        }
    }

    #[test]
    fn the_median_is_the_middle_of_the_sorted_numbers() {
        assert_eq!(figure(&[5.0]).median(), 5.0);
        assert_eq!(figure(&[9.0, 1.0, 5.0]).median(), 5.0);
        assert_eq!(figure(&[9.0, 1.0, 5.0, 6.0]).median(), 5.5);
        assert!(Figure::new(figure(&[1.0]).case, vec![]).is_none());
    }

    #[test]
    fn the_spread_is_worst_over_best() {
        assert_eq!(figure(&[3.0, 2.0, 4.0]).spread(), Some(2.0));
        assert_eq!(figure(&[0.0, 1.0]).spread(), None);
    }

    #[test]
    fn rounds_alternate_and_a_failed_case_is_not_tried_again() {
        let mut log = Log::default();
        let cases = WORKLOAD.cases(|_| true);
        let outcomes = run(&cases, 2, &Scale::new(true), &mut log);

        use Peer::{Corosensei, Generator, Parcae};
        let expected = [
            (0, Parcae),
            (0, Corosensei),
            (0, Generator),
            (1, Generator),
            (1, Parcae),
            (2, Parcae),
            (2, Generator),
        ];
        assert_eq!(log.0, expected);
        let medians: Vec<f64> = outcomes.figures.iter().map(Figure::median).collect();
        assert_eq!(medians, [2.0, 10.0]);
        assert_eq!(outcomes.figures[0].samples.len(), 2, "the warm-up does not count");
        assert_eq!(outcomes.failures.len(), 1);
        assert_eq!(outcomes.failures[0].1.to_string(), "out of luck");
    }
}
