//! The queue against a model that is too simple to be wrong: no origin, no tree, no carried
//! remainder, no wrapping; every answer from the definitions, in wide integers, over all entities.
//! Both get the same random operations and must agree on everything visible.

use super::super::average::{Average, MAX_LAG};
use super::super::scale::SHIFT;
use super::super::slot::{NIL, Phase};
use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Entity {
    id: EntityId,
    phase: Phase,
    group: usize,
    owns: Option<usize>,
    weight: i128,
    slice: i128,
    /// Where it was placed, and what it had since: its v follows.
    base: i128,
    served: i128,
    deadline: i128,
    lag: i128,
}

impl Entity {
    fn v(&self) -> i128 {
        self.base + (self.served << SHIFT) / self.weight
    }

    fn request(&mut self) {
        let reach = self.slice << SHIFT;
        self.deadline = self.v() + reach / self.weight + i128::from(reach % self.weight != 0);
    }
}

#[derive(Debug, Clone)]
struct Group {
    id: GroupId,
    entity: Option<EntityId>,
    /// V while no entity is counted.
    last: i128,
    /// The entity that ran last, if its request is not served.
    ran: Option<EntityId>,
}

/// Entities in no order. A slot has at most one that is not gone.
struct Model {
    entities: Vec<Entity>,
    groups: Vec<Group>,
    limits: Limits,
    current: Option<usize>,
    ran: u64,
}

impl Model {
    fn new(limits: Limits, origin: i128) -> Model {
        let root = Group { id: GroupId::ROOT, entity: None, last: origin, ran: None };
        Model { entities: Vec::new(), groups: std::vec![root], limits, current: None, ran: 0 }
    }

    fn position(&self, id: EntityId) -> usize {
        self.entities.iter().position(|e| e.id == id).unwrap()
    }

    fn counted(&self, g: usize) -> impl Iterator<Item = usize> + '_ {
        let counted = |e: &Entity| !matches!(e.phase, Phase::Free | Phase::Asleep);
        (0..self.entities.len())
            .filter(move |&e| self.entities[e].group == g && counted(&self.entities[e]))
    }

    /// V as a fraction.
    fn average(&self, g: usize) -> (i128, i128) {
        let weight: i128 = self.counted(g).map(|e| self.entities[e].weight).sum();
        let sum = self.counted(g).map(|e| self.entities[e].weight * self.entities[e].v()).sum();
        if weight == 0 { (self.groups[g].last, 1) } else { (sum, weight) }
    }

    fn eligible(&self, e: usize) -> bool {
        let (sum, weight) = self.average(self.entities[e].group);
        self.entities[e].v() * weight <= sum
    }

    fn lag(&self, e: usize) -> i128 {
        let entity = &self.entities[e];
        if entity.phase == Phase::Asleep {
            return entity.lag;
        }
        let (sum, weight) = self.average(entity.group);
        let lag = (entity.weight * (sum - entity.v() * weight)).div_euclid(weight);
        let most = i128::from(MAX_LAG) << SHIFT;
        lag.clamp(-most, most)
    }

    fn parent(&self, e: usize) -> Option<usize> {
        self.groups[self.entities[e].group].entity.map(|id| self.position(id))
    }

    fn runnable(&self, g: usize) -> usize {
        let is = |e: &Entity| matches!(e.phase, Phase::Queued | Phase::Running);
        self.entities.iter().filter(|e| e.group == g && is(e)).count()
    }

    fn place(&mut self, e: usize, lag: i128) {
        let (sum, all) = self.average(self.entities[e].group);
        let own = self.entities[e].weight;
        let alone = self.counted(self.entities[e].group).next().is_none();
        let v = if alone || lag == 0 {
            sum.div_euclid(all)
        } else {
            let over = own * all;
            (sum * own - lag * (all + own) + over - 1).div_euclid(over)
        };
        let entity = &mut self.entities[e];
        (entity.base, entity.served, entity.phase) = (v, 0, Phase::Queued);
    }

    fn withdraw(&mut self, e: usize, credit: i128) {
        let lag = self.lag(e).min(credit);
        let (v, g) = (self.entities[e].v(), self.entities[e].group);
        self.entities[e].phase = Phase::Asleep;
        self.entities[e].lag = lag;
        if self.counted(g).next().is_none() {
            self.groups[g].last = v;
        }
    }

    fn wake(&mut self, e: usize) {
        let mut at = Some(e);
        while let Some(e) = at {
            let g = self.entities[e].group;
            let first = self.runnable(g) == 0;
            if self.entities[e].phase == Phase::Asleep {
                self.place(e, self.entities[e].lag);
                self.entities[e].request();
            } else if self.lag(e) > 0 {
                self.withdraw(e, 0);
                self.place(e, 0);
                self.entities[e].request();
            }
            self.entities[e].phase = Phase::Queued;
            at = if first { self.parent(e) } else { None };
        }
    }

    fn settle(&mut self) {
        if self.ran < self.limits.min_charge {
            let _ = self.charge(self.limits.min_charge - self.ran);
        }
    }

    fn charge(&mut self, used: u64) -> Charged {
        self.ran += used;
        let mut found = Charged::GoOn;
        let mut at = self.current;
        while let Some(e) = at {
            self.entities[e].served += i128::from(used);
            if self.entities[e].v() >= self.entities[e].deadline {
                found = Charged::Served;
            }
            at = self.parent(e);
        }
        found
    }

    fn put_back(&mut self) {
        if self.current.is_some() {
            self.settle();
        }
        let mut at = self.current.take();
        while let Some(e) = at {
            if self.entities[e].v() >= self.entities[e].deadline {
                self.entities[e].request();
                self.groups[self.entities[e].group].ran = None;
            }
            self.entities[e].phase = Phase::Queued;
            at = self.parent(e);
        }
    }

    fn pick(&mut self) -> Option<EntityId> {
        self.put_back();
        let mut g = 0;
        loop {
            let e = self
                .counted(g)
                .filter(|&e| self.eligible(e))
                .min_by_key(|&e| (self.entities[e].deadline, self.entities[e].id.index))?;
            match self.entities[e].phase {
                Phase::Queued => {
                    self.entities[e].phase = Phase::Running;
                    self.groups[g].ran = Some(self.entities[e].id);
                    match self.entities[e].owns {
                        Some(inner) => g = inner,
                        None => return Some(self.start(e)),
                    }
                }
                Phase::Parting => {
                    self.withdraw(e, 0);
                    self.entities[e].phase = Phase::Free;
                }
                _ => self.withdraw(e, 0),
            }
        }
    }

    fn start(&mut self, e: usize) -> EntityId {
        self.entities[e].phase = Phase::Running;
        (self.current, self.ran) = (Some(e), 0);
        self.entities[e].id
    }

    fn pick_preferring(&mut self, wanted: usize) -> Option<EntityId> {
        self.put_back();
        let mut path = Vec::new();
        let mut at = Some(wanted);
        while let Some(e) = at {
            let goes_on = self.groups[self.entities[e].group].ran == Some(self.entities[e].id);
            if self.entities[e].phase != Phase::Queued || !(goes_on || self.eligible(e)) {
                return self.pick();
            }
            path.push(e);
            at = self.parent(e);
        }
        for e in path {
            self.entities[e].phase = Phase::Running;
            self.groups[self.entities[e].group].ran = Some(self.entities[e].id);
        }
        Some(self.start(wanted))
    }

    fn sleep(&mut self, e: usize, debtor: Phase) {
        let above = self.parent(e);
        if self.current == Some(e) {
            self.settle();
            self.put_back();
        }
        let credit = i128::from(self.limits.max_slice) << SHIFT;
        if self.eligible(e) {
            self.withdraw(e, credit);
        } else {
            self.entities[e].phase = debtor;
        }
        if self.runnable(self.entities[e].group) == 0
            && let Some(above) = above
        {
            self.sleep(above, Phase::Lingering);
        }
    }

    fn remove(&mut self, e: usize) {
        match self.entities[e].phase {
            Phase::Queued | Phase::Running => self.sleep(e, Phase::Parting),
            Phase::Lingering => self.entities[e].phase = Phase::Parting,
            _ => {}
        }
        if self.entities[e].phase == Phase::Asleep {
            self.entities[e].phase = Phase::Free;
        }
    }

    /// Takes an entity out; returns its lag and what is left of its request.
    fn leave(&mut self, e: usize) -> (i128, Option<i128>) {
        if self.current == Some(e) {
            self.put_back();
        }
        let entity = self.entities[e].clone();
        let queued = entity.phase == Phase::Queued;
        let left = queued.then(|| (entity.deadline - entity.v()) * entity.weight);
        if entity.phase != Phase::Asleep {
            self.withdraw(e, i128::from(self.limits.max_slice) << SHIFT);
        }
        if queued
            && self.runnable(entity.group) == 0
            && let Some(above) = self.parent(e)
        {
            self.sleep(above, Phase::Lingering);
        }
        self.entities[e].phase = Phase::Free;
        (self.entities[e].lag, left)
    }

    fn reweight(&mut self, e: usize, to: u32) {
        let phase = self.entities[e].phase;
        if phase == Phase::Asleep {
            self.entities[e].weight = i128::from(to);
            return;
        }
        let from = self.entities[e].weight;
        let left = (self.entities[e].deadline - self.entities[e].v()) * from / i128::from(to);
        let lag = self.lag(e);
        self.withdraw(e, lag);
        self.entities[e].weight = i128::from(to);
        self.place(e, lag);
        self.entities[e].deadline = self.entities[e].v() + left;
        self.entities[e].phase = phase;
    }
}

/// Both, side by side.
struct Pair {
    queue: Queue,
    model: Model,
    weights: u32,
}

impl Pair {
    fn new(entities: usize, weights: u32, origin: u64) -> Pair {
        let mut queue = queue(entities);
        queue.groups[0].average = Average::starting_at(origin);
        Pair { queue, model: Model::new(LIMITS, i128::from(origin)), weights }
    }

    fn params(&self, x: u64) -> Params {
        let latency = match x % 5 {
            0 => Latency::Sensitive,
            1 => Latency::Batch,
            2 => Latency::Slice(100 + x / 5 % 900),
            _ => Latency::Normal,
        };
        Params { weight: Weight::new(1 + (x >> 32) as u32 % self.weights).unwrap(), latency }
    }

    fn enter(&mut self, id: EntityId, g: usize, params: Params, owns: Option<usize>) {
        self.model.entities.push(Entity {
            id,
            phase: Phase::Asleep,
            group: g,
            owns,
            weight: i128::from(params.weight.get()),
            slice: i128::from(LIMITS.slice_for(params.latency).unwrap()),
            base: 0,
            served: 0,
            deadline: 0,
            lag: 0,
        });
    }

    /// An entity that is alive and stands for no group.
    fn someone(&self, x: u64) -> Option<usize> {
        let alive = |e: &&Entity| !matches!(e.phase, Phase::Free | Phase::Parting);
        let all: Vec<_> =
            self.model.entities.iter().filter(alive).filter(|e| e.owns.is_none()).collect();
        let chosen = all.get(x as usize % all.len().max(1))?;
        Some(self.model.position(chosen.id))
    }

    /// One operation, on both.
    fn step(&mut self, what: u64, x: u64) {
        match what % 32 {
            0..2 => {
                let g = x as usize % self.model.groups.len();
                let params = self.params(x);
                if let Ok(id) = self.queue.add(self.model.groups[g].id, params) {
                    self.enter(id, g, params, None);
                }
            }
            2 => {
                let g = x as usize % self.model.groups.len();
                let params = self.params(x);
                if let Ok(id) = self.queue.add_group(self.model.groups[g].id, params) {
                    let entity = self.queue.entity_of(id).unwrap();
                    let inner = self.model.groups.len();
                    self.enter(entity, g, params, Some(inner));
                    self.model.groups.push(Group { id, entity: Some(entity), last: 0, ran: None });
                }
            }
            3..8 => {
                let Some(e) = self.someone(x) else { return };
                let id = self.model.entities[e].id;
                let awake = matches!(self.model.entities[e].phase, Phase::Queued | Phase::Running);
                let woken = self.queue.wake(id);
                assert_eq!(woken.is_err(), awake);
                if !awake {
                    self.model.wake(e);
                }
            }
            8..12 => {
                let e =
                    self.model.current.filter(|_| !x.is_multiple_of(4)).or_else(|| self.someone(x));
                let Some(e) = e else { return };
                let id = self.model.entities[e].id;
                let asleep =
                    matches!(self.model.entities[e].phase, Phase::Asleep | Phase::Lingering);
                assert_eq!(self.queue.sleep(id).is_err(), asleep);
                if !asleep {
                    self.model.sleep(e, Phase::Lingering);
                }
            }
            12 => {
                let Some(e) = self.someone(x) else { return };
                self.queue.remove(self.model.entities[e].id).unwrap();
                self.model.remove(e);
            }
            13 => {
                let all = self.model.entities.len();
                let Some(e) = (all > 0).then(|| x as usize % all) else { return };
                let to = 1 + (x >> 32) as u32 % self.weights;
                let gone = matches!(self.model.entities[e].phase, Phase::Free | Phase::Parting);
                let done = self.queue.reweight(self.model.entities[e].id, Weight::new(to).unwrap());
                assert_eq!(done.is_err(), gone);
                if !gone {
                    self.model.reweight(e, to);
                }
            }
            14 => {
                let Some(e) = self.model.current else { return };
                self.queue.yield_now(self.model.entities[e].id).unwrap();
                let entity = &mut self.model.entities[e];
                if entity.v() < entity.deadline {
                    // The remainder of what it had stays, as if it had used the rest.
                    entity.base += entity.deadline - entity.v();
                }
                self.model.put_back();
            }
            15 => {
                let Some(e) = self.someone(x) else { return };
                let id = self.model.entities[e].id;
                let picked = self.queue.pick_preferring(id).unwrap();
                assert_eq!(picked, self.model.pick_preferring(e));
            }
            16 => {
                let Some(e) = self.someone(x) else { return };
                let departure = self.queue.leave(self.model.entities[e].id).unwrap();
                let (lag, left) = self.model.leave(e);
                let g = (x >> 8) as usize % self.model.groups.len();
                let (id, _) = self.queue.join(self.model.groups[g].id, departure).unwrap();
                let mut entity = self.model.entities[e].clone();
                (entity.id, entity.group, entity.lag) = (id, g, lag);
                entity.phase = Phase::Asleep;
                self.model.entities.push(entity);
                let e = self.model.entities.len() - 1;
                if let Some(left) = left {
                    self.model.wake(e);
                    let entity = &mut self.model.entities[e];
                    entity.deadline = entity.v() + left / entity.weight;
                }
            }
            17..22 => {
                let Some(e) = self.model.current else { return };
                let found = self.queue.charge(self.model.entities[e].id, x % 1_500).unwrap();
                assert_eq!(found, self.model.charge(x % 1_500));
            }
            _ => assert_eq!(self.queue.pick(), self.model.pick()),
        }
    }

    /// That both are in the same state, and that the queue's own books are right.
    fn compare(&self) {
        let slots = &self.queue.slots;
        let current = self.model.current.map(|e| self.model.entities[e].id);
        assert_eq!(self.queue.current(), current);
        for (e, entity) in self.model.entities.iter().enumerate() {
            if entity.phase == Phase::Free {
                assert_eq!(self.queue.view(entity.id), Err(FairError::Stale));
                continue;
            }
            let slot = &slots[entity.id.index()];
            assert_eq!(slot.phase, entity.phase);
            if slot.is_counted() {
                assert_eq!(slot.v, entity.v() as u64, "v of {entity:?}");
                assert_eq!(slot.deadline, entity.deadline as u64, "deadline of {entity:?}");
                let average = &self.queue.groups[slot.group as usize].average;
                assert_eq!(average.eligible(slot.v), self.model.eligible(e));
                assert_eq!(i128::from(average.lag(slot.v, slot.weight)), self.model.lag(e));
            } else {
                assert_eq!(i128::from(slot.lag), entity.lag);
            }
        }
        for (g, group) in self.model.groups.iter().enumerate() {
            let (sum, weight) = self.model.average(g);
            let v = self.queue.virtual_time(group.id).unwrap();
            assert_eq!(v, sum.div_euclid(weight) as u64, "V of group {g}");
            assert_eq!(self.queue.runnable(group.id).unwrap(), self.model.runnable(g));
            // The tree contains exactly the counted entities, in order.
            let waiting = self.queue.groups[g].ready.audit(&self.queue.nodes);
            let mut expected: Vec<_> =
                self.model.counted(g).map(|e| &self.model.entities[e]).collect();
            expected.sort_by_key(|e| (e.deadline, e.id.index));
            assert_eq!(waiting.len(), expected.len());
            for ((key, v), e) in waiting.into_iter().zip(expected) {
                assert_eq!(key, (e.deadline as u64, e.id.index));
                assert!(e.phase == Phase::Running || v == e.v() as u64);
            }
            // All lags sum to zero, but for rounding each of them down.
            let lags: i128 = self.model.counted(g).map(|e| self.model.lag(e)).sum();
            assert!(lags <= 0 && lags >= -(self.model.counted(g).count() as i128));
            // If an entity waits, one is eligible.
            let anybody = self.model.counted(g).next().is_some();
            assert_eq!(self.model.counted(g).any(|e| self.model.eligible(e)), anybody);
        }
        let free = slots.iter().filter(|slot| slot.phase == Phase::Free).count();
        let living = self.model.entities.iter().filter(|e| e.phase != Phase::Free).count();
        assert_eq!(free + living, slots.len());
        assert!(slots.iter().all(|slot| slot.phase != Phase::Free || slot.owns == NIL));
    }

    /// Forgets the dead, which would only slow the model down.
    fn tidy(&mut self) {
        let current = self.model.current.map(|e| self.model.entities[e].id);
        self.model.entities.retain(|e| e.phase != Phase::Free);
        self.model.current = current.map(|id| self.model.position(id));
    }
}

/// So many random operations from a seed. Tests in debug builds compare after each.
fn drive(seed: u64, steps: usize, entities: usize, weights: u32, origin: u64) {
    let mut rng = Rng(seed);
    let mut pair = Pair::new(entities, weights, origin);
    for step in 0..steps {
        pair.step(rng.next(), rng.next());
        pair.compare();
        if step % 512 == 0 {
            pair.tidy();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // rule: S3-ACCT-3
    #[test]
    fn any_sequence_agrees_with_the_model(
        steps in prop::collection::vec((any::<u64>(), any::<u64>()), 0..400),
        weights in prop_oneof![Just(1), Just(4), Just(3_000), Just(1 << 20)],
        origin in prop_oneof![Just(0), Just(u64::MAX - 50_000), any::<u64>()],
    ) {
        let mut pair = Pair::new(24, weights, origin);
        for (what, x) in steps {
            pair.step(what, x);
            pair.compare();
        }
    }
}

// rule: S3-EEVDF-2
#[test]
fn long_runs_agree_with_the_model() {
    for (seed, entities) in [(1, 6), (2, 12), (3, 40), (4, 90)] {
        drive(seed, 8_000, entities, 5_000, u64::MAX - 1_000_000);
        drive(seed + 10, 8_000, entities, 1 << 20, 1 << 63);
    }
}

/// Three million in a release build, where it takes a minute.
#[test]
fn millions_of_operations_agree_with_the_model() {
    for seed in 100..110 {
        let scale = if cfg!(debug_assertions) { 200 } else { 1 };
        drive(seed, 200_000 / scale, 10, 5_000, u64::MAX - 1_000_000);
        drive(seed, 100_000 / scale, 60, 1 << 20, u64::MAX);
    }
}
