//! Every kind of function can be budgeted, and stays what it was otherwise.

mod mock;

use std::panic::Location;
use std::rc::Rc;

use mock::count;
use parcae_macros::budgeted;

#[test]
fn recursion_pays_for_each_call() {
    #[budgeted(crate = crate::mock)]
    fn fibonacci(n: u64) -> u64 {
        if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
    }
    assert_eq!(count(|| fibonacci(5)), (15, 0, 5));
}

#[test]
fn generics_lifetimes_and_impl_trait() {
    #[budgeted(crate = crate::mock)]
    fn longest<'a, T, const N: usize>(
        lists: [&'a [T]; N],
        visit: impl Fn(&T),
    ) -> impl Iterator<Item = &'a T>
    where
        T: PartialOrd + 'a,
    {
        let mut longest: &'a [T] = &[];
        for list in lists {
            if list.len() > longest.len() {
                longest = list;
            }
            list.iter().for_each(&visit);
        }
        longest.iter()
    }
    let run = || longest([&[1, 2][..], &[3]], |_| ()).copied().collect::<Vec<_>>();
    assert_eq!(count(run), (1, 2, vec![1, 2]));
}

struct Numbers(Vec<u64>);

impl Numbers {
    #[budgeted(crate = crate::mock)]
    fn sum(&self) -> u64 {
        let mut sum = 0;
        for number in &self.0 {
            sum += number;
        }
        sum
    }

    #[budgeted(crate = crate::mock)]
    pub(crate) fn grow(&mut self, n: u64) -> &mut Self {
        for i in 0..n {
            self.0.push(i);
        }
        self
    }

    #[budgeted(crate = crate::mock)]
    fn reversed(self: Rc<Self>) -> Vec<u64> {
        let mut reversed = Vec::new();
        for &number in &self.0 {
            reversed.insert(0, number);
        }
        reversed
    }
}

#[test]
fn methods_of_every_receiver() {
    let mut numbers = Numbers(vec![10]);
    assert_eq!(count(|| numbers.grow(3).0.len()), (1, 3, 4));
    assert_eq!(count(|| numbers.sum()), (1, 4, 13));
    assert_eq!(count(|| Rc::new(numbers).reversed()), (1, 4, vec![2, 1, 0, 10]));
}

#[test]
fn unsafe_functions() {
    /// # Safety
    ///
    /// `start` points to `length` values.
    #[budgeted(crate = crate::mock)]
    unsafe fn sum(start: *const u64, length: usize) -> u64 {
        let mut sum = 0;
        for index in 0..length {
            // SAFETY: the caller's promise.
            sum += unsafe { *start.add(index) };
        }
        sum
    }
    let values = [1, 2, 3];
    // SAFETY: pointer and length are of the same array.
    assert_eq!(count(|| unsafe { sum(values.as_ptr(), 3) }), (1, 3, 6));
}

#[test]
fn extern_functions() {
    #[budgeted(crate = crate::mock)]
    extern "C" fn power(base: u64, exponent: u32) -> u64 {
        let mut power = 1;
        for _ in 0..exponent {
            power *= base;
        }
        power
    }
    let pointer: extern "C" fn(u64, u32) -> u64 = power;
    assert_eq!(count(|| pointer(2, 3)), (1, 3, 8));
}

#[test]
fn extern_functions_that_unwind_are_stopped() {
    #[budgeted(crate = crate::mock)]
    extern "C-unwind" fn forever() {
        loop {}
    }
    assert!(mock::limited(5, || forever()).is_none());
}

#[test]
fn attributes_stay() {
    #[budgeted(crate = crate::mock)]
    #[track_caller]
    #[must_use]
    #[inline(never)]
    fn caller() -> u32 {
        for _ in 0..1 {}
        Location::caller().line()
    }
    let (_, _, line) = count(|| caller());
    assert_eq!(line, line!() - 1);

    #[must_use]
    #[budgeted(crate = crate::mock)]
    fn below() -> u32 {
        1
    }
    assert_eq!(count(below), (1, 0, 1));
}

struct Counter(u64);

#[budgeted(crate = crate::mock)]
impl Counter {
    const LIMIT: u64 = 3;

    fn new() -> Self {
        Self(0)
    }

    fn run(&mut self) -> u64 {
        while self.0 < Self::LIMIT {
            self.0 += 1;
        }
        self.0
    }

    /// Its own attribute is the only one that counts.
    #[budgeted(crate = crate::mock)]
    fn twice(&mut self) -> u64 {
        for _ in 0..2 {
            self.0 += 1;
        }
        self.0
    }
}

#[test]
fn impl_blocks() {
    let mut counter = Counter(0);
    assert_eq!(count(|| counter = Counter::new()), (1, 0, ()));
    assert_eq!(count(|| counter.run()), (1, 3, 3));
    assert_eq!(count(|| counter.twice()), (1, 2, 5));
}

#[budgeted(crate = crate::mock)]
impl Iterator for Counter {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 += 1;
        (self.0 <= Self::LIMIT).then_some(self.0)
    }
}

#[test]
fn impl_blocks_of_traits() {
    assert_eq!(count(|| Counter(0).collect::<Vec<_>>()), (4, 0, vec![1, 2, 3]));
}

#[budgeted(crate = crate::mock)]
trait Repeat {
    fn once(&mut self);

    fn repeat(&mut self, times: u64) {
        for _ in 0..times {
            self.once();
        }
    }
}

impl Repeat for u64 {
    fn once(&mut self) {
        *self += 1;
    }
}

#[test]
fn traits_pay_in_their_provided_methods() {
    let mut value = 0_u64;
    assert_eq!(count(|| value.repeat(3)), (1, 3, ()));
    assert_eq!(value, 3);
}

#[budgeted(crate = crate::mock)]
mod module {
    pub(crate) static START: u64 = {
        let mut start = 0;
        while start < 2 {
            start += 1;
        }
        start
    };

    pub(crate) fn outer(n: u64) -> u64 {
        let mut sum = START;
        for i in 0..n {
            sum += inner::Unit.inner(i);
        }
        sum
    }

    mod inner {
        pub(crate) struct Unit;

        impl Unit {
            pub(crate) fn inner(&self, n: u64) -> u64 {
                for _ in 0..n {}
                n
            }
        }
    }
}

#[test]
fn modules_with_all_that_is_in_them() {
    assert_eq!(count(|| module::outer(3)), (1 + 3, 3 + 3, 5));
}

#[test]
fn twice_is_once() {
    #[budgeted(crate = crate::mock)]
    #[budgeted(crate = crate::mock)]
    fn run() {
        for _ in 0..2 {}
    }
    assert_eq!(count(run), (1, 2, ()));
}

#[test]
fn functions_made_by_macros() {
    macro_rules! function {
        ($name:ident, $turns:expr, $body:block) => {
            #[budgeted(crate = $crate::mock)]
            fn $name() -> u64 {
                let mut __parcae_meter = 0;
                for _ in 0..$turns $body
                let add = |x: u64| x + $turns;
                while __parcae_meter < 2 {
                    __parcae_meter += 1;
                }
                add(__parcae_meter)
            }
        };
    }
    function!(made, 3, { for _ in 0..2 {} });
    assert_eq!(count(made), (2, 3 + 6 + 2, 5));
}

#[test]
fn a_variable_of_the_same_name_is_another() {
    #[budgeted(crate = crate::mock)]
    fn shadow() -> u64 {
        let __parcae_meter = 7;
        for __parcae_meter in 0..2 {
            let _ = __parcae_meter;
        }
        let add = |__parcae_meter: u64| {
            for _ in 0..1 {}
            __parcae_meter + 1
        };
        add(__parcae_meter)
    }
    assert_eq!(count(shadow), (2, 3, 8));
}
