//! Tallies of nurseries: how long their tasks ran, waited and starved, the number of tasks, and the
//! budget used.
//!
//! Only if times are measured. Nurseries of the same name share one [`Tally`] for ever: that is the
//! purpose of names. A nursery without a name has a tally of its own while it is open; then it is
//! added to that of all unnamed nurseries, so that a server that opens a nursery for each request
//! does not grow.

use crate::scope::budget::{Budget, BudgetPool};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Limit of names. Nurseries with further names are counted with the unnamed ones.
const MOST_NAMES: usize = 1024;

/// Counters of one nursery, or of all nurseries of one name. Relaxed throughout: statistics only.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ran: AtomicU64,
    waited: AtomicU64,
    starved: AtomicU64,
    spawned: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    /// Budget used by nurseries that have ended.
    spent: Mutex<Budget>,
}

impl Tally {
    pub(crate) fn spawned(&self) {
        self.spawned.fetch_add(1, Ordering::Relaxed); // statistics
    }

    pub(crate) fn ended(&self, failed: bool) {
        let counter = if failed { &self.failed } else { &self.finished };
        counter.fetch_add(1, Ordering::Relaxed); // statistics
    }

    /// Adds the times of a task, in ticks.
    pub(crate) fn add_times(&self, [ran, waited, starved]: [u64; 3]) {
        for (total, part) in [(&self.ran, ran), (&self.waited, waited), (&self.starved, starved)] {
            if part > 0 {
                total.fetch_add(part, Ordering::Relaxed);
            }
        }
    }

    /// Adds the budget that an ended nursery has used.
    pub(crate) fn spend(&self, spent: Budget) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).absorb(spent);
    }

    fn absorb(&self, other: &Tally) {
        let all = [
            (&self.ran, &other.ran),
            (&self.waited, &other.waited),
            (&self.starved, &other.starved),
            (&self.spawned, &other.spawned),
            (&self.finished, &other.finished),
            (&self.failed, &other.failed),
        ];
        for (total, part) in all {
            total.fetch_add(part.load(Ordering::Relaxed), Ordering::Relaxed); // statistics
        }
        self.spend(*other.spent.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn read(&self) -> TallyFigures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // statistics
        // Ended first: a task that ends meanwhile counts as live.
        let (finished, failed) = (get(&self.finished), get(&self.failed));
        TallyFigures {
            ticks: [get(&self.ran), get(&self.waited), get(&self.starved)],
            live: get(&self.spawned).saturating_sub(finished + failed),
            finished,
            failed,
            spent: *self.spent.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The values of a tally. Times in ticks: ran, waited, starved.
pub(crate) struct TallyFigures {
    pub(crate) ticks: [u64; 3],
    pub(crate) live: u64,
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    pub(crate) spent: Budget,
}

/// All tallies of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<TallyTable>);

#[derive(Debug, Default)]
struct TallyTable {
    named: BTreeMap<Arc<str>, Arc<Tally>>,
    unnamed: Arc<Tally>,
    roots: Arc<Tally>,
    /// Nurseries that have not ended, by id.
    open: HashMap<u64, TalliedNursery>,
}

#[derive(Debug)]
struct TalliedNursery {
    name: Option<Arc<str>>,
    tally: Arc<Tally>,
    pool: Weak<BudgetPool>,
}

/// One entry of a snapshot.
pub(crate) struct TallyEntry {
    pub(crate) who: TallyKey,
    pub(crate) open: u64,
    pub(crate) figures: TallyFigures,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TallyKey {
    Roots,
    Named(Arc<str>),
    /// An open nursery without a name.
    Number(u64),
    /// Ended nurseries without a name.
    Unnamed,
}

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, TallyTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tally of root tasks.
    pub(crate) fn roots(&self) -> Arc<Tally> {
        Arc::clone(&self.lock().roots)
    }

    /// A nursery is opened.
    pub(crate) fn open(
        &self,
        number: u64,
        name: Option<&Arc<str>>,
        pool: &Arc<BudgetPool>,
    ) -> Arc<Tally> {
        let mut state = self.lock();
        let full = state.named.len() >= MOST_NAMES;
        let name = name.filter(|name| !full || state.named.contains_key(*name)).cloned();
        let tally = match &name {
            Some(name) => Arc::clone(state.named.entry(Arc::clone(name)).or_default()),
            None => Arc::default(),
        };
        // An unlimited pool counts nothing, and may be shared with other nurseries.
        let pool = if pool.is_unlimited() { Weak::new() } else { Arc::downgrade(pool) };
        state.open.insert(number, TalliedNursery { name, tally: Arc::clone(&tally), pool });
        tally
    }

    /// A nursery has ended.
    pub(crate) fn close(&self, number: u64) {
        let mut state = self.lock();
        if let Some(TalliedNursery { name: None, tally, .. }) = state.open.remove(&number) {
            state.unnamed.absorb(&tally);
        }
    }

    /// The values of all tallies.
    pub(crate) fn read(&self) -> Vec<TallyEntry> {
        let state = self.lock();
        let mut named: BTreeMap<&Arc<str>, TallyEntry> = BTreeMap::new();
        for (name, tally) in &state.named {
            named.insert(name, TallyEntry::of(TallyKey::Named(Arc::clone(name)), tally));
        }
        let mut unnamed = Vec::new();
        for (number, open) in &state.open {
            match open.name.as_ref().and_then(|name| named.get_mut(name)) {
                Some(entry) => entry.add_open(open),
                None => {
                    let mut entry = TallyEntry::of(TallyKey::Number(*number), &open.tally);
                    entry.add_open(open);
                    unnamed.push((*number, entry));
                }
            }
        }
        unnamed.sort_unstable_by_key(|(number, _)| *number);
        let mut entries = vec![TallyEntry::of(TallyKey::Roots, &state.roots)];
        entries.extend(named.into_values());
        entries.extend(unnamed.into_iter().map(|(_, entry)| entry));
        entries.push(TallyEntry::of(TallyKey::Unnamed, &state.unnamed));
        entries
    }
}

impl TallyEntry {
    fn of(who: TallyKey, tally: &Tally) -> TallyEntry {
        TallyEntry { who, open: 0, figures: tally.read() }
    }

    fn add_open(&mut self, open: &TalliedNursery) {
        self.open += 1;
        if let Some(pool) = open.pool.upgrade() {
            self.figures.spent.absorb(pool.standing().spent);
        }
    }
}
