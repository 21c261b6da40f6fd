//! A list from which entries are taken out by the place they were given.

/// The place of an entry. A place that was emptied is given to another entry later, under another turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    index: u32,
    turn: u32,
}

/// Entries with places.
#[derive(Clone)]
pub(super) struct Slots<T> {
    entries: Vec<Entry<T>>,
    /// The first of the empty places, which are a list.
    empty: Option<u32>,
}

#[derive(Clone)]
struct Entry<T> {
    turn: u32,
    content: Content<T>,
}

#[derive(Clone)]
enum Content<T> {
    Full(T),
    Empty { next: Option<u32> },
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { entries: Vec::new(), empty: None }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> Slot {
        let full = Content::Full(value);
        let Some(index) = self.empty else {
            self.entries.push(Entry { turn: 0, content: full });
            return Slot { index: (self.entries.len() - 1) as u32, turn: 0 };
        };
        let entry = &mut self.entries[index as usize];
        if let Content::Empty { next } = entry.content {
            self.empty = next;
        }
        entry.content = full;
        Slot { index, turn: entry.turn }
    }

    /// Takes an entry out; none if it is gone already.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.turn != slot.turn || matches!(entry.content, Content::Empty { .. }) {
            return None;
        }
        entry.turn = entry.turn.wrapping_add(1);
        let content = std::mem::replace(&mut entry.content, Content::Empty { next: self.empty });
        self.empty = Some(slot.index);
        match content {
            Content::Full(value) => Some(value),
            Content::Empty { .. } => None,
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        let full = |entry: &&Entry<T>| matches!(entry.content, Content::Full(_));
        self.entries.iter().filter(full).count()
    }

    /// How many entries there ever were at the same time.
    #[cfg(all(test, not(loom)))]
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_iter().filter_map(|entry| match entry.content {
            Content::Full(value) => Some(value),
            Content::Empty { .. } => None,
        })
    }
}
